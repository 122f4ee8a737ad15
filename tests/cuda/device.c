/* SPDX-License-Identifier: MIT */
/*
 * The GPUs themselves: which is current, errors, failures that a test asks for, and what must be so
 * when the program ends.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emulator.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cudaError_t stuck[EMULATED_GPUS];
static char plan[40];      /* EMULATED_GPU_FAILS as it was last seen */
static long calls, pieces; /* since then */
static long failures;

static __thread cudaError_t last_error;
static __thread int current;
static __thread bool has_chosen;

void emulated_abort(const char *what)
{
    fflush(NULL);
    fprintf(stderr, "emulated GPU: %s\n", what);
    abort();
}

/* ---- errors ------------------------------------------------------------- */

static void read_plan(void)
{
    const char *wanted = getenv("EMULATED_GPU_FAILS");
    if (!wanted)
        wanted = "";
    if (strcmp(wanted, plan) == 0)
        return;
    snprintf(plan, sizeof(plan), "%s", wanted);
    calls = pieces = 0;
    memset(stuck, 0, sizeof(stuck));
    last_error = cudaSuccess;
}

bool emulated_is_planned(const char *what)
{
    return strcmp(plan, what) == 0;
}

/* Is this number of calls, or of pieces of work, the one that the plan lets fail? */
static bool is_planned(const char *kind, long number)
{
    bool planned = strncmp(plan, kind, strlen(kind)) == 0 && atol(plan + strlen(kind)) == number;
    failures += planned;
    return planned;
}

long emulated_gpu_failures(void)
{
    return failures;
}

/* Of a call that uses no GPU. */
static cudaError_t begin(void)
{
    pthread_mutex_lock(&lock);
    read_plan();
    return is_planned("call:", ++calls) ? cudaErrorUnknown : cudaSuccess;
}

void emulated_begin_cleanup(void)
{
    if (!has_chosen)
        emulated_abort("a thread uses a GPU and has not chosen one: CUDA would start the first");
    pthread_mutex_lock(&lock);
    read_plan();
}

cudaError_t emulated_begin(cudaError_t failure)
{
    emulated_begin_cleanup();
    return is_planned("call:", ++calls) ? failure : stuck[current];
}

cudaError_t emulated_end(cudaError_t error)
{
    emulated_reach(-1);
    pthread_mutex_unlock(&lock);
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

int emulated_current(void)
{
    return current;
}

cudaError_t emulated_stuck(int device)
{
    return stuck[device];
}

bool emulated_may_work(int device)
{
    if (is_planned("work:", ++pieces))
        stuck[device] = cudaErrorLaunchFailure;
    return stuck[device] == cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = stuck[current] ? stuck[current] : last_error;
    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorNoKernelImageForDevice:
        return "no kernel image is available for execution on the device";
    case cudaErrorInvalidResourceHandle:
        return "invalid resource handle";
    case cudaErrorIllegalState:
        return "the operation cannot be performed in the present state";
    case cudaErrorHostMemoryAlreadyRegistered:
        return "part or all of the requested memory range is already mapped";
    case cudaErrorHostMemoryNotRegistered:
        return "pointer does not correspond to a registered memory region";
    case cudaErrorLaunchFailure:
        return "unspecified launch failure";
    case cudaErrorNotSupported:
        return "operation not supported";
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
        return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureIsolation:
        return "dependency created on uncaptured work in another stream";
    case cudaErrorStreamCaptureImplicit:
        return "operation would make the legacy stream depend on a capturing blocking stream";
    case cudaErrorStreamCaptureWrongThread:
        return "attempt to terminate a thread-local capture sequence from another thread";
    case cudaErrorUnknown:
        return "unknown error";
    }
    return "unrecognized error code";
}

/* ---- the GPUs ----------------------------------------------------------- */

/* CUDA_VISIBLE_DEVICES is a list of ordinals; what follows an unknown one is hidden. */
static int count_visible(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!visible)
        return EMULATED_GPUS;
    int count = 0;
    while (count < EMULATED_GPUS && visible[0] >= '0' && visible[0] < '0' + EMULATED_GPUS &&
           (visible[1] == ',' || visible[1] == '\0')) {
        count++;
        visible += visible[1] == ',' ? 2 : 1;
    }
    return count;
}

static int physical_gpu(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!has_chosen)
        emulated_abort("a thread uses a GPU and has not chosen one: CUDA would start the first");
    return visible ? visible[2 * current] - '0' : current;
}

__attribute__((constructor)) static void tell_libraries(void)
{
    static const struct emulated_runtime runtime = {physical_gpu};
    char address[20];
    snprintf(address, sizeof(address), "%llx", (unsigned long long)(uintptr_t)&runtime);
    setenv(EMULATED_RUNTIME, address, 1);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error = begin();
    if (error == cudaSuccess) {
        *count = count_visible();
        error = *count == 0 ? cudaErrorNoDevice : cudaSuccess;
    }
    return emulated_end(error);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    cudaError_t error = begin();
    if (error == cudaSuccess && (device < 0 || device >= count_visible()))
        error = cudaErrorInvalidDevice;
    if (error == cudaSuccess)
        *properties =
            (struct cudaDeviceProp){.name = "emulated GPU", .totalGlobalMem = EMULATED_GPU_BYTES};
    return emulated_end(error);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    cudaError_t error = begin();
    if (error == cudaSuccess && (device < 0 || device >= count_visible()))
        error = cudaErrorInvalidDevice;
    if (error == cudaSuccess && attribute != cudaDevAttrComputeCapabilityMajor)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        *value = emulated_is_planned("old") ? 7 : 8;
    return emulated_end(error);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    cudaError_t error = begin();
    if (error == cudaSuccess)
        *version = CUDART_VERSION;
    return emulated_end(error);
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t error = begin();
    if (error == cudaSuccess)
        *device = current;
    return emulated_end(error);
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = begin();
    if (error == cudaSuccess && (device < 0 || device >= count_visible()))
        error = cudaErrorInvalidDevice;
    if (error == cudaSuccess) {
        current = device;
        has_chosen = true;
    }
    return emulated_end(error);
}

cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t error = emulated_begin(cudaErrorUnknown);
    if (error == cudaSuccess)
        error = emulated_refuse_device(current);
    emulated_run_device(current); /* also before an error */
    return emulated_end(error ? error : stuck[current]);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    cudaError_t error = emulated_begin(cudaErrorUnknown);
    if (error == cudaSuccess)
        error = kernel ? cudaSuccess : cudaErrorInvalidValue;
    if (error == cudaSuccess && emulated_is_planned("code"))
        error = cudaErrorNoKernelImageForDevice;
    if (error == cudaSuccess)
        attributes->maxThreadsPerBlock = 1024;
    return emulated_end(error);
}

/* ---- the end ------------------------------------------------------------ */

/* Is there a thread beside this one? It was left behind, and may free yet what it has. */
static bool is_somebody_left(void)
{
    struct dirent *entry;
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    while (tasks && (entry = readdir(tasks)))
        count += entry->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return count > 1;
}

static size_t left(void)
{
    return emulated_allocations() + emulated_handles() + emulated_graphs();
}

/*
 * Work that nobody waited for is done now: whether it uses what was freed since, shows here. A
 * program that closes a feed leaves a thread behind that takes too long, as on a busy machine.
 */
__attribute__((destructor)) static void end(void)
{
    char what[120];
    pthread_mutex_lock(&lock);
    read_plan();
    for (int device = 0; device < EMULATED_GPUS; device++)
        emulated_run_device(device);
    for (int i = 0; i < 1000 && left() > 0 && is_somebody_left(); i++) {
        pthread_mutex_unlock(&lock);
        usleep(10000);
        pthread_mutex_lock(&lock);
    }
    snprintf(what, sizeof(what),
             "the program ends; %zu allocations, %zu streams and events, %zu graphs are left",
             emulated_allocations(), emulated_handles(), emulated_graphs());
    if (left() > 0)
        emulated_abort(what);
    emulated_end(cudaSuccess);
}

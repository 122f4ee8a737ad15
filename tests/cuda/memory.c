#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator.h"

#include <pthread.h>

#define GPU_BYTES ((size_t)4 << 30)
#define GPU_ALIGNMENT 256
#define PAGE_BYTES 4096
#define GARBAGE 0xa5 /* as floats it is tiny and negative, as integers huge */

/* All that is allocated, of both kinds. */
struct allocation {
    struct allocation *next;
    char *memory;
    size_t bytes;
    bool page_locked;
};
static struct allocation *allocations;
static size_t gpu_bytes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static __thread cudaError_t last_error;

cudaError_t emulated_note(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

void emulated_abort(const char *what)
{
    fprintf(stderr, "emulated GPU: %s\n", what);
    abort();
}

/* ---- the GPU ------------------------------------------------------------ */

static bool is_hidden(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return visible && strcmp(visible, "0") != 0;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = is_hidden() ? 0 : 1;
    return emulated_note(is_hidden() ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    if (device != 0 || is_hidden())
        return emulated_note(cudaErrorInvalidDevice);
    *properties = (struct cudaDeviceProp){.name = "emulated GPU", .totalGlobalMem = GPU_BYTES};
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return emulated_note(device == 0 && !is_hidden() ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceSynchronize(void)
{
    emulated_synchronize();
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
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
    case cudaErrorInvalidResourceHandle:
        return "invalid resource handle";
    }
    return "unrecognized error code";
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    attributes->maxThreadsPerBlock = 1024;
    return emulated_note(kernel ? cudaSuccess : cudaErrorInvalidValue);
}

/* ---- allocations -------------------------------------------------------- */

static cudaError_t allocate(void **memory, size_t bytes, bool page_locked)
{
    struct allocation *made = malloc(sizeof(*made));
    void *got = NULL;
    pthread_mutex_lock(&lock);
    bool fits = page_locked || bytes <= GPU_BYTES - gpu_bytes;
    if (!made || !fits || bytes > GPU_BYTES ||
        posix_memalign(&got, page_locked ? PAGE_BYTES : GPU_ALIGNMENT, bytes) != 0) {
        pthread_mutex_unlock(&lock);
        free(made);
        return emulated_note(cudaErrorMemoryAllocation);
    }
    *made = (struct allocation){
        .next = allocations, .memory = got, .bytes = bytes, .page_locked = page_locked};
    allocations = made;
    gpu_bytes += page_locked ? 0 : bytes;
    pthread_mutex_unlock(&lock);
    memset(got, GARBAGE, bytes);
    *memory = got;
    return cudaSuccess;
}

/* As CUDA does: first all work ends. */
static cudaError_t release(void *memory, bool page_locked)
{
    if (!memory)
        return cudaSuccess;
    emulated_synchronize();
    pthread_mutex_lock(&lock);
    struct allocation **link = &allocations;
    while (*link && ((*link)->memory != memory || (*link)->page_locked != page_locked))
        link = &(*link)->next;
    struct allocation *found = *link;
    if (found) {
        *link = found->next;
        gpu_bytes -= page_locked ? 0 : found->bytes;
    }
    pthread_mutex_unlock(&lock);
    if (!found)
        return emulated_note(cudaErrorInvalidValue);
    free(found->memory);
    free(found);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    return allocate(memory, bytes, false);
}

cudaError_t cudaFree(void *memory)
{
    return release(memory, false);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
    (void)flags;
    return allocate(memory, bytes, true);
}

cudaError_t cudaFreeHost(void *memory)
{
    return release(memory, true);
}

/* The allocation that `bytes` from `memory` on lie in. */
static const struct allocation *find(const char *memory, size_t bytes)
{
    const struct allocation *one = allocations;
    while (one && (memory < one->memory || memory + bytes > one->memory + one->bytes))
        one = one->next;
    return one;
}

static bool lies_in(const void *memory, size_t bytes, bool page_locked)
{
    pthread_mutex_lock(&lock);
    const struct allocation *found = find(memory, bytes);
    bool lies = found && found->page_locked == page_locked;
    pthread_mutex_unlock(&lock);
    return lies;
}

bool emulated_is_page_locked(const void *memory)
{
    return lies_in(memory, 1, true);
}

cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
    if (!lies_in(memory, bytes, false))
        return emulated_note(cudaErrorInvalidValue);
    memset(memory, value, bytes);
    return cudaSuccess;
}

/* ---- copies ------------------------------------------------------------- */

struct copying {
    void *to;
    const void *from;
    size_t bytes;
    void *staged; /* to be freed */
};

static void copy(void *closure)
{
    struct copying *one = closure;
    memcpy(one->to, one->from, one->bytes);
    free(one->staged);
}

/* Memory that is not page-locked is read before the call returns, and written before it returns. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    bool inwards = kind == cudaMemcpyHostToDevice;
    if (!lies_in(inwards ? to : from, bytes, false))
        return emulated_note(cudaErrorInvalidValue);
    struct copying one = {.to = to, .from = from, .bytes = bytes};
    bool page_locked = emulated_is_page_locked(inwards ? from : to);
    if (inwards && !page_locked) {
        one.staged = malloc(bytes);
        if (!one.staged)
            return emulated_note(cudaErrorMemoryAllocation);
        memcpy(one.staged, from, bytes);
        one.from = one.staged;
    }
    emulated_enqueue(stream, copy, &one, sizeof(one));
    return inwards || page_locked ? cudaSuccess : cudaStreamSynchronize(stream);
}

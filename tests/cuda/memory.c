/* SPDX-License-Identifier: MIT */
/*
 * Memory of the GPUs and page-locked memory. Each allocation has pages of its own: a GPU's are
 * closed but while work of this GPU runs, and end where an unusable page begins; AddressSanitizer
 * knows the exact end. Addresses are never given out again: what is freed stays closed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emulator.h"

/* AddressSanitizer's, in programs that have it. */
void __asan_poison_memory_region(const volatile void *memory, size_t bytes) __attribute__((weak));

#define ALIGNMENT ((size_t)256)
#define PAGE_BYTES ((size_t)4096)
#define PAGE_LOCKED (-1)

struct allocation {
    struct allocation *next;
    char *memory, *pages;
    size_t bytes, page_bytes; /* behind the pages comes an unusable one */
    int device;               /* or PAGE_LOCKED */
    bool is_registered;       /* the pages are the program's */
};
static struct allocation *allocations, *freed;
static size_t used_bytes[EMULATED_GPUS];
static int reached = -1;

static size_t round_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* ---- who touches it ----------------------------------------------------- */

static const struct allocation *find_page(const struct allocation *list, const char *address)
{
    const struct allocation *one = list;
    while (one && (address < one->pages || address >= one->pages + one->page_bytes + PAGE_BYTES))
        one = one->next;
    return one;
}

/* Says what lay at the address that must not be touched. Then the fault comes again, as it would
 * have come to AddressSanitizer or to nobody when the program began: a test's own handler would
 * leave the work, and the lock, behind. */
static struct sigaction at_start;
static void explain(int number, siginfo_t *fault, void *context)
{
    static const char was_freed[] = "emulated GPU: memory is used that was freed\n";
    static const char is_closed[] =
        "emulated GPU: host code touches a GPU's memory, or work what lies beyond an allocation or "
        "on another GPU\n";
    ssize_t written = 0;
    (void)number;
    (void)context;
    if (find_page(freed, fault->si_addr))
        written = write(STDERR_FILENO, was_freed, sizeof(was_freed) - 1);
    else if (find_page(allocations, fault->si_addr))
        written = write(STDERR_FILENO, is_closed, sizeof(is_closed) - 1);
    (void)written;
    sigaction(SIGSEGV, &at_start, NULL);
}

__attribute__((constructor)) static void note_handler(void)
{
    sigaction(SIGSEGV, NULL, &at_start);
}

static void watch(void)
{
    struct sigaction action = {.sa_sigaction = explain, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
}

static void protect(int device, int protection)
{
    for (const struct allocation *one = allocations; one; one = one->next) {
        if (one->device == device && mprotect(one->pages, one->page_bytes, protection) != 0)
            emulated_abort("mprotect() fails");
    }
}

void emulated_reach(int device)
{
    if (device == reached)
        return;
    if (reached >= 0)
        protect(reached, PROT_NONE);
    if (device >= 0) {
        watch();
        protect(device, PROT_READ | PROT_WRITE);
    }
    reached = device;
}

/* ---- allocations -------------------------------------------------------- */

static struct allocation *make(size_t bytes, int device)
{
    size_t page_bytes = round_up(bytes, PAGE_BYTES);
    struct allocation *made = malloc(sizeof(*made));
    if (!made)
        return NULL;
    char *pages = mmap(NULL, page_bytes + PAGE_BYTES, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages, page_bytes, PROT_READ | PROT_WRITE) != 0) {
        free(made);
        return NULL;
    }
    size_t lead = device == PAGE_LOCKED ? 0 : page_bytes - round_up(bytes, ALIGNMENT);
    *made = (struct allocation){.next = allocations,
                                .memory = pages + lead,
                                .pages = pages,
                                .bytes = bytes,
                                .page_bytes = page_bytes,
                                .device = device};
    return made;
}

static cudaError_t allocate(void **ret_memory, size_t bytes, int device)
{
    size_t limit = EMULATED_GPU_BYTES - (device >= 0 ? used_bytes[device] : 0);
    struct allocation *made = bytes <= limit ? make(bytes, device) : NULL;
    if (!made)
        return cudaErrorMemoryAllocation;
    watch();
    memset(made->pages, EMULATED_GARBAGE, made->page_bytes);
    if (__asan_poison_memory_region) {
        char *end = made->memory + bytes;
        __asan_poison_memory_region(made->pages, (size_t)(made->memory - made->pages));
        __asan_poison_memory_region(end, (size_t)(made->pages + made->page_bytes - end));
    }
    if (device >= 0) {
        used_bytes[device] += bytes;
        mprotect(made->pages, made->page_bytes, PROT_NONE);
    }
    allocations = made;
    *ret_memory = made->memory;
    return cudaSuccess;
}

static cudaError_t release(const void *memory, bool page_locked)
{
    struct allocation **link = &allocations;
    while (*link && ((*link)->memory != memory || (*link)->is_registered ||
                     ((*link)->device == PAGE_LOCKED) != page_locked))
        link = &(*link)->next;
    struct allocation *found = *link;
    if (!found)
        return cudaErrorInvalidValue;
    *link = found->next;
    found->next = freed;
    freed = found;
    if (found->device >= 0)
        used_bytes[found->device] -= found->bytes;
    if (mmap(found->pages, found->page_bytes, PROT_NONE,
             MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
        emulated_abort("mmap() fails");
    return cudaSuccess;
}

size_t emulated_allocations(void)
{
    size_t count = 0;
    for (const struct allocation *one = allocations; one; one = one->next)
        count++;
    return count;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    cudaError_t error = emulated_begin(cudaErrorMemoryAllocation);
    if (error == cudaSuccess)
        error = emulated_refuse(cudaErrorStreamCaptureUnsupported);
    if (error == cudaSuccess)
        error = allocate(memory, bytes, emulated_current());
    return emulated_end(error);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
    cudaError_t error = emulated_begin(cudaErrorMemoryAllocation);
    (void)flags;
    if (error == cudaSuccess)
        error = emulated_refuse(cudaErrorStreamCaptureUnsupported);
    if (error == cudaSuccess)
        error = allocate(memory, bytes, PAGE_LOCKED);
    return emulated_end(error);
}

static cudaError_t call_release(const void *memory, bool page_locked)
{
    emulated_begin_cleanup();
    cudaError_t error = emulated_refuse(cudaErrorStreamCaptureUnsupported);
    if (error == cudaSuccess && memory)
        error = release(memory, page_locked);
    return emulated_end(error ? error : emulated_stuck(emulated_current()));
}

cudaError_t cudaFree(void *memory)
{
    return call_release(memory, false);
}

cudaError_t cudaFreeHost(void *memory)
{
    return call_release(memory, true);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes)
{
    cudaError_t error = emulated_begin(cudaErrorUnknown);
    if (error == cudaSuccess) {
        *all_bytes = EMULATED_GPU_BYTES;
        *free_bytes = EMULATED_GPU_BYTES - used_bytes[emulated_current()];
    }
    return emulated_end(error);
}

/* ---- registered memory -------------------------------------------------- */

static bool overlaps(const char *memory, size_t bytes)
{
    const struct allocation *one = allocations;
    while (one && (memory >= one->memory + one->bytes || memory + bytes <= one->memory))
        one = one->next;
    return one != NULL;
}

static cudaError_t enter_pages(char *memory, size_t bytes)
{
    if (!memory || bytes == 0)
        return cudaErrorInvalidValue;
    if (overlaps(memory, bytes))
        return cudaErrorHostMemoryAlreadyRegistered;
    struct allocation *made = malloc(sizeof(*made));
    if (!made)
        return cudaErrorMemoryAllocation;
    *made = (struct allocation){.next = allocations,
                                .memory = memory,
                                .pages = memory,
                                .bytes = bytes,
                                .page_bytes = bytes,
                                .device = PAGE_LOCKED,
                                .is_registered = true};
    allocations = made;
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned int flags)
{
    cudaError_t error = emulated_begin(cudaErrorMemoryAllocation);
    (void)flags;
    if (error == cudaSuccess && emulated_is_planned("register"))
        error = cudaErrorNotSupported;
    if (error == cudaSuccess)
        error = emulated_refuse(cudaErrorStreamCaptureUnsupported);
    if (error == cudaSuccess)
        error = enter_pages(memory, bytes);
    return emulated_end(error);
}

static cudaError_t leave_pages(const void *memory)
{
    struct allocation **link = &allocations;
    while (*link && ((*link)->memory != memory || !(*link)->is_registered))
        link = &(*link)->next;
    struct allocation *found = *link;
    if (!found)
        return cudaErrorHostMemoryNotRegistered;
    *link = found->next;
    free(found);
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *memory)
{
    emulated_begin_cleanup();
    cudaError_t error = emulated_refuse(cudaErrorStreamCaptureUnsupported);
    if (error == cudaSuccess)
        error = leave_pages(memory);
    return emulated_end(error ? error : emulated_stuck(emulated_current()));
}

/* ---- looking it up ------------------------------------------------------ */

/* The allocation that `bytes` from `memory` on lie in. */
static const struct allocation *find(const char *memory, size_t bytes)
{
    const struct allocation *one = allocations;
    while (one && (memory < one->memory || memory + bytes > one->memory + one->bytes))
        one = one->next;
    return one;
}

static bool lies_in(const void *memory, size_t bytes, int device)
{
    const struct allocation *found = find(memory, bytes);
    return found && found->device == device;
}

bool emulated_is_reachable(const void *memory, size_t bytes, int device)
{
    return lies_in(memory, bytes, device) || lies_in(memory, bytes, PAGE_LOCKED);
}

int emulated_gpu_of(const void *memory)
{
    emulated_begin_cleanup();
    const struct allocation *found = find(memory, 1);
    emulated_end(cudaSuccess);
    return found ? found->device : PAGE_LOCKED;
}

/* ---- setting and copying ------------------------------------------------ */

struct transfer {
    void *to;
    const void *from; /* NULL: `staged` */
    size_t bytes;
    int device, value;
    bool sets, outwards, inside; /* inside: between two places of the GPU */
    bool page_locked;
    char staged[];
};

static void transfer(void *closure)
{
    const struct transfer *one = closure;
    const void *there = one->outwards ? one->from : one->to,
               *here = one->outwards ? one->to : one->from;
    if (!lies_in(there, one->bytes, one->device) ||
        (one->inside && !lies_in(here, one->bytes, one->device)) ||
        (one->page_locked && !lies_in(here, one->bytes, PAGE_LOCKED)))
        emulated_abort("a copy, or a memset, uses memory that was freed");
    if (one->sets)
        memset(one->to, one->value, one->bytes);
    else
        memcpy(one->to, one->from ? one->from : one->staged, one->bytes);
}

/* The host does not wait for it, and streams that do not block do not either. */
cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
    cudaError_t error = emulated_begin(cudaErrorUnknown);
    struct transfer one = {
        .to = memory, .bytes = bytes, .device = emulated_current(), .value = value, .sets = true};
    if (error == cudaSuccess && !lies_in(memory, bytes, one.device))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = emulated_refuse(cudaErrorStreamCaptureImplicit);
    if (error == cudaSuccess)
        emulated_enqueue(emulated_stream(NULL), transfer, &one, sizeof(one));
    return emulated_end(error);
}

/* Host memory that is not page-locked is read before the call returns, and written before it
 * returns. */
static cudaError_t copy(struct transfer *one, const void *from, struct CUstream_st *stream)
{
    const void *host = one->outwards ? one->to : from, *there = one->outwards ? from : one->to;
    one->device = emulated_stream_device(stream);
    if (!lies_in(there, one->bytes, one->device))
        return cudaErrorInvalidValue;
    if (one->inside && !lies_in(host, one->bytes, one->device))
        return cudaErrorInvalidValue;
    one->page_locked = !one->inside && lies_in(host, one->bytes, PAGE_LOCKED);
    bool stages = !one->inside && !one->outwards && !one->page_locked;
    cudaError_t error = emulated_may_enqueue(stream);
    if (error == cudaSuccess && !one->inside && !one->page_locked &&
        emulated_stream_capture(stream))
        error = emulated_refuse(cudaErrorStreamCaptureUnsupported);
    if (error != cudaSuccess)
        return error;
    if (stages)
        memcpy(one->staged, from, one->bytes);
    else
        one->from = from;
    emulated_enqueue(stream, transfer, one, sizeof(*one) + (stages ? one->bytes : 0));
    if (one->outwards && !one->page_locked)
        emulated_run(stream);
    return emulated_stuck(one->device);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t handle)
{
    cudaError_t error = emulated_begin(cudaErrorUnknown);
    struct CUstream_st *stream = emulated_stream(handle);
    struct transfer *one = calloc(1, sizeof(*one) + bytes);
    if (!one)
        emulated_abort("no memory for a copy");
    one->to = to;
    one->bytes = bytes;
    one->outwards = kind == cudaMemcpyDeviceToHost;
    one->inside = kind == cudaMemcpyDeviceToDevice;
    if (error == cudaSuccess)
        error = stream ? copy(one, from, stream) : cudaErrorInvalidResourceHandle;
    free(one);
    return emulated_end(error);
}

/* SPDX-License-Identifier: MIT */
/* Memory of a GPU, and page-locked memory of the host. */
#include <cuda_runtime_api.h>

#include <cstring>
#include <sys/mman.h>

extern "C" {
#include "common/huge_memory.h"
#include "loader/device/device_cuda_private.h"
}

/* A page before the caller's memory records how to free it. */
struct pinned {
    size_t bytes; /* with this page */
    bool registered;
};
#define PAGE_BYTES ((size_t)4096)

/* Touched huge pages are locked in a fifth of the time that cudaHostAlloc() needs (100 versus 490
 * ms per GiB). A forked child does not have them, nor cudaHostAlloc()'s: shared pages would be
 * copied when the parent writes them, and the GPU would continue to read the old ones. */
static cudaError_t pin_pages(size_t bytes, struct pinned **ret_pinned)
{
    char *memory = (char *)huge_memory_new(bytes, "page-locked memory");
    if (!memory)
        return cudaErrorMemoryAllocation;
    (void)madvise(memory, bytes, MADV_DONTFORK);
    for (size_t at = 0; at < bytes; at += PAGE_BYTES)
        ((volatile char *)memory)[at] = 0;
    cudaError_t status = cudaHostRegister(memory, bytes, cudaHostRegisterPortable);
    if (status != cudaSuccess) {
        huge_memory_free(memory, bytes);
        return status;
    }
    *ret_pinned = (struct pinned *)memory;
    (*ret_pinned)->bytes = bytes;
    (*ret_pinned)->registered = true;
    return cudaSuccess;
}

/* For systems that cannot register pages. */
static cudaError_t pin_by_driver(size_t bytes, struct pinned **ret_pinned)
{
    void *memory;
    cudaGetLastError();
    cudaError_t status = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    if (status == cudaSuccess) {
        memset(memory, 0, bytes);
        *ret_pinned = (struct pinned *)memory;
    }
    return status;
}

enum error device_cuda_host_new(struct device *device, size_t bytes, void **ret_memory)
{
    struct pinned *pinned = NULL;
    enum error error = device_cuda_enter(device);
    if (error)
        return error;
    if (bytes > SIZE_MAX - PAGE_BYTES)
        return device_cuda_fail_bytes(device, cudaErrorMemoryAllocation, "page-locked host memory",
                                      bytes);
    cudaError_t status = pin_pages(PAGE_BYTES + bytes, &pinned);
    if (status == cudaErrorNotSupported)
        status = pin_by_driver(PAGE_BYTES + bytes, &pinned);
    if (status != cudaSuccess)
        return device_cuda_fail_bytes(device, status, "page-locked host memory", bytes);
    *ret_memory = (char *)pinned + PAGE_BYTES;
    return OK;
}

void device_cuda_host_free(struct device *device, void *memory)
{
    struct pinned *pinned = (struct pinned *)((char *)memory - PAGE_BYTES);
    device_cuda_enter_to_free(device);
    if (!pinned->registered) {
        cudaFreeHost(pinned);
        return;
    }
    cudaHostUnregister(pinned);
    huge_memory_free(pinned, pinned->bytes);
}

enum error device_cuda_memory_new(struct device *device, size_t bytes, void **ret_memory)
{
    void *memory = NULL;
    size_t asked = bytes > 0 ? bytes : 1;
    enum error error = device_cuda_enter(device);
    if (error)
        return error;
    cudaError_t status = cudaMalloc(&memory, asked);
    if (status != cudaSuccess)
        return device_cuda_fail_bytes(device, status, "GPU memory", asked);
    status = cudaMemset(memory, 0, asked);
    if (status == cudaSuccess)
        status = cudaDeviceSynchronize(); /* our queues do not wait for the default stream */
    if (status != cudaSuccess) {
        cudaFree(memory);
        return device_cuda_fail_bytes(device, status, "GPU memory to be zeroed", asked);
    }
    *ret_memory = memory;
    return OK;
}

enum error device_cuda_memory_left(struct device *device, uint64_t *ret_bytes)
{
    size_t left, all;
    enum error error = device_cuda_enter(device);
    if (error)
        return error;
    cudaError_t status = cudaMemGetInfo(&left, &all);
    if (status != cudaSuccess)
        return device_cuda_fail(device, status, "how much of its memory is left");
    *ret_bytes = left;
    return OK;
}

void device_cuda_memory_free(struct device *device, void *memory)
{
    device_cuda_enter_to_free(device);
    cudaFree(memory);
}

/* SPDX-License-Identifier: MIT */
/* What every call of CUDA needs: the GPU chosen, the size of a launch, the error as ours. */
#include <cuda_runtime_api.h>

#include <cstdio>

extern "C" {
#include "loader/device/device_cuda_private.h"
}

/* cudaGetLastError() also clears the error, so that the next call does not report it again. */
enum error device_cuda_fail(const struct device *device, int status, const char *what)
{
    cudaGetLastError();
    enum error code = status == (int)cudaErrorMemoryAllocation ? ERROR_MEMORY : ERROR_IO;
    return error_set(code, "cuda:%d (%s): %s: %s", device->index, device->description, what,
                     cudaGetErrorString((cudaError_t)status));
}

enum error device_cuda_fail_bytes(const struct device *device, int status, const char *what,
                                  size_t bytes)
{
    char text[96];
    snprintf(text, sizeof(text), "%zu bytes of %s", bytes, what);
    return device_cuda_fail(device, status, text);
}

enum error device_cuda_enter(const struct device *device)
{
    cudaError_t status = cudaSetDevice(device->index);
    return status == cudaSuccess ? OK
                                 : device_cuda_fail(device, status, "the GPU cannot be chosen");
}

void device_cuda_enter_to_free(const struct device *device)
{
    cudaSetDevice(device->index);
}

unsigned device_cuda_blocks(size_t elements)
{
    size_t blocks = (elements + THREADS_A_BLOCK - 1) / THREADS_A_BLOCK;
    return (unsigned)(blocks < BLOCKS_LIMIT ? blocks : BLOCKS_LIMIT);
}

bool device_cuda_is_aligned(const void *pointer, size_t bytes)
{
    return (uintptr_t)pointer % bytes == 0;
}

enum error device_cuda_launched(const struct device *device, const char *what)
{
    cudaError_t status = cudaGetLastError();
    return status == cudaSuccess ? OK : device_cuda_fail(device, status, what);
}

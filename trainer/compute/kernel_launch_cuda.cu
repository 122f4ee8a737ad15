/* SPDX-License-Identifier: MIT */
/* How work is launched on a GPU: where, in how many blocks, and whether it was. */
#include <cuda_runtime_api.h>

extern "C" {
#include "trainer/compute/kernel_cuda_private.h"
}

struct kernel_cuda *kernel_cuda_of(struct kernel *kernel)
{
    return (struct kernel_cuda *)kernel;
}

struct CUstream_st *kernel_cuda_stream(struct kernel *kernel)
{
    cudaSetDevice(kernel->device->index);
    return kernel_cuda_of(kernel)->stream;
}

enum error kernel_cuda_check(struct kernel *kernel, const char *what)
{
    cudaError_t status = cudaGetLastError();
    if (status == cudaSuccess)
        return OK;
    return error_set(ERROR_IO, "cuda:%d: %s: %s", kernel->device->index, what,
                     cudaGetErrorString(status));
}

unsigned kernel_cuda_blocks(size_t count, size_t each)
{
    size_t blocks = (count + each - 1) / each;
    return (unsigned)(blocks < 1 ? 1 : blocks > BLOCKS_LIMIT ? BLOCKS_LIMIT : blocks);
}

/* SPDX-License-Identifier: MIT */
/*
 * Captures of the kernel's queue as CUDA graphs. A capture is local to the calling thread: CUDA
 * calls of other threads meanwhile, such as the feed's, do not disturb it. But it must not coincide
 * with cudaDeviceSynchronize(), which memory allocation may cause.
 */
#include <cuda_runtime_api.h>

extern "C" {
#include "trainer/compute/kernel_variants.h"
}

/* A kernel_graph is just CUDA's own. */
static cudaGraphExec_t native(struct kernel_graph *graph)
{
    return (cudaGraphExec_t)(void *)graph;
}

static cudaStream_t stream_of(const struct kernel *kernel)
{
    return (cudaStream_t)device_queue_native(kernel->device, kernel->queue);
}

/* The error is cleared, so that a later launch does not report it as its own. */
static enum error check(const struct kernel *kernel, enum error error, cudaError_t status,
                        const char *what)
{
    if (status == cudaSuccess)
        return OK;
    cudaGetLastError();
    return error_set(error, "cuda:%d: %s: %s", kernel->device->index, what,
                     cudaGetErrorString(status));
}

enum error kernel_cuda_copy(struct kernel *kernel, const float *from, size_t count, float *to)
{
    cudaError_t status = cudaSetDevice(kernel->device->index);
    if (status == cudaSuccess)
        status = cudaMemcpyAsync(to, from, count * sizeof(*to), cudaMemcpyDeviceToDevice,
                                 stream_of(kernel));
    return check(kernel, ERROR_IO, status, "a copy on the GPU");
}

enum error kernel_cuda_capture_begin(struct kernel *kernel)
{
    cudaError_t status = cudaSetDevice(kernel->device->index);
    if (status == cudaSuccess)
        status = cudaStreamBeginCapture(stream_of(kernel), cudaStreamCaptureModeThreadLocal);
    return check(kernel, ERROR_UNAVAILABLE, status, "a capture's begin");
}

/* The first call ends the capture, whatever it returns. */
enum error kernel_cuda_capture_end(struct kernel *kernel, struct kernel_graph **ret_graph)
{
    cudaGraph_t captured = nullptr;
    cudaGraphExec_t executable = nullptr;
    cudaError_t status = cudaStreamEndCapture(stream_of(kernel), &captured);
    if (status == cudaSuccess)
        status = cudaGraphInstantiateWithFlags(&executable, captured, 0);
    if (captured)
        cudaGraphDestroy(captured);
    if (status == cudaSuccess)
        *ret_graph = (struct kernel_graph *)(void *)executable;
    return check(kernel, ERROR_UNAVAILABLE, status, "a capture's end");
}

enum error kernel_cuda_graph_launch(struct kernel *kernel, struct kernel_graph *graph)
{
    cudaError_t status = cudaSetDevice(kernel->device->index);
    if (status == cudaSuccess)
        status = cudaGraphLaunch(native(graph), stream_of(kernel));
    return check(kernel, ERROR_IO, status, "a graph's launch");
}

void kernel_cuda_graph_free(struct kernel *kernel, struct kernel_graph *graph)
{
    cudaSetDevice(kernel->device->index);
    if (cudaGraphExecDestroy(native(graph)) != cudaSuccess)
        cudaGetLastError();
}

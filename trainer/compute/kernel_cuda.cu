/* SPDX-License-Identifier: MIT */
/*
 * The kernel on a GPU: products by cuBLAS, everything else by the kernels of kernel_*_cuda.cu. The
 * order of every sum depends only on sizes; no float is added atomically. Nothing waits for the
 * device.
 */
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
#include "common/array.h"
#include "common/log.h"
#include "trainer/compute/kernel_cuda_private.h"
}

#define TENSOR_MAJOR 8    /* compute capability of the first GPUs with TF32 and bfloat16 */
#define WORKSPACE_MAJOR 9 /* compute capability of the first GPUs (Hopper) that need more */
#define WORKSPACE_BYTES ((size_t)32 << 20)
#define WORKSPACE_BYTES_BEFORE ((size_t)4 << 20)

static void free_rows(struct kernel_cuda *self)
{
    device_memory_free(self->kernel.device, self->row_losses);
    device_memory_free(self->kernel.device, self->row_facts);
    self->row_losses = NULL;
    self->row_facts = NULL;
    self->rows_limit = 0;
}

/* For clipping, once. */
static enum error reserve_squares(struct kernel_cuda *self)
{
    void *memory;
    enum error error = OK;
    if (!self->squares) {
        error = device_memory_new(self->kernel.device, SQUARES_BLOCKS * sizeof(double), &memory);
        if (!error)
            self->squares = (double *)memory;
    }
    if (!error && !self->clip_factor) {
        error = device_memory_new(self->kernel.device, sizeof(float), &memory);
        if (!error)
            self->clip_factor = (float *)memory;
    }
    return error;
}

static enum error cuda_reserve(struct kernel *kernel, size_t rows, size_t)
{
    struct kernel_cuda *self = kernel_cuda_of(kernel);
    void *losses = NULL, *correct = NULL;
    if (rows <= self->rows_limit)
        return OK;
    enum error error = reserve_squares(self);
    if (!error)
        error = device_queue_wait(kernel->device, kernel->queue);
    if (error)
        return error;
    free_rows(self);
    error = device_memory_new(kernel->device, rows * sizeof(double), &losses);
    if (!error)
        error = device_memory_new(kernel->device, rows * sizeof(int), &correct);
    if (error) {
        device_memory_free(kernel->device, losses);
        return error;
    }
    self->row_losses = (double *)losses;
    self->row_facts = (int *)correct;
    self->rows_limit = rows;
    return OK;
}

static void cuda_close(struct kernel *kernel)
{
    free_rows(kernel_cuda_of(kernel));
    device_memory_free(kernel->device, kernel_cuda_of(kernel)->squares);
    device_memory_free(kernel->device, kernel_cuda_of(kernel)->clip_factor);
    cublas_close(kernel_cuda_of(kernel)->cublas);
    device_memory_free(kernel->device, kernel_cuda_of(kernel)->workspace);
    free(kernel);
}

/* cuBLAS would allocate its own when a product first needs it, which a capture does not permit. The
 * size is what NVIDIA recommends for the GPU; used with and without captures, since it may
 * determine which kernels cuBLAS chooses, and so the last bits. */
static enum error give_workspace(struct kernel_cuda *self)
{
    int major = 0, index = self->kernel.device->index;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) != cudaSuccess)
        return kernel_cuda_check(&self->kernel, "the GPU's compute capability");
    size_t bytes = major >= WORKSPACE_MAJOR ? WORKSPACE_BYTES : WORKSPACE_BYTES_BEFORE;
    enum error error = device_memory_new(self->kernel.device, bytes, &self->workspace);
    return error ? error : cublas_set_workspace(self->cublas, self->workspace, bytes);
}

/* Sets the precision of products, if this GPU supports it. */
static enum error choose_precision(struct kernel *kernel, const char *asked,
                                   const char **ret_chosen)
{
    int index = kernel->device->index, major = 0;
    *ret_chosen = asked ? asked : "f32";
    if (strcmp(*ret_chosen, "f32") == 0)
        return OK;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) != cudaSuccess)
        return kernel_cuda_check(kernel, "the GPU's compute capability");
    if (major >= TENSOR_MAJOR)
        return OK;
    log_warning("--precision %s has no effect: cuda:%d has compute capability %d.x, it begins "
                "with %d.0",
                asked, index, major, TENSOR_MAJOR);
    *ret_chosen = "f32";
    return OK;
}

/* Bytes are not among its inputs: the feed converts them to floats on the device. */
static const struct kernel_ops ops = {
    "cuda",
    cuda_close,
    cuda_reserve,
    kernel_cuda_input,
    NULL,
    kernel_cuda_standardize,
    kernel_cuda_forward,
    kernel_cuda_backward,
    kernel_cuda_backward_input,
    kernel_cuda_softmax,
    kernel_cuda_cross_entropy,
    kernel_cuda_squared_error,
    kernel_cuda_dropout,
    kernel_cuda_scale,
    kernel_cuda_clip,
    kernel_cuda_update,
    kernel_cuda_fill,
    kernel_cuda_add,
    kernel_cuda_settle,
    kernel_cuda_copy,
    kernel_cuda_capture_begin,
    kernel_cuda_capture_end,
    kernel_cuda_graph_launch,
    kernel_cuda_graph_free,
};

enum error kernel_cuda_open(struct device *device, struct device_queue *queue,
                            const struct kernel_options *options, struct kernel **ret_kernel)
{
    const char *precision = NULL;
    struct kernel_cuda *made =
        (struct kernel_cuda *)array_new(1, sizeof(struct kernel_cuda), "the CUDA kernel");
    if (!made)
        return ERROR_MEMORY;
    made->kernel.ops = &ops;
    made->kernel.device = device;
    made->kernel.queue = queue;
    made->stream = (cudaStream_t)device_queue_native(device, queue);
    enum error error = OK;
    if (cudaSetDevice(device->index) != cudaSuccess)
        error = kernel_cuda_check(&made->kernel, "cudaSetDevice");
    if (!error)
        error = choose_precision(&made->kernel, options->precision, &precision);
    if (!error)
        error = cublas_open(made->stream, precision, &made->cublas);
    if (!error)
        error = give_workspace(made);
    if (error) {
        cuda_close(&made->kernel);
        return error;
    }
    made->kernel.captures = !options->no_graphs;
    snprintf(made->kernel.description, sizeof(made->kernel.description), "%s, %s",
             device->description, cublas_describe(made->cublas));
    *ret_kernel = &made->kernel;
    return OK;
}

/* SPDX-License-Identifier: MIT */
/* Shared by kernel_cuda.cu and kernel_*_cuda.cu: the kernel on a GPU. Private to them. */
#ifndef TRAINER_COMPUTE_KERNEL_CUDA_PRIVATE_H
#define TRAINER_COMPUTE_KERNEL_CUDA_PRIVATE_H

#include "trainer/compute/cublas.h"
#include "trainer/compute/kernel_variants.h"

#if defined(__cplusplus)
extern "C" {
#endif

#define THREADS 256       /* per block of the element-wise kernels */
#define BLOCKS_LIMIT 4096 /* they stride over more elements */
#define WARP 32
#define SQUARES_BLOCKS 256 /* that sum squares, whatever their number */

struct kernel_cuda {
    struct kernel kernel;       /* must be first */
    struct CUstream_st *stream; /* a cudaStream_t */
    struct cublas *cublas;
    double *row_losses; /* [rows_limit], device */
    int *row_facts;     /* [rows_limit], device: ROW_* of kernel_losses_cuda.cu */
    size_t rows_limit;
    double *squares;    /* [SQUARES_BLOCKS], device */
    float *clip_factor; /* device */
    void *workspace;    /* cuBLAS's, device */
};

/* In kernel_launch_cuda.cu. */
struct kernel_cuda *kernel_cuda_of(struct kernel *kernel);
/* The stream for launches; selects the GPU first, because CUDA keeps that choice per thread. */
struct CUstream_st *kernel_cuda_stream(struct kernel *kernel);
/* After a launch of `what`. ERROR_IO: a refused kernel, or an error of earlier work. */
enum error kernel_cuda_check(struct kernel *kernel, const char *what) MUST_CHECK;
/* For a launch whose blocks each take `each` of `count` elements: 1 to BLOCKS_LIMIT. */
unsigned kernel_cuda_blocks(size_t count, size_t each);

/* Element-wise kernels stride over the grid: thread t of T takes elements t, t + T, ..., so that
 * adjacent threads read adjacent elements, and any count works with at most BLOCKS_LIMIT blocks. */
#define FIRST_ELEMENT (blockIdx.x * (size_t)blockDim.x + threadIdx.x)
#define ELEMENT_STRIDE ((size_t)gridDim.x * blockDim.x)

/* The operations: struct kernel_ops of trainer/compute/kernel.h. */
/* In kernel_layers_cuda.cu. */
enum error kernel_cuda_input(struct kernel *kernel, const float *values, size_t rows,
                             size_t columns, struct kernel_input *ret_input) MUST_CHECK;
enum error kernel_cuda_standardize(struct kernel *kernel, const struct kernel_features *wanted,
                                   const float *values, size_t rows, size_t columns,
                                   float *ret_values) MUST_CHECK;
enum error kernel_cuda_forward(struct kernel *kernel, const struct kernel_input *input,
                               const float *weights, const float *bias, size_t outputs,
                               enum activation activation, float *ret_y) MUST_CHECK;
enum error kernel_cuda_backward(struct kernel *kernel, const struct kernel_input *input,
                                const float *y_gradient, size_t outputs,
                                float *ret_weights_gradient, float *ret_bias_gradient) MUST_CHECK;
enum error kernel_cuda_backward_input(struct kernel *kernel, const struct kernel_input *input,
                                      const float *y_gradient, const float *weights, size_t outputs,
                                      float *ret_input_gradient) MUST_CHECK;

/* In kernel_losses_cuda.cu. */
enum error kernel_cuda_softmax(struct kernel *kernel, const float *logits, size_t rows,
                               size_t classes, float *ret_probabilities) MUST_CHECK;
enum error kernel_cuda_cross_entropy(struct kernel *kernel, enum loss loss, const float *logits,
                                     const int32_t *labels, size_t rows, size_t classes,
                                     float *ret_gradient,
                                     struct kernel_result *ret_result) MUST_CHECK;
enum error kernel_cuda_squared_error(struct kernel *kernel, enum loss loss, const float *y,
                                     const float *targets, size_t rows, float *ret_gradient,
                                     struct kernel_result *ret_result) MUST_CHECK;

/* In kernel_limits_cuda.cu. */
enum error kernel_cuda_dropout(struct kernel *kernel, const struct dropout_mask *mask,
                               float *values, size_t count) MUST_CHECK;
enum error kernel_cuda_scale(struct kernel *kernel, float *values, size_t count,
                             float factor) MUST_CHECK;
enum error kernel_cuda_clip(struct kernel *kernel, const struct gradient_clip *clip,
                            float *gradient, size_t count) MUST_CHECK;

/* In kernel_updates_cuda.cu. */
enum error kernel_cuda_update(struct kernel *kernel, const struct optimizer *optimizer, int64_t t,
                              const struct kernel_update *u) MUST_CHECK;

/* In kernel_together_cuda.cu. */
enum error kernel_cuda_fill(struct kernel *kernel, float value, size_t count,
                            float *ret_values) MUST_CHECK;
enum error kernel_cuda_add(struct kernel *kernel, const float *from, size_t count,
                           float *to) MUST_CHECK;
enum error kernel_cuda_settle(struct kernel *kernel, const struct kernel_settlement *s) MUST_CHECK;

#if defined(__cplusplus)
}
#endif

#endif

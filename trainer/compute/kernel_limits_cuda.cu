/* SPDX-License-Identifier: MIT */
/* What limits values on a GPU: dropout, and the clipping and scaling of gradients. */
#include <cuda_runtime_api.h>

#include <cfloat>
#include <cmath>

extern "C" {
#include "trainer/compute/kernel_cuda_private.h"
}

static __global__ void drop(const struct dropout_mask *masks, size_t count, float *values)
{
    const struct dropout_mask mask = *masks;
    size_t blocks = (count + DROPOUT_VALUES - 1) / DROPOUT_VALUES * DROPOUT_BLOCKS;
    for (size_t block = FIRST_ELEMENT; block < blocks; block += ELEMENT_STRIDE) {
        struct philox_block random = dropout_block(&mask, block);
        for (unsigned word = 0; word < 4; word++) {
            size_t i = dropout_value(block, word);
            if (i < count)
                values[i] =
                    random.word[word] < mask.threshold ? 0 : __fmul_rn(values[i], mask.scale);
        }
    }
}

static __global__ void scale_values(size_t count, float factor, float *values)
{
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE)
        values[i] = __fmul_rn(values[i], factor);
}

static __global__ void clip_values(size_t count, float limit, float *values)
{
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE) {
        float value = values[i];
        values[i] = value > limit ? limit : value < -limit ? -limit : value; /* NaN stays */
    }
}

/* The sum of the block's threads' values, in thread 0. */
static __device__ double block_sum(double *sums, double own)
{
    sums[threadIdx.x] = own;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    return sums[0];
}

/* SQUARES_BLOCKS of them. */
static __global__ void add_squares(const float *values, size_t count, double *ret_squares)
{
    __shared__ double sums[THREADS];
    double own = 0;
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE)
        own += (double)values[i] * (double)values[i];
    own = block_sum(sums, own);
    if (threadIdx.x == 0)
        ret_squares[blockIdx.x] = own;
}

/* gradient_clip_factor() of their sum. One block. */
static __global__ void find_clip_factor(const double *squares, double limit, float *ret_factor)
{
    __shared__ double sums[THREADS];
    double norm = sqrt(block_sum(sums, threadIdx.x < SQUARES_BLOCKS ? squares[threadIdx.x] : 0));
    if (threadIdx.x == 0)
        *ret_factor = norm > limit && norm <= DBL_MAX ? (float)(limit / norm) : 1;
}

static __global__ void scale_by(size_t count, const float *factor, float *values)
{
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE)
        values[i] = __fmul_rn(values[i], *factor);
}

enum error kernel_cuda_dropout(struct kernel *kernel, const struct dropout_mask *mask,
                               float *values, size_t count)
{
    drop<<<kernel_cuda_blocks((count + 3) / 4, THREADS), THREADS, 0, kernel_cuda_stream(kernel)>>>(
        mask, count, values);
    return kernel_cuda_check(kernel, "dropout");
}

enum error kernel_cuda_scale(struct kernel *kernel, float *values, size_t count, float factor)
{
    scale_values<<<kernel_cuda_blocks(count, THREADS), THREADS, 0, kernel_cuda_stream(kernel)>>>(
        count, factor, values);
    return kernel_cuda_check(kernel, "a factor");
}

enum error kernel_cuda_clip(struct kernel *kernel, const struct gradient_clip *clip,
                            float *gradient, size_t count)
{
    struct kernel_cuda *self = kernel_cuda_of(kernel);
    cudaStream_t stream = kernel_cuda_stream(kernel);
    unsigned blocks = kernel_cuda_blocks(count, THREADS);
    if (clip->value > 0)
        clip_values<<<blocks, THREADS, 0, stream>>>(count, clip->value, gradient);
    if (clip->norm > 0) {
        add_squares<<<SQUARES_BLOCKS, THREADS, 0, stream>>>(gradient, count, self->squares);
        find_clip_factor<<<1, THREADS, 0, stream>>>(self->squares, (double)clip->norm,
                                                    self->clip_factor);
        scale_by<<<blocks, THREADS, 0, stream>>>(count, self->clip_factor, gradient);
    }
    return kernel_cuda_check(kernel, "clipping");
}

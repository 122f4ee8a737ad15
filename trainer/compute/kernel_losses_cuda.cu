/* SPDX-License-Identifier: MIT */
/* Losses on a GPU: a warp takes a row, and one block adds the rows up. */
#include <cuda_runtime_api.h>

#include <cfloat>
#include <cmath>

extern "C" {
#include "trainer/compute/kernel_cuda_private.h"
}

#define WARPS 4 /* per block of the kernels with one warp per row */

#define ALL_LANES 0xffffffffu

enum { ROW_CORRECT = 1, ROW_MOVING = 2 }; /* as struct kernel_result counts them */

/* The same value in every lane, and the same bits on every GPU: butterfly order, lane l with lane
 * l ^ 16, l ^ 8, ..., l ^ 1. */
static __device__ float warp_maximum(float value)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, step));
    return value;
}

static __device__ float warp_sum(float value)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        value += __shfl_xor_sync(ALL_LANES, value, step);
    return value;
}

/* Exponentials of a row minus its largest, to `out`; returns their sum to every lane. */
static __device__ float exponentials(const float *logits, size_t classes, float *out,
                                     float *ret_largest)
{
    float largest = -INFINITY, sum = 0;
    for (size_t j = threadIdx.x; j < classes; j += WARP)
        largest = fmaxf(largest, logits[j]);
    largest = warp_maximum(largest);
    for (size_t j = threadIdx.x; j < classes; j += WARP) {
        float value = expf(logits[j] - largest);
        out[j] = value;
        sum += value;
    }
    *ret_largest = largest;
    return warp_sum(sum);
}

static __global__ void softmax_rows(const float *logits, size_t rows, size_t classes, float *out)
{
    for (size_t row = blockIdx.x * (size_t)WARPS + threadIdx.y; row < rows;
         row += (size_t)gridDim.x * WARPS) {
        float largest;
        float *to = out + row * classes;
        float sum = exponentials(logits + row * classes, classes, to, &largest);
        for (size_t j = threadIdx.x; j < classes; j += WARP)
            to[j] /= sum;
    }
}

/* Largest (first of equals); NaN is never correct. */
static __device__ bool is_correct(const float *logits, size_t classes, size_t label)
{
    bool correct = true;
    for (size_t j = threadIdx.x; j < classes; j += WARP)
        correct = correct && (j < label ? logits[label] > logits[j] : logits[label] >= logits[j]);
    return __all_sync(ALL_LANES, correct);
}

/* trainer/compute/loss.h; each row's loss and facts are stored separately. */
static __global__ void cross_entropy_rows(bool clipped, const float *logits, const int *labels,
                                          size_t rows, size_t classes, float share, float *gradient,
                                          double *row_losses, int *row_facts)
{
    for (size_t row = blockIdx.x * (size_t)WARPS + threadIdx.y; row < rows;
         row += (size_t)gridDim.x * WARPS) {
        const float *from = logits + row * classes;
        float *to = gradient + row * classes;
        size_t label = (size_t)labels[row];
        float largest, sum = exponentials(from, classes, to, &largest);
        float p = expf(from[label] - largest) / sum;
        bool dead = clipped && p < LOSS_CLIP_MINIMUM, moving = false;
        for (size_t j = threadIdx.x; j < classes; j += WARP) {
            float difference = to[j] / sum * share - (j == label ? share : 0);
            to[j] = dead ? 0 : difference;
            moving = moving || to[j] != 0;
        }
        bool correct = is_correct(from, classes, label);
        moving = __any_sync(ALL_LANES, moving);
        if (threadIdx.x == 0) {
            row_facts[row] = (correct ? ROW_CORRECT : 0) | (moving ? ROW_MOVING : 0);
            if (clipped)
                row_losses[row] = -log((double)(dead ? LOSS_CLIP_MINIMUM : p > 1 ? 1 : p));
            else
                row_losses[row] = log((double)sum) - (double)(from[label] - largest);
        }
    }
}

static __global__ void squared_error_rows(const float *y, const float *targets, size_t rows,
                                          float scale, float *gradient, double *row_losses,
                                          int *row_facts)
{
    for (size_t i = FIRST_ELEMENT; i < rows; i += ELEMENT_STRIDE) {
        float difference = y[i] - targets[i];
        gradient[i] = difference * scale;
        row_losses[i] = (double)difference * (double)difference;
        row_facts[i] = gradient[i] != 0 ? ROW_MOVING : 0;
    }
}

/* One block: thread t adds rows t, t + THREADS, ..., then a tree over the threads. */
static __global__ void sum_rows(const double *row_losses, const int *row_facts, size_t rows,
                                struct kernel_result *ret_result)
{
    __shared__ double losses[THREADS];
    __shared__ int64_t corrects[THREADS];
    __shared__ int64_t movings[THREADS];
    double loss = 0;
    int64_t correct = 0, moving = 0;
    for (size_t row = threadIdx.x; row < rows; row += THREADS) {
        loss += row_losses[row];
        correct += (row_facts[row] & ROW_CORRECT) != 0;
        moving += (row_facts[row] & ROW_MOVING) != 0;
    }
    losses[threadIdx.x] = loss;
    corrects[threadIdx.x] = correct;
    movings[threadIdx.x] = moving;
    __syncthreads();
    for (unsigned half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            losses[threadIdx.x] += losses[threadIdx.x + half];
            corrects[threadIdx.x] += corrects[threadIdx.x + half];
            movings[threadIdx.x] += movings[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        ret_result->loss_sum = losses[0];
        ret_result->correct = corrects[0];
        ret_result->moving = movings[0];
    }
}

enum error kernel_cuda_softmax(struct kernel *kernel, const float *logits, size_t rows,
                               size_t classes, float *ret_probabilities)
{
    softmax_rows<<<kernel_cuda_blocks(rows, WARPS), dim3(WARP, WARPS), 0,
                   kernel_cuda_stream(kernel)>>>(logits, rows, classes, ret_probabilities);
    return kernel_cuda_check(kernel, "softmax");
}

static enum error add_up(struct kernel *kernel, size_t rows, struct kernel_result *ret_result)
{
    struct kernel_cuda *self = kernel_cuda_of(kernel);
    sum_rows<<<1, THREADS, 0, kernel_cuda_stream(kernel)>>>(self->row_losses, self->row_facts, rows,
                                                            ret_result);
    return kernel_cuda_check(kernel, "sum of the loss");
}

enum error kernel_cuda_cross_entropy(struct kernel *kernel, enum loss loss, const float *logits,
                                     const int32_t *labels, size_t rows, size_t classes,
                                     float *ret_gradient, struct kernel_result *ret_result)
{
    struct kernel_cuda *self = kernel_cuda_of(kernel);
    bool clipped = loss == LOSS_CLIPPED_SUM;
    cross_entropy_rows<<<kernel_cuda_blocks(rows, WARPS), dim3(WARP, WARPS), 0,
                         kernel_cuda_stream(kernel)>>>(
        clipped, logits, labels, rows, classes, clipped ? 1.0f : 1.0f / (float)rows, ret_gradient,
        self->row_losses, self->row_facts);
    enum error error = kernel_cuda_check(kernel, "cross-entropy");
    return error ? error : add_up(kernel, rows, ret_result);
}

enum error kernel_cuda_squared_error(struct kernel *kernel, enum loss loss, const float *y,
                                     const float *targets, size_t rows, float *ret_gradient,
                                     struct kernel_result *ret_result)
{
    struct kernel_cuda *self = kernel_cuda_of(kernel);
    float scale = loss_is_mean(loss) ? 2.0f / (float)rows : 2.0f;
    squared_error_rows<<<kernel_cuda_blocks(rows, THREADS), THREADS, 0,
                         kernel_cuda_stream(kernel)>>>(y, targets, rows, scale, ret_gradient,
                                                       self->row_losses, self->row_facts);
    enum error error = kernel_cuda_check(kernel, "squared error");
    return error ? error : add_up(kernel, rows, ret_result);
}

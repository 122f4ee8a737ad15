/* SPDX-License-Identifier: MIT */
/*
 * The kernel on a GPU: products by cuBLAS, everything else by the kernels here. The order of every
 * sum depends only on sizes; no float is added atomically. Nothing waits for the device. Updates
 * round each operation separately (__fmul_rn and similar functions are never fused), so that they
 * give the CPU's bits.
 */
#include <cuda_runtime_api.h>

#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
#include "common/array.h"
#include "common/log.h"
#include "trainer/compute/cublas.h"
#include "trainer/compute/kernel_variants.h"
}

#define THREADS 256       /* per block of the element-wise kernels */
#define BLOCKS_LIMIT 4096 /* they stride over more elements */
#define WARP 32
#define WARPS 4 /* per block of the kernels with one warp per row */
#define SUM_ROWS 8
#define TENSOR_MAJOR 8     /* compute capability of the first GPUs with TF32 and bfloat16 */
#define SQUARES_BLOCKS 256 /* that sum squares, whatever their number */
#define WORKSPACE_MAJOR 9  /* compute capability of the first GPUs (Hopper) that need more */
#define WORKSPACE_BYTES ((size_t)32 << 20)
#define WORKSPACE_BYTES_BEFORE ((size_t)4 << 20)

struct kernel_cuda {
    struct kernel kernel; /* must be first */
    cudaStream_t stream;
    struct cublas *cublas;
    double *row_losses; /* [rows_limit], device */
    int *row_facts;     /* [rows_limit], device: ROW_* */
    size_t rows_limit;
    double *squares;    /* [SQUARES_BLOCKS], device */
    float *clip_factor; /* device */
    void *workspace;    /* cuBLAS's, device */
};

static struct kernel_cuda *cuda(struct kernel *kernel)
{
    return (struct kernel_cuda *)kernel;
}

/* Returns the stream for launches; selects the GPU first, because CUDA keeps that choice per
 * thread. */
static cudaStream_t stream_of(struct kernel *kernel)
{
    cudaSetDevice(kernel->device->index);
    return cuda(kernel)->stream;
}

/* After a launch: a refused kernel, or an error of earlier work. */
static enum error launched(struct kernel *kernel, const char *what)
{
    cudaError_t status = cudaGetLastError();
    if (status == cudaSuccess)
        return OK;
    return error_set(ERROR_IO, "cuda:%d: %s: %s", kernel->device->index, what,
                     cudaGetErrorString(status));
}

static unsigned blocks_for(size_t count, size_t each)
{
    size_t blocks = (count + each - 1) / each;
    return (unsigned)(blocks < 1 ? 1 : blocks > BLOCKS_LIMIT ? BLOCKS_LIMIT : blocks);
}

/* Element-wise kernels stride over the grid: thread t of T takes elements t, t + T, ..., so that
 * adjacent threads read adjacent elements, and any count works with at most BLOCKS_LIMIT blocks. */
#define FIRST_ELEMENT (blockIdx.x * (size_t)blockDim.x + threadIdx.x)
#define ELEMENT_STRIDE ((size_t)gridDim.x * blockDim.x)

/* ---- layers ------------------------------------------------------------- */

static __global__ void finish_rows(float *y, size_t count, size_t columns, const float *bias,
                                   bool relu)
{
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE) {
        float value = y[i] + bias[i % columns];
        y[i] = relu && value < 0 ? 0 : value; /* NaN stays */
    }
}

static __global__ void mask_positive(float *gradient, const float *x, size_t count)
{
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE) {
        if (!(x[i] > 0))
            gradient[i] = 0;
    }
}

/* A block sums WARP columns: thread row r takes rows r, r + SUM_ROWS, ..., then row 0 adds up. */
static __global__ void sum_columns(const float *values, size_t rows, size_t columns,
                                   float *ret_sums)
{
    __shared__ float sums[SUM_ROWS][WARP];
    for (size_t first = blockIdx.x * (size_t)WARP; first < columns;
         first += (size_t)gridDim.x * WARP) {
        size_t column = first + threadIdx.x;
        float sum = 0;
        for (size_t row = threadIdx.y; row < rows && column < columns; row += SUM_ROWS)
            sum += values[row * columns + column];
        sums[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y == 0 && column < columns) {
            for (int i = 1; i < SUM_ROWS; i++)
                sum += sums[i][threadIdx.x];
            ret_sums[column] = sum;
        }
        __syncthreads();
    }
}

/* c[m,n] = op(a)[m,k] op(b)[k,n], all packed: a transposed matrix is stored [k,m] (or [n,k]), so
 * its stride is m (or k). cuBLAS has its stream. */
static enum error multiply(struct kernel *kernel, size_t m, size_t n, size_t k, const float *a,
                           bool a_transposed, const float *b, bool b_transposed, float *c)
{
    struct blas_product product;
    product.a_transpose = a_transposed ? BLAS_TRANSPOSED : BLAS_AS_IS;
    product.b_transpose = b_transposed ? BLAS_TRANSPOSED : BLAS_AS_IS;
    product.m = m;
    product.n = n;
    product.k = k;
    product.a = a;
    product.a_stride = a_transposed ? m : k;
    product.b = b;
    product.b_stride = b_transposed ? k : n;
    product.add = false;
    product.c = c;
    product.c_stride = n;
    if (cudaSetDevice(kernel->device->index) != cudaSuccess)
        return launched(kernel, "cudaSetDevice");
    return cublas_multiply(cuda(kernel)->cublas, &product);
}

static enum error cuda_input(struct kernel *, const float *values, size_t rows, size_t columns,
                             struct kernel_input *ret_input)
{
    ret_input->values = values;
    ret_input->rows = rows;
    ret_input->columns = columns;
    ret_input->indexed = false;
    return OK;
}

static __global__ void standardize(const float *x, size_t count, size_t columns,
                                   struct kernel_features wanted, float *y)
{
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE) {
        size_t row = i / wanted.count, feature = i % wanted.count;
        float value = x[row * columns + (wanted.columns ? wanted.columns[feature] : feature)];
        y[i] = wanted.mean
                   ? __fmul_rn(__fsub_rn(value, wanted.mean[feature]), wanted.factor[feature])
                   : value;
    }
}

static enum error cuda_standardize(struct kernel *kernel, const struct kernel_features *wanted,
                                   const float *values, size_t rows, size_t columns,
                                   float *ret_values)
{
    size_t count = rows * wanted->count;
    standardize<<<blocks_for(count, THREADS), THREADS, 0, stream_of(kernel)>>>(
        values, count, columns, *wanted, ret_values);
    return launched(kernel, "normalized features");
}

static enum error cuda_forward(struct kernel *kernel, const struct kernel_input *input,
                               const float *weights, const float *bias, size_t outputs,
                               enum activation activation, float *ret_y)
{
    size_t count = input->rows * outputs;
    enum error error = multiply(kernel, input->rows, outputs, input->columns, input->values, false,
                                weights, false, ret_y);
    if (error)
        return error;
    finish_rows<<<blocks_for(count, THREADS), THREADS, 0, stream_of(kernel)>>>(
        ret_y, count, outputs, bias, activation == ACTIVATION_RELU);
    return launched(kernel, "bias and activation");
}

static enum error cuda_backward(struct kernel *kernel, const struct kernel_input *input,
                                const float *y_gradient, size_t outputs,
                                float *ret_weights_gradient, float *ret_bias_gradient)
{
    sum_columns<<<blocks_for(outputs, WARP), dim3(WARP, SUM_ROWS), 0, stream_of(kernel)>>>(
        y_gradient, input->rows, outputs, ret_bias_gradient);
    enum error error = launched(kernel, "sums of columns");
    if (error)
        return error;
    return multiply(kernel, input->columns, outputs, input->rows, input->values, true, y_gradient,
                    false, ret_weights_gradient);
}

static enum error cuda_backward_input(struct kernel *kernel, const struct kernel_input *input,
                                      const float *y_gradient, const float *weights, size_t outputs,
                                      float *ret_input_gradient)
{
    size_t count = input->rows * input->columns;
    enum error error = multiply(kernel, input->rows, input->columns, outputs, y_gradient, false,
                                weights, true, ret_input_gradient);
    if (error)
        return error;
    mask_positive<<<blocks_for(count, THREADS), THREADS, 0, stream_of(kernel)>>>(
        ret_input_gradient, input->values, count);
    return launched(kernel, "gradient of the activation");
}

/* ---- losses: a warp takes a row ----------------------------------------- */

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

static enum error cuda_softmax(struct kernel *kernel, const float *logits, size_t rows,
                               size_t classes, float *ret_probabilities)
{
    softmax_rows<<<blocks_for(rows, WARPS), dim3(WARP, WARPS), 0, stream_of(kernel)>>>(
        logits, rows, classes, ret_probabilities);
    return launched(kernel, "softmax");
}

static enum error add_up(struct kernel *kernel, size_t rows, struct kernel_result *ret_result)
{
    struct kernel_cuda *self = cuda(kernel);
    sum_rows<<<1, THREADS, 0, stream_of(kernel)>>>(self->row_losses, self->row_facts, rows,
                                                   ret_result);
    return launched(kernel, "sum of the loss");
}

static enum error cuda_cross_entropy(struct kernel *kernel, enum loss loss, const float *logits,
                                     const int32_t *labels, size_t rows, size_t classes,
                                     float *ret_gradient, struct kernel_result *ret_result)
{
    struct kernel_cuda *self = cuda(kernel);
    bool clipped = loss == LOSS_CLIPPED_SUM;
    cross_entropy_rows<<<blocks_for(rows, WARPS), dim3(WARP, WARPS), 0, stream_of(kernel)>>>(
        clipped, logits, labels, rows, classes, clipped ? 1.0f : 1.0f / (float)rows, ret_gradient,
        self->row_losses, self->row_facts);
    enum error error = launched(kernel, "cross-entropy");
    return error ? error : add_up(kernel, rows, ret_result);
}

static enum error cuda_squared_error(struct kernel *kernel, enum loss loss, const float *y,
                                     const float *targets, size_t rows, float *ret_gradient,
                                     struct kernel_result *ret_result)
{
    struct kernel_cuda *self = cuda(kernel);
    float scale = loss_is_mean(loss) ? 2.0f / (float)rows : 2.0f;
    squared_error_rows<<<blocks_for(rows, THREADS), THREADS, 0, stream_of(kernel)>>>(
        y, targets, rows, scale, ret_gradient, self->row_losses, self->row_facts);
    enum error error = launched(kernel, "squared error");
    return error ? error : add_up(kernel, rows, ret_result);
}

/* ---- dropout, clipping --------------------------------------------------- */

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

static __global__ void scale_values(size_t count, float factor, const int32_t *only_if,
                                    float *values)
{
    if (only_if && !*only_if)
        return;
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

static enum error cuda_dropout(struct kernel *kernel, const struct dropout_mask *mask,
                               float *values, size_t count)
{
    drop<<<blocks_for((count + 3) / 4, THREADS), THREADS, 0, stream_of(kernel)>>>(mask, count,
                                                                                  values);
    return launched(kernel, "dropout");
}

static enum error cuda_scale(struct kernel *kernel, float *values, size_t count, float factor,
                             const int32_t *only_if)
{
    scale_values<<<blocks_for(count, THREADS), THREADS, 0, stream_of(kernel)>>>(count, factor,
                                                                                only_if, values);
    return launched(kernel, "a factor");
}

static enum error cuda_clip(struct kernel *kernel, const struct gradient_clip *clip,
                            float *gradient, size_t count)
{
    struct kernel_cuda *self = cuda(kernel);
    cudaStream_t stream = stream_of(kernel);
    unsigned blocks = blocks_for(count, THREADS);
    if (clip->value > 0)
        clip_values<<<blocks, THREADS, 0, stream>>>(count, clip->value, gradient);
    if (clip->norm > 0) {
        add_squares<<<SQUARES_BLOCKS, THREADS, 0, stream>>>(gradient, count, self->squares);
        find_clip_factor<<<1, THREADS, 0, stream>>>(self->squares, (double)clip->norm,
                                                    self->clip_factor);
        scale_by<<<blocks, THREADS, 0, stream>>>(count, self->clip_factor, gradient);
    }
    return launched(kernel, "clipping");
}

/* ---- updates: trainer/compute/optimizer.h ------------------------------- */

/* The gradient of the loss and of l2. */
static __device__ float with_l2(float gradient, float l2, float parameter)
{
    return l2 != 0 ? __fadd_rn(gradient, __fmul_rn(l2, parameter)) : gradient;
}

static __global__ void update_sgd(size_t count, float rate, struct optimizer o,
                                  const int32_t *only_if, const float *gradient, float *parameters)
{
    if (only_if && !*only_if)
        return;
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE) {
        float g = with_l2(gradient[i], o.l2, parameters[i]);
        parameters[i] = __fsub_rn(parameters[i], __fmul_rn(rate, g));
    }
}

static __global__ void update_momentum(size_t count, float rate, struct optimizer o,
                                       const int32_t *only_if, const float *gradient,
                                       float *parameters, float *slot)
{
    if (only_if && !*only_if)
        return;
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE) {
        float g = with_l2(gradient[i], o.l2, parameters[i]);
        float sum = __fadd_rn(__fmul_rn(o.momentum, slot[i]), g);
        float change = o.nesterov ? __fadd_rn(g, __fmul_rn(o.momentum, sum)) : sum;
        slot[i] = sum;
        parameters[i] = __fsub_rn(parameters[i], __fmul_rn(rate, change));
    }
}

static __global__ void update_adagrad(size_t count, float rate, struct optimizer o,
                                      const int32_t *only_if, const float *gradient,
                                      float *parameters, float *slot)
{
    if (only_if && !*only_if)
        return;
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE) {
        float g = with_l2(gradient[i], o.l2, parameters[i]);
        float sum = __fadd_rn(slot[i], __fmul_rn(g, g));
        float inverse = __fdiv_rn(1.0f, __fsqrt_rn(sum));
        slot[i] = sum;
        parameters[i] = __fsub_rn(parameters[i], __fmul_rn(__fmul_rn(rate, g), inverse));
    }
}

static __global__ void update_adam(size_t count, float rate, struct optimizer o,
                                   const int32_t *only_if, const float *gradient, float *parameters,
                                   float *first, float *second)
{
    if (only_if && !*only_if)
        return;
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE) {
        float g = with_l2(gradient[i], o.l2, parameters[i]);
        float m = __fadd_rn(__fmul_rn(o.beta1, first[i]), __fmul_rn(__fsub_rn(1.0f, o.beta1), g));
        float v = __fadd_rn(__fmul_rn(o.beta2, second[i]),
                            __fmul_rn(__fsub_rn(1.0f, o.beta2), __fmul_rn(g, g)));
        first[i] = m;
        second[i] = v;
        float change = __fdiv_rn(__fmul_rn(rate, m), __fadd_rn(__fsqrt_rn(v), o.epsilon));
        parameters[i] = __fsub_rn(parameters[i], change);
    }
}

static enum error cuda_update(struct kernel *kernel, const struct optimizer *optimizer, int64_t t,
                              const struct kernel_update *u)
{
    cudaStream_t stream = stream_of(kernel);
    unsigned blocks = blocks_for(u->count, THREADS);
    float rate = optimizer_rate(optimizer, t);
    switch (optimizer->kind) {
    case OPTIMIZER_SGD:
        update_sgd<<<blocks, THREADS, 0, stream>>>(u->count, rate, *optimizer, u->only_if,
                                                   u->gradient, u->parameters);
        break;
    case OPTIMIZER_MOMENTUM:
        update_momentum<<<blocks, THREADS, 0, stream>>>(u->count, rate, *optimizer, u->only_if,
                                                        u->gradient, u->parameters, u->slots[0]);
        break;
    case OPTIMIZER_ADAGRAD:
        update_adagrad<<<blocks, THREADS, 0, stream>>>(u->count, rate, *optimizer, u->only_if,
                                                       u->gradient, u->parameters, u->slots[0]);
        break;
    case OPTIMIZER_ADAM:
        update_adam<<<blocks, THREADS, 0, stream>>>(u->count, rate, *optimizer, u->only_if,
                                                    u->gradient, u->parameters, u->slots[0],
                                                    u->slots[1]);
        break;
    }
    return launched(kernel, "update");
}

/* ---- steps that several GPUs make together -------------------------------- */

static __global__ void fill_values(size_t count, float value, float *ret_values)
{
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE)
        ret_values[i] = value;
}

static __global__ void add_values(size_t count, const float *from, float *to)
{
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE)
        to[i] = __fadd_rn(to[i], from[i]);
}

/* One thread: the host may set *stop at any moment, and every block of an update must see the same
 * decision. Page-locked memory has the same address on the GPU. */
static __global__ void decide(const int32_t *stop, int64_t number, int32_t *ret_makes,
                              int64_t *ret_made)
{
    *ret_makes = *(const volatile int32_t *)stop == 0;
    if (*ret_makes)
        *(volatile int64_t *)ret_made = number;
}

static __global__ void divide_by_count(size_t count, const int32_t *only_if, float *sum)
{
    float gradients = sum[count];
    if (!*only_if || !(gradients > 1))
        return;
    for (size_t i = FIRST_ELEMENT; i < count; i += ELEMENT_STRIDE)
        sum[i] = __fdiv_rn(sum[i], gradients);
}

static enum error cuda_fill(struct kernel *kernel, float value, size_t count, float *ret_values)
{
    fill_values<<<blocks_for(count, THREADS), THREADS, 0, stream_of(kernel)>>>(count, value,
                                                                               ret_values);
    return launched(kernel, "a constant");
}

static enum error cuda_add(struct kernel *kernel, const float *from, size_t count, float *to)
{
    add_values<<<blocks_for(count, THREADS), THREADS, 0, stream_of(kernel)>>>(count, from, to);
    return launched(kernel, "a sum");
}

static enum error cuda_settle(struct kernel *kernel, const struct kernel_settlement *s)
{
    cudaStream_t stream = stream_of(kernel);
    decide<<<1, 1, 0, stream>>>(s->stop, s->number, s->ret_makes, s->ret_made);
    divide_by_count<<<blocks_for(s->count, THREADS), THREADS, 0, stream>>>(s->count, s->ret_makes,
                                                                           s->sum);
    return launched(kernel, "a step's mean");
}

/* ---- life cycle --------------------------------------------------------- */

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
    struct kernel_cuda *self = cuda(kernel);
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
    free_rows(cuda(kernel));
    device_memory_free(kernel->device, cuda(kernel)->squares);
    device_memory_free(kernel->device, cuda(kernel)->clip_factor);
    cublas_close(cuda(kernel)->cublas);
    device_memory_free(kernel->device, cuda(kernel)->workspace);
    free(kernel);
}

/* cuBLAS would allocate its own when a product first needs it, which a capture does not permit. The
 * size is what NVIDIA recommends for the GPU; used with and without captures, since it may
 * determine which kernels cuBLAS chooses, and so the last bits. */
static enum error give_workspace(struct kernel_cuda *self)
{
    int major = 0, index = self->kernel.device->index;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) != cudaSuccess)
        return launched(&self->kernel, "the GPU's compute capability");
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
        return launched(kernel, "the GPU's compute capability");
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
    cuda_input,
    NULL,
    cuda_standardize,
    cuda_forward,
    cuda_backward,
    cuda_backward_input,
    cuda_softmax,
    cuda_cross_entropy,
    cuda_squared_error,
    cuda_dropout,
    cuda_scale,
    cuda_clip,
    cuda_update,
    cuda_fill,
    cuda_add,
    cuda_settle,
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
        error = launched(&made->kernel, "cudaSetDevice");
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

/* SPDX-License-Identifier: MIT */
/* Layers on a GPU: products by cuBLAS; bias, activation and features by kernels. */
#include <cuda_runtime_api.h>

extern "C" {
#include "trainer/compute/kernel_cuda_private.h"
}

#define SUM_ROWS 8

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
        return kernel_cuda_check(kernel, "cudaSetDevice");
    return cublas_multiply(kernel_cuda_of(kernel)->cublas, &product);
}

enum error kernel_cuda_input(struct kernel *, const float *values, size_t rows, size_t columns,
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

enum error kernel_cuda_standardize(struct kernel *kernel, const struct kernel_features *wanted,
                                   const float *values, size_t rows, size_t columns,
                                   float *ret_values)
{
    size_t count = rows * wanted->count;
    standardize<<<kernel_cuda_blocks(count, THREADS), THREADS, 0, kernel_cuda_stream(kernel)>>>(
        values, count, columns, *wanted, ret_values);
    return kernel_cuda_check(kernel, "normalized features");
}

enum error kernel_cuda_forward(struct kernel *kernel, const struct kernel_input *input,
                               const float *weights, const float *bias, size_t outputs,
                               enum activation activation, float *ret_y)
{
    size_t count = input->rows * outputs;
    enum error error = multiply(kernel, input->rows, outputs, input->columns, input->values, false,
                                weights, false, ret_y);
    if (error)
        return error;
    finish_rows<<<kernel_cuda_blocks(count, THREADS), THREADS, 0, kernel_cuda_stream(kernel)>>>(
        ret_y, count, outputs, bias, activation == ACTIVATION_RELU);
    return kernel_cuda_check(kernel, "bias and activation");
}

enum error kernel_cuda_backward(struct kernel *kernel, const struct kernel_input *input,
                                const float *y_gradient, size_t outputs,
                                float *ret_weights_gradient, float *ret_bias_gradient)
{
    sum_columns<<<kernel_cuda_blocks(outputs, WARP), dim3(WARP, SUM_ROWS), 0,
                  kernel_cuda_stream(kernel)>>>(y_gradient, input->rows, outputs,
                                                ret_bias_gradient);
    enum error error = kernel_cuda_check(kernel, "sums of columns");
    if (error)
        return error;
    return multiply(kernel, input->columns, outputs, input->rows, input->values, true, y_gradient,
                    false, ret_weights_gradient);
}

enum error kernel_cuda_backward_input(struct kernel *kernel, const struct kernel_input *input,
                                      const float *y_gradient, const float *weights, size_t outputs,
                                      float *ret_input_gradient)
{
    size_t count = input->rows * input->columns;
    enum error error = multiply(kernel, input->rows, input->columns, outputs, y_gradient, false,
                                weights, true, ret_input_gradient);
    if (error)
        return error;
    mask_positive<<<kernel_cuda_blocks(count, THREADS), THREADS, 0, kernel_cuda_stream(kernel)>>>(
        ret_input_gradient, input->values, count);
    return kernel_cuda_check(kernel, "gradient of the activation");
}

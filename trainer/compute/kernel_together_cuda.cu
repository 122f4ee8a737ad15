/* SPDX-License-Identifier: MIT */
/* Sums, constants and means on a GPU, for steps that several GPUs make together. */
#include <cuda_runtime_api.h>

extern "C" {
#include "trainer/compute/kernel_cuda_private.h"
}

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

enum error kernel_cuda_fill(struct kernel *kernel, float value, size_t count, float *ret_values)
{
    fill_values<<<kernel_cuda_blocks(count, THREADS), THREADS, 0, kernel_cuda_stream(kernel)>>>(
        count, value, ret_values);
    return kernel_cuda_check(kernel, "a constant");
}

enum error kernel_cuda_add(struct kernel *kernel, const float *from, size_t count, float *to)
{
    add_values<<<kernel_cuda_blocks(count, THREADS), THREADS, 0, kernel_cuda_stream(kernel)>>>(
        count, from, to);
    return kernel_cuda_check(kernel, "a sum");
}

enum error kernel_cuda_settle(struct kernel *kernel, const struct kernel_settlement *s)
{
    cudaStream_t stream = kernel_cuda_stream(kernel);
    decide<<<1, 1, 0, stream>>>(s->stop, s->number, s->ret_makes, s->ret_made);
    divide_by_count<<<kernel_cuda_blocks(s->count, THREADS), THREADS, 0, stream>>>(
        s->count, s->ret_makes, s->sum);
    return kernel_cuda_check(kernel, "a step's mean");
}

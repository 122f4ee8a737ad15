/* SPDX-License-Identifier: MIT */
/*
 * Bytes to floats, scaled and normalized, on a GPU.
 *
 * Each step is rounded (__fmul_rn and similar, never fused), so that results are bit-equal to those
 * of device_cpu.c.
 */
#include <cuda_runtime_api.h>

extern "C" {
#include "loader/device/device_cuda_private.h"
}

/* Four elements per thread: a warp reads 128 bytes and writes 512, each contiguously. */
__global__ void u8_to_f32_by_4(float4 *to, const uchar4 *from, size_t quads, float scale)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += step) {
        uchar4 bytes = from[i];
        to[i] = make_float4(__fmul_rn((float)bytes.x, scale), __fmul_rn((float)bytes.y, scale),
                            __fmul_rn((float)bytes.z, scale), __fmul_rn((float)bytes.w, scale));
    }
}

__global__ void u8_to_f32_by_1(float *to, const uint8_t *from, size_t count, float scale)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        to[i] = __fmul_rn((float)from[i], scale);
}

__global__ void scale_f32_by_4(float4 *to, const float4 *from, size_t quads, float scale)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += step) {
        float4 values = from[i];
        to[i] = make_float4(__fmul_rn(values.x, scale), __fmul_rn(values.y, scale),
                            __fmul_rn(values.z, scale), __fmul_rn(values.w, scale));
    }
}

__global__ void scale_f32_by_1(float *to, const float *from, size_t count, float scale)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        to[i] = __fmul_rn(from[i], scale);
}

enum error device_cuda_u8_to_f32(struct device_queue *queue, float *to, const uint8_t *from,
                                 size_t count, float scale)
{
    enum error error = device_cuda_enter(queue->device);
    if (error || count == 0)
        return error;
    bool wide =
        device_cuda_is_aligned(to, sizeof(float4)) && device_cuda_is_aligned(from, sizeof(uchar4));
    size_t quads = wide ? count / 4 : 0;
    size_t rest = count - quads * 4;
    if (quads > 0)
        u8_to_f32_by_4<<<device_cuda_blocks(quads), THREADS_A_BLOCK, 0, queue->stream>>>(
            (float4 *)to, (const uchar4 *)from, quads, scale);
    if (rest > 0)
        u8_to_f32_by_1<<<device_cuda_blocks(rest), THREADS_A_BLOCK, 0, queue->stream>>>(
            to + quads * 4, from + quads * 4, rest, scale);
    return device_cuda_launched(queue->device, "bytes to floats");
}

enum error device_cuda_scale_f32(struct device_queue *queue, float *to, const float *from,
                                 size_t count, float scale)
{
    enum error error = device_cuda_enter(queue->device);
    if (error || count == 0)
        return error;
    bool wide =
        device_cuda_is_aligned(to, sizeof(float4)) && device_cuda_is_aligned(from, sizeof(float4));
    size_t quads = wide ? count / 4 : 0;
    size_t rest = count - quads * 4;
    if (quads > 0)
        scale_f32_by_4<<<device_cuda_blocks(quads), THREADS_A_BLOCK, 0, queue->stream>>>(
            (float4 *)to, (const float4 *)from, quads, scale);
    if (rest > 0)
        scale_f32_by_1<<<device_cuda_blocks(rest), THREADS_A_BLOCK, 0, queue->stream>>>(
            to + quads * 4, from + quads * 4, rest, scale);
    return device_cuda_launched(queue->device, "scaling floats");
}

__global__ void normalize_f32(float *x, size_t count, size_t columns, const float *mean,
                              const float *deviation)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        size_t column = i % columns;
        x[i] = __fdiv_rn(__fsub_rn(x[i], mean[column]), deviation[column]);
    }
}

enum error device_cuda_normalize_f32(struct device_queue *queue, float *x, size_t rows,
                                     size_t columns, const float *mean, const float *deviation)
{
    enum error error = device_cuda_enter(queue->device);
    size_t count = rows * columns;
    if (error || count == 0)
        return error;
    normalize_f32<<<device_cuda_blocks(count), THREADS_A_BLOCK, 0, queue->stream>>>(
        x, count, columns, mean, deviation);
    return device_cuda_launched(queue->device, "normalizing floats");
}

enum error device_cuda_check_code(struct device *device)
{
    struct cudaFuncAttributes attributes;
    cudaError_t status = cudaFuncGetAttributes(&attributes, (const void *)u8_to_f32_by_4);
    return status == cudaSuccess ? OK
                                 : device_cuda_fail(device, status,
                                                    "this build has no code for this GPU (set "
                                                    "NVCC_ARCH when configuring)");
}

/* SPDX-License-Identifier: MIT */
/*
 * Rows from anywhere in a GPU's memory, and labels as one-hot rows.
 *
 * Each step is rounded (__fmul_rn and similar, never fused), so that results are bit-equal to those
 * of device_cpu.c.
 */
#include <cuda_runtime_api.h>

extern "C" {
#include "loader/device/device_cuda_private.h"
}

/* Grid row y handles row y, adjacent blocks its columns, so a warp reads and writes contiguously.
 * `rows` [.., stride], `to` [count, columns], of Element. */
template <typename Element>
__global__ void gather(Element *to, const Element *rows, size_t stride, const uint32_t *places,
                       size_t count, size_t columns)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t row = blockIdx.y; row < count; row += gridDim.y) {
        const Element *from = rows + places[row] * stride;
        for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < columns; i += step)
            to[row * columns + i] = from[i];
    }
}

static __device__ float normal(float value, const float *mean, const float *deviation,
                               size_t column)
{
    return mean ? __fdiv_rn(__fsub_rn(value, mean[column]), deviation[column]) : value;
}

__global__ void gather_u8_by_4(float4 *to, const uchar4 *rows, size_t stride,
                               const uint32_t *places, size_t count, size_t quads, float scale,
                               const float *mean, const float *deviation)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t row = blockIdx.y; row < count; row += gridDim.y) {
        const uchar4 *from = rows + places[row] * stride;
        for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += step) {
            uchar4 bytes = from[i];
            to[row * quads + i] =
                make_float4(normal(__fmul_rn((float)bytes.x, scale), mean, deviation, 4 * i),
                            normal(__fmul_rn((float)bytes.y, scale), mean, deviation, 4 * i + 1),
                            normal(__fmul_rn((float)bytes.z, scale), mean, deviation, 4 * i + 2),
                            normal(__fmul_rn((float)bytes.w, scale), mean, deviation, 4 * i + 3));
        }
    }
}

__global__ void gather_u8_by_1(float *to, const uint8_t *rows, size_t stride,
                               const uint32_t *places, size_t count, size_t columns, float scale,
                               const float *mean, const float *deviation)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t row = blockIdx.y; row < count; row += gridDim.y) {
        const uint8_t *from = rows + places[row] * stride;
        for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < columns; i += step)
            to[row * columns + i] = normal(__fmul_rn((float)from[i], scale), mean, deviation, i);
    }
}

__global__ void gather_f32_normal(float *to, const float *rows, size_t stride,
                                  const uint32_t *places, size_t count, size_t columns,
                                  const float *mean, const float *deviation)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t row = blockIdx.y; row < count; row += gridDim.y) {
        const float *from = rows + places[row] * stride;
        for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < columns; i += step)
            to[row * columns + i] = normal(from[i], mean, deviation, i);
    }
}

/* Enough blocks for all elements, about BLOCKS_LIMIT of them. */
static dim3 grid_for(size_t rows, size_t columns)
{
    size_t y = rows < BLOCKS_LIMIT ? rows : BLOCKS_LIMIT;
    size_t x = (columns + THREADS_A_BLOCK - 1) / THREADS_A_BLOCK, most = BLOCKS_LIMIT / y;
    return dim3((unsigned)(x < most ? x : most), (unsigned)y);
}

template <typename Element>
static void launch_gather(struct device_queue *queue, void *to, const struct device_rows *from)
{
    size_t columns = from->columns / sizeof(Element);
    dim3 grid = grid_for(from->count, columns);
    void (*kernel)(Element *, const Element *, size_t, const uint32_t *, size_t, size_t) =
        gather<Element>;
    kernel<<<grid, THREADS_A_BLOCK, 0, queue->stream>>>((Element *)to, (const Element *)from->rows,
                                                        from->stride_bytes / sizeof(Element),
                                                        from->places, from->count, columns);
}

enum error device_cuda_gather(struct device_queue *queue, void *to, const struct device_rows *from)
{
    enum error error = device_cuda_enter(queue->device);
    if (error || from->count == 0 || from->columns == 0)
        return error;
    size_t unit = from->columns | from->stride_bytes;
    if (device_cuda_is_aligned(to, 16) && device_cuda_is_aligned(from->rows, 16) && unit % 16 == 0)
        launch_gather<float4>(queue, to, from);
    else if (device_cuda_is_aligned(to, 4) && device_cuda_is_aligned(from->rows, 4) &&
             unit % 4 == 0)
        launch_gather<uchar4>(queue, to, from);
    else
        launch_gather<uint8_t>(queue, to, from);
    return device_cuda_launched(queue->device, "gathering rows");
}

enum error device_cuda_gather_u8(struct device_queue *queue, float *to,
                                 const struct device_rows *from, float scale, const float *mean,
                                 const float *deviation)
{
    enum error error = device_cuda_enter(queue->device);
    if (error || from->count == 0 || from->columns == 0)
        return error;
    bool wide = device_cuda_is_aligned(to, sizeof(float4)) &&
                device_cuda_is_aligned(from->rows, sizeof(uchar4)) &&
                (from->columns | from->stride_bytes) % 4 == 0;
    dim3 grid = grid_for(from->count, from->columns / (wide ? 4 : 1));
    if (wide)
        gather_u8_by_4<<<grid, THREADS_A_BLOCK, 0, queue->stream>>>(
            (float4 *)to, (const uchar4 *)from->rows, from->stride_bytes / 4, from->places,
            from->count, from->columns / 4, scale, mean, deviation);
    else
        gather_u8_by_1<<<grid, THREADS_A_BLOCK, 0, queue->stream>>>(
            to, (const uint8_t *)from->rows, from->stride_bytes, from->places, from->count,
            from->columns, scale, mean, deviation);
    return device_cuda_launched(queue->device, "gathering rows of bytes");
}

enum error device_cuda_gather_f32(struct device_queue *queue, float *to,
                                  const struct device_rows *from, const float *mean,
                                  const float *deviation)
{
    struct device_rows bytes = *from;
    bytes.columns *= sizeof(float);
    if (!mean)
        return device_cuda_gather(queue, to, &bytes);
    enum error error = device_cuda_enter(queue->device);
    if (error || from->count == 0 || from->columns == 0)
        return error;
    gather_f32_normal<<<grid_for(from->count, from->columns), THREADS_A_BLOCK, 0, queue->stream>>>(
        to, (const float *)from->rows, from->stride_bytes / sizeof(float), from->places,
        from->count, from->columns, mean, deviation);
    return device_cuda_launched(queue->device, "gathering rows of floats");
}

/* Each element is written once, contiguously by neighbouring threads. `to` [rows, classes]. */
template <typename Element>
__global__ void one_hot(Element *to, const uint32_t *codes, size_t count, size_t classes)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        size_t row = i / classes;
        to[i] = (Element)(codes[row] == i - row * classes);
    }
}

template <typename Element>
static void launch_one_hot(struct device_queue *queue, void *to, const uint32_t *codes,
                           size_t count, size_t classes)
{
    void (*kernel)(Element *, const uint32_t *, size_t, size_t) = one_hot<Element>;
    kernel<<<device_cuda_blocks(count), THREADS_A_BLOCK, 0, queue->stream>>>((Element *)to, codes,
                                                                             count, classes);
}

enum error device_cuda_one_hot(struct device_queue *queue, void *to, const uint32_t *codes,
                               size_t rows, size_t classes, bool as_floats)
{
    enum error error = device_cuda_enter(queue->device);
    size_t count = rows * classes;
    if (error || count == 0)
        return error;
    if (as_floats)
        launch_one_hot<float>(queue, to, codes, count, classes);
    else
        launch_one_hot<uint8_t>(queue, to, codes, count, classes);
    return device_cuda_launched(queue->device, "labels to one-hot rows");
}

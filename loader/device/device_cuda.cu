/* SPDX-License-Identifier: MIT */
/*
 * CUDA as a device. The runtime is linked statically and loads the driver itself: a machine without
 * driver or GPU fails only in cudaGetDeviceCount(). Every call selects its GPU first, because CUDA
 * keeps that choice per thread and there are many calling threads.
 *
 * The kernels round each step (__fmul_rn and similar, never fused), so results are bit-equal to
 * those of device_cpu.c.
 */
#include <cuda_runtime_api.h>

#include <sys/mman.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
#include "common/huge_memory.h"
#include "loader/device/device.h"
}

#define THREADS_A_BLOCK 256
#define BLOCKS_LIMIT 4096

struct device_queue {
    struct device *device;
    cudaStream_t stream;
    bool borrowed;
};
struct device_event {
    struct device *device;
    cudaEvent_t event;
};

/* cudaGetLastError() also clears the error, so that the next call does not report it again. */
static enum error fail(const struct device *device, cudaError_t status, const char *what)
{
    cudaGetLastError();
    enum error code = status == cudaErrorMemoryAllocation ? ERROR_MEMORY : ERROR_IO;
    return error_set(code, "cuda:%d (%s): %s: %s", device->index, device->description, what,
                     cudaGetErrorString(status));
}

static enum error fail_bytes(const struct device *device, cudaError_t status, const char *what,
                             size_t bytes)
{
    char text[96];
    snprintf(text, sizeof(text), "%zu bytes of %s", bytes, what);
    return fail(device, status, text);
}

/* ---- opening ------------------------------------------------------------ */

static enum error count_devices(int *ret_count)
{
    int driver = 0;
    cudaError_t status = cudaGetDeviceCount(ret_count);
    if (status == cudaSuccess && *ret_count > 0)
        return OK;
    cudaGetLastError();
    if (cudaDriverGetVersion(&driver) != cudaSuccess)
        driver = 0;
    cudaGetLastError();
    if (driver == 0)
        return error_set(ERROR_UNAVAILABLE,
                         "device \"cuda\": no NVIDIA driver on this machine (%s)",
                         cudaGetErrorString(status));
    if (status == cudaSuccess || status == cudaErrorNoDevice)
        return error_set(ERROR_UNAVAILABLE,
                         "device \"cuda\": the driver (CUDA %d.%d) is there, but no GPU",
                         driver / 1000, driver % 1000 / 10);
    return error_set(
        ERROR_UNAVAILABLE,
        "device \"cuda\": %s (the driver knows CUDA %d.%d, this program was built with "
        "%d.%d)",
        cudaGetErrorString(status), driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
        CUDART_VERSION % 1000 / 10);
}

/* A GPU may exist for which this build has no code. */
__global__ void normalize_f32(float *x, size_t count, size_t columns, const float *mean,
                              const float *deviation)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        size_t column = i % columns;
        x[i] = __fdiv_rn(__fsub_rn(x[i], mean[column]), deviation[column]);
    }
}

static enum error check_kernels(struct device *device);

static enum error describe(struct device *device)
{
    struct cudaDeviceProp properties;
    int driver = 0;
    cudaError_t status = cudaGetDeviceProperties(&properties, device->index);
    if (status == cudaSuccess)
        status = cudaDriverGetVersion(&driver);
    if (status != cudaSuccess)
        return fail(device, status, "the GPU does not answer");
    snprintf(device->description, sizeof(device->description), "%.100s, %.0f GiB, driver %d.%d",
             properties.name, (double)properties.totalGlobalMem / (1 << 30), driver / 1000,
             driver % 1000 / 10);
    status = cudaSetDevice(device->index);
    if (status == cudaSuccess)
        status = cudaFree(NULL); /* makes the context now, not in the first batch */
    if (status != cudaSuccess)
        return fail(device, status, "the GPU cannot be used");
    return check_kernels(device);
}

static enum error cuda_open(int index, struct device **ret_device)
{
    int count = 0;
    enum error error = count_devices(&count);
    if (error)
        return error;
    if (index >= count)
        return error_set(ERROR_UNAVAILABLE,
                         "device \"cuda:%d\" is not there; this machine has cuda:0 to cuda:%d",
                         index, count - 1);
    struct device *device = (struct device *)calloc(1, sizeof(*device));
    if (!device)
        return error_set_memory(sizeof(*device), "a device");
    device->kind = DEVICE_CUDA;
    device->index = index;
    device->ops = &device_cuda_ops;
    error = describe(device);
    if (error) {
        free(device);
        return error == ERROR_MEMORY ? error : ERROR_UNAVAILABLE;
    }
    *ret_device = device;
    return OK;
}

static void cuda_close(struct device *device)
{
    free(device);
}

static enum error enter(const struct device *device)
{
    cudaError_t status = cudaSetDevice(device->index);
    return status == cudaSuccess ? OK : fail(device, status, "the GPU cannot be chosen");
}

/* Freeing works without it, but CUDA would then initialize a GPU that this thread never used. */
static void choose_to_free(const struct device *device)
{
    cudaSetDevice(device->index);
}

/* ---- memory ------------------------------------------------------------- */

/* A page before the caller's memory records how to free it. */
struct pinned {
    size_t bytes; /* with this page */
    bool registered;
};
#define PAGE_BYTES ((size_t)4096)

/* Touched huge pages are locked in a fifth of the time that cudaHostAlloc() needs (100 versus 490
 * ms per GiB). A forked child does not have them, nor cudaHostAlloc()'s: shared pages would be
 * copied when the parent writes them, and the GPU would continue to read the old ones. */
static cudaError_t pin_pages(size_t bytes, struct pinned **ret_pinned)
{
    char *memory = (char *)huge_memory_new(bytes, "page-locked memory");
    if (!memory)
        return cudaErrorMemoryAllocation;
    (void)madvise(memory, bytes, MADV_DONTFORK);
    for (size_t at = 0; at < bytes; at += PAGE_BYTES)
        ((volatile char *)memory)[at] = 0;
    cudaError_t status = cudaHostRegister(memory, bytes, cudaHostRegisterPortable);
    if (status != cudaSuccess) {
        huge_memory_free(memory, bytes);
        return status;
    }
    *ret_pinned = (struct pinned *)memory;
    (*ret_pinned)->bytes = bytes;
    (*ret_pinned)->registered = true;
    return cudaSuccess;
}

/* For systems that cannot register pages. */
static cudaError_t pin_by_driver(size_t bytes, struct pinned **ret_pinned)
{
    void *memory;
    cudaGetLastError();
    cudaError_t status = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    if (status == cudaSuccess) {
        memset(memory, 0, bytes);
        *ret_pinned = (struct pinned *)memory;
    }
    return status;
}

static enum error cuda_host_new(struct device *device, size_t bytes, void **ret_memory)
{
    struct pinned *pinned = NULL;
    enum error error = enter(device);
    if (error)
        return error;
    if (bytes > SIZE_MAX - PAGE_BYTES)
        return fail_bytes(device, cudaErrorMemoryAllocation, "page-locked host memory", bytes);
    cudaError_t status = pin_pages(PAGE_BYTES + bytes, &pinned);
    if (status == cudaErrorNotSupported)
        status = pin_by_driver(PAGE_BYTES + bytes, &pinned);
    if (status != cudaSuccess)
        return fail_bytes(device, status, "page-locked host memory", bytes);
    *ret_memory = (char *)pinned + PAGE_BYTES;
    return OK;
}

static void cuda_host_free(struct device *device, void *memory)
{
    struct pinned *pinned = (struct pinned *)((char *)memory - PAGE_BYTES);
    choose_to_free(device);
    if (!pinned->registered) {
        cudaFreeHost(pinned);
        return;
    }
    cudaHostUnregister(pinned);
    huge_memory_free(pinned, pinned->bytes);
}

static enum error cuda_memory_new(struct device *device, size_t bytes, void **ret_memory)
{
    void *memory = NULL;
    size_t asked = bytes > 0 ? bytes : 1;
    enum error error = enter(device);
    if (error)
        return error;
    cudaError_t status = cudaMalloc(&memory, asked);
    if (status != cudaSuccess)
        return fail_bytes(device, status, "GPU memory", asked);
    status = cudaMemset(memory, 0, asked);
    if (status == cudaSuccess)
        status = cudaDeviceSynchronize(); /* our queues do not wait for the default stream */
    if (status != cudaSuccess) {
        cudaFree(memory);
        return fail_bytes(device, status, "GPU memory to be zeroed", asked);
    }
    *ret_memory = memory;
    return OK;
}

static enum error cuda_memory_left(struct device *device, uint64_t *ret_bytes)
{
    size_t left, all;
    enum error error = enter(device);
    if (error)
        return error;
    cudaError_t status = cudaMemGetInfo(&left, &all);
    if (status != cudaSuccess)
        return fail(device, status, "how much of its memory is left");
    *ret_bytes = left;
    return OK;
}

static void cuda_memory_free(struct device *device, void *memory)
{
    choose_to_free(device);
    cudaFree(memory);
}

/* ---- queues ------------------------------------------------------------- */

static enum error make_queue(struct device *device, cudaStream_t stream, bool borrowed,
                             struct device_queue **ret_queue)
{
    struct device_queue *queue = (struct device_queue *)malloc(sizeof(*queue));
    if (!queue)
        return error_set_memory(sizeof(*queue), "a device queue");
    queue->device = device;
    queue->stream = stream;
    queue->borrowed = borrowed;
    *ret_queue = queue;
    return OK;
}

static enum error cuda_queue_new(struct device *device, struct device_queue **ret_queue)
{
    cudaStream_t stream;
    enum error error = enter(device);
    if (error)
        return error;
    cudaError_t status = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (status != cudaSuccess)
        return fail(device, status, "a stream");
    error = make_queue(device, stream, false, ret_queue);
    if (error)
        cudaStreamDestroy(stream);
    return error;
}

static enum error cuda_queue_borrow(struct device *device, void *native,
                                    struct device_queue **ret_queue)
{
    return make_queue(device, (cudaStream_t)native, true, ret_queue);
}

static void cuda_queue_free(struct device *device, struct device_queue *queue)
{
    choose_to_free(device);
    if (!queue->borrowed)
        cudaStreamDestroy(queue->stream);
    free(queue);
}

static void *cuda_queue_native(struct device_queue *queue)
{
    return queue->stream;
}

static enum error cuda_queue_wait(struct device_queue *queue)
{
    enum error error = enter(queue->device);
    if (error)
        return error;
    cudaError_t status = cudaStreamSynchronize(queue->stream);
    return status == cudaSuccess ? OK : fail(queue->device, status, "work on the GPU");
}

static enum error copy(struct device_queue *queue, void *to, const void *from, size_t bytes,
                       enum cudaMemcpyKind kind)
{
    if (bytes == 0)
        return OK;
    enum error error = enter(queue->device);
    if (error)
        return error;
    cudaError_t status = cudaMemcpyAsync(to, from, bytes, kind, queue->stream);
    return status == cudaSuccess ? OK : fail_bytes(queue->device, status, "a copy", bytes);
}

static enum error cuda_copy_in(struct device_queue *queue, void *to_device, const void *from_host,
                               size_t bytes)
{
    return copy(queue, to_device, from_host, bytes, cudaMemcpyHostToDevice);
}

static enum error cuda_copy_out(struct device_queue *queue, void *to_host, const void *from_device,
                                size_t bytes)
{
    return copy(queue, to_host, from_device, bytes, cudaMemcpyDeviceToHost);
}

/* ---- events ------------------------------------------------------------- */

static enum error cuda_event_new(struct device *device, struct device_event **ret_event)
{
    struct device_event *event = (struct device_event *)malloc(sizeof(*event));
    if (!event)
        return error_set_memory(sizeof(*event), "a device event");
    event->device = device;
    enum error error = enter(device);
    if (!error) {
        cudaError_t status =
            cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming | cudaEventBlockingSync);
        if (status != cudaSuccess)
            error = fail(device, status, "an event");
    }
    if (error) {
        free(event);
        return error;
    }
    *ret_event = event;
    return OK;
}

static void cuda_event_free(struct device *device, struct device_event *event)
{
    choose_to_free(device);
    cudaEventDestroy(event->event);
    free(event);
}

static enum error cuda_event_record(struct device_event *event, struct device_queue *queue)
{
    enum error error = enter(event->device);
    if (error)
        return error;
    cudaError_t status = cudaEventRecord(event->event, queue->stream);
    return status == cudaSuccess ? OK : fail(event->device, status, "an event");
}

static enum error cuda_event_wait(struct device_event *event)
{
    enum error error = enter(event->device);
    if (error)
        return error;
    cudaError_t status = cudaEventSynchronize(event->event);
    return status == cudaSuccess ? OK : fail(event->device, status, "work on the GPU");
}

static enum error cuda_queue_await(struct device_queue *queue, struct device_event *event)
{
    enum error error = enter(event->device);
    if (error)
        return error;
    cudaError_t status = cudaStreamWaitEvent(queue->stream, event->event, 0);
    return status == cudaSuccess ? OK : fail(event->device, status, "a wait for an event");
}

/* ---- kernels ------------------------------------------------------------ */

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

static enum error check_kernels(struct device *device)
{
    struct cudaFuncAttributes attributes;
    cudaError_t status = cudaFuncGetAttributes(&attributes, (const void *)u8_to_f32_by_4);
    return status == cudaSuccess ? OK
                                 : fail(device, status,
                                        "this build has no code for this GPU (set "
                                        "NVCC_ARCH when configuring)");
}

static unsigned blocks_for(size_t elements)
{
    size_t blocks = (elements + THREADS_A_BLOCK - 1) / THREADS_A_BLOCK;
    return (unsigned)(blocks < BLOCKS_LIMIT ? blocks : BLOCKS_LIMIT);
}

static bool aligned(const void *pointer, size_t bytes)
{
    return (uintptr_t)pointer % bytes == 0;
}

static enum error launched(const struct device *device, const char *what)
{
    cudaError_t status = cudaGetLastError();
    return status == cudaSuccess ? OK : fail(device, status, what);
}

static enum error cuda_u8_to_f32(struct device_queue *queue, float *to, const uint8_t *from,
                                 size_t count, float scale)
{
    enum error error = enter(queue->device);
    if (error || count == 0)
        return error;
    bool wide = aligned(to, sizeof(float4)) && aligned(from, sizeof(uchar4));
    size_t quads = wide ? count / 4 : 0;
    size_t rest = count - quads * 4;
    if (quads > 0)
        u8_to_f32_by_4<<<blocks_for(quads), THREADS_A_BLOCK, 0, queue->stream>>>(
            (float4 *)to, (const uchar4 *)from, quads, scale);
    if (rest > 0)
        u8_to_f32_by_1<<<blocks_for(rest), THREADS_A_BLOCK, 0, queue->stream>>>(
            to + quads * 4, from + quads * 4, rest, scale);
    return launched(queue->device, "bytes to floats");
}

static enum error cuda_scale_f32(struct device_queue *queue, float *to, const float *from,
                                 size_t count, float scale)
{
    enum error error = enter(queue->device);
    if (error || count == 0)
        return error;
    bool wide = aligned(to, sizeof(float4)) && aligned(from, sizeof(float4));
    size_t quads = wide ? count / 4 : 0;
    size_t rest = count - quads * 4;
    if (quads > 0)
        scale_f32_by_4<<<blocks_for(quads), THREADS_A_BLOCK, 0, queue->stream>>>(
            (float4 *)to, (const float4 *)from, quads, scale);
    if (rest > 0)
        scale_f32_by_1<<<blocks_for(rest), THREADS_A_BLOCK, 0, queue->stream>>>(
            to + quads * 4, from + quads * 4, rest, scale);
    return launched(queue->device, "scaling floats");
}

static enum error cuda_normalize_f32(struct device_queue *queue, float *x, size_t rows,
                                     size_t columns, const float *mean, const float *deviation)
{
    enum error error = enter(queue->device);
    size_t count = rows * columns;
    if (error || count == 0)
        return error;
    normalize_f32<<<blocks_for(count), THREADS_A_BLOCK, 0, queue->stream>>>(x, count, columns, mean,
                                                                            deviation);
    return launched(queue->device, "normalizing floats");
}

/* ---- rows from anywhere ------------------------------------------------- */

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

static enum error cuda_gather(struct device_queue *queue, void *to, const struct device_rows *from)
{
    enum error error = enter(queue->device);
    if (error || from->count == 0 || from->columns == 0)
        return error;
    size_t unit = from->columns | from->stride_bytes;
    if (aligned(to, 16) && aligned(from->rows, 16) && unit % 16 == 0)
        launch_gather<float4>(queue, to, from);
    else if (aligned(to, 4) && aligned(from->rows, 4) && unit % 4 == 0)
        launch_gather<uchar4>(queue, to, from);
    else
        launch_gather<uint8_t>(queue, to, from);
    return launched(queue->device, "gathering rows");
}

static enum error cuda_gather_u8(struct device_queue *queue, float *to,
                                 const struct device_rows *from, float scale, const float *mean,
                                 const float *deviation)
{
    enum error error = enter(queue->device);
    if (error || from->count == 0 || from->columns == 0)
        return error;
    bool wide = aligned(to, sizeof(float4)) && aligned(from->rows, sizeof(uchar4)) &&
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
    return launched(queue->device, "gathering rows of bytes");
}

static enum error cuda_gather_f32(struct device_queue *queue, float *to,
                                  const struct device_rows *from, const float *mean,
                                  const float *deviation)
{
    struct device_rows bytes = *from;
    bytes.columns *= sizeof(float);
    if (!mean)
        return cuda_gather(queue, to, &bytes);
    enum error error = enter(queue->device);
    if (error || from->count == 0 || from->columns == 0)
        return error;
    gather_f32_normal<<<grid_for(from->count, from->columns), THREADS_A_BLOCK, 0, queue->stream>>>(
        to, (const float *)from->rows, from->stride_bytes / sizeof(float), from->places,
        from->count, from->columns, mean, deviation);
    return launched(queue->device, "gathering rows of floats");
}

/* ---- labels ------------------------------------------------------------- */

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
    kernel<<<blocks_for(count), THREADS_A_BLOCK, 0, queue->stream>>>((Element *)to, codes, count,
                                                                     classes);
}

static enum error cuda_one_hot(struct device_queue *queue, void *to, const uint32_t *codes,
                               size_t rows, size_t classes, bool as_floats)
{
    enum error error = enter(queue->device);
    size_t count = rows * classes;
    if (error || count == 0)
        return error;
    if (as_floats)
        launch_one_hot<float>(queue, to, codes, count, classes);
    else
        launch_one_hot<uint8_t>(queue, to, codes, count, classes);
    return launched(queue->device, "labels to one-hot rows");
}

static int cuda_choice(void)
{
    int index = -1;
    if (cudaGetDevice(&index) != cudaSuccess) {
        cudaGetLastError();
        return -1;
    }
    return index;
}

static void cuda_choose(int index)
{
    if (cuda_choice() != index && cudaSetDevice(index) != cudaSuccess)
        cudaGetLastError();
}

/* In the order of struct device_ops; "extern" because C++ constants are otherwise local. */
extern "C" const struct device_ops device_cuda_ops = {
    "cuda",
    cuda_open,
    cuda_close,
    cuda_host_new,
    cuda_host_free,
    cuda_memory_new,
    cuda_memory_free,
    cuda_queue_new,
    cuda_queue_borrow,
    cuda_queue_free,
    cuda_queue_native,
    cuda_copy_in,
    cuda_copy_out,
    cuda_u8_to_f32,
    cuda_scale_f32,
    cuda_normalize_f32,
    cuda_gather,
    cuda_gather_u8,
    cuda_gather_f32,
    cuda_one_hot,
    cuda_memory_left,
    cuda_queue_wait,
    cuda_event_new,
    cuda_event_free,
    cuda_event_record,
    cuda_event_wait,
    cuda_queue_await,
    cuda_choice,
    cuda_choose,
};

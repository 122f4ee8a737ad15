/* SPDX-License-Identifier: MIT */
/* Queues of a GPU, copies in them, and events. */
#include <cuda_runtime_api.h>

#include <cstdlib>

extern "C" {
#include "loader/device/device_cuda_private.h"
}

struct device_event {
    struct device *device;
    cudaEvent_t event;
};

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

enum error device_cuda_queue_new(struct device *device, struct device_queue **ret_queue)
{
    cudaStream_t stream;
    enum error error = device_cuda_enter(device);
    if (error)
        return error;
    cudaError_t status = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (status != cudaSuccess)
        return device_cuda_fail(device, status, "a stream");
    error = make_queue(device, stream, false, ret_queue);
    if (error)
        cudaStreamDestroy(stream);
    return error;
}

enum error device_cuda_queue_borrow(struct device *device, void *native,
                                    struct device_queue **ret_queue)
{
    return make_queue(device, (cudaStream_t)native, true, ret_queue);
}

void device_cuda_queue_free(struct device *device, struct device_queue *queue)
{
    device_cuda_enter_to_free(device);
    if (!queue->borrowed)
        cudaStreamDestroy(queue->stream);
    free(queue);
}

void *device_cuda_queue_native(struct device_queue *queue)
{
    return queue->stream;
}

enum error device_cuda_queue_wait(struct device_queue *queue)
{
    enum error error = device_cuda_enter(queue->device);
    if (error)
        return error;
    cudaError_t status = cudaStreamSynchronize(queue->stream);
    return status == cudaSuccess ? OK : device_cuda_fail(queue->device, status, "work on the GPU");
}

static enum error copy(struct device_queue *queue, void *to, const void *from, size_t bytes,
                       enum cudaMemcpyKind kind)
{
    if (bytes == 0)
        return OK;
    enum error error = device_cuda_enter(queue->device);
    if (error)
        return error;
    cudaError_t status = cudaMemcpyAsync(to, from, bytes, kind, queue->stream);
    return status == cudaSuccess ? OK
                                 : device_cuda_fail_bytes(queue->device, status, "a copy", bytes);
}

enum error device_cuda_copy_in(struct device_queue *queue, void *to_device, const void *from_host,
                               size_t bytes)
{
    return copy(queue, to_device, from_host, bytes, cudaMemcpyHostToDevice);
}

enum error device_cuda_copy_out(struct device_queue *queue, void *to_host, const void *from_device,
                                size_t bytes)
{
    return copy(queue, to_host, from_device, bytes, cudaMemcpyDeviceToHost);
}

enum error device_cuda_event_new(struct device *device, struct device_event **ret_event)
{
    struct device_event *event = (struct device_event *)malloc(sizeof(*event));
    if (!event)
        return error_set_memory(sizeof(*event), "a device event");
    event->device = device;
    enum error error = device_cuda_enter(device);
    if (!error) {
        cudaError_t status =
            cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming | cudaEventBlockingSync);
        if (status != cudaSuccess)
            error = device_cuda_fail(device, status, "an event");
    }
    if (error) {
        free(event);
        return error;
    }
    *ret_event = event;
    return OK;
}

void device_cuda_event_free(struct device *device, struct device_event *event)
{
    device_cuda_enter_to_free(device);
    cudaEventDestroy(event->event);
    free(event);
}

enum error device_cuda_event_record(struct device_event *event, struct device_queue *queue)
{
    enum error error = device_cuda_enter(event->device);
    if (error)
        return error;
    cudaError_t status = cudaEventRecord(event->event, queue->stream);
    return status == cudaSuccess ? OK : device_cuda_fail(event->device, status, "an event");
}

enum error device_cuda_event_wait(struct device_event *event)
{
    enum error error = device_cuda_enter(event->device);
    if (error)
        return error;
    cudaError_t status = cudaEventSynchronize(event->event);
    return status == cudaSuccess ? OK : device_cuda_fail(event->device, status, "work on the GPU");
}

enum error device_cuda_queue_await(struct device_queue *queue, struct device_event *event)
{
    enum error error = device_cuda_enter(event->device);
    if (error)
        return error;
    cudaError_t status = cudaStreamWaitEvent(queue->stream, event->event, 0);
    return status == cudaSuccess ? OK
                                 : device_cuda_fail(event->device, status, "a wait for an event");
}

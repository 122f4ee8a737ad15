/* SPDX-License-Identifier: MIT */
/*
 * Chooses a device by name and passes calls through its table. CUDA's table is linked only if the
 * build has it; without it the name "cuda" is an error that says so.
 */
#include "loader/device/device.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

#include "common/log.h"
#include "common/text.h"

/* ---- choosing ----------------------------------------------------------- */

static enum error open_cuda(int index, struct device **ret_device)
{
#ifdef HAVE_CUDA
    return device_cuda_ops.open(index, ret_device);
#else
    (void)index;
    (void)ret_device;
    return error_set(ERROR_UNAVAILABLE, "device \"cuda\": this program was built without CUDA "
                                        "(./configure --with-cuda); \"cpu\" is always there");
#endif
}

/* NVIDIA's driver created one of these (dxg: in WSL). */
static bool has_gpu(void)
{
    return access("/dev/nvidia0", F_OK) == 0 || access("/dev/nvidiactl", F_OK) == 0 ||
           access("/dev/dxg", F_OK) == 0;
}

static enum error open_best(struct device **ret_device)
{
    enum error error = open_cuda(0, ret_device);
    if (error == ERROR_UNAVAILABLE) {
        log_message(has_gpu() ? LOG_WARNING : LOG_DEBUG, "no GPU is used: %s", error_message());
        log_info("device: cpu");
        error = device_cpu_ops.open(0, ret_device);
    }
    return error;
}

enum error device_open(const char *name, struct device **ret_device)
{
    static const char prefix[] = "cuda:";
    const size_t prefix_length = sizeof(prefix) - 1;
    char shown[TEXT_QUOTE_BYTES];
    int64_t index = 0;
    if (strcmp(name, "cpu") == 0)
        return device_cpu_ops.open(0, ret_device);
    if (strcmp(name, "auto") == 0)
        return open_best(ret_device);
    if (strcmp(name, "cuda") == 0)
        return open_cuda(0, ret_device);
    if (strncmp(name, prefix, prefix_length) == 0 &&
        text_parse_integer(name + prefix_length, strlen(name) - prefix_length, 0, INT_MAX, &index))
        return open_cuda((int)index, ret_device);
    return error_set(ERROR_USAGE, "%s is not a device: \"auto\", \"cpu\", \"cuda\" or \"cuda:N\"",
                     text_quote(shown, sizeof(shown), name, strlen(name)));
}

void device_close(struct device *device)
{
    if (device && __atomic_fetch_sub(&device->keepers, 1, __ATOMIC_ACQ_REL) == 0)
        device->ops->close(device);
}

void device_keep(struct device *device)
{
    __atomic_fetch_add(&device->keepers, 1, __ATOMIC_RELAXED);
}

int device_choice(const char *name)
{
#ifdef HAVE_CUDA
    if (strcmp(name, "cpu") != 0)
        return device_cuda_ops.choice();
#endif
    (void)name;
    return -1;
}

void device_choose(const struct device *device, int choice)
{
    if (device && device->ops->choose && choice >= 0)
        device->ops->choose(choice);
}

/* ---- memory ------------------------------------------------------------- */

enum error device_host_new(struct device *device, size_t bytes, void **ret_memory)
{
    return device->ops->host_new(device, bytes, ret_memory);
}

void device_host_free(struct device *device, void *memory)
{
    if (memory)
        device->ops->host_free(device, memory);
}

enum error device_memory_new(struct device *device, size_t bytes, void **ret_memory)
{
    return device->ops->memory_new(device, bytes, ret_memory);
}

void device_memory_free(struct device *device, void *memory)
{
    if (memory)
        device->ops->memory_free(device, memory);
}

enum error device_memory_left(struct device *device, uint64_t *ret_bytes)
{
    return device->ops->memory_left(device, ret_bytes);
}

enum error device_floats_new(struct device *device, size_t rows, size_t columns, float **ret_floats)
{
    size_t bytes;
    void *memory;
    if (__builtin_mul_overflow(rows, columns, &bytes) ||
        __builtin_mul_overflow(bytes, sizeof(float), &bytes))
        return error_set(ERROR_MEMORY, "%zu rows of %zu floats are more than memory can hold", rows,
                         columns);
    enum error error = device_memory_new(device, bytes, &memory);
    if (!error)
        *ret_floats = memory;
    return error;
}

/* ---- queues ------------------------------------------------------------- */

enum error device_queue_new(struct device *device, struct device_queue **ret_queue)
{
    return device->ops->queue_new(device, ret_queue);
}

enum error device_queue_borrow(struct device *device, void *native, struct device_queue **ret_queue)
{
    return device->ops->queue_borrow(device, native, ret_queue);
}

void device_queue_free(struct device *device, struct device_queue *queue)
{
    if (queue)
        device->ops->queue_free(device, queue);
}

void *device_queue_native(struct device *device, struct device_queue *queue)
{
    return device->ops->queue_native(queue);
}

enum error device_copy_in(struct device *device, struct device_queue *queue, void *to_device,
                          const void *from_host, size_t bytes)
{
    return device->ops->copy_in(queue, to_device, from_host, bytes);
}

enum error device_copy_out(struct device *device, struct device_queue *queue, void *to_host,
                           const void *from_device, size_t bytes)
{
    return device->ops->copy_out(queue, to_host, from_device, bytes);
}

enum error device_u8_to_f32(struct device *device, struct device_queue *queue, float *to_device,
                            const uint8_t *from_device, size_t count, float scale)
{
    return device->ops->u8_to_f32(queue, to_device, from_device, count, scale);
}

enum error device_scale_f32(struct device *device, struct device_queue *queue, float *to_device,
                            const float *from_device, size_t count, float scale)
{
    return device->ops->scale_f32(queue, to_device, from_device, count, scale);
}

enum error device_normalize_f32(struct device *device, struct device_queue *queue, float *on_device,
                                size_t rows, size_t columns, const float *mean,
                                const float *deviation)
{
    return device->ops->normalize_f32(queue, on_device, rows, columns, mean, deviation);
}

enum error device_gather(struct device *device, struct device_queue *queue, void *to_device,
                         const struct device_rows *from)
{
    return device->ops->gather(queue, to_device, from);
}

enum error device_gather_u8(struct device *device, struct device_queue *queue, float *to_device,
                            const struct device_rows *from, float scale, const float *mean,
                            const float *deviation)
{
    return device->ops->gather_u8(queue, to_device, from, scale, mean, deviation);
}

enum error device_gather_f32(struct device *device, struct device_queue *queue, float *to_device,
                             const struct device_rows *from, const float *mean,
                             const float *deviation)
{
    return device->ops->gather_f32(queue, to_device, from, mean, deviation);
}

enum error device_one_hot(struct device *device, struct device_queue *queue, void *to_device,
                          const uint32_t *codes, size_t rows, size_t classes, bool as_floats)
{
    return device->ops->one_hot(queue, to_device, codes, rows, classes, as_floats);
}

enum error device_queue_wait(struct device *device, struct device_queue *queue)
{
    return device->ops->queue_wait(queue);
}

/* ---- events ------------------------------------------------------------- */

enum error device_event_new(struct device *device, struct device_event **ret_event)
{
    return device->ops->event_new(device, ret_event);
}

void device_event_free(struct device *device, struct device_event *event)
{
    if (event)
        device->ops->event_free(device, event);
}

enum error device_event_record(struct device *device, struct device_event *event,
                               struct device_queue *queue)
{
    return device->ops->event_record(event, queue);
}

enum error device_event_wait(struct device *device, struct device_event *event)
{
    return device->ops->event_wait(event);
}

enum error device_queue_await(struct device *device, struct device_queue *queue,
                              struct device_event *event)
{
    return device->ops->queue_await(queue, event);
}

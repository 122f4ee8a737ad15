/*
 * Chooses a device by name and passes calls through its table. CUDA's table is linked in only when
 * the build has it; without it the name "cuda" is an error that says so.
 */
#include "loader/device/device.h"

#include <limits.h>
#include <string.h>

#include "common/log.h"
#include "common/text.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

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

static enum error open_best(struct device **ret_device)
{
    enum error error = open_cuda(0, ret_device);
    if (error == ERROR_UNAVAILABLE) {
        log_debug("no GPU is used: %s", error_message());
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
    return error_set(ERROR_USAGE, "%s is no device; \"auto\", \"cpu\", \"cuda\" and \"cuda:N\" are",
                     text_quote(shown, sizeof(shown), name, strlen(name)));
}

void device_close(struct device *device)
{
    if (device)
        device->ops->close(device);
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

enum error device_expand_u8(struct device *device, struct device_queue *queue, float *to_device,
                            const uint8_t *from_device, size_t count, float scale)
{
    return device->ops->expand_u8(queue, to_device, from_device, count, scale);
}

enum error device_scale_f32(struct device *device, struct device_queue *queue, float *to_device,
                            const float *from_device, size_t count, float scale)
{
    return device->ops->scale_f32(queue, to_device, from_device, count, scale);
}

enum error device_queue_wait(struct device *device, struct device_queue *queue)
{
    return device->ops->queue_wait(queue);
}

/* ---- marks -------------------------------------------------------------- */

enum error device_mark_new(struct device *device, struct device_mark **ret_mark)
{
    return device->ops->mark_new(device, ret_mark);
}

void device_mark_free(struct device *device, struct device_mark *mark)
{
    if (mark)
        device->ops->mark_free(device, mark);
}

enum error device_mark_set(struct device *device, struct device_mark *mark,
                           struct device_queue *queue)
{
    return device->ops->mark_set(mark, queue);
}

enum error device_mark_wait(struct device *device, struct device_mark *mark)
{
    return device->ops->mark_wait(mark);
}

enum error device_mark_await(struct device *device, struct device_queue *queue,
                             struct device_mark *mark)
{
    return device->ops->mark_await(queue, mark);
}

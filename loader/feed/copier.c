/* SPDX-License-Identifier: MIT */
#include "loader/feed/copier.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"

struct copier {
    struct copier_options options;
    struct ring *ring;
    struct device_queue *queue;
    struct device_moments moments;
    void *staging; /* [B, row_bytes] in device memory: u8 on their way to f32; NULL: not needed */
    _Atomic int64_t busy_ns;
    pthread_t thread;
    bool started;
};

/* Nobody reads the slot's labels on the host any more when its memory is the copier's. */
static enum error copy_labels(struct copier *copier, struct slot *slot)
{
    const struct copier_options *options = &copier->options;
    label_element_convert(options->labels, slot->host_labels, slot->labels, slot->rows);
    return slot->device_labels == slot->host_labels
               ? OK
               : device_copy_in(options->device, copier->queue, slot->device_labels,
                                slot->host_labels,
                                slot->rows * label_element_bytes(options->labels));
}

/* One staging buffer is enough: everything here goes through one queue, in order. */
static enum error copy_slot(struct copier *copier, struct slot *slot)
{
    const struct copier_options *options = &copier->options;
    struct device *device = options->device;
    const uint8_t *source = slot->host;
    enum error error = device_queue_await(device, copier->queue, slot->released);
    if (!error && device->kind != DEVICE_CPU) {
        void *target = options->expand ? copier->staging : slot->device;
        source = target;
        error = device_copy_in(device, copier->queue, target, slot->host,
                               slot->rows * options->row_bytes);
    }
    if (!error && options->expand)
        error = device_u8_to_f32(device, copier->queue, slot->device, source,
                                 slot->rows * options->row_elements, options->scale);
    if (!error && copier->moments.mean)
        error = device_normalize_f32(device, copier->queue, slot->device, slot->rows,
                                     options->row_elements, copier->moments.mean,
                                     copier->moments.deviation);
    if (!error && options->labels != LABELS_HOST)
        error = copy_labels(copier, slot);
    if (!error)
        error = device_event_record(device, slot->copied, copier->queue);
    return error;
}

enum error copier_copy(struct copier *copier, struct slot *slot)
{
    int64_t started_ns = clock_now_ns();
    enum error error = copy_slot(copier, slot);
    if (error) {
        struct error_report report;
        error_report_take(error, &report);
        ring_end(copier->ring, slot->sequence, &report);
        return error;
    }
    atomic_fetch_add_explicit(&copier->busy_ns, clock_now_ns() - started_ns, memory_order_relaxed);
    ring_copied(copier->ring, slot);
    return OK;
}

static void *run(void *context)
{
    struct copier *copier = context;
    struct slot *slot;
    while (!ring_take_ready(copier->ring, &slot) && !copier_copy(copier, slot))
        ;
    return NULL; /* what ended it is in the ring, where the caller meets it too */
}

static enum error copier_init(struct copier *copier)
{
    const struct copier_options *options = &copier->options;
    enum error error = device_queue_new(options->device, &copier->queue);
    if (!error && options->expand && options->device->kind != DEVICE_CPU)
        error = device_memory_new(options->device, options->batch_rows * options->row_bytes,
                                  &copier->staging);
    if (!error)
        error = device_moments_init(&copier->moments, &options->moments, options->row_elements,
                                    options->device, copier->queue);
    if (error)
        return error;
    error = thread_start("tombola-copy", run, copier, &copier->thread);
    copier->started = !error;
    return error;
}

enum error copier_start(const struct copier_options *options, struct ring *ring,
                        struct copier **ret_copier)
{
    struct copier *copier = array_new(1, sizeof(*copier), "a copier");
    if (!copier)
        return ERROR_MEMORY;
    copier->options = *options;
    copier->ring = ring;
    enum error error = copier_init(copier);
    if (error) {
        copier_stop(copier);
        return error;
    }
    *ret_copier = copier;
    return OK;
}

void copier_stop(struct copier *copier)
{
    if (!copier)
        return;
    if (copier->started)
        pthread_join(copier->thread, NULL);
    /* Copies still on their way must not read memory that is gone. */
    if (copier->queue && device_queue_wait(copier->options.device, copier->queue))
        log_warning("%s", error_message());
    device_memory_free(copier->options.device, copier->staging);
    device_moments_release(&copier->moments, copier->options.device);
    device_queue_free(copier->options.device, copier->queue);
    free(copier);
}

int64_t copier_busy_ns(const struct copier *copier)
{
    return atomic_load_explicit(&copier->busy_ns, memory_order_relaxed);
}

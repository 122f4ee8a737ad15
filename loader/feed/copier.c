/* SPDX-License-Identifier: MIT */
#include "loader/feed/copier.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"
#include "loader/feed/one_hot.h"

/* Adjacent small batches that are ready are copied together, up to this many bytes: larger copies
 * are no faster. */
#define TOGETHER_BYTES ((size_t)4 << 20)
#define TOGETHER_MOST 16

struct copier {
    struct copier_options options;
    struct ring *ring;
    struct device_queue *queue;
    struct device_moments moments;
    size_t together; /* most slots that are copied at once */
    void *staging;   /* [together], laid out like the slots' host memory: u8 to be converted to f32,
                      * in device memory; NULL: not needed */
    _Atomic int64_t busy_ns;
    pthread_t thread;
    bool started;
};

/* ---- one copy for adjacent slots ---------------------------------------- */

/* From the first byte of the first part to the last of the last one, including gaps. */
static size_t span(const void *first, const void *last, size_t last_bytes)
{
    return (size_t)((const uint8_t *)last - (const uint8_t *)first) + last_bytes;
}

/* If the device has its own memory; `bytes` per row. */
static enum error copy_side(struct copier *copier, void *device, const void *host,
                            const void *last_host, size_t rows, size_t bytes)
{
    if (device == host)
        return OK;
    return device_copy_in(copier->options.device, copier->queue, device, host,
                          span(host, last_host, rows * bytes));
}

static enum error convert_labels(const struct copier_options *options, const struct slot *slot)
{
    if (options->classes > 0)
        return one_hot_codes(options->store, slot->ids, slot->labels, slot->rows, options->classes,
                             slot->host_labels);
    label_element_convert(options->labels, slot->host_labels, slot->labels, slot->rows);
    return OK;
}

static enum error make_one_hot(struct copier *copier, const struct slot *slot)
{
    const struct copier_options *options = &copier->options;
    return device_one_hot(options->device, copier->queue, slot->one_hot, slot->device_labels,
                          slot->rows, options->classes, options->labels == LABELS_ONE_HOT_F32);
}

/* Nobody reads the slot's labels on the host any more once its memory is the copier's. */
static enum error copy_labels(struct copier *copier, struct slot *const slots[], size_t count)
{
    const struct copier_options *options = &copier->options;
    const struct slot *first = slots[0], *last = slots[count - 1];
    enum error error = OK;
    for (size_t i = 0; i < count && !error; i++)
        error = convert_labels(options, slots[i]);
    if (!error)
        error = copy_side(copier, first->device_labels, first->host_labels, last->host_labels,
                          last->rows, label_element_host_bytes(options->labels));
    for (size_t i = 0; i < count && !error && options->classes > 0; i++)
        error = make_one_hot(copier, slots[i]);
    return error;
}

/* Weights, groups and lengths, which are NULL if absent. */
static enum error copy_attributes(struct copier *copier, struct slot *const slots[], size_t count)
{
    const struct slot *first = slots[0], *last = slots[count - 1];
    enum error error = copy_side(copier, first->device_weights, first->weights, last->weights,
                                 last->rows, weight_element_bytes(copier->options.weights));
    if (!error)
        error = copy_side(copier, first->device_groups, first->groups, last->groups, last->rows,
                          sizeof(*last->groups));
    return error ? error
                 : copy_side(copier, first->device_lengths, first->lengths, last->lengths,
                             last->rows, sizeof(*last->lengths));
}

/* Targets for unconverted rows have the layout of host memory. */
static enum error copy_rows(struct copier *copier, struct slot *const slots[], size_t count)
{
    const struct copier_options *options = &copier->options;
    const struct slot *first = slots[0], *last = slots[count - 1];
    void *target = options->expand ? copier->staging : first->device;
    size_t row_bytes =
        first->lengths ? last->width * element_bytes(options->store->element) : options->row_bytes;
    return device_copy_in(options->device, copier->queue, target, first->host,
                          span(first->host, last->host, last->rows * row_bytes));
}

/* ---- rows that stay on the device --------------------------------------- */

/* Rows that a batch brings, and rows for this batch only. */
static enum error copy_new_rows(struct copier *copier, const struct slot *slot)
{
    const struct copier_options *options = &copier->options;
    size_t row_bytes = options->row_bytes;
    uint8_t *memory = resident_set_memory(options->resident);
    const uint8_t *host = slot->host;
    enum error error = OK;
    if (slot->new_rows > 0)
        error = device_copy_in(options->device, copier->queue, memory + slot->new_place * row_bytes,
                               host, slot->new_rows * row_bytes);
    if (!error && slot->own_rows > 0)
        error =
            device_copy_in(options->device, copier->queue,
                           memory + resident_set_own(options->resident, slot->number) * row_bytes,
                           host + slot->new_rows * row_bytes, slot->own_rows * row_bytes);
    return error;
}

static enum error copy_places(struct copier *copier, struct slot *const slots[], size_t count)
{
    const struct slot *first = slots[0], *last = slots[count - 1];
    enum error error = OK;
    for (size_t i = 0; !error && i < count; i++)
        error = copy_new_rows(copier, slots[i]);
    if (error || first->device_places == first->places)
        return error;
    return device_copy_in(copier->options.device, copier->queue, first->device_places,
                          first->places,
                          span(first->places, last->places, last->rows * sizeof(*last->places)));
}

/* On the device, or from the store's memory on a CPU. */
static enum error gather(struct copier *copier, const struct slot *slot)
{
    const struct copier_options *options = &copier->options;
    const struct device_moments *moments = &copier->moments;
    struct device_rows rows = {.rows = slot->memory.rows,
                               .stride_bytes = slot->memory.stride_bytes,
                               .places = slot->device_places,
                               .count = slot->rows,
                               .columns = options->row_elements};
    if (options->expand)
        return device_gather_u8(options->device, copier->queue, slot->device, &rows, options->scale,
                                moments->mean, moments->deviation);
    if (moments->mean)
        return device_gather_f32(options->device, copier->queue, slot->device, &rows, moments->mean,
                                 moments->deviation);
    rows.columns = options->row_bytes;
    return device_gather(options->device, copier->queue, slot->device, &rows);
}

/* ---- slots -------------------------------------------------------------- */

static enum error convert(struct copier *copier, const struct slot *slot, const void *source)
{
    const struct copier_options *options = &copier->options;
    struct device *device = options->device;
    enum error error = OK;
    if (options->expand)
        error = device_u8_to_f32(device, copier->queue, slot->device, source,
                                 slot->rows * slot->width, options->scale);
    if (!error && copier->moments.mean)
        error = device_normalize_f32(device, copier->queue, slot->device, slot->rows,
                                     options->row_elements, copier->moments.mean,
                                     copier->moments.deviation);
    return error;
}

/* One staging buffer suffices: everything here goes through one queue, in order. */
static enum error copy_slots(struct copier *copier, struct slot *const slots[], size_t count)
{
    const struct copier_options *options = &copier->options;
    struct device *device = options->device;
    enum error error = OK;
    for (size_t i = 0; !error && i < count; i++)
        error = device_queue_await(device, copier->queue, slots[i]->released);
    if (!error && options->resident)
        error = copy_places(copier, slots, count);
    else if (!error && device->kind != DEVICE_CPU && options->row_bytes > 0)
        error = copy_rows(copier, slots, count);
    if (!error && options->labels != LABELS_HOST)
        error = copy_labels(copier, slots, count);
    if (!error)
        error = copy_attributes(copier, slots, count);
    for (size_t i = 0; !error && i < count; i++) {
        const uint8_t *source = slots[i]->host;
        if (device->kind != DEVICE_CPU && options->expand)
            source = (uint8_t *)copier->staging + span(slots[0]->host, slots[i]->host, 0);
        error =
            slots[i]->memory.rows ? gather(copier, slots[i]) : convert(copier, slots[i], source);
        if (!error)
            error = device_event_record(device, slots[i]->copied, copier->queue);
    }
    return error;
}

/* Waits for one slot, and also takes adjacent ones that are ready. */
static enum error take_slots(struct copier *copier, struct slot *ret_slots[TOGETHER_MOST],
                             size_t *ret_count)
{
    size_t count = 1;
    enum error error = ring_take_ready(copier->ring, &ret_slots[0]);
    while (!error && count < copier->together &&
           (ret_slots[count] = ring_take_adjacent(copier->ring, ret_slots[count - 1])))
        count++;
    *ret_count = count;
    return error;
}

/* The slots are then COPIED; false: the ring ends at the first of them. */
static bool bring(struct copier *copier, struct slot *const slots[], size_t count)
{
    int64_t started_ns = clock_now_ns();
    enum error error = copy_slots(copier, slots, count);
    if (error) {
        struct error_report report;
        error_report_take(error, &report);
        ring_end(copier->ring, slots[0]->sequence, &report);
        return false;
    }
    atomic_fetch_add_explicit(&copier->busy_ns, clock_now_ns() - started_ns, memory_order_relaxed);
    for (size_t i = 0; i < count; i++)
        ring_copied(copier->ring, slots[i]);
    return true;
}

void copier_copy(struct copier *copier, struct slot *slot)
{
    (void)bring(copier, &slot, 1);
}

static void *run(void *context)
{
    struct copier *copier = context;
    struct slot *slots[TOGETHER_MOST];
    size_t count;
    while (!take_slots(copier, slots, &count) && bring(copier, slots, count))
        ;
    return NULL; /* the ring has the reason, which the caller gets too */
}

/* On a CPU nothing is copied, and the first batch is needed first. */
static size_t slots_together(const struct copier *copier, size_t part)
{
    size_t fit = TOGETHER_BYTES / part;
    if (copier->options.device->kind == DEVICE_CPU || fit < 2 ||
        ring_slot(copier->ring, 0)->lengths) /* the gaps between slots are longer than their rows */
        return 1;
    return fit < TOGETHER_MOST ? fit : TOGETHER_MOST;
}

static enum error copier_init(struct copier *copier)
{
    const struct copier_options *options = &copier->options;
    enum error error = device_queue_new(options->device, &copier->queue);
    size_t part = span(ring_slot(copier->ring, 0)->host, ring_slot(copier->ring, 1)->host, 0);
    copier->together = slots_together(copier, part);
    if (!error && options->expand && options->device->kind != DEVICE_CPU && !options->resident)
        error = device_memory_new(options->device, copier->together * part, &copier->staging);
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

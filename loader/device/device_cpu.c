/* SPDX-License-Identifier: MIT */
/*
 * The CPU as a device: host memory is device memory, every call is complete when it returns, so are
 * events. Its results are the reference for other devices: one multiplication per element, rounded
 * once.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/machine.h"
#include "loader/device/device.h"

#define ALIGNMENT_BYTES 4096
#define ROWS_AHEAD 8 /* that are prefetched */
#define LINE_BYTES 64
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
/* More than any machine has; keeps the sums below from overflowing. */
#define BYTES_LIMIT ((size_t)1 << 46)

struct device_queue {
    struct device *device;
};
struct device_event {
    struct device *device;
};

static enum error cpu_open(int index, struct device **ret_device)
{
    struct device *device = calloc(1, sizeof(*device));
    if (!device)
        return error_set_memory(sizeof(*device), "a device");
    *device = (struct device){.kind = DEVICE_CPU, .index = index, .ops = &device_cpu_ops};
    memcpy(device->description, "CPU", sizeof("CPU"));
    *ret_device = device;
    return OK;
}

static void cpu_close(struct device *device)
{
    free(device);
}

static enum error cpu_memory_new(struct device *device, size_t bytes, void **ret_memory)
{
    (void)device;
    if (bytes > BYTES_LIMIT)
        return error_set_memory(bytes, "a device buffer");
    size_t alignment = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : ALIGNMENT_BYTES;
    size_t rounded = (bytes / alignment + 1) * alignment;
    void *memory = aligned_alloc(alignment, rounded);
    if (!memory)
        return error_set_memory(bytes, "a device buffer");
    /* Huge pages are preferred, not required. Pages given back are zeros when touched again:
     * nothing is cleared twice. */
    if (alignment < HUGE_PAGE_BYTES || madvise(memory, rounded, MADV_HUGEPAGE) ||
        madvise(memory, rounded, MADV_DONTNEED))
        memset(memory, 0, rounded);
    *ret_memory = memory;
    return OK;
}

static enum error cpu_memory_left(struct device *device, uint64_t *ret_bytes)
{
    struct machine machine;
    (void)device;
    machine_look(&machine);
    *ret_bytes = machine.free_bytes;
    return OK;
}

static void cpu_memory_free(struct device *device, void *memory)
{
    (void)device;
    free(memory);
}

/* ---- queues and events: there is nothing to wait for -------------------- */

static enum error cpu_queue_new(struct device *device, struct device_queue **ret_queue)
{
    struct device_queue *queue = malloc(sizeof(*queue));
    if (!queue)
        return error_set_memory(sizeof(*queue), "a device queue");
    queue->device = device;
    *ret_queue = queue;
    return OK;
}

static enum error cpu_queue_borrow(struct device *device, void *native,
                                   struct device_queue **ret_queue)
{
    (void)native;
    return cpu_queue_new(device, ret_queue);
}

static void cpu_queue_free(struct device *device, struct device_queue *queue)
{
    (void)device;
    free(queue);
}

static void *cpu_queue_native(struct device_queue *queue)
{
    (void)queue;
    return NULL;
}

static enum error cpu_queue_wait(struct device_queue *queue)
{
    (void)queue;
    return OK;
}

static enum error cpu_event_new(struct device *device, struct device_event **ret_event)
{
    struct device_event *event = malloc(sizeof(*event));
    if (!event)
        return error_set_memory(sizeof(*event), "a device event");
    event->device = device;
    *ret_event = event;
    return OK;
}

static void cpu_event_free(struct device *device, struct device_event *event)
{
    (void)device;
    free(event);
}

static enum error cpu_event_record(struct device_event *event, struct device_queue *queue)
{
    (void)event;
    (void)queue;
    return OK;
}

static enum error cpu_event_wait(struct device_event *event)
{
    (void)event;
    return OK;
}

static enum error cpu_queue_await(struct device_queue *queue, struct device_event *event)
{
    (void)queue;
    (void)event;
    return OK;
}

/* ---- copies and conversions --------------------------------------------- */

static enum error cpu_copy(struct device_queue *queue, void *to, const void *from, size_t bytes)
{
    (void)queue;
    if (bytes > 0)
        memcpy(to, from, bytes);
    return OK;
}

/* gcc vectorizes loops of unknown length only above -O2; the bodies are inlined into a baseline and
 * an AVX2 function, chosen at run time, so one binary is fast on both. */
#if defined(__clang__)
#define VECTORIZED
#else
#define VECTORIZED __attribute__((optimize("tree-vectorize", "vect-cost-model=dynamic")))
#endif

__attribute__((always_inline)) static inline void
expand_body(float *restrict to, const uint8_t *restrict from, size_t count, float scale)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (float)from[i] * scale;
}

__attribute__((always_inline)) static inline void scale_body(float *to, const float *from,
                                                             size_t count, float scale)
{
    for (size_t i = 0; i < count; i++)
        to[i] = from[i] * scale;
}

__attribute__((always_inline)) static inline void normalize_body(float *restrict row,
                                                                 size_t columns,
                                                                 const float *restrict mean,
                                                                 const float *restrict deviation)
{
    for (size_t i = 0; i < columns; i++)
        row[i] = (row[i] - mean[i]) / deviation[i];
}

VECTORIZED static void expand_baseline(float *to, const uint8_t *from, size_t count, float scale)
{
    expand_body(to, from, count, scale);
}

VECTORIZED static void scale_baseline(float *to, const float *from, size_t count, float scale)
{
    scale_body(to, from, count, scale);
}

VECTORIZED static void normalize_baseline(float *row, size_t columns, const float *mean,
                                          const float *deviation)
{
    normalize_body(row, columns, mean, deviation);
}

#if defined(__x86_64__)
VECTORIZED __attribute__((target("avx2"))) static void expand_avx2(float *to, const uint8_t *from,
                                                                   size_t count, float scale)
{
    expand_body(to, from, count, scale);
}

VECTORIZED __attribute__((target("avx2"))) static void scale_avx2(float *to, const float *from,
                                                                  size_t count, float scale)
{
    scale_body(to, from, count, scale);
}

VECTORIZED __attribute__((target("avx2"))) static void
normalize_avx2(float *row, size_t columns, const float *mean, const float *deviation)
{
    normalize_body(row, columns, mean, deviation);
}
#endif

static enum error cpu_u8_to_f32(struct device_queue *queue, float *to, const uint8_t *from,
                                size_t count, float scale)
{
    (void)queue;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        expand_avx2(to, from, count, scale);
        return OK;
    }
#endif
    expand_baseline(to, from, count, scale);
    return OK;
}

static enum error cpu_scale_f32(struct device_queue *queue, float *to, const float *from,
                                size_t count, float scale)
{
    (void)queue;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        scale_avx2(to, from, count, scale);
        return OK;
    }
#endif
    scale_baseline(to, from, count, scale);
    return OK;
}

typedef void normalize_row(float *row, size_t columns, const float *mean, const float *deviation);

static normalize_row *choose_normalize(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return normalize_avx2;
#endif
    return normalize_baseline;
}

static enum error cpu_normalize_f32(struct device_queue *queue, float *x, size_t rows,
                                    size_t columns, const float *mean, const float *deviation)
{
    normalize_row *normalize = choose_normalize();
    (void)queue;
    for (size_t i = 0; i < rows; i++)
        normalize(x + i * columns, columns, mean, deviation);
    return OK;
}

/* ---- rows from anywhere ------------------------------------------------- */

/* Row i; prefetches one of the next rows. */
static const void *row_at(const struct device_rows *from, size_t i, size_t row_bytes)
{
    const uint8_t *rows = from->rows;
    if (i + ROWS_AHEAD < from->count) {
        const uint8_t *next = rows + from->places[i + ROWS_AHEAD] * from->stride_bytes;
        for (size_t at = 0; at < row_bytes; at += LINE_BYTES)
            __builtin_prefetch(next + at, 0, 2); /* into L2, which takes more lines at once */
    }
    return rows + from->places[i] * from->stride_bytes;
}

static enum error cpu_gather(struct device_queue *queue, void *to, const struct device_rows *from)
{
    (void)queue;
    for (size_t i = 0; i < from->count && from->columns > 0; i++)
        memcpy((uint8_t *)to + i * from->columns, row_at(from, i, from->columns), from->columns);
    return OK;
}

static enum error cpu_gather_u8(struct device_queue *queue, float *to,
                                const struct device_rows *from, float scale, const float *mean,
                                const float *deviation)
{
    normalize_row *normalize = choose_normalize();
    enum error error = OK;
    for (size_t i = 0; !error && i < from->count; i++, to += from->columns) {
        error = cpu_u8_to_f32(queue, to, row_at(from, i, from->columns), from->columns, scale);
        if (mean)
            normalize(to, from->columns, mean, deviation);
    }
    return error;
}

static enum error cpu_gather_f32(struct device_queue *queue, float *to,
                                 const struct device_rows *from, const float *mean,
                                 const float *deviation)
{
    normalize_row *normalize = choose_normalize();
    size_t row_bytes = from->columns * sizeof(float);
    (void)queue;
    for (size_t i = 0; i < from->count && row_bytes > 0; i++, to += from->columns) {
        memcpy(to, row_at(from, i, row_bytes), row_bytes);
        if (mean)
            normalize(to, from->columns, mean, deviation);
    }
    return OK;
}

static enum error cpu_one_hot(struct device_queue *queue, void *to, const uint32_t *codes,
                              size_t rows, size_t classes, bool as_floats)
{
    (void)queue;
    memset(to, 0, rows * classes * (as_floats ? sizeof(float) : 1));
    for (size_t row = 0; row < rows; row++) {
        if (codes[row] >= classes)
            continue;
        if (as_floats)
            ((float *)to)[row * classes + codes[row]] = 1;
        else
            ((uint8_t *)to)[row * classes + codes[row]] = 1;
    }
    return OK;
}

const struct device_ops device_cpu_ops = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .host_new = cpu_memory_new,
    .host_free = cpu_memory_free,
    .memory_new = cpu_memory_new,
    .memory_free = cpu_memory_free,
    .queue_new = cpu_queue_new,
    .queue_borrow = cpu_queue_borrow,
    .queue_free = cpu_queue_free,
    .queue_native = cpu_queue_native,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .u8_to_f32 = cpu_u8_to_f32,
    .scale_f32 = cpu_scale_f32,
    .normalize_f32 = cpu_normalize_f32,
    .gather = cpu_gather,
    .gather_u8 = cpu_gather_u8,
    .gather_f32 = cpu_gather_f32,
    .one_hot = cpu_one_hot,
    .memory_left = cpu_memory_left,
    .queue_wait = cpu_queue_wait,
    .event_new = cpu_event_new,
    .event_free = cpu_event_free,
    .event_record = cpu_event_record,
    .event_wait = cpu_event_wait,
    .queue_await = cpu_queue_await,
};

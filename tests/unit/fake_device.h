/* SPDX-License-Identifier: MIT */
/*
 * A device that is as asynchronous as a GPU may be: each queue is a thread that does what was
 * enqueued, in order, late; events are reached when a queue comes to them. What host or device
 * memory holds when an operation is done is what counts, so that a slot that is reused too early
 * shows. ThreadSanitizer sees the missing order as well.
 */
#ifndef TESTS_UNIT_FAKE_DEVICE_H
#define TESTS_UNIT_FAKE_DEVICE_H

#include "tests/unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "loader/device/device.h"

#define FAKE_OPERATIONS 4096

enum fake_kind {
    FAKE_COPY,
    FAKE_EXPAND,
    FAKE_SCALE,
    FAKE_NORMALIZE,
    FAKE_GATHER,
    FAKE_GATHER_U8,
    FAKE_GATHER_F32,
    FAKE_ONE_HOT,
    FAKE_SET,
    FAKE_AWAIT
};

struct fake_operation {
    enum fake_kind kind;
    void *to;
    const void *from;
    size_t count; /* bytes or elements */
    float scale;
    const float *mean, *deviation; /* [columns] */
    size_t columns;
    bool as_floats;
    struct device_rows rows;
    struct device_event *event;
    int64_t moment; /* of the event */
};

struct device_queue {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct fake_operation operations[FAKE_OPERATIONS];
    size_t added, done;
    bool ending;
};

/* The n-th setting is reached when `reached` is n. */
struct device_event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t set, reached;
};

/* What was taken and not given back. */
static _Atomic int64_t fake_allocations, fake_hosts;
static uint64_t fake_left = (uint64_t)1 << 40;  /* what it says, of its memory */
static size_t fake_refused;                     /* memory of so many bytes it has none; 0: any */
static _Atomic int64_t fake_copies, fake_bytes; /* into the device, and their bytes */
static _Atomic long fake_calls_left = -1;       /* until one fails; -1: none does */

static inline enum error fake_call(void)
{
    if (fake_calls_left < 0 || fake_calls_left-- > 0)
        return OK;
    return error_set(ERROR_UNAVAILABLE, "a fake device that is lost");
}

static inline void fake_wait_mark(struct device_event *event, int64_t moment)
{
    pthread_mutex_lock(&event->lock);
    while (event->reached < moment)
        pthread_cond_wait(&event->changed, &event->lock);
    pthread_mutex_unlock(&event->lock);
}

/* What it has had from the reference is right: test_device. */
static inline enum error fake_gather_now(const struct fake_operation *operation)
{
    const float *mean = operation->mean, *deviation = operation->deviation;
    if (operation->kind == FAKE_GATHER)
        return device_cpu_ops.gather(NULL, operation->to, &operation->rows);
    if (operation->kind == FAKE_GATHER_F32)
        return device_cpu_ops.gather_f32(NULL, operation->to, &operation->rows, mean, deviation);
    return device_cpu_ops.gather_u8(NULL, operation->to, &operation->rows, operation->scale, mean,
                                    deviation);
}

static inline void fake_do(const struct fake_operation *operation)
{
    switch (operation->kind) {
    case FAKE_COPY:
        memcpy(operation->to, operation->from, operation->count);
        break;
    case FAKE_EXPAND:
        for (size_t i = 0; i < operation->count; i++)
            ((float *)operation->to)[i] =
                (float)((const uint8_t *)operation->from)[i] * operation->scale;
        break;
    case FAKE_SCALE:
        for (size_t i = 0; i < operation->count; i++)
            ((float *)operation->to)[i] = ((const float *)operation->from)[i] * operation->scale;
        break;
    case FAKE_NORMALIZE:
        for (size_t i = 0; i < operation->count; i++) {
            size_t column = i % operation->columns;
            ((float *)operation->to)[i] = (((float *)operation->to)[i] - operation->mean[column]) /
                                          operation->deviation[column];
        }
        break;
    case FAKE_GATHER:
    case FAKE_GATHER_U8:
    case FAKE_GATHER_F32:
        if (fake_gather_now(operation))
            abort();
        break;
    case FAKE_ONE_HOT:
        if (device_cpu_ops.one_hot(NULL, operation->to, operation->from, operation->count,
                                   operation->columns, operation->as_floats))
            abort();
        break;
    case FAKE_SET:
        pthread_mutex_lock(&operation->event->lock);
        operation->event->reached = operation->moment;
        pthread_cond_broadcast(&operation->event->changed);
        pthread_mutex_unlock(&operation->event->lock);
        break;
    case FAKE_AWAIT:
        fake_wait_mark(operation->event, operation->moment);
        break;
    }
}

static inline void *fake_run(void *context)
{
    struct device_queue *queue = context;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (queue->done == queue->added && !queue->ending)
            pthread_cond_wait(&queue->changed, &queue->lock);
        if (queue->done == queue->added)
            break;
        struct fake_operation operation = queue->operations[queue->done % FAKE_OPERATIONS];
        pthread_mutex_unlock(&queue->lock);
        if (queue->done % 5 == 0)
            usleep(300); /* late */
        fake_do(&operation);
        pthread_mutex_lock(&queue->lock);
        queue->done++;
        pthread_cond_broadcast(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

static inline enum error fake_enqueue(struct device_queue *queue, struct fake_operation operation)
{
    if (fake_call())
        return ERROR_UNAVAILABLE;
    pthread_mutex_lock(&queue->lock);
    while (queue->added - queue->done == FAKE_OPERATIONS)
        pthread_cond_wait(&queue->changed, &queue->lock);
    queue->operations[queue->added++ % FAKE_OPERATIONS] = operation;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return OK;
}

/* ---- struct device_ops -------------------------------------------------- */

static inline enum error fake_memory_new(struct device *device, size_t bytes, void **ret_memory)
{
    (void)device;
    if (fake_call())
        return ERROR_UNAVAILABLE;
    if (fake_refused > 0 && bytes == fake_refused)
        return error_set_memory(bytes, "fake memory");
    *ret_memory = calloc(1, bytes ? bytes : 1);
    atomic_fetch_add(&fake_allocations, 1);
    return *ret_memory ? OK : ERROR_MEMORY;
}

static inline void fake_memory_free(struct device *device, void *memory)
{
    (void)device;
    free(memory);
    atomic_fetch_sub(&fake_allocations, 1);
}

/* The host's memory, counted apart: what a copy starts from is page-locked, or copies are slow. */
static inline enum error fake_host_new(struct device *device, size_t bytes, void **ret_memory)
{
    enum error error = fake_memory_new(device, bytes, ret_memory);
    atomic_fetch_add(&fake_hosts, !error);
    return error;
}

static inline void fake_host_free(struct device *device, void *memory)
{
    atomic_fetch_sub(&fake_hosts, 1);
    fake_memory_free(device, memory);
}

static inline enum error fake_queue_new(struct device *device, struct device_queue **ret_queue)
{
    (void)device;
    if (fake_call())
        return ERROR_UNAVAILABLE;
    struct device_queue *queue = calloc(1, sizeof(*queue));
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    pthread_create(&queue->thread, NULL, fake_run, queue);
    atomic_fetch_add(&fake_allocations, 1);
    *ret_queue = queue;
    return OK;
}

static inline void fake_queue_free(struct device *device, struct device_queue *queue)
{
    (void)device;
    pthread_mutex_lock(&queue->lock);
    queue->ending = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    pthread_join(queue->thread, NULL);
    free(queue);
    atomic_fetch_sub(&fake_allocations, 1);
}

static inline enum error fake_copy(struct device_queue *queue, void *to, const void *from,
                                   size_t bytes)
{
    return fake_enqueue(
        queue, (struct fake_operation){.kind = FAKE_COPY, .to = to, .from = from, .count = bytes});
}

static inline enum error fake_copy_in(struct device_queue *queue, void *to, const void *from,
                                      size_t bytes)
{
    atomic_fetch_add(&fake_copies, 1);
    atomic_fetch_add(&fake_bytes, (int64_t)bytes);
    return fake_copy(queue, to, from, bytes);
}

static inline enum error fake_expand(struct device_queue *queue, float *to, const uint8_t *from,
                                     size_t count, float scale)
{
    return fake_enqueue(
        queue, (struct fake_operation){
                   .kind = FAKE_EXPAND, .to = to, .from = from, .count = count, .scale = scale});
}

static inline enum error fake_scale(struct device_queue *queue, float *to, const float *from,
                                    size_t count, float scale)
{
    return fake_enqueue(
        queue, (struct fake_operation){
                   .kind = FAKE_SCALE, .to = to, .from = from, .count = count, .scale = scale});
}

static inline enum error fake_normalize(struct device_queue *queue, float *x, size_t rows,
                                        size_t columns, const float *mean, const float *deviation)
{
    return fake_enqueue(queue, (struct fake_operation){.kind = FAKE_NORMALIZE,
                                                       .to = x,
                                                       .count = rows * columns,
                                                       .columns = columns,
                                                       .mean = mean,
                                                       .deviation = deviation});
}

static inline enum error fake_gather(struct device_queue *queue, void *to,
                                     const struct device_rows *from)
{
    return fake_enqueue(queue,
                        (struct fake_operation){.kind = FAKE_GATHER, .to = to, .rows = *from});
}

static inline enum error fake_gather_u8(struct device_queue *queue, float *to,
                                        const struct device_rows *from, float scale,
                                        const float *mean, const float *deviation)
{
    return fake_enqueue(queue, (struct fake_operation){.kind = FAKE_GATHER_U8,
                                                       .to = to,
                                                       .rows = *from,
                                                       .scale = scale,
                                                       .mean = mean,
                                                       .deviation = deviation});
}

static inline enum error fake_gather_f32(struct device_queue *queue, float *to,
                                         const struct device_rows *from, const float *mean,
                                         const float *deviation)
{
    return fake_enqueue(queue, (struct fake_operation){.kind = FAKE_GATHER_F32,
                                                       .to = to,
                                                       .rows = *from,
                                                       .mean = mean,
                                                       .deviation = deviation});
}

static inline enum error fake_one_hot(struct device_queue *queue, void *to, const uint32_t *codes,
                                      size_t rows, size_t classes, bool as_floats)
{
    return fake_enqueue(queue, (struct fake_operation){.kind = FAKE_ONE_HOT,
                                                       .to = to,
                                                       .from = codes,
                                                       .count = rows,
                                                       .columns = classes,
                                                       .as_floats = as_floats});
}

static inline enum error fake_memory_left(struct device *device, uint64_t *ret_bytes)
{
    (void)device;
    *ret_bytes = fake_left;
    return fake_call();
}

static inline enum error fake_queue_wait(struct device_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->done < queue->added)
        pthread_cond_wait(&queue->changed, &queue->lock);
    pthread_mutex_unlock(&queue->lock);
    return fake_call();
}

static inline enum error fake_event_new(struct device *device, struct device_event **ret_event)
{
    (void)device;
    if (fake_call())
        return ERROR_UNAVAILABLE;
    struct device_event *event = calloc(1, sizeof(*event));
    pthread_mutex_init(&event->lock, NULL);
    pthread_cond_init(&event->changed, NULL);
    atomic_fetch_add(&fake_allocations, 1);
    *ret_event = event;
    return OK;
}

static inline void fake_event_free(struct device *device, struct device_event *event)
{
    (void)device;
    free(event);
    atomic_fetch_sub(&fake_allocations, 1);
}

static inline int64_t fake_moment(struct device_event *event, int64_t more)
{
    pthread_mutex_lock(&event->lock);
    int64_t moment = event->set += more;
    pthread_mutex_unlock(&event->lock);
    return moment;
}

/* One that failed moves nothing. */
static inline enum error fake_event_record(struct device_event *event, struct device_queue *queue)
{
    struct fake_operation set = {.kind = FAKE_SET, .event = event};
    set.moment = fake_moment(event, 1);
    enum error error = fake_enqueue(queue, set);
    if (error)
        (void)fake_moment(event, -1);
    return error;
}

static inline enum error fake_event_wait(struct device_event *event)
{
    fake_wait_mark(event, fake_moment(event, 0));
    return fake_call();
}

static inline enum error fake_queue_await(struct device_queue *queue, struct device_event *event)
{
    return fake_enqueue(queue, (struct fake_operation){.kind = FAKE_AWAIT,
                                                       .event = event,
                                                       .moment = fake_moment(event, 0)});
}

static const struct device_ops fake_device_ops = {
    .name = "fake",
    .host_new = fake_host_new,
    .host_free = fake_host_free,
    .memory_new = fake_memory_new,
    .memory_free = fake_memory_free,
    .queue_new = fake_queue_new,
    .queue_free = fake_queue_free,
    .copy_in = fake_copy_in,
    .copy_out = fake_copy,
    .u8_to_f32 = fake_expand,
    .scale_f32 = fake_scale,
    .normalize_f32 = fake_normalize,
    .gather = fake_gather,
    .gather_u8 = fake_gather_u8,
    .gather_f32 = fake_gather_f32,
    .one_hot = fake_one_hot,
    .memory_left = fake_memory_left,
    .queue_wait = fake_queue_wait,
    .event_new = fake_event_new,
    .event_free = fake_event_free,
    .event_record = fake_event_record,
    .event_wait = fake_event_wait,
    .queue_await = fake_queue_await,
};

/* DEVICE_CUDA: memory of its own, work that is done later. */
static struct device fake_device = {
    .kind = DEVICE_CUDA, .description = "a fake device", .ops = &fake_device_ops};

#endif

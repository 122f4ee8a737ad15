/* SPDX-License-Identifier: MIT */
#include "loader/feed/pull_queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/stop.h"

#define TICK_MS 100

struct pull_queue {
    size_t capacity;
    size_t batch_rows;
    struct pull *pulls; /* [capacity] */
    int64_t *ids;       /* [capacity, batch_rows] */
    uint32_t *labels;   /* [capacity, batch_rows] */
    pthread_mutex_t lock;
    pthread_cond_t pushed, taken;
    int64_t pushes, takes; /* pushes - takes are in the queue */
    size_t push_waiters, take_waiters;
    bool closed, stopped;
};

enum error pull_queue_new(size_t capacity, size_t batch_rows, struct pull_queue **ret_queue)
{
    assert(capacity > 0);
    struct pull_queue *queue = array_new(1, sizeof(*queue), "a queue of batches");
    if (!queue)
        return ERROR_MEMORY;
    queue->capacity = capacity;
    queue->batch_rows = batch_rows;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->pushed, NULL);
    pthread_cond_init(&queue->taken, NULL);
    queue->pulls = array_new(capacity, sizeof(struct pull), "a queue of batches");
    queue->ids = queue->pulls
                     ? array_new(capacity * batch_rows, sizeof(int64_t), "the ids of a queue")
                     : NULL;
    queue->labels =
        queue->ids ? array_new(capacity * batch_rows, sizeof(uint32_t), "the labels of a queue")
                   : NULL;
    if (!queue->labels) {
        pull_queue_free(queue);
        return ERROR_MEMORY;
    }
    *ret_queue = queue;
    return OK;
}

void pull_queue_free(struct pull_queue *queue)
{
    if (!queue)
        return;
    pthread_cond_destroy(&queue->pushed);
    pthread_cond_destroy(&queue->taken);
    pthread_mutex_destroy(&queue->lock);
    free(queue->pulls);
    free(queue->ids);
    free(queue->labels);
    free(queue);
}

static size_t filled(const struct pull_queue *queue)
{
    return (size_t)(queue->pushes - queue->takes);
}

static enum error check_stopped(const struct pull_queue *queue)
{
    if (queue->stopped)
        return error_set(ERROR_CANCELLED, "the feed is being closed");
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped by a signal");
    return OK;
}

static void wait_a_tick(struct pull_queue *queue, pthread_cond_t *condition, size_t *waiters)
{
    struct timespec until = clock_timespec(clock_deadline_ns(TICK_MS));
    (*waiters)++;
    pthread_cond_clockwait(condition, &queue->lock, CLOCK_MONOTONIC, &until);
    (*waiters)--;
}

enum error pull_queue_push(struct pull_queue *queue, const struct pull *pull, const int64_t *ids,
                           const uint32_t *labels)
{
    enum error error;
    assert(pull->rows > 0 && pull->rows <= queue->batch_rows);
    pthread_mutex_lock(&queue->lock);
    assert(!queue->closed);
    while (!(error = check_stopped(queue)) && filled(queue) == queue->capacity)
        wait_a_tick(queue, &queue->taken, &queue->push_waiters);
    if (!error) {
        size_t place = (size_t)queue->pushes % queue->capacity;
        queue->pulls[place] = *pull;
        queue->pulls[place].sequence = queue->pushes++;
        memcpy(queue->ids + place * queue->batch_rows, ids, pull->rows * sizeof(*ids));
        memcpy(queue->labels + place * queue->batch_rows, labels, pull->rows * sizeof(*labels));
        if (queue->take_waiters > 0)
            pthread_cond_signal(&queue->pushed);
    }
    pthread_mutex_unlock(&queue->lock);
    return error;
}

enum error pull_queue_take(struct pull_queue *queue, struct pull *ret_pull, int64_t *ret_ids,
                           uint32_t *ret_labels)
{
    enum error error;
    pthread_mutex_lock(&queue->lock);
    while (!(error = check_stopped(queue)) && filled(queue) == 0) {
        if (queue->closed) {
            error = error_set(ERROR_END, "all batches are taken");
            break;
        }
        wait_a_tick(queue, &queue->pushed, &queue->take_waiters);
    }
    if (!error) {
        size_t place = (size_t)queue->takes++ % queue->capacity;
        *ret_pull = queue->pulls[place];
        memcpy(ret_ids, queue->ids + place * queue->batch_rows, ret_pull->rows * sizeof(*ret_ids));
        memcpy(ret_labels, queue->labels + place * queue->batch_rows,
               ret_pull->rows * sizeof(*ret_labels));
        /* Pullers work in bursts: half a queue is worth a wake-up, one place is not. */
        if (queue->push_waiters > 0 && filled(queue) <= queue->capacity / 2)
            pthread_cond_broadcast(&queue->taken);
    }
    pthread_mutex_unlock(&queue->lock);
    return error;
}

int64_t pull_queue_close(struct pull_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    int64_t pushes = queue->pushes;
    pthread_cond_broadcast(&queue->pushed);
    pthread_mutex_unlock(&queue->lock);
    return pushes;
}

void pull_queue_stop(struct pull_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->stopped = true;
    pthread_cond_broadcast(&queue->pushed);
    pthread_cond_broadcast(&queue->taken);
    pthread_mutex_unlock(&queue->lock);
}

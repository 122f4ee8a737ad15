/* SPDX-License-Identifier: MIT */
#include "loader/feed/grant_queue.h"

#include <inttypes.h>

#include "common/clock.h"
#include "common/stop.h"

#define TICK_MS 100

void grant_queue_init(struct grant_queue *queue)
{
    queue->begin = queue->count = 0;
    queue->stopped = false;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
}

void grant_queue_release(struct grant_queue *queue)
{
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}

static struct grant *grant_at(struct grant_queue *queue, size_t index)
{
    return &queue->grants[(queue->begin + index) % GRANT_QUEUE_LIMIT];
}

/* Under the lock. */
static enum error append(struct grant_queue *queue, struct grant grant)
{
    struct grant *last = queue->count > 0 ? grant_at(queue, queue->count - 1) : NULL;
    if (last && last->count > 0 && last->first + last->count == grant.first) {
        last->count = grant.count < 0 ? -1 : last->count + grant.count;
        return OK;
    }
    if (queue->count == GRANT_QUEUE_LIMIT)
        return error_set(ERROR_USAGE, "more than %d runs of batches are granted at once",
                         GRANT_QUEUE_LIMIT);
    *grant_at(queue, queue->count++) = grant;
    return OK;
}

enum error grant_queue_push(struct grant_queue *queue, struct grant grant)
{
    if (grant.first < 0 || grant.count == 0)
        return error_set(ERROR_USAGE, "a grant of %" PRId64 " batches from number %" PRId64,
                         grant.count, grant.first);
    pthread_mutex_lock(&queue->lock);
    enum error error = append(queue, grant);
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return error;
}

void grant_queue_stop(struct grant_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->stopped = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

enum error grant_queue_take(struct grant_queue *queue, struct grant *ret_grant)
{
    enum error error = OK;
    pthread_mutex_lock(&queue->lock);
    while (queue->count == 0 && !queue->stopped && !stop_requested()) {
        struct timespec until = clock_timespec(clock_deadline_ns(TICK_MS));
        pthread_cond_clockwait(&queue->changed, &queue->lock, CLOCK_MONOTONIC, &until);
    }
    if (queue->stopped || stop_requested()) {
        error = error_set(ERROR_CANCELLED, "stopped while waiting for the next batches");
    } else {
        *ret_grant = *grant_at(queue, 0);
        queue->begin = (queue->begin + 1) % GRANT_QUEUE_LIMIT;
        queue->count--;
    }
    pthread_mutex_unlock(&queue->lock);
    return error;
}

/* SPDX-License-Identifier: MIT */
/*
 * The batches that a feed by index should deliver, in order: runs of numbers, appended by the
 * feed's user and taken by the puller. Fixed size; a run that continues the last one is merged with
 * it.
 *
 * Threads: any, except for init and release. A wait ends, within a tenth of a second, after
 * grant_queue_stop() or stop_requested().
 */
#ifndef LOADER_FEED_GRANT_QUEUE_H
#define LOADER_FEED_GRANT_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define GRANT_QUEUE_LIMIT 4096 /* runs */

/* Batches first, first + 1, ...; count < 0: no end. */
struct grant {
    int64_t first, count;
};

struct grant_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct grant grants[GRANT_QUEUE_LIMIT]; /* a ring buffer */
    size_t begin, count;
    bool stopped;
};

void grant_queue_init(struct grant_queue *queue);
void grant_queue_release(struct grant_queue *queue);

/* ERROR_USAGE: an empty run, or too many runs. */
enum error grant_queue_push(struct grant_queue *queue, struct grant grant) MUST_CHECK;
/* Takes the oldest; waits for one. ERROR_CANCELLED when stopped. */
enum error grant_queue_take(struct grant_queue *queue, struct grant *ret_grant) MUST_CHECK;
void grant_queue_stop(struct grant_queue *queue);

#endif

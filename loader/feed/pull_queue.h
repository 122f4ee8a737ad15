/* SPDX-License-Identifier: MIT */
/*
 * The queue between pullers and fetchers: batches of ids and labels from the sampler, in order, at
 * most `capacity` ahead. All memory is allocated in pull_queue_new().
 *
 * Threads: any, except for pull_queue_free(). Every wait ends, within a tenth of a second, after
 * pull_queue_stop() or stop_requested().
 *
 * Dimensions: B ids per batch.
 */
#ifndef LOADER_FEED_PULL_QUEUE_H
#define LOADER_FEED_PULL_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* A batch without its ids. */
struct pull {
    int64_t sequence;     /* 0, 1, 2, ... in the order of pushes */
    int64_t epoch, first; /* as sent by the sampler */
    int64_t index;        /* the sampler's number of the batch */
    size_t rows;          /* 1..B */
    int64_t seq, attempt; /* of its lease; attempt 0: none */
};

struct pull_queue;

enum error pull_queue_new(size_t capacity, size_t batch_rows,
                          struct pull_queue **ret_queue) MUST_CHECK;
void pull_queue_free(struct pull_queue *queue);

/* Appends a batch (copies ids and label numbers) and numbers it; `pull->sequence` is ignored. Waits
 * for room. */
enum error pull_queue_push(struct pull_queue *queue, const struct pull *pull, const int64_t *ids,
                           const uint32_t *labels) MUST_CHECK;
/* Takes the oldest, into ret_ids[B] and ret_labels[B]. Waits for one. ERROR_END once the queue is
 * closed and empty. */
enum error pull_queue_take(struct pull_queue *queue, struct pull *ret_pull, int64_t *ret_ids,
                           uint32_t *ret_labels) MUST_CHECK;

/* No more will be pushed. Returns how many batches were. */
int64_t pull_queue_close(struct pull_queue *queue);
/* All calls, now and later, end with ERROR_CANCELLED. */
void pull_queue_stop(struct pull_queue *queue);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Cuts the sampler's responses, which may hold many batches (pull_plan.h), into batches of
 * `batch_rows` and pushes them to the pull queue, numbered in the sampler's order.
 *
 * Threads: the puller's only one, or the one whose turn it is (puller_draw.c).
 */
#ifndef LOADER_FEED_PULL_PUSH_H
#define LOADER_FEED_PULL_PUSH_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/feed/sampler_batch.h"

struct puller;

/* Pushes units [skip, ...) of a response, at most `limit` batches (< 0: all); advances the puller's
 * next_index. `epoch_draws` > 0: the response may cross epochs. Waits for room. */
enum error pull_push(struct puller *puller, const struct sampler_batch *answer, size_t skip,
                     int64_t limit, int64_t epoch_draws, int64_t *ret_pushed) MUST_CHECK;

#endif

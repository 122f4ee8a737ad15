/* SPDX-License-Identifier: MIT */
/*
 * Batches by index whose rows have similar lengths (bucket_order.h). Batch K belongs to one window:
 * `window` batches from a multiple of `window` on, counted within an epoch if batches restart with
 * each, and fewer at its end. For any of a window's batches, all of its units and their lengths are
 * requested; ranks that share them request the same. One thread.
 */
#ifndef LOADER_FEED_PULL_BUCKET_H
#define LOADER_FEED_PULL_BUCKET_H

#include "loader/feed/bucket_order.h"
#include "loader/feed/pull_answer.h"
#include "loader/store/store.h"

struct pull_bucket {
    struct reader *reader; /* owned; reports rows' lengths */
    struct bucket_order order;
    size_t window; /* batches */
    int64_t *ids;  /* owned; [window * B], as all below: of the window in the sampler's order */
    uint32_t *labels;
    int64_t *lengths;
    int64_t *batch_ids; /* owned; [B]: of one batch */
    uint32_t *batch_labels;
    int64_t begin, end; /* the batches of the current window; begin == end: none */
    size_t units;
    int64_t first, epoch; /* of its first unit */
};

/* `store` is borrowed until pull_bucket_release(); its rows differ in length. ERROR_USAGE: the
 * design's batches are not simply the next positions of the order. */
enum error pull_bucket_init(struct pull_bucket *bucket, struct store *store,
                            const struct puller *puller, const struct pull_plan *plan) MUST_CHECK;
/* Legal on a zeroed struct. */
void pull_bucket_release(struct pull_bucket *bucket);

/* Pushes batch `index`. ERROR_END: the stream has none. */
enum error pull_bucket_push(struct pull_bucket *bucket, struct pull_connection *connection,
                            struct pull_plan *plan, struct pull_answer *answer,
                            int64_t index) MUST_CHECK;

#endif

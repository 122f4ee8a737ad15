/* SPDX-License-Identifier: MIT */
/*
 * How many batches a feed leases ahead of its caller when few are left. Several workers may share
 * the stream: each leases at most a quarter of the unleased rest of the epoch or of the stream
 * ahead, and at least one batch, so that the stream ends for all workers at about the same time
 * (guided self-scheduling: Polychronopoulos and Kuck, IEEE Transactions on Computers C-36, 1987).
 * How far the stream moves between two responses shows how many workers there are; if more than
 * two, each leases half of a fair share. A worker that has just begun leases a few, and more as its
 * caller takes them, since others may be starting too.
 *
 * Threads: under the puller's lock.
 */
#ifndef LOADER_FEED_LEASE_SHARE_H
#define LOADER_FEED_LEASE_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include "loader/feed/sampler_batch.h"
#include "loader/feed/sampler_stream.h"

/* Zeroed: the stream is unknown, and nothing is bounded. */
struct lease_share {
    int64_t epoch_draws; /* M; 0: unknown */
    int64_t end;         /* position where the stream ends; INT64_MAX: it does not */
    int64_t position;    /* the stream's position according to the last response */
    int64_t own, moved;  /* rows received lately; how far the stream moved meanwhile */
};

void lease_share_begin(struct lease_share *share, const struct sampler_stream *stream);
/* A response was received. */
void lease_share_drawn(struct lease_share *share, const struct sampler_batch *batch);
/* How many batches of `batch_rows` may be leased beyond the first `handed`, which the caller took;
 * INT64_MAX: any number. */
int64_t lease_share_most(const struct lease_share *share, size_t batch_rows, int64_t handed);
/* The next request, for at most `at_once`, is worthwhile when no more than this many are leased; at
 * least 0. */
int64_t lease_share_enough(const struct lease_share *share, size_t batch_rows, int64_t handed,
                           size_t at_once);

#endif

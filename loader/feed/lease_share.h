/* SPDX-License-Identifier: MIT */
/*
 * How many batches a feed leases ahead of its caller where few are left. Several workers may share
 * the stream: of what nobody has been lent yet, counted within one epoch or what is left of the
 * stream, each leases at most a quarter ahead, and at least one batch. So the end of a stream comes
 * to all workers at about the same time (guided self-scheduling: Polychronopoulos and Kuck, IEEE
 * Transactions on Computers C-36, 1987). How many workers there are shows in how far the stream
 * moves between two answers; more than two each lease a half of a fair share. And
 * who has just begun leases a few, and more as its caller takes them: others may begin as well.
 *
 * Threads: the puller's lock is held.
 */
#ifndef LOADER_FEED_LEASE_SHARE_H
#define LOADER_FEED_LEASE_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include "loader/feed/sampler_client.h"

/* Zeroed: nothing is known of the stream, and nothing is bounded. */
struct lease_share {
    int64_t epoch_draws; /* M; 0: not known */
    int64_t end;         /* the position where the stream ends; INT64_MAX: it does not */
    int64_t position;    /* below it all was drawn, by whomever, as the last answer showed */
    int64_t own, moved;  /* rows that came lately; so far the stream moved meanwhile */
};

void lease_share_begin(struct lease_share *share, const struct sampler_stream *stream);
/* An answer came. */
void lease_share_drawn(struct lease_share *share, const struct sampler_batch *batch);
/* So many batches of `batch_rows` may be leased beyond the first `handed`, which the caller took;
 * INT64_MAX: any number. */
int64_t lease_share_most(const struct lease_share *share, size_t batch_rows, int64_t handed);
/* The next request, which is for at most `at_once`, is worth making when no more than so many are;
 * at least 0. */
int64_t lease_share_enough(const struct lease_share *share, size_t batch_rows, int64_t handed,
                           size_t at_once);

#endif

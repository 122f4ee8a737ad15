/* SPDX-License-Identifier: MIT */
/*
 * How many units of each label some positions of an epoch hold: what GET /labels calls `drawn`.
 * In closed form where the order has one; else counted, from the last count on: new positions are
 * added, those that a seek undid subtracted, and where the whole epoch has a closed form the
 * smaller part of it is counted. So nothing is counted twice, and never more than half of such an
 * epoch.
 *
 * Threads: every thread; one mutex, held for TALLY_SLICE_NS or so at a time (O(L) for a moment when
 * an epoch begins): not for an event loop unless tally_is_quick().
 *
 * Dimensions: L labels, M positions an epoch.
 */
#ifndef SAMPLER_STREAM_TALLY_H
#define SAMPLER_STREAM_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/frame.h"
#include "sampler/ledger/intervals.h"
#include "sampler/order/order.h"

#define TALLY_SLICE_NS INT64_C(4000000)

struct tally;

/* Positions of one epoch, ascending, apart from each other. Borrowed. */
struct tally_set {
    int64_t epoch;
    const struct interval *spans; /* [count] */
    size_t count;
};

/* Both are borrowed and must outlive it. */
enum error tally_new(const struct frame *frame, const struct order *order,
                     struct tally **ret_tally) MUST_CHECK;
void tally_free(struct tally *tally);

/* Is it known within a millisecond or so, without the mutex? */
bool tally_is_quick(const struct tally *tally, const struct tally_set *set);
/* Counts for `limit_ns` at most (0: one slice). *ret_left: positions that are still to be counted;
 * when it is 0, `ret_counts` [L] (NULL: not asked for) is filled. ERROR_MEMORY. */
enum error tally_counts(struct tally *tally, const struct tally_set *set, int64_t limit_ns,
                        int64_t *ret_counts, int64_t *ret_left) MUST_CHECK;

#endif

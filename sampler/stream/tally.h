/* SPDX-License-Identifier: MIT */
/*
 * The number of units of each label at given positions of an epoch: `drawn` of GET /labels. Uses
 * the order's closed form if it has one, else updates the last count: adds new positions, subtracts
 * those that a seek undid, and counts only the smaller part of an epoch whose total has a closed
 * form. So nothing is counted twice, and never more than half of such an epoch.
 *
 * Threads: any; one mutex, held for about TALLY_SLICE_NS at a time (O(L) once when an epoch
 * begins): do not call on an event loop unless tally_is_quick().
 *
 * Dimensions: L labels, M positions per epoch.
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

/* Positions of one epoch, ascending, disjoint. Borrowed. */
struct tally_set {
    int64_t epoch;
    const struct interval *spans; /* [count] */
    size_t count;
};

/* Both are borrowed and must outlive it. */
enum error tally_new(const struct frame *frame, const struct order *order,
                     struct tally **ret_tally) MUST_CHECK;
void tally_free(struct tally *tally);

/* Can it be computed within about a millisecond, without the mutex? */
bool tally_is_quick(const struct tally *tally, const struct tally_set *set);
/* Counts for at most `limit_ns` (0: one slice). *ret_left: positions still to be counted; when it
 * is 0, fills `ret_counts` [L] (may be NULL). ERROR_MEMORY. */
enum error tally_counts(struct tally *tally, const struct tally_set *set, int64_t limit_ns,
                        int64_t *ret_counts, int64_t *ret_left) MUST_CHECK;

#endif

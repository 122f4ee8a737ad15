/* SPDX-License-Identifier: MIT */
/*
 * Divides an endless order into batches: arithmetic on positions; no state.
 *
 * Position p lies in epoch p div M. Batches are contiguous, except that tail `drop` skips the rest
 * of an epoch if it is less than one batch. With E epochs the last one ends at position E * M; E =
 * 0 never ends.
 *
 * If the order skips positions, a batch is the shortest run of positions that holds the requested
 * units. Positions after an epoch's last unit belong to that unit's batch, those of an epoch
 * without units to the next batch (tail `drop`: to none).
 *
 * Dimensions: M positions per epoch, E epochs, B units requested, K the number of a batch.
 */
#ifndef SAMPLER_ORDER_BATCHING_H
#define SAMPLER_ORDER_BATCHING_H

#include <stdint.h>

#include "common/error.h"
#include "sampler/order/order.h"

/* What happens to a batch at the end of an epoch. */
enum tail {
    TAIL_KEEP, /* is short */
    TAIL_DROP, /* an incomplete one is skipped */
    TAIL_SPAN  /* continues into the next epoch; only the very last may be short */
};

/* The last position, at which a stream without epochs ends: the sum of two never overflows. */
#define POSITION_LIMIT ((INT64_C(1) << 62) - 1)

struct batching {
    const struct order *order; /* borrowed; NULL: an order that skips nothing */
    int64_t epoch_positions;   /* M, at least 1 */
    int64_t epochs;            /* E; 0: without end */
    enum tail tail;
};

/* A batch: positions [first, first + positions), with this many units. */
struct span {
    int64_t first;
    int64_t positions;
    int64_t units; /* equal to positions unless the order skips some; 0: the end, or no batch */
};

/* "keep", "drop", "span", and the inverse; an unknown name is ERROR_USAGE. */
const char *tail_name(enum tail tail);
enum error tail_of_name(const char *name, enum tail *ret_tail) MUST_CHECK;

/* Checks M >= 1, E >= 0 and E * M below POSITION_LIMIT: ERROR_USAGE names what is allowed. */
enum error batching_check(const struct batching *batching) MUST_CHECK;

/* E * M, or POSITION_LIMIT without an end. */
int64_t batching_end(const struct batching *batching);

/* Is `size` possible at all? ERROR_USAGE for TAIL_DROP with a size above the positions of an epoch,
 * and for another size than the design's only one. */
enum error batching_check_size(const struct batching *batching, int64_t size) MUST_CHECK;

/* The batch of `size` units from `position` on (checked, >= 1). The next one begins at
 * ret_span->first + ret_span->positions. At the end: no units, no positions, and first is the end.
 * Arithmetic; if positions are skipped it examines those of the batch, and those after it up to the
 * next unit. */
void batching_next(const struct batching *batching, int64_t position, int64_t size,
                   struct span *ret_span);

/* Batch number K (>= 0) of batches of `size` from position 0 on: the same as K + 1 calls of
 * batching_next(). Beyond the end: no units. Closed form that never fails, unless positions are
 * skipped: then it counts the epochs up to that of the batch's last unit, some tenths of a second
 * in one call, with order_epoch_units()' ERROR_UNAVAILABLE (call again: the count continues) and
 * ERROR_USAGE. */
enum error batching_at(const struct batching *batching, int64_t index, int64_t size,
                       struct span *ret_span) MUST_CHECK;

#endif

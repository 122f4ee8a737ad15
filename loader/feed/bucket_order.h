/* SPDX-License-Identifier: MIT */
/*
 * Buckets by length: sorts the units of a window of batches by length, cuts them into batches of
 * similar length, and shuffles these. A pure function of the lengths, the seed and the window's
 * number, so any feed, and any of several ranks, gets the same batches.
 *
 * Dimensions: N units per window, B rows per batch, n batches, the last of which may be shorter.
 */
#ifndef LOADER_FEED_BUCKET_ORDER_H
#define LOADER_FEED_BUCKET_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define BUCKET_UNITS_LIMIT ((size_t)1 << 24) /* per window */

struct bucket_order {
    size_t batch_rows;              /* B */
    size_t units, batches;          /* N, n of the current window */
    uint32_t *order, *room, *turns; /* owned; order: [N], the units by length; turns: [n], the order
                                     * of the batches */
};

/* Allocates for windows of up to `batches` batches of `batch_rows`, at most BUCKET_UNITS_LIMIT
 * units. */
enum error bucket_order_init(struct bucket_order *order, size_t batches,
                             size_t batch_rows) MUST_CHECK;
/* Legal on a zeroed struct. */
void bucket_order_release(struct bucket_order *order);

/* `lengths`: of the window's units in the sampler's order, [units], below 2^32. Units of equal
 * length keep that order. */
void bucket_order_make(struct bucket_order *order, const int64_t *lengths, size_t units,
                       int64_t seed, int64_t window);
/* The units of batch `number` of the window, as indexes into it; returns how many. */
size_t bucket_order_batch(const struct bucket_order *order, size_t number,
                          const uint32_t **ret_units);

#endif

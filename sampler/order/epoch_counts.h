/* SPDX-License-Identifier: MIT */
/*
 * How many units each epoch of an order has that skips positions: counted once, from epoch 0
 * on, and remembered; 8 bytes an epoch, ORDER_COUNTED_EPOCHS at most.
 *
 * Threads: any; one counts at a time; known epochs are answered meanwhile.
 */
#ifndef SAMPLER_ORDER_EPOCH_COUNTS_H
#define SAMPLER_ORDER_EPOCH_COUNTS_H

#include "sampler/order/design.h"

enum error epoch_counts_new(struct epoch_counts **ret_counts) MUST_CHECK;
void epoch_counts_free(struct epoch_counts *counts);

/* As order_epoch_units(). */
enum error epoch_counts_get(struct epoch_counts *counts, const struct order *order, int64_t epoch,
                            int64_t *ret_units) MUST_CHECK;

#endif

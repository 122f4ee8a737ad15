/* SPDX-License-Identifier: MIT */
/*
 * The number of units in each epoch of an order that skips positions: counted once, from epoch 0
 * on, and cached; 8 bytes per epoch, ORDER_COUNTED_EPOCHS at most.
 *
 * Threads: any; one counts at a time; known epochs are available meanwhile.
 */
#ifndef SAMPLER_ORDER_EPOCH_COUNTS_H
#define SAMPLER_ORDER_EPOCH_COUNTS_H

#include "sampler/order/design.h"

enum error epoch_counts_new(struct epoch_counts **ret_counts) MUST_CHECK;
void epoch_counts_free(struct epoch_counts *counts);

/* As order_epoch_units(). */
enum error epoch_counts_get(struct epoch_counts *counts, const struct order *order, int64_t epoch,
                            int64_t *ret_units) MUST_CHECK;
/* How many epochs are known by now. */
int64_t epoch_counts_known(struct epoch_counts *counts);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * An exact sum of 32-bit floats in fixed point wide enough for all of them, independent of their
 * order and of their distribution over threads. Zeroed: empty.
 */
#ifndef LOADER_COLUMN_EXACT_SUM_H
#define LOADER_COLUMN_EXACT_SUM_H

#include <stdint.h>

#define EXACT_SUM_LIMBS 12 /* of 32 bits, from 2^-149 on: up to 2^104, 24 bits, 2^63 values */

struct exact_sum {
    int64_t limbs[EXACT_SUM_LIMBS]; /* lowest first; each may be temporarily out of range */
    uint32_t pending;               /* values added since the last carry */
};

/* A finite value. */
void exact_sum_add(struct exact_sum *sum, float value);
void exact_sum_merge(struct exact_sum *sum, const struct exact_sum *other);
/* Within a unit in the last place; the same for the same values in any order. */
double exact_sum_value(const struct exact_sum *sum);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A sum of 32-bit floats without any rounding: a number in fixed point, wide enough for each of
 * them. So it does not depend on their order, nor on how they are divided among threads. Zeroed:
 * nothing was added.
 */
#ifndef LOADER_STORE_EXACT_SUM_H
#define LOADER_STORE_EXACT_SUM_H

#include <stdint.h>

#define EXACT_SUM_LIMBS 12 /* of 32 bits, from 2^-149 on: 2^104, 24 bits more, and 2^63 of them */

struct exact_sum {
    int64_t limbs[EXACT_SUM_LIMBS]; /* the lowest first; each may be out of its range meanwhile */
    uint32_t pending;               /* what was added since carries were made */
};

/* A finite value. */
void exact_sum_add(struct exact_sum *sum, float value);
void exact_sum_merge(struct exact_sum *sum, const struct exact_sum *other);
/* Within a unit of the last place; the same for the same values in any order. */
double exact_sum_value(const struct exact_sum *sum);

#endif

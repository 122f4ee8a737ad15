/* SPDX-License-Identifier: MIT */
/*
 * Finds the median of 32-bit floats that are read MEDIAN_ROUNDS times, in 4 KiB, whatever their
 * number and order: each round finds eight more bits of the two middle values. Zeroed: before the
 * first round.
 */
#ifndef LOADER_COLUMN_MEDIAN_SEARCH_H
#define LOADER_COLUMN_MEDIAN_SEARCH_H

#include <stdint.h>

#define MEDIAN_ROUNDS 4
#define MEDIAN_BINS 256

struct median_search {
    uint32_t prefix[2]; /* bits found so far of the lower and the upper middle value */
    uint64_t rank[2];   /* their ranks among the values with these bits */
    uint64_t counts[2][MEDIAN_BINS];
};

/* `part`, zeroed, will count some of the values of `whole`'s current round; counts that `whole`
 * already has, from other parts, are not read. */
void median_search_begin(struct median_search *part, const struct median_search *whole);
/* A finite value; round 0 to MEDIAN_ROUNDS - 1. */
void median_search_add(struct median_search *search, unsigned round, float value);
void median_search_merge(struct median_search *search, const struct median_search *other);
/* After a round, in which `total` (at least 1) values were added. */
void median_search_next(struct median_search *search, unsigned round, uint64_t total);
/* After the last round: for an even number the mean of the two middle values. */
float median_search_value(const struct median_search *search);

#endif

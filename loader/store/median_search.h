/* SPDX-License-Identifier: MIT */
/*
 * The median of 32-bit floats that are read MEDIAN_ROUNDS times, in 4 KiB, whatever their number
 * and order: each round finds eight bits more of the two in the middle. Zeroed: before the first
 * round.
 */
#ifndef LOADER_STORE_MEDIAN_SEARCH_H
#define LOADER_STORE_MEDIAN_SEARCH_H

#include <stdint.h>

#define MEDIAN_ROUNDS 4
#define MEDIAN_BINS 256

struct median_search {
    uint32_t prefix[2]; /* the bits found of the lower and the upper one in the middle */
    uint64_t rank[2];   /* which they are among the values with these bits */
    uint64_t counts[2][MEDIAN_BINS];
};

/* `part`, zeroed, will count some of the values of the round that `whole` is in; the counts that
 * `whole` has already, of other parts, are not read. */
void median_search_begin(struct median_search *part, const struct median_search *whole);
/* A finite value; round 0 to MEDIAN_ROUNDS - 1. */
void median_search_add(struct median_search *search, unsigned round, float value);
void median_search_merge(struct median_search *search, const struct median_search *other);
/* Behind a round, in which `total` (at least 1) values were added. */
void median_search_next(struct median_search *search, unsigned round, uint64_t total);
/* Behind the last round: of an even number the mean of the two in the middle. */
float median_search_value(const struct median_search *search);

#endif

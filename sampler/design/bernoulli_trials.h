/* SPDX-License-Identifier: MIT */
/*
 * Stateless Bernoulli trials, one per position, of any probability: position p is a success exactly
 * if random_at(key, p) is at most `limit`, which has probability (limit + 1) / 2^64. Counts with
 * the widest vectors that the processor supports.
 */
#ifndef SAMPLER_DESIGN_BERNOULLI_TRIALS_H
#define SAMPLER_DESIGN_BERNOULLI_TRIALS_H

#include <stddef.h>
#include <stdint.h>

#include "sampler/shuffle/random.h"

/* Successes among positions first ... first + count - 1. */
int64_t bernoulli_trials_count(struct random_key key, uint64_t limit, int64_t first, int64_t count);

/* Positions first ... first + 63 as bits, the first one lowest; 1: a success. */
uint64_t bernoulli_trials_mask(struct random_key key, uint64_t limit, int64_t first);

#endif

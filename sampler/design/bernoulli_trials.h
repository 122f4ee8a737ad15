/*
 * One coin a position, of any probability, without state: position p shows heads exactly if
 * random_at(key, p) is at most `limit`. Counted in vectors, with the widest that the processor has.
 */
#ifndef SAMPLER_DESIGN_BERNOULLI_TRIALS_H
#define SAMPLER_DESIGN_BERNOULLI_TRIALS_H

#include <stddef.h>
#include <stdint.h>

#include "sampler/shuffle/random.h"

/* Heads among positions first ... first + count - 1. */
int64_t bernoulli_trials_count(struct random_key key, uint64_t limit, int64_t first, int64_t count);

/* The same 64 coins as bits, the first one lowest. */
uint64_t bernoulli_trials_mask(struct random_key key, uint64_t limit, int64_t first);

#endif

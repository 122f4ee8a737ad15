/* SPDX-License-Identifier: MIT */
/*
 * The keys of all randomness in an order: hashes of (frame digest, design, fields, replacement,
 * seed), and of the epoch's number. A contract like the digest: other keys give another order.
 */
#ifndef SAMPLER_ORDER_ORDER_KEYS_H
#define SAMPLER_ORDER_ORDER_KEYS_H

#include <stdint.h>

#include "sampler/shuffle/random.h"

struct order;

struct epoch {
    int64_t number;
    struct random_key units;   /* which unit is at a position */
    struct random_key choices; /* how positions are dealt out to strata; trials */
};

/* The key of an order whose frame, design, fields and replacement are set. */
struct random_key order_key(const struct order *order, uint64_t seed);
/* The keys of one epoch. */
struct epoch epoch_of(const struct order *order, int64_t number);
/* The key of draws that continue across epochs. */
struct random_key order_walk_key(const struct order *order);

#endif

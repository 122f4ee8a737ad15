/* SPDX-License-Identifier: MIT */
/*
 * The scalar code: the definition of every permutation, and the reference for permutation_runs.c.
 * Batches use permutation_runs(); this serves single positions: the inverse from a unit, rare
 * draws.
 *
 * Feistel: a round changes one half by a hash of the other, so that the same round undoes it for
 * any hash; the inverse applies the rounds in reverse. value = high << low_bits | low, and both
 * halves stay within their bits: a hash is reduced to its top bits before it is xored in. Cycle
 * walking: the network permutes [0, 2^b); following its cycle from a value below n until the next
 * value below n permutes [0, n), forwards and backwards. 2^b < 2 n, so that at least half of the
 * values need one pass.
 */
#include <assert.h>

#include "sampler/shuffle/permutation.h"
#include "sampler/shuffle/permutation_rounds.h"
#include "sampler/shuffle/random.h"

void permutation_init(struct permutation *permutation, uint64_t units, uint64_t key)
{
    assert(units >= 1 && units <= PERMUTATION_LIMIT);
    *permutation = (struct permutation){.units = units, .key = key};
    if (units < PERMUTATION_SMALL)
        return;
    unsigned bits = 64 - (unsigned)__builtin_clzll(units - 1);
    permutation->low_bits = bits / 2;
    permutation->high_bits = bits - bits / 2;
    for (unsigned i = 0; i < PERMUTATION_ROUNDS; i += 2) {
        uint64_t pair = random_mix(key + (i + 1) * RANDOM_STEP);
        permutation->rounds[i] = (uint32_t)pair;
        permutation->rounds[i + 1] = (uint32_t)(pair >> 32);
    }
    permutation->swap = random_mix(key + (PERMUTATION_ROUNDS + 1) * RANDOM_STEP) >> 63;
}

/* Its own inverse. */
static uint64_t swap_first(const struct permutation *permutation, uint64_t position)
{
    return position < 2 ? position ^ permutation->swap : position;
}

static uint64_t feistel_forward(const struct permutation *permutation, uint64_t value)
{
    unsigned low_bits = permutation->low_bits, high_bits = permutation->high_bits;
    const uint32_t *keys = permutation->rounds;
    uint32_t low = (uint32_t)(value & ((UINT64_C(1) << low_bits) - 1));
    uint32_t high = (uint32_t)(value >> low_bits);
    uint32_t scratch;
    for (unsigned i = 0; i < PERMUTATION_ROUNDS; i += 2) {
        ROUNDS_FEISTEL(low, low_bits, high, keys[i], scratch);
        ROUNDS_FEISTEL(high, high_bits, low, keys[i + 1], scratch);
    }
    return (uint64_t)high << low_bits | low;
}

static uint64_t feistel_backward(const struct permutation *permutation, uint64_t value)
{
    unsigned low_bits = permutation->low_bits, high_bits = permutation->high_bits;
    const uint32_t *keys = permutation->rounds;
    uint32_t low = (uint32_t)(value & ((UINT64_C(1) << low_bits) - 1));
    uint32_t high = (uint32_t)(value >> low_bits);
    uint32_t scratch;
    for (unsigned i = PERMUTATION_ROUNDS; i > 0; i -= 2) {
        ROUNDS_FEISTEL(high, high_bits, low, keys[i - 1], scratch);
        ROUNDS_FEISTEL(low, low_bits, high, keys[i - 2], scratch);
    }
    return (uint64_t)high << low_bits | low;
}

/* One round of n < 4096: value and c - value (mod n) are partners and hash the larger of the two,
 * so that both swap or both stay: the round is its own inverse. */
static uint32_t swap_or_not(const struct permutation *permutation, uint32_t round, uint32_t value)
{
    uint32_t units = (uint32_t)permutation->units;
    uint32_t point = ROUNDS_POINT_KEY((uint32_t)permutation->key, round);
    ROUNDS_HASH(point);
    uint32_t reflection = ROUNDS_POINT(point, units);
    uint32_t partner = reflection >= value ? reflection - value : reflection + units - value;
    uint32_t coin = (value > partner ? value : partner) ^
                    ROUNDS_COIN_KEY((uint32_t)(permutation->key >> 32), round);
    ROUNDS_HASH(coin);
    return coin >> 31 ? partner : value;
}

uint64_t permutation_at(const struct permutation *permutation, uint64_t position)
{
    if (permutation->units >= PERMUTATION_SMALL) {
        uint64_t value = swap_first(permutation, position);
        do
            value = feistel_forward(permutation, value);
        while (value >= permutation->units);
        return value;
    }
    uint32_t value = (uint32_t)position;
    for (uint32_t round = 0; round < ROUNDS_SMALL; round++)
        value = swap_or_not(permutation, round, value);
    return value;
}

uint64_t permutation_find(const struct permutation *permutation, uint64_t unit)
{
    if (permutation->units >= PERMUTATION_SMALL) {
        uint64_t value = unit;
        do
            value = feistel_backward(permutation, value);
        while (value >= permutation->units);
        return swap_first(permutation, value);
    }
    uint32_t value = (uint32_t)unit;
    for (uint32_t round = ROUNDS_SMALL; round > 0; round--)
        value = swap_or_not(permutation, round - 1, value);
    return value;
}

/* SPDX-License-Identifier: MIT */
/*
 * The rounds of both constructions of permutation.h, written once for scalars and for vectors of
 * 32-bit lanes (GNU C operators work on both). Private to permutation*.c.
 */
#ifndef SAMPLER_SHUFFLE_PERMUTATION_ROUNDS_H
#define SAMPLER_SHUFFLE_PERMUTATION_ROUNDS_H

#include <stdint.h>

/* Multiplication by an odd number modulo 2^32 carries upwards only, and the shift brings the top
 * bits down in between. Two odd multipliers with a shift between them; the top bits of the result
 * depend on all bits of `value`, so callers take bits from the top. */
#define ROUNDS_HASH(value)               \
    do {                                 \
        (value) *= UINT32_C(0x9e3779b1); \
        (value) ^= (value) >> 15;        \
        (value) *= UINT32_C(0x85ebca6b); \
    } while (0)

/* One Feistel round: changes `half` (of `bits` bits) by a hash of the other half. */
#define ROUNDS_FEISTEL(half, bits, other, key, scratch) \
    do {                                                \
        (scratch) = (other) ^ (key);                    \
        ROUNDS_HASH(scratch);                           \
        (half) ^= (scratch) >> (32 - (bits));           \
    } while (0)

#define ROUNDS_SMALL 32

/* Swap-or-not: round r reflects x at a random point (partner = c - x mod n) and swaps the two if a
 * coin of the larger of them says so. Keys of the two hashes in round r: */
#define ROUNDS_POINT_KEY(key, round) ((key) + (round)*UINT32_C(0x9e3779b9))
#define ROUNDS_COIN_KEY(key, round) ((key) + (round)*UINT32_C(0xc2b2ae3d))

/* c: 20 random bits times n (12 bits), shifted back: below n, uniform to within n / 2^20. */
#define ROUNDS_POINT(hash, units) (((hash) >> 12) * (units) >> 20)

#endif

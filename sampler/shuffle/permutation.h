/* SPDX-License-Identifier: MIT */
/*
 * A permutation of [0, n) that is computed, not stored: any position in constant time, and the
 * inverse, from a 64-bit key. Bijective at every n by construction: integers only, no table, no
 * state, so any number of threads may use one at once. Two constructions:
 *
 *   n >= PERMUTATION_SMALL  a Feistel network of 8 alternating rounds on the smallest b with
 *                           2^b >= n, halves of floor(b/2) and ceil(b/2) bits; a value that lands
 *                           on n or above is put through again until it lands below (cycle
 *                           walking); positions 0 and 1 change places by a coin of the key, since
 *                           rounds that are even permutations are never, or too seldom, odd ones
 *   n <  PERMUTATION_SMALL  swap-or-not (Hoang, Morris, Rogaway, CRYPTO 2012), 32 rounds on [0, n)
 *                           itself: a Feistel network of few bits is far from uniform, this is not
 *                           (with ideal coins, total variation from uniform over all permutations,
 *                           computed exactly: 2e-10 at n = 3, 2e-7 at n = 4, 3e-8 at n = 7)
 *
 * The values are a contract: the same on every processor and with every compiler, forever. The
 * vector code (permutation_runs) gives the same values as the scalar code (permutation_at).
 */
#ifndef SAMPLER_SHUFFLE_PERMUTATION_H
#define SAMPLER_SHUFFLE_PERMUTATION_H

#include <stddef.h>
#include <stdint.h>

#define PERMUTATION_SMALL 4096
#define PERMUTATION_LIMIT (UINT64_C(1) << 62) /* n is at most this */
#define PERMUTATION_ROUNDS 8

struct permutation {
    uint64_t units; /* n */
    uint64_t key;
    unsigned low_bits, high_bits;        /* Feistel only; low_bits <= high_bits <= 31 */
    uint64_t swap;                       /* Feistel only: 1 if positions 0 and 1 change places */
    uint32_t rounds[PERMUTATION_ROUNDS]; /* Feistel only: round keys */
};

/* A run of consecutive positions of one permutation. */
struct permutation_run {
    uint64_t units; /* n */
    uint64_t key;
    uint64_t first; /* positions first ... first + count - 1, all below n */
    size_t count;
};

/* 1 <= units <= PERMUTATION_LIMIT; takes nanoseconds. */
void permutation_init(struct permutation *permutation, uint64_t units, uint64_t key);

/* Position -> unit and its inverse; both below n. */
uint64_t permutation_at(const struct permutation *permutation, uint64_t position);
uint64_t permutation_find(const struct permutation *permutation, uint64_t unit);

/* The units of all runs, concatenated, with the widest vectors that the processor supports.
 * Intended for a few hundred positions and more; runs may be as short as one. */
void permutation_runs(const struct permutation_run *runs, size_t count, uint64_t *ret_units);

#endif

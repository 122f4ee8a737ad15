/* SPDX-License-Identifier: MIT */
/*
 * The vector kernels of permutation_runs(): lanes of 32 bits, integers only, so that every kernel
 * gives the values of permutation.c. Tests compare each that the processor supports with it.
 */
#ifndef SAMPLER_SHUFFLE_PERMUTATION_KERNELS_H
#define SAMPLER_SHUFFLE_PERMUTATION_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/shuffle/permutation.h"

#define KERNEL_LANES 16 /* of the widest vector */
#define KERNEL_FEW_RUNS 16
#define KERNEL_BLOCK 256 /* positions processed together; a multiple of KERNEL_LANES */

/* Positions of any large permutations, one per lane. Vectors are written whole, so a run may touch
 * up to KERNEL_LANES - 1 lanes after it; there is room for them. */
struct feistel_block {
    _Alignas(64) uint32_t low[KERNEL_BLOCK + KERNEL_LANES]; /* the two halves of the value */
    uint32_t high[KERNEL_BLOCK + KERNEL_LANES];
    uint32_t low_bits[KERNEL_BLOCK + KERNEL_LANES];
    uint32_t high_bits[KERNEL_BLOCK + KERNEL_LANES];
    uint32_t keys[PERMUTATION_ROUNDS][KERNEL_BLOCK + KERNEL_LANES];
    uint32_t target[KERNEL_BLOCK + KERNEL_LANES]; /* the caller's: index of the result */
    uint64_t units[KERNEL_BLOCK + KERNEL_LANES];
    uint64_t value[KERNEL_BLOCK + KERNEL_LANES]; /* out: the halves joined */
    size_t count;
};

/* The same for small permutations. */
struct small_block {
    _Alignas(64) uint32_t value[KERNEL_BLOCK]; /* in: position; out: unit */
    _Alignas(64) uint32_t units[KERNEL_BLOCK];
    _Alignas(64) uint32_t point_key[KERNEL_BLOCK];
    _Alignas(64) uint32_t coin_key[KERNEL_BLOCK];
    uint32_t target[KERNEL_BLOCK];
    size_t count;
};

struct permutation_kernel {
    const char *name;
    bool (*is_supported)(void);
    /* Appends positions first ... first + count - 1; they must fit the block. */
    void (*add)(struct feistel_block *block, const struct permutation *permutation, uint64_t first,
                size_t count, uint32_t target);
    /* Lanes from ... to - 1 are positions of this permutation. */
    void (*describe)(struct feistel_block *block, const struct permutation *permutation,
                     size_t from, size_t to);
    /* One pass of the network over all lanes; no cycle walking. */
    void (*feistel)(struct feistel_block *block);
    /* All rounds over all lanes, rounded up: unused lanes must hold units >= 1. */
    void (*small)(struct small_block *block);
    /* NULL, or: permutation_runs() for 1 to KERNEL_FEW_RUNS runs, all of them large. */
    void (*few)(const struct permutation_run *runs, size_t count, uint64_t *ret_units);
};

#if defined(__x86_64__)
void permutation_few_avx512(const struct permutation_run *runs, size_t count, uint64_t *ret_units);
#endif

/* Widest first; the last one runs everywhere. NULL-terminated. */
extern const struct permutation_kernel *const permutation_kernels[];

/* The first that this processor supports. */
const struct permutation_kernel *permutation_kernel(void);

#endif

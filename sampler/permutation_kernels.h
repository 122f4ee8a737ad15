/*
 * The vector kernels of permutation_runs(): 16 lanes of 32 bits, integers only, so that every
 * kernel gives the values of permutation.c. Tests run each that the processor has against it.
 */
#ifndef SAMPLER_PERMUTATION_KERNELS_H
#define SAMPLER_PERMUTATION_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/permutation.h"

#define KERNEL_LANES 16
#define KERNEL_BLOCK 256 /* positions worked on together; a multiple of KERNEL_LANES */

/* Positions of different small permutations, a lane each. */
struct small_block {
    _Alignas(64) uint32_t value[KERNEL_BLOCK]; /* in: position; out: unit */
    _Alignas(64) uint32_t units[KERNEL_BLOCK];
    _Alignas(64) uint32_t point_key[KERNEL_BLOCK];
    _Alignas(64) uint32_t coin_key[KERNEL_BLOCK];
    uint32_t target[KERNEL_BLOCK]; /* the caller's: where the result goes */
    size_t count;
};

struct permutation_kernel {
    const char *name;
    bool (*is_supported)(void);
    /* One pass of the network, no cycle walking; values in place, aligned to 64 bytes, count a
     * multiple of KERNEL_LANES. */
    void (*feistel)(const struct permutation *permutation, uint64_t *values, size_t count);
    /* All rounds on block->count lanes, rounded up: lanes beyond must hold units >= 1. */
    void (*small)(struct small_block *block);
};

/* Widest first; the last one runs everywhere. NULL behind the last. */
extern const struct permutation_kernel *const permutation_kernels[];

/* The first that this processor supports. */
const struct permutation_kernel *permutation_kernel(void);

#endif

/*
 * Cuts runs into blocks for the vector kernels, puts values that landed outside through again, and
 * collects the lanes of short runs of small permutations into full vectors.
 */
#include <string.h>

#include "sampler/permutation.h"
#include "sampler/permutation_kernels.h"

#define FEW 6 /* fewer positions of a large permutation than this are done one by one */

/* ---- large permutations: a run at a time ------------------------------------------------------
 */
static size_t round_up(size_t count)
{
    return (count + KERNEL_LANES - 1) / KERNEL_LANES * KERNEL_LANES;
}

/* Puts those that landed on n or above through again, until none is left. */
static void walk(const struct permutation_kernel *kernel, const struct permutation *permutation,
                 uint64_t *values, size_t count)
{
    _Alignas(64) uint64_t again[KERNEL_BLOCK];
    uint16_t where[KERNEL_BLOCK];
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        where[left] = (uint16_t)i;
        left += values[i] >= permutation->units;
    }
    for (size_t i = 0; i < left; i++)
        again[i] = values[where[i]];
    while (left > 0) {
        size_t kept = 0;
        memset(again + left, 0, (round_up(left) - left) * sizeof(*again));
        kernel->feistel(permutation, again, round_up(left));
        for (size_t i = 0; i < left; i++) {
            values[where[i]] = again[i];
            again[kept] = again[i];
            where[kept] = where[i];
            kept += again[i] >= permutation->units;
        }
        left = kept;
    }
}

static void run_large(const struct permutation_kernel *kernel, const struct permutation_run *run,
                      uint64_t *ret_units)
{
    struct permutation permutation;
    permutation_init(&permutation, run->units, run->key);
    if (run->count < FEW) {
        for (size_t i = 0; i < run->count; i++)
            ret_units[i] = permutation_at(&permutation, run->first + i);
        return;
    }
    for (size_t done = 0; done < run->count; done += KERNEL_BLOCK) {
        _Alignas(64) uint64_t values[KERNEL_BLOCK];
        size_t count = run->count - done < KERNEL_BLOCK ? run->count - done : KERNEL_BLOCK;
        for (size_t i = 0; i < round_up(count); i++)
            values[i] = run->first + done + i;
        kernel->feistel(&permutation, values, round_up(count));
        walk(kernel, &permutation, values, count);
        memcpy(ret_units + done, values, count * sizeof(*values));
    }
}

/* ---- small permutations: lanes of several runs together ---------------------------------------
 */
static void flush_small(const struct permutation_kernel *kernel, struct small_block *block,
                        uint64_t *ret_units)
{
    size_t count = block->count;
    for (size_t i = count; i < round_up(count); i++) {
        block->value[i] = block->point_key[i] = block->coin_key[i] = 0;
        block->units[i] = 1;
    }
    kernel->small(block);
    for (size_t i = 0; i < count; i++)
        ret_units[block->target[i]] = block->value[i];
    block->count = 0;
}

static void add_small(const struct permutation_kernel *kernel, struct small_block *block,
                      const struct permutation_run *run, size_t target, uint64_t *ret_units)
{
    for (size_t i = 0; i < run->count; i++) {
        size_t lane = block->count++;
        block->value[lane] = (uint32_t)(run->first + i);
        block->units[lane] = (uint32_t)run->units;
        block->point_key[lane] = (uint32_t)run->key;
        block->coin_key[lane] = (uint32_t)(run->key >> 32);
        block->target[lane] = (uint32_t)(target + i);
        if (block->count == KERNEL_BLOCK)
            flush_small(kernel, block, ret_units);
    }
}

void permutation_runs(const struct permutation_run *runs, size_t count, uint64_t *ret_units)
{
    const struct permutation_kernel *kernel = permutation_kernel();
    struct small_block block;
    size_t target = 0;
    block.count = 0;
    for (size_t i = 0; i < count; i++) {
        if (runs[i].units >= PERMUTATION_SMALL)
            run_large(kernel, &runs[i], ret_units + target);
        else
            add_small(kernel, &block, &runs[i], target, ret_units);
        target += runs[i].count;
    }
    if (block.count > 0)
        flush_small(kernel, &block, ret_units);
}

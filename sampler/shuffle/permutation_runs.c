/* SPDX-License-Identifier: MIT */
/*
 * Collects the positions of all runs, short and long, in blocks of lanes for the vector kernels.
 * Lanes of a large permutation that land on n or above stay in the block for another pass, together
 * with new ones, so that vectors are always full.
 *
 * Invariants: lanes [0, count) of a block are positions that still need a pass, each with the index
 * of its result; every pass writes a result, and the last one counts. count < KERNEL_BLOCK between
 * calls. On average a pass completes at least half of its lanes (2^b < 2 n), so that the final loop
 * ends; each lane's walk is finite because the network is a bijection.
 */
#include "sampler/shuffle/permutation.h"
#include "sampler/shuffle/permutation_kernels.h"

#define LONG 64 /* positions of a run that has a block to itself */

struct runner {
    const struct permutation_kernel *kernel;
    uint64_t *ret_units;
    struct feistel_block mixed; /* of short runs */
    struct feistel_block alone; /* of one long run: the constants of all lanes are equal */
    struct small_block small;
};

static size_t round_up(size_t count)
{
    return (count + KERNEL_LANES - 1) / KERNEL_LANES * KERNEL_LANES;
}

/* ---- large permutations ------------------------------------------------- */

static void move_position(struct feistel_block *block, size_t from, size_t to)
{
    block->low[to] = block->low[from];
    block->high[to] = block->high[from];
    block->target[to] = block->target[from];
}

static void move_constants(struct feistel_block *block, size_t from, size_t to)
{
    block->low_bits[to] = block->low_bits[from];
    block->high_bits[to] = block->high_bits[from];
    block->units[to] = block->units[from];
#pragma GCC unroll 8
    for (unsigned r = 0; r < PERMUTATION_ROUNDS; r++)
        block->keys[r][to] = block->keys[r][from];
}

/* One pass; delivers the lanes that are done and keeps the others. */
static void pass_large(struct runner *runner, struct feistel_block *block)
{
    uint16_t again[KERNEL_BLOCK];
    size_t left = 0;
    runner->kernel->feistel(block);
    for (size_t i = 0; i < block->count; i++) { /* no branch: `again` overwrites a completed lane */
        runner->ret_units[block->target[i]] = block->value[i]; /* overwritten if not complete */
        again[left] = (uint16_t)i;
        left += block->value[i] >= block->units[i];
    }
    for (size_t i = 0; i < left; i++)
        move_position(block, again[i], i);
    for (size_t i = 0; i < left && block == &runner->mixed; i++)
        move_constants(block, again[i], i);
    block->count = left;
}

static void add_large(struct runner *runner, const struct permutation_run *run, size_t target)
{
    bool is_long = run->count >= LONG;
    struct feistel_block *block = is_long ? &runner->alone : &runner->mixed;
    struct permutation permutation;
    permutation_init(&permutation, run->units, run->key);
    if (is_long)
        runner->kernel->describe(block, &permutation, 0,
                                 run->count < KERNEL_BLOCK ? run->count : KERNEL_BLOCK);
    for (size_t done = 0; done < run->count;) {
        size_t room = KERNEL_BLOCK - block->count;
        size_t count = run->count - done < room ? run->count - done : room;
        if (!is_long)
            runner->kernel->describe(block, &permutation, block->count, block->count + count);
        runner->kernel->add(block, &permutation, run->first + done, count,
                            (uint32_t)(target + done));
        done += count;
        if (block->count == KERNEL_BLOCK)
            pass_large(runner, block);
    }
    while (is_long && block->count > 0)
        pass_large(runner, block);
}

/* ---- small permutations ------------------------------------------------- */

/* No walking: one call is all 32 rounds. Lanes up to the next whole vector get n = 1, whose only
 * value 0 is its own partner. */
static void finish_small(struct runner *runner)
{
    struct small_block *block = &runner->small;
    for (size_t i = block->count; i < round_up(block->count); i++) {
        block->value[i] = block->point_key[i] = block->coin_key[i] = 0;
        block->units[i] = 1;
    }
    runner->kernel->small(block);
    for (size_t i = 0; i < block->count; i++)
        runner->ret_units[block->target[i]] = block->value[i];
    block->count = 0;
}

static void add_small(struct runner *runner, const struct permutation_run *run, size_t target)
{
    struct small_block *block = &runner->small;
    for (size_t i = 0; i < run->count; i++) {
        size_t lane = block->count++;
        block->value[lane] = (uint32_t)(run->first + i);
        block->units[lane] = (uint32_t)run->units;
        block->point_key[lane] = (uint32_t)run->key;
        block->coin_key[lane] = (uint32_t)(run->key >> 32);
        block->target[lane] = (uint32_t)(target + i);
        if (block->count == KERNEL_BLOCK)
            finish_small(runner);
    }
}

/* A few large runs are worth separate vectors, with their keys in registers. */
static bool are_few(const struct permutation_run *runs, size_t count)
{
    if (count > KERNEL_FEW_RUNS)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (runs[i].units < PERMUTATION_SMALL)
            return false;
    }
    return true;
}

/* Kernels leave positions 0 and 1 in place. */
static void swap_first(const struct permutation_run *runs, size_t count, uint64_t *ret_units)
{
    for (size_t i = 0; i < count; i++) {
        const struct permutation_run *run = &runs[i];
        struct permutation permutation;
        if (run->first < 2 && run->units >= PERMUTATION_SMALL && run->count > 0) {
            permutation_init(&permutation, run->units, run->key);
            for (uint64_t at = run->first; at < 2 && at < run->first + run->count; at++)
                ret_units[at - run->first] = permutation_at(&permutation, at);
        }
        ret_units += run->count;
    }
}

static void run_any(const struct permutation_kernel *kernel, const struct permutation_run *runs,
                    size_t count, uint64_t *ret_units)
{
    struct runner runner; /* not set to zero: only lanes below the counts are read */
    size_t target = 0;
    runner.kernel = kernel;
    runner.ret_units = ret_units;
    runner.mixed.count = runner.alone.count = 0;
    runner.small.count = 0;
    for (size_t i = 0; i < count; i++) {
        if (runs[i].units >= PERMUTATION_SMALL)
            add_large(&runner, &runs[i], target);
        else
            add_small(&runner, &runs[i], target);
        target += runs[i].count;
    }
    while (runner.mixed.count > 0)
        pass_large(&runner, &runner.mixed);
    if (runner.small.count > 0)
        finish_small(&runner);
}

void permutation_runs(const struct permutation_run *runs, size_t count, uint64_t *ret_units)
{
    const struct permutation_kernel *kernel = permutation_kernel();
    if (kernel->few && are_few(runs, count))
        kernel->few(runs, count, ret_units);
    else
        run_any(kernel, runs, count, ret_units);
    swap_first(runs, count, ret_units);
}

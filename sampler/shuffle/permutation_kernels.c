/* SPDX-License-Identifier: MIT */
/*
 * The rounds over blocks of lanes, one position per lane. GNU C vectors, no intrinsics: each body
 * is written once and inlined into three functions, which compile it for AVX-512, for AVX2 and for
 * any processor.
 *
 * Every lane has all the data of its permutation - the 8 round keys, the widths of both halves, n -
 * so that adjacent lanes may belong to different strata and vectors are full however short the runs
 * are. Reading these words of each lane from the L1 cache costs less than idle lanes.
 *
 * Invariants:
 *   - low < 2^low_bits and high < 2^high_bits before and after each round, low_bits 6 to 31,
 *     high_bits 6 to 31 (n from 4096 to 2^62), so that a round's shift by 32 - bits is 1 to 26
 *     places.
 *   - Lanes from the block's count to the next multiple of 16 are computed with whatever lies
 *     there, and nobody reads them; only the small block must be safe there, see
 *     permutation_runs.c.
 */
#include "sampler/shuffle/permutation_kernels.h"
#include "sampler/shuffle/permutation_rounds.h"

#define INLINE static inline __attribute__((always_inline))

typedef uint32_t lanes __attribute__((vector_size(4 * KERNEL_LANES)));
typedef uint32_t half_lanes __attribute__((vector_size(2 * KERNEL_LANES)));
typedef uint64_t wide_lanes __attribute__((vector_size(4 * KERNEL_LANES))); /* half as many */
/* the same anywhere in memory */
typedef uint32_t loose_lanes __attribute__((vector_size(4 * KERNEL_LANES), aligned(4)));
typedef uint64_t loose_wide_lanes __attribute__((vector_size(4 * KERNEL_LANES), aligned(8)));

union joined {
    lanes all;
    half_lanes half[2];
};

#define HALF (KERNEL_LANES / 2)

/* ---- large permutations ------------------------------------------------- */

/* Positions first ... first + count - 1 to lanes [block->count, + count): one constant per field,
 * and the position split into its halves. Positions have 64 bits, halves 32, so that a vector of 16
 * lanes is made from two of 8. Loose vectors: a run begins at any lane. */
INLINE void add_kernel(struct feistel_block *block, const struct permutation *permutation,
                       uint64_t first, size_t count, uint32_t target)
{
    const lanes none = {0};
    const lanes index = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const wide_lanes wide_index = {0, 1, 2, 3, 4, 5, 6, 7};
    const wide_lanes wide_none = {0};
    uint64_t low_mask = (UINT64_C(1) << permutation->low_bits) - 1;
    for (size_t i = 0; i < count; i += KERNEL_LANES) {
        size_t at = block->count + i;
        union joined low;
        union joined high;
        for (unsigned h = 0; h < 2; h++) {
            wide_lanes position = wide_index + (first + i + h * HALF);
            low.half[h] = __builtin_convertvector(position & low_mask, half_lanes);
            high.half[h] = __builtin_convertvector(position >> permutation->low_bits, half_lanes);
            *(loose_wide_lanes *)(block->units + at + h * HALF) = wide_none + permutation->units;
        }
        *(loose_lanes *)(block->low + at) = low.all;
        *(loose_lanes *)(block->high + at) = high.all;
        *(loose_lanes *)(block->low_bits + at) = none + permutation->low_bits;
        *(loose_lanes *)(block->high_bits + at) = none + permutation->high_bits;
        *(loose_lanes *)(block->target + at) = index + (target + (uint32_t)i);
        for (unsigned r = 0; r < PERMUTATION_ROUNDS; r++)
            *(loose_lanes *)(block->keys[r] + at) = none + permutation->rounds[r];
    }
    block->count += count;
}

/* 8 rounds per lane, each two dependent multiplications; several iterations are in flight at once,
 * since no vector needs another's result. */
INLINE void feistel_kernel(struct feistel_block *block)
{
    for (size_t i = 0; i < block->count; i += KERNEL_LANES) { /* <= 256 lanes by 16 */
        lanes low = *(lanes *)(block->low + i);
        lanes high = *(lanes *)(block->high + i);
        lanes low_bits = *(lanes *)(block->low_bits + i);
        lanes high_bits = *(lanes *)(block->high_bits + i);
        lanes scratch;
        for (unsigned r = 0; r < PERMUTATION_ROUNDS; r += 2) {
            ROUNDS_FEISTEL(low, low_bits, high, *(lanes *)(block->keys[r] + i), scratch);
            ROUNDS_FEISTEL(high, high_bits, low, *(lanes *)(block->keys[r + 1] + i), scratch);
        }
        *(lanes *)(block->low + i) = low;
        *(lanes *)(block->high + i) = high;
    }
}

/* ---- small permutations ------------------------------------------------- */

/* swap_or_not() of permutation.c without branches. Comparisons are -1 or 0 per lane: `units &
 * (...)` adds n back if the difference is below 0, `larger` and `swap` select one of two values. 32
 * rounds of two hashes; values stay in registers. */
INLINE void small_kernel(struct small_block *block)
{
    for (size_t i = 0; i < block->count; i += KERNEL_LANES) { /* <= 256 lanes by 16 */
        lanes value = *(lanes *)(block->value + i), units = *(lanes *)(block->units + i);
        lanes point_key = *(lanes *)(block->point_key + i);
        lanes coin_key = *(lanes *)(block->coin_key + i);
        for (uint32_t round = 0; round < ROUNDS_SMALL; round++) {
            lanes point = ROUNDS_POINT_KEY(point_key, round);
            ROUNDS_HASH(point);
            lanes reflection = ROUNDS_POINT(point, units);
            lanes partner = reflection - value + (units & (lanes)(reflection < value));
            lanes larger = (lanes)(value > partner);
            lanes coin =
                ((value & larger) | (partner & ~larger)) ^ ROUNDS_COIN_KEY(coin_key, round);
            ROUNDS_HASH(coin);
            lanes swap = -(coin >> 31);
            value = (partner & swap) | (value & ~swap);
        }
        *(lanes *)(block->value + i) = value;
    }
}

/* ---- one set of functions an instruction set ---------------------------- */

static bool supports_any(void)
{
    return true;
}

static void add_any(struct feistel_block *block, const struct permutation *permutation,
                    uint64_t first, size_t count, uint32_t target)
{
    add_kernel(block, permutation, first, count, target);
}

static void feistel_any(struct feistel_block *block)
{
    feistel_kernel(block);
}

static void small_any(struct small_block *block)
{
    small_kernel(block);
}

static const struct permutation_kernel kernel_any = {"any processor", supports_any, add_any,
                                                     feistel_any,     small_any,    NULL};

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

static bool supports_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

static AVX2 void add_avx2(struct feistel_block *block, const struct permutation *permutation,
                          uint64_t first, size_t count, uint32_t target)
{
    add_kernel(block, permutation, first, count, target);
}

static AVX2 void feistel_avx2(struct feistel_block *block)
{
    feistel_kernel(block);
}

static AVX2 void small_avx2(struct small_block *block)
{
    small_kernel(block);
}

static const struct permutation_kernel kernel_avx2 = {"AVX2",       supports_avx2, add_avx2,
                                                      feistel_avx2, small_avx2,    NULL};

static bool supports_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static AVX512 void add_avx512(struct feistel_block *block, const struct permutation *permutation,
                              uint64_t first, size_t count, uint32_t target)
{
    add_kernel(block, permutation, first, count, target);
}

static AVX512 void feistel_avx512(struct feistel_block *block)
{
    feistel_kernel(block);
}

static AVX512 void small_avx512(struct small_block *block)
{
    small_kernel(block);
}

static const struct permutation_kernel kernel_avx512 = {
    "AVX-512", supports_avx512, add_avx512, feistel_avx512, small_avx512, permutation_few_avx512};

const struct permutation_kernel *const permutation_kernels[] = {&kernel_avx512, &kernel_avx2,
                                                                &kernel_any, NULL};
#else
const struct permutation_kernel *const permutation_kernels[] = {&kernel_any, NULL};
#endif

const struct permutation_kernel *permutation_kernel(void)
{
    for (size_t i = 0; permutation_kernels[i]; i++) {
        if (permutation_kernels[i]->is_supported())
            return permutation_kernels[i];
    }
    return &kernel_any;
}

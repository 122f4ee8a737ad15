/* SPDX-License-Identifier: MIT */
/*
 * The kernel for up to KERNEL_FEW_RUNS large permutations at once, for processors with AVX-512. Its
 * functions, in a position's order:
 *
 *   cut()        16 neighbours at a time into halves of 32 bits
 *   add_group()  first pass of a long run: 4 or 2 vectors at once, all of one run, keys broadcast
 *   add_short()  short runs and ends of long ones: no pass yet, only packed with the pending lanes
 *   keep()       lanes that landed on n or above are packed behind the pending ones of other runs
 *   walk_on()    one more pass for all that is pending, each lane with the keys of its own run
 *   walk_home()  the last 16 or fewer: the vector stays in registers until all have landed
 *
 * Why it is fast. A round is two dependent multiplications, and 8 rounds depend on each other: WIDE
 * = 4 independent vectors keep the multiplier busy meanwhile. A lane needs at most 2 passes on
 * average, and packing keeps the vectors of later passes full. Looking up a run's key is one
 * vpermd: row facts[which] holds 16 runs' values in one register, and the instruction uses only the
 * last 4 bits of a lane's tag, which therefore hold the run and limit runs to 16. Results are
 * scattered by scalar stores, since the scatter instruction is slower.
 *
 * Invariants:
 *   - (high, low) compared one after the other is the order of values, so that landing on n or
 *     above is seen before halves are joined to 64 bits.
 *   - tag = index of the result << 4 | run: runs together hold less than 2^28 positions.
 *   - count <= PENDING. Vectors are stored whole at `count`, hence WIDE_LANES more; lanes from
 *     `count` on are garbage, and first_lanes() masks them wherever they would be kept or
 *     delivered.
 *   - walk_on() packs survivors into the arrays that it reads: those of lanes [i, i + 64) are
 *     stored at count <= i, after all 64 were loaded and delivered, and reach lane i + 63 at most.
 *   - A result is delivered at every pass; the last delivery of a lane is the one that landed.
 */
#include "sampler/shuffle/permutation_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "sampler/shuffle/permutation_rounds.h"

#define VECTORS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,popcnt")))
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* Vectors processed together, because a round waits for the one before it. */
#define WIDE 4
#define WIDE_LANES ((size_t)WIDE * KERNEL_LANES)
#define PENDING (8 * WIDE_LANES)

typedef uint32_t lanes __attribute__((vector_size(4 * KERNEL_LANES)));

/* The data of a run that a pass needs. */
enum fact {
    FACT_LOW_BITS = PERMUTATION_ROUNDS, /* before it: the rounds' keys */
    FACT_HIGH_BITS,
    FACT_UNITS_LOW, /* n, split like values */
    FACT_UNITS_HIGH,
    FACTS
};

/* Lanes that still need a pass. Vectors are read and written whole. A lane's tag contains the index
 * of its result and, in the last 4 bits, which are those that a vector permutation uses, its
 * run. */
struct few {
    _Alignas(64) uint32_t facts[FACTS][KERNEL_FEW_RUNS];
    uint32_t low[PENDING + WIDE_LANES];
    uint32_t high[PENDING + WIDE_LANES];
    uint32_t tag[PENDING + WIDE_LANES];
    size_t count;
    uint64_t *ret_units;
};

struct group {
    __m512i low[WIDE], high[WIDE], tag[WIDE];
};

/* For the lanes of a vector, or for the one run to which all of them belong (`tag` NULL). */
INLINE VECTORS __m512i fact(const struct few *few, unsigned which, const __m512i *tag, uint32_t run)
{
    return tag ? _mm512_permutexvar_epi32(*tag, _mm512_load_si512(few->facts[which]))
               : _mm512_set1_epi32((int)few->facts[which][run]);
}

/* The rounds over `vectors` of the group, a constant: the loops are unrolled, and all of low, high
 * and scratch are registers. Half-rounds of all vectors are adjacent, so that they overlap. */
INLINE VECTORS void pass(const struct few *few, struct group *group, int vectors, bool same_run,
                         uint32_t run)
{
#define FACT(which, v) fact(few, which, same_run ? NULL : &group->tag[v], run)
    lanes low_bits[WIDE];
    lanes high_bits[WIDE];
    lanes scratch[WIDE];
    lanes low[WIDE];
    lanes high[WIDE];
    UNROLL for (int v = 0; v < vectors; v++)
    {
        low_bits[v] = (lanes)FACT(FACT_LOW_BITS, v);
        high_bits[v] = (lanes)FACT(FACT_HIGH_BITS, v);
        low[v] = (lanes)group->low[v];
        high[v] = (lanes)group->high[v];
    }
    UNROLL for (unsigned r = 0; r < PERMUTATION_ROUNDS; r += 2)
    {
        UNROLL for (int v = 0; v < vectors; v++)
            ROUNDS_FEISTEL(low[v], low_bits[v], high[v], (lanes)FACT(r, v), scratch[v]);
        UNROLL for (int v = 0; v < vectors; v++)
            ROUNDS_FEISTEL(high[v], high_bits[v], low[v], (lanes)FACT(r + 1, v), scratch[v]);
    }
    UNROLL for (int v = 0; v < vectors; v++)
    {
        group->low[v] = (__m512i)low[v];
        group->high[v] = (__m512i)high[v];
    }
}

/* Lanes that landed on n or above. */
INLINE VECTORS __mmask16 is_over(const struct few *few, const struct group *group, int v,
                                 bool same_run, uint32_t run)
{
    __m512i units_low = FACT(FACT_UNITS_LOW, v);
    __m512i units_high = FACT(FACT_UNITS_HIGH, v);
    return _mm512_cmpgt_epu32_mask(group->high[v], units_high) |
           _mm512_mask_cmpge_epu32_mask(_mm512_cmpeq_epu32_mask(group->high[v], units_high),
                                        group->low[v], units_low);
}

/* Half of the lanes as values. */
INLINE VECTORS __m512i join(__m256i low, __m256i high, __m256i low_bits)
{
    __m512i shifted =
        _mm512_sllv_epi64(_mm512_cvtepu32_epi64(high), _mm512_cvtepu32_epi64(low_bits));
    return _mm512_or_si512(shifted, _mm512_cvtepu32_epi64(low));
}

INLINE VECTORS void join_all(const struct few *few, const struct group *group, int v, bool same_run,
                             uint32_t run, uint64_t *ret_values)
{
    __m512i bits = FACT(FACT_LOW_BITS, v);
    __m512i low = group->low[v];
    __m512i high = group->high[v];
    _mm512_storeu_si512(ret_values, join(_mm512_castsi512_si256(low), _mm512_castsi512_si256(high),
                                         _mm512_castsi512_si256(bits)));
    _mm512_storeu_si512(ret_values + KERNEL_LANES / 2,
                        join(_mm512_extracti64x4_epi64(low, 1), _mm512_extracti64x4_epi64(high, 1),
                             _mm512_extracti64x4_epi64(bits, 1)));
#undef FACT
}

/* ---- lanes that walk on ------------------------------------------------- */

INLINE VECTORS __mmask16 first_lanes(size_t count)
{
    return count >= KERNEL_LANES ? (__mmask16)0xffff : (__mmask16)((1u << count) - 1);
}

INLINE VECTORS void keep(struct few *few, __mmask16 which, __m512i low, __m512i high, __m512i tag)
{
    size_t at = few->count;
    _mm512_storeu_si512(few->low + at, _mm512_maskz_compress_epi32(which, low));
    _mm512_storeu_si512(few->high + at, _mm512_maskz_compress_epi32(which, high));
    _mm512_storeu_si512(few->tag + at, _mm512_maskz_compress_epi32(which, tag));
    few->count = at + (size_t)__builtin_popcount(which);
}

INLINE VECTORS void load(const struct few *few, struct group *group, size_t first, int vectors)
{
    UNROLL for (int v = 0; v < vectors; v++)
    {
        size_t at = first + (size_t)v * KERNEL_LANES;
        group->low[v] = _mm512_loadu_si512(few->low + at);
        group->high[v] = _mm512_loadu_si512(few->high + at);
        group->tag[v] = _mm512_loadu_si512(few->tag + at);
    }
}

/* Not inlined into vector code: scatter instructions are slower. */
static __attribute__((noinline)) void deliver(uint64_t *ret_units, const uint32_t *tags,
                                              const uint64_t *values, size_t count)
{
    UNROLL for (size_t i = 0; i < count; i++) ret_units[tags[i] >> 4] = values[i];
}

/* One more pass for all lanes that are not done. Those that still are not overwrite the ones before
 * them. */
static VECTORS void walk_on(struct few *few)
{
    size_t count = few->count;
    few->count = 0;
    for (size_t i = 0; i < count; i += WIDE_LANES) {
        uint64_t values[WIDE_LANES];
        struct group group;
        load(few, &group, i, WIDE);
        pass(few, &group, WIDE, false, 0);
        UNROLL for (int v = 0; v < WIDE; v++)
            join_all(few, &group, v, false, 0, values + v * KERNEL_LANES);
        size_t here = count - i < WIDE_LANES ? count - i : WIDE_LANES;
        deliver(few->ret_units, few->tag + i, values,
                here); /* overwritten later if it is not done */
        UNROLL for (int v = 0; v < WIDE; v++)
        {
            size_t before = (size_t)v * KERNEL_LANES;
            __mmask16 again =
                is_over(few, &group, v, false, 0) & first_lanes(here > before ? here - before : 0);
            keep(few, again, group.low[v], group.high[v], group.tag[v]);
        }
    }
}

/* The last ones, at most a vector: they stay in registers until all are done. */
static VECTORS void walk_home(struct few *few)
{
    uint64_t values[KERNEL_LANES];
    struct group group;
    struct group passed;
    __mmask16 walks = first_lanes(few->count);
    load(few, &group, 0, 1);
    while (walks) {
        passed = group;
        pass(few, &passed, 1, false, 0);
        group.low[0] = _mm512_mask_mov_epi32(group.low[0], walks, passed.low[0]);
        group.high[0] = _mm512_mask_mov_epi32(group.high[0], walks, passed.high[0]);
        walks &= is_over(few, &group, 0, false, 0);
    }
    join_all(few, &group, 0, false, 0, values);
    deliver(few->ret_units, few->tag, values, few->count);
    few->count = 0;
}

/* ---- runs --------------------------------------------------------------- */

/* Positions first ... first + 15, split into halves. */
INLINE VECTORS void cut(const struct permutation *permutation, uint64_t first, __m512i *ret_low,
                        __m512i *ret_high)
{
    const __m512i index = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    __m512i low_mask = _mm512_set1_epi64((INT64_C(1) << permutation->low_bits) - 1);
    __m128i low_shift = _mm_cvtsi32_si128((int)permutation->low_bits);
    __m512i near = _mm512_add_epi64(_mm512_set1_epi64((int64_t)first), index);
    __m512i far = _mm512_add_epi64(near, _mm512_set1_epi64(KERNEL_LANES / 2));
    *ret_low = _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm512_cvtepi64_epi32(_mm512_and_si512(near, low_mask))),
        _mm512_cvtepi64_epi32(_mm512_and_si512(far, low_mask)), 1);
    *ret_high = _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm512_cvtepi64_epi32(_mm512_srl_epi64(near, low_shift))),
        _mm512_cvtepi64_epi32(_mm512_srl_epi64(far, low_shift)), 1);
}

/* The tags of a run's lanes from `target` on. */
INLINE VECTORS __m512i tags_from(uint32_t run, size_t target)
{
    const __m512i index = _mm512_slli_epi32(
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), 4);
    return _mm512_add_epi32(index, _mm512_set1_epi32((int)((uint32_t)target << 4 | run)));
}

/* Too short for separate vectors: all its lanes join the others. */
static VECTORS void add_short(struct few *few, const struct permutation *permutation, uint32_t run,
                              const struct permutation_run *positions, size_t done, size_t target)
{
    for (size_t i = done; i < positions->count; i += KERNEL_LANES) {
        __m512i low;
        __m512i high;
        size_t left = positions->count - i;
        while (few->count > PENDING - KERNEL_LANES)
            walk_on(few);
        cut(permutation, positions->first + i, &low, &high);
        _mm512_storeu_si512(few->low + few->count, low);
        _mm512_storeu_si512(few->high + few->count, high);
        _mm512_storeu_si512(few->tag + few->count, tags_from(run, target + i));
        few->count += left < KERNEL_LANES ? left : KERNEL_LANES;
    }
}

/* `vectors` vectors of positions from `done` on. */
INLINE VECTORS void add_group(struct few *few, const struct permutation *permutation, uint32_t run,
                              uint64_t first, size_t target, int vectors)
{
    struct group group;
    UNROLL for (int v = 0; v < vectors; v++)
        cut(permutation, first + (unsigned)v * KERNEL_LANES, &group.low[v], &group.high[v]);
    pass(few, &group, vectors, true, run);
    while (few->count > PENDING - WIDE_LANES)
        walk_on(few);
    UNROLL for (int v = 0; v < vectors; v++)
    {
        size_t at = target + (unsigned)v * KERNEL_LANES;
        join_all(few, &group, v, true, run, few->ret_units + at);
        keep(few, is_over(few, &group, v, true, run), group.low[v], group.high[v],
             tags_from(run, at));
    }
}

/* Returns how many positions had a pass. */
static VECTORS size_t add_long(struct few *few, const struct permutation *permutation, uint32_t run,
                               const struct permutation_run *positions, size_t target)
{
    size_t i = 0;
    for (; i + WIDE_LANES <= positions->count; i += WIDE_LANES)
        add_group(few, permutation, run, positions->first + i, target + i, WIDE);
    for (; i + WIDE_LANES / 2 <= positions->count; i += WIDE_LANES / 2)
        add_group(few, permutation, run, positions->first + i, target + i, WIDE / 2);
    return i;
}

static void note_facts(struct few *few, const struct permutation *permutation, size_t run)
{
    uint64_t low_mask = (UINT64_C(1) << permutation->low_bits) - 1;
    for (unsigned r = 0; r < PERMUTATION_ROUNDS; r++)
        few->facts[r][run] = permutation->rounds[r];
    few->facts[FACT_LOW_BITS][run] = permutation->low_bits;
    few->facts[FACT_HIGH_BITS][run] = permutation->high_bits;
    few->facts[FACT_UNITS_LOW][run] = (uint32_t)(permutation->units & low_mask);
    few->facts[FACT_UNITS_HIGH][run] = (uint32_t)(permutation->units >> permutation->low_bits);
}

void permutation_few_avx512(const struct permutation_run *runs, size_t count, uint64_t *ret_units)
{
    struct few few; /* not set to zero: only what was written is used */
    size_t target = 0;
    few.count = 0;
    few.ret_units = ret_units;
    for (size_t i = 0; i < count; i++) {
        struct permutation permutation;
        permutation_init(&permutation, runs[i].units, runs[i].key);
        note_facts(&few, &permutation, i);
        size_t done = add_long(&few, &permutation, (uint32_t)i, &runs[i], target);
        add_short(&few, &permutation, (uint32_t)i, &runs[i], done, target);
        target += runs[i].count;
    }
    while (few.count > KERNEL_LANES)
        walk_on(&few);
    walk_home(&few);
}
#endif

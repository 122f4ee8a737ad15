/*
 * The kernel for up to KERNEL_FEW_RUNS large permutations at once, for processors with AVX-512: the
 * first pass of a long run has its keys in registers; short runs, ends, and lanes that have to walk
 * on are packed together and find the keys of their run by a permutation of 16 runs' keys.
 */
#include "sampler/permutation_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "sampler/permutation_rounds.h"

#define VECTORS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,popcnt")))
#define INLINE static inline __attribute__((always_inline))
#define PENDING 512
#define PAIR ((size_t)2 * KERNEL_LANES)

typedef uint32_t lanes __attribute__((vector_size(4 * KERNEL_LANES)));

/* What a pass needs to know of the permutation of each lane. */
struct lane_keys {
    __m512i keys[PERMUTATION_ROUNDS];
    __m512i low_bits, high_bits;
    __m512i units_low, units_high; /* n, cut as values are */
};

#define LANE_KEYS (sizeof(struct lane_keys) / sizeof(__m512i))

/* Lanes that walk on. Vectors are written whole, and read in pairs. */
struct few {
    _Alignas(64) uint32_t runs[LANE_KEYS][KERNEL_FEW_RUNS];
    uint32_t low[PENDING + PAIR];
    uint32_t high[PENDING + PAIR];
    uint32_t run[PENDING + PAIR];
    uint32_t target[PENDING + PAIR];
    size_t count;
    uint64_t *ret_units;
};

/* Two vectors at once, for a round waits for the one before it. */
struct pair {
    __m512i low[2], high[2];
    __mmask16 again[2]; /* lanes that walk on */
};

INLINE VECTORS __mmask16 is_over(const struct lane_keys *keys, __m512i low, __m512i high)
{
    return _mm512_cmpgt_epu32_mask(high, keys->units_high) |
           _mm512_mask_cmpge_epu32_mask(_mm512_cmpeq_epu32_mask(high, keys->units_high), low,
                                        keys->units_low);
}

INLINE VECTORS void pass(const struct lane_keys keys[2], struct pair *pair)
{
    lanes l0 = (lanes)pair->low[0];
    lanes h0 = (lanes)pair->high[0];
    lanes l1 = (lanes)pair->low[1];
    lanes h1 = (lanes)pair->high[1];
    lanes s0;
    lanes s1;
    for (unsigned r = 0; r < PERMUTATION_ROUNDS; r += 2) {
        ROUNDS_FEISTEL(l0, (lanes)keys[0].low_bits, h0, (lanes)keys[0].keys[r], s0);
        ROUNDS_FEISTEL(l1, (lanes)keys[1].low_bits, h1, (lanes)keys[1].keys[r], s1);
        ROUNDS_FEISTEL(h0, (lanes)keys[0].high_bits, l0, (lanes)keys[0].keys[r + 1], s0);
        ROUNDS_FEISTEL(h1, (lanes)keys[1].high_bits, l1, (lanes)keys[1].keys[r + 1], s1);
    }
    pair->low[0] = (__m512i)l0;
    pair->high[0] = (__m512i)h0;
    pair->low[1] = (__m512i)l1;
    pair->high[1] = (__m512i)h1;
    for (int v = 0; v < 2; v++)
        pair->again[v] = is_over(&keys[v], pair->low[v], pair->high[v]);
}

/* Half of the lanes as values. */
INLINE VECTORS __m512i join(__m256i low, __m256i high, __m256i low_bits)
{
    __m512i shifted =
        _mm512_sllv_epi64(_mm512_cvtepu32_epi64(high), _mm512_cvtepu32_epi64(low_bits));
    return _mm512_or_si512(shifted, _mm512_cvtepu32_epi64(low));
}

INLINE VECTORS void join_all(const struct lane_keys *keys, __m512i low, __m512i high,
                             __m512i ret_values[2])
{
    ret_values[0] = join(_mm512_castsi512_si256(low), _mm512_castsi512_si256(high),
                         _mm512_castsi512_si256(keys->low_bits));
    ret_values[1] = join(_mm512_extracti64x4_epi64(low, 1), _mm512_extracti64x4_epi64(high, 1),
                         _mm512_extracti64x4_epi64(keys->low_bits, 1));
}

INLINE VECTORS void keep(struct few *few, __mmask16 which, __m512i low, __m512i high, __m512i run,
                         __m512i target)
{
    size_t at = few->count;
    _mm512_storeu_si512(few->low + at, _mm512_maskz_compress_epi32(which, low));
    _mm512_storeu_si512(few->high + at, _mm512_maskz_compress_epi32(which, high));
    _mm512_storeu_si512(few->run + at, _mm512_maskz_compress_epi32(which, run));
    _mm512_storeu_si512(few->target + at, _mm512_maskz_compress_epi32(which, target));
    few->count = at + (size_t)__builtin_popcount(which);
}

INLINE VECTORS __mmask16 first_lanes(size_t count)
{
    return count >= KERNEL_LANES ? (__mmask16)0xffff : (__mmask16)((1u << count) - 1);
}

/* One more pass for all that walk on. Those that still do are written over the ones before them. */
static VECTORS void walk_on(struct few *few)
{
    size_t count = few->count;
    few->count = 0;
    for (size_t i = 0; i < count; i += PAIR) {
        uint64_t values[PAIR];
        struct lane_keys keys[2];
        struct pair pair;
        __m512i run[2];
        __m512i target[2];
        for (int v = 0; v < 2; v++) {
            size_t at = i + (size_t)v * KERNEL_LANES;
            pair.low[v] = _mm512_loadu_si512(few->low + at);
            pair.high[v] = _mm512_loadu_si512(few->high + at);
            run[v] = _mm512_loadu_si512(few->run + at);
            target[v] = _mm512_loadu_si512(few->target + at);
            for (size_t k = 0; k < LANE_KEYS; k++)
                ((__m512i *)&keys[v])[k] =
                    _mm512_permutexvar_epi32(run[v], _mm512_load_si512(few->runs[k]));
        }
        pass(keys, &pair);
        for (int v = 0; v < 2; v++) {
            __m512i joined[2];
            join_all(&keys[v], pair.low[v], pair.high[v], joined);
            _mm512_storeu_si512(values + v * KERNEL_LANES, joined[0]);
            _mm512_storeu_si512(values + v * KERNEL_LANES + KERNEL_LANES / 2, joined[1]);
        }
        size_t here = count - i < PAIR ? count - i : PAIR;
        for (size_t j = 0; j < here; j++) /* written over later if it is not done */
            few->ret_units[few->target[i + j]] = values[j];
        keep(few, pair.again[0] & first_lanes(here), pair.low[0], pair.high[0], run[0], target[0]);
        if (here > KERNEL_LANES)
            keep(few, pair.again[1] & first_lanes(here - KERNEL_LANES), pair.low[1], pair.high[1],
                 run[1], target[1]);
    }
}

/* Positions first ... first + 15, cut into halves. */
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

INLINE VECTORS void keep_at(struct few *few, __mmask16 which, __m512i low, __m512i high,
                            uint32_t run, size_t target)
{
    const __m512i index = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    keep(few, which, low, high, _mm512_set1_epi32((int)run),
         _mm512_add_epi32(index, _mm512_set1_epi32((int)target)));
}

/* Too short for vectors of its own: all its lanes come to the others. */
static VECTORS void add_short(struct few *few, const struct permutation *permutation, uint32_t run,
                              const struct permutation_run *positions, size_t done, size_t target)
{
    for (size_t i = done; i < positions->count; i += KERNEL_LANES) {
        __m512i low;
        __m512i high;
        while (few->count > PENDING - KERNEL_LANES)
            walk_on(few);
        cut(permutation, positions->first + i, &low, &high);
        keep_at(few, first_lanes(positions->count - i), low, high, run, target + i);
    }
}

/* Returns how many positions had a pass. */
static VECTORS size_t add_long(struct few *few, const struct permutation *permutation, uint32_t run,
                               const struct permutation_run *positions, size_t target)
{
    struct lane_keys keys[2];
    size_t i = 0;
    for (size_t k = 0; k < LANE_KEYS; k++)
        ((__m512i *)&keys[0])[k] = _mm512_set1_epi32((int)few->runs[k][run]);
    keys[1] = keys[0];
    for (; i + PAIR <= positions->count; i += PAIR) {
        struct pair pair;
        for (unsigned v = 0; v < 2; v++)
            cut(permutation, positions->first + i + v * KERNEL_LANES, &pair.low[v], &pair.high[v]);
        pass(keys, &pair);
        while (few->count > PENDING - PAIR)
            walk_on(few);
        for (unsigned v = 0; v < 2; v++) {
            __m512i joined[2];
            size_t at = target + i + v * KERNEL_LANES;
            join_all(&keys[v], pair.low[v], pair.high[v], joined);
            _mm512_storeu_si512(few->ret_units + at, joined[0]);
            _mm512_storeu_si512(few->ret_units + at + KERNEL_LANES / 2, joined[1]);
            keep_at(few, pair.again[v], pair.low[v], pair.high[v], run, at);
        }
    }
    return i;
}

static void note_keys(struct few *few, const struct permutation *permutation, size_t run)
{
    uint64_t low_mask = (UINT64_C(1) << permutation->low_bits) - 1;
    for (unsigned r = 0; r < PERMUTATION_ROUNDS; r++)
        few->runs[r][run] = permutation->rounds[r];
    few->runs[PERMUTATION_ROUNDS][run] = permutation->low_bits;
    few->runs[PERMUTATION_ROUNDS + 1][run] = permutation->high_bits;
    few->runs[PERMUTATION_ROUNDS + 2][run] = (uint32_t)(permutation->units & low_mask);
    few->runs[PERMUTATION_ROUNDS + 3][run] =
        (uint32_t)(permutation->units >> permutation->low_bits);
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
        note_keys(&few, &permutation, i);
        size_t done = 0;
        if (runs[i].count >= PAIR)
            done = add_long(&few, &permutation, (uint32_t)i, &runs[i], target);
        add_short(&few, &permutation, (uint32_t)i, &runs[i], done, target);
        target += runs[i].count;
    }
    while (few.count > 0)
        walk_on(&few);
}
#endif

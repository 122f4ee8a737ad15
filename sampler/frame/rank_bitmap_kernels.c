/* SPDX-License-Identifier: MIT */
/*
 * A line is read as eight words of 64 bits, of which the low half of the first is the count.
 *
 *   rank    line = position / 480, then the line's count and the ones in front of the position: one
 *           cache miss, no search
 *   select  two samples around k and a straight line between them guess the line; the line's own
 *           count says whether k is in it. Bits chosen by a hash (splits) are spread so evenly that
 *           the guess is right or next to right. Else neighbours, and after STEPS_LIMIT of them
 *           halving between the samples, so that no pattern of bits costs more than O(log B).
 *   within  the words' counts summed up give the word that holds the k-th one, and in it the bit:
 *           by
 *   a line  halving, or with BMI2 by depositing one bit at the k-th place (pdep) and counting zeros
 *
 * Why it is fast: lines are guessed and prefetched for AHEAD = 32 positions before the first is
 * examined, so that their cache misses overlap; within a line nothing branches on the bits.
 *
 * Invariants: the last line has no bits and counts all C before it, so that before_line(line + 1)
 * exists for every line with a bit; 0 <= k < C; before_line() never decreases.
 */
#include "sampler/frame/rank_bitmap_kernels.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define WORDS 8
#define COUNT_BITS 32  /* before a line's bits */
#define AHEAD 32       /* positions whose lines are fetched together */
#define STEPS_LIMIT 16 /* lines examined one by one before a binary search */

_Static_assert(sizeof(struct rank_bitmap_line) == WORDS * sizeof(uint64_t),
               "a line is eight words");

/* ---- which line --------------------------------------------------------- */

INLINE int64_t before_line(const struct rank_bitmap *bitmap, size_t line)
{
    return bitmap->bases[line >> RANK_BITMAP_BASE_SHIFT] + bitmap->lines[line].before;
}

INLINE uint64_t sampled_place(const struct rank_bitmap *bitmap, size_t sample)
{
    return (uint64_t)bitmap->samples[sample] << bitmap->place_shift;
}

/* The line of the k-th, if the chosen ones were spread evenly between samples. */
INLINE size_t guess_line(const struct rank_bitmap *bitmap, int64_t k)
{
    unsigned shift = bitmap->sample_shift;
    size_t sample = (size_t)(k >> shift);
    uint64_t low = sampled_place(bitmap, sample);
    uint64_t span = sampled_place(bitmap, sample + 1) - low;
    uint64_t beyond = (uint64_t)(k & ((INT64_C(1) << shift) - 1));
    return (low + (span * beyond >> shift)) / RANK_BITMAP_LINE_BITS;
}

/* Finds the line of the k-th after a wrong guess: before_line(line) <= k < before_line(line +
 * 1). */
static __attribute__((noinline)) size_t find_line(const struct rank_bitmap *bitmap, int64_t k,
                                                  size_t guess)
{
    for (int i = 0; i < STEPS_LIMIT; i++) {
        if (before_line(bitmap, guess) > k)
            guess--;
        else if (before_line(bitmap, guess + 1) <= k)
            guess++;
        else
            return guess;
    }
    size_t sample = (size_t)(k >> bitmap->sample_shift);
    size_t low = sampled_place(bitmap, sample) / RANK_BITMAP_LINE_BITS;
    size_t high =
        (((size_t)bitmap->samples[sample + 1] + 1) << bitmap->place_shift) / RANK_BITMAP_LINE_BITS +
        1;
    if (high > bitmap->line_count - 1)
        high = bitmap->line_count - 1;
    while (high - low > 1) { /* the line is in [low, high) */
        size_t middle = low + (high - low) / 2;
        if (before_line(bitmap, middle) <= k)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- any processor, with or without instructions for bits --------------- */

INLINE void load_words(const struct rank_bitmap_line *line, uint64_t words[WORDS])
{
    memcpy(words, line, sizeof(*line));
    words[0] &= ~UINT64_C(0) << COUNT_BITS;
}

INLINE int64_t rank_in_line(const struct rank_bitmap_line *line, uint32_t bit)
{
    uint64_t words[WORDS];
    int64_t ones = 0;
    load_words(line, words);
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t left = bit > 64 * i ? bit - 64 * i : 0; /* bits of this word that count */
        uint64_t mask = left >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << left) - 1;
        ones += __builtin_popcountll(words[i] & mask);
    }
    return ones;
}

/* Position of the k-th one of a word: halves of 32, 16, ... 1 bits, skipping the lower one if it
 * has too few. */
INLINE uint32_t select_in_word(uint64_t word, uint32_t k)
{
    uint32_t at = 0;
    for (uint32_t half = 32; half > 0; half /= 2) {
        uint64_t low = word >> at & ((UINT64_C(1) << half) - 1);
        uint32_t ones = (uint32_t)__builtin_popcountll(low);
        uint32_t is_beyond = k >= ones;
        k -= ones & -is_beyond;
        at += half & -is_beyond;
    }
    return at;
}

/* The word of the line's k-th one, and how many precede it there, without branches on the bits;
 * WORDS if the line has at most k. */
INLINE uint32_t find_word(const uint64_t words[WORDS], int64_t k, int64_t *ret_before)
{
    uint32_t word = 0;
    int64_t sum = 0;
    int64_t before = 0;
    for (int i = 0; i < WORDS; i++) {
        sum += __builtin_popcountll(words[i]);
        bool is_passed = sum <= k;
        word += is_passed;
        before = is_passed ? sum : before;
    }
    *ret_before = before;
    return word;
}

/* The bit of the line's k-th one (counted with COUNT_BITS), or -1 if it has at most k. */
INLINE int32_t select_in_line(const struct rank_bitmap_line *line, int64_t k)
{
    uint64_t words[WORDS];
    int64_t before;
    load_words(line, words);
    uint32_t word = find_word(words, k, &before);
    if (word == WORDS)
        return -1;
    return (int32_t)(64 * word + select_in_word(words[word], (uint32_t)(k - before)));
}

/* ---- AVX-512: a line is one vector -------------------------------------- */

#if defined(__x86_64__)
#define AVX512 __attribute__((target("avx512f,avx512dq,avx512vpopcntdq,popcnt,bmi,bmi2")))
#define BITS __attribute__((target("popcnt,bmi,bmi2")))

static inline BITS int64_t rank_by_bits(const struct rank_bitmap_line *line, uint32_t bit)
{
    uint64_t words[WORDS];
    int64_t ones = 0;
    load_words(line, words);
    for (int i = 0; i < WORDS; i++) {
        int64_t left = (int64_t)bit - 64 * i; /* bits of this word that count */
        left = left < 0 ? 0 : left > 64 ? 64 : left;
        ones += __builtin_popcountll(_bzhi_u64(words[i], (uint32_t)left));
    }
    return ones;
}

static inline BITS int32_t select_by_bits(const struct rank_bitmap_line *line, int64_t k)
{
    uint64_t words[WORDS];
    int64_t before;
    load_words(line, words);
    uint32_t word = find_word(words, k, &before);
    if (word == WORDS)
        return -1;
    uint64_t one = _pdep_u64(UINT64_C(1) << (k - before), words[word]);
    return (int32_t)(64 * word + (uint32_t)__builtin_ctzll(one));
}

static inline AVX512 __m512i load_vector(const struct rank_bitmap_line *line)
{
    return _mm512_and_si512(_mm512_load_si512(line),
                            _mm512_set_epi64(-1, -1, -1, -1, -1, -1, -1, -(INT64_C(1) << 32)));
}

static inline AVX512 int64_t rank_in_vector(const struct rank_bitmap_line *line, uint32_t bit)
{
    const __m512i ends = _mm512_set_epi64(512, 448, 384, 320, 256, 192, 128, 64);
    __m512i cut = _mm512_max_epi64(_mm512_sub_epi64(ends, _mm512_set1_epi64((int64_t)bit)),
                                   _mm512_setzero_si512());
    __m512i mask = _mm512_srlv_epi64(_mm512_set1_epi64(-1), cut); /* 0 from 64 on */
    __m512i ones = _mm512_popcnt_epi64(_mm512_and_si512(load_vector(line), mask));
    return _mm512_reduce_add_epi64(ones);
}

static inline AVX512 int32_t select_in_vector(const struct rank_bitmap_line *line, int64_t k)
{
    const __m512i none = _mm512_setzero_si512();
    uint64_t words[WORDS], sums[WORDS];
    __m512i bits = load_vector(line);
    __m512i sum = _mm512_popcnt_epi64(bits); /* becomes the sum of all words through each */
    sum = _mm512_add_epi64(sum, _mm512_alignr_epi64(sum, none, 7));
    sum = _mm512_add_epi64(sum, _mm512_alignr_epi64(sum, none, 6));
    sum = _mm512_add_epi64(sum, _mm512_alignr_epi64(sum, none, 4));
    __mmask8 passed = _mm512_cmple_epi64_mask(sum, _mm512_set1_epi64(k));
    if (passed == 0xff)
        return -1;
    uint32_t word = (uint32_t)__builtin_popcount(passed);
    _mm512_storeu_si512(words, bits);
    _mm512_storeu_si512(sums, _mm512_alignr_epi64(sum, none, 7)); /* of the words before each */
    uint64_t one = _pdep_u64(UINT64_C(1) << (k - (int64_t)sums[word]), words[word]);
    return (int32_t)(64 * word + (uint32_t)__builtin_ctzll(one));
}
#endif

/* ---- many of them ------------------------------------------------------- */

/* [count] in, [count] out, AHEAD at a time: guesses and prefetches all, then looks. */
#define DEFINE_KERNEL(SUFFIX, TARGET, RANK, SELECT)                                              \
    static TARGET void rank_##SUFFIX(const struct rank_bitmap *bitmap, const int64_t *positions, \
                                     size_t count, int64_t *ret_ranks)                           \
    {                                                                                            \
        for (size_t done = 0; done < count; done += AHEAD) {                                     \
            size_t end = count - done < AHEAD ? count : done + AHEAD;                            \
            for (size_t i = done; i < end; i++)                                                  \
                __builtin_prefetch(                                                              \
                    &bitmap->lines[(uint64_t)positions[i] / RANK_BITMAP_LINE_BITS]);             \
            for (size_t i = done; i < end; i++) {                                                \
                size_t line = (uint64_t)positions[i] / RANK_BITMAP_LINE_BITS;                    \
                uint32_t bit = (uint32_t)((uint64_t)positions[i] % RANK_BITMAP_LINE_BITS);       \
                ret_ranks[i] =                                                                   \
                    before_line(bitmap, line) + RANK(&bitmap->lines[line], COUNT_BITS + bit);    \
            }                                                                                    \
        }                                                                                        \
    }                                                                                            \
    static TARGET int64_t select_one_##SUFFIX(const struct rank_bitmap *bitmap, int64_t k,       \
                                              size_t line)                                       \
    {                                                                                            \
        int64_t in_line = k - before_line(bitmap, line);                                         \
        int32_t bit = in_line < 0 ? -1 : SELECT(&bitmap->lines[line], in_line);                  \
        if (__builtin_expect(bit < 0, 0)) {                                                      \
            line = find_line(bitmap, k, line);                                                   \
            bit = SELECT(&bitmap->lines[line], k - before_line(bitmap, line));                   \
        }                                                                                        \
        return (int64_t)line * RANK_BITMAP_LINE_BITS + bit - COUNT_BITS;                         \
    }                                                                                            \
    static TARGET void select_##SUFFIX(const struct rank_bitmap *bitmap, const int64_t *ks,      \
                                       size_t count, int64_t *ret_positions)                     \
    {                                                                                            \
        size_t lines[AHEAD];                                                                     \
        for (size_t done = 0; done < count; done += AHEAD) {                                     \
            size_t step = count - done < AHEAD ? count - done : AHEAD;                           \
            for (size_t i = 0; i < step; i++) {                                                  \
                lines[i] = guess_line(bitmap, ks[done + i]);                                     \
                __builtin_prefetch(&bitmap->lines[lines[i]]);                                    \
            }                                                                                    \
            for (size_t i = 0; i < step; i++)                                                    \
                ret_positions[done + i] = select_one_##SUFFIX(bitmap, ks[done + i], lines[i]);   \
        }                                                                                        \
    }

static bool supports_any(void)
{
    return true;
}

DEFINE_KERNEL(any, , rank_in_line, select_in_line)
static const struct rank_bitmap_kernel kernel_any = {"any processor", supports_any, rank_any,
                                                     select_any};

#if defined(__x86_64__)
static bool supports_bits(void)
{
    return __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2");
}

DEFINE_KERNEL(bits, BITS, rank_by_bits, select_by_bits)
static const struct rank_bitmap_kernel kernel_bits = {"POPCNT", supports_bits, rank_bits,
                                                      select_bits};

static bool supports_avx512(void)
{
    return supports_bits() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vpopcntdq");
}

DEFINE_KERNEL(avx512, AVX512, rank_in_vector, select_in_vector)
static const struct rank_bitmap_kernel kernel_avx512 = {"AVX-512", supports_avx512, rank_avx512,
                                                        select_avx512};

const struct rank_bitmap_kernel *const rank_bitmap_kernels[] = {&kernel_avx512, &kernel_bits,
                                                                &kernel_any, NULL};
#else
const struct rank_bitmap_kernel *const rank_bitmap_kernels[] = {&kernel_any, NULL};
#endif

const struct rank_bitmap_kernel *rank_bitmap_kernel(void)
{
    for (size_t i = 0; rank_bitmap_kernels[i]; i++) {
        if (rank_bitmap_kernels[i]->is_supported())
            return rank_bitmap_kernels[i];
    }
    return &kernel_any;
}

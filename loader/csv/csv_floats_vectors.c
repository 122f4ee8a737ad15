/* SPDX-License-Identifier: MIT */
/*
 * One field in one vector of 16 bytes, without branches on its length: its digits move to the end
 * of the vector, the fraction by one place less than the digits before the point, where they have
 * the weights 10^15 .. 10^0. Fifteen digits and powers of ten up to 10^15 are exact doubles, so one
 * division rounds correctly (Clinger 1990).
 */
#include "loader/csv/csv_floats.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2,popcnt")))

/* 16 bytes from `places` on: a shuffle that moves the first `places` bytes to the end of the
 * vector. */
static const uint8_t to_end[32] = {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
                                   128, 128, 128, 128, 128, 0,   1,   2,   3,   4,   5,
                                   6,   7,   8,   9,   10,  11,  12,  13,  14,  15};
/* From `places` on: the last `places` bytes are set. */
static const uint8_t last[32] = {[16] = 255, 255, 255, 255, 255, 255, 255, 255,
                                 255,        255, 255, 255, 255, 255, 255, 255};

static const double tens[16] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

AVX2 static inline __m128i load(const void *at)
{
    return _mm_loadu_si128(at);
}

AVX2 static inline unsigned bits_of(__m128i bytes)
{
    return (unsigned)_mm_movemask_epi8(bytes);
}

/* Sixteen digits, one per byte, the first with weight 10^15. */
AVX2 static inline uint64_t value_of(__m128i digits)
{
    const __m128i by_10 = _mm_set1_epi16(10 | 1 << 8);
    const __m128i by_100 = _mm_set1_epi32(100 | 1 << 16);
    const __m128i by_10000 = _mm_set1_epi32(10000 | 1 << 16);
    __m128i pairs = _mm_maddubs_epi16(digits, by_10);
    __m128i fours = _mm_madd_epi16(pairs, by_100);
    __m128i eights = _mm_madd_epi16(_mm_packus_epi32(fours, fours), by_10000);
    uint64_t both = (uint64_t)_mm_cvtsi128_si64(eights);
    return (both & UINT32_MAX) * 100000000 + (both >> 32);
}

AVX2 static size_t decode_avx2(const char **at, size_t count, char delimiter, void *out,
                               bool *is_u8)
{
    const __m128i delimiters = _mm_set1_epi8(delimiter);
    const char *field = *at;
    size_t done = 0;
    bool whole = *is_u8;
    for (; done < count; done++) {
        __m128i text = load(field);
        __m128i digits = _mm_sub_epi8(text, _mm_set1_epi8('0'));
        __m128i is_digit = _mm_cmpeq_epi8(_mm_min_epu8(digits, _mm_set1_epi8(9)), digits);
        unsigned ends = bits_of(_mm_cmpeq_epi8(text, delimiters));
        unsigned inside = (ends & -ends) - 1; /* the field's bytes; all, if it ends later */
        unsigned points = bits_of(_mm_cmpeq_epi8(text, _mm_set1_epi8('.'))) & inside;
        unsigned minus = bits_of(_mm_cmpeq_epi8(text, _mm_set1_epi8('-'))) & inside & 1;
        unsigned places = bits_of(is_digit) & inside;
        if (!ends || !places || (places | points | minus) != inside || (points & (points - 1)))
            break;
        unsigned length = (unsigned)__builtin_ctz(ends);
        /* Digits after the point; without a point `points - 1` has all bits. */
        unsigned fraction = (unsigned)__builtin_popcount(inside & ~(points ^ (points - 1)));
        digits = _mm_and_si128(digits, is_digit);
        __m128i behind = _mm_shuffle_epi8(digits, load(to_end + length));
        __m128i before = _mm_shuffle_epi8(digits, load(to_end + length - (points != 0)));
        __m128i all = _mm_blendv_epi8(before, behind, load(last + fraction));
        double value = (double)(int64_t)value_of(all) / tens[fraction];
        value = minus ? -value : value;
        float rounded = (float)value;
        memcpy((uint8_t *)out + done * sizeof(rounded), &rounded, sizeof(rounded));
        whole = whole && value == (double)(uint8_t)(int64_t)value;
        field += length + 1;
    }
    *is_u8 = whole;
    *at = field;
    return done;
}

csv_floats_way *csv_floats_vectors(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt") ? decode_avx2 : NULL;
}

#else

csv_floats_way *csv_floats_vectors(void)
{
    return NULL;
}

#endif

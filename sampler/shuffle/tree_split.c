/* SPDX-License-Identifier: MIT */
/*
 * What always holds: before position i of the node, rest = ((first + i) * left_size + phase) mod
 * size. Position i goes left exactly if rest + left_size reaches the size, and then the rest has
 * wrapped around: it is below left_size. So that the loop adds and compares, and divides nothing.
 *
 * In vectors lane i starts with the rest behind i + 1 steps, which is made from left_size * 1, 2
 * and 4 modulo size by the bits of i; from then on 16 lanes go on by 16 steps at once. Sums stay
 * below 2^63, and modulo is an unsigned minimum. Slots are packed by vpcompressw: those that go
 * left to the front of the array they come from, which has been read that far; those that go right
 * aside, and behind the others at the end. No branch depends on where a position goes: half of them
 * would be guessed wrong.
 */
#include "sampler/shuffle/tree_split.h"

#include <assert.h>
#include <string.h>

#include "sampler/shuffle/tree.h"

/* Fewer positions are not worth the vectors' start. */
#define VECTORS_FROM 8
#define LANES 16

uint32_t tree_split_plain(const struct tree_split *split, uint16_t *slots)
{
    uint16_t right[TREE_BLOCK];
    int64_t rest = split->rest;
    uint32_t lefts = 0;
    uint32_t rights = 0;
    for (uint32_t i = 0; i < split->count; i++) {
        rest += split->left_size;
        bool goes_left = rest >= split->size;
        rest -= goes_left ? split->size : 0;
        right[rights] = slots[i];
        slots[lefts] = slots[i];
        lefts += goes_left;
        rights += !goes_left;
    }
    /* cppcheck-suppress uninitvar ; the loop filled `rights` of them */
    memcpy(slots + lefts, right, rights * sizeof(*slots));
    return lefts;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define VECTORS __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")))

bool tree_split_has_vectors(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2");
}

/* (a + b) mod size, both below it. A difference below 0 is a huge number without sign. */
static inline VECTORS __m512i add_lanes(__m512i a, __m512i b, __m512i size)
{
    __m512i sum = _mm512_add_epi64(a, b);
    return _mm512_min_epu64(sum, _mm512_sub_epi64(sum, size));
}

static int64_t twice(int64_t value, int64_t size)
{
    value += value;
    return value >= size ? value - size : value;
}

/* The rests of a vector's positions, the first of which is `rest` (below the size); steps[i] is
 * left_size * 2^i modulo the size. */
static inline VECTORS __m512i rests_from(int64_t rest, const int64_t steps[3], __m512i size)
{
    __m512i rests = _mm512_set1_epi64(rest);
    for (int i = 0; i < 3; i++) { /* lanes whose number has this bit */
        static const __mmask8 lanes[3] = {0xaa, 0xcc, 0xf0};
        rests = add_lanes(rests, _mm512_maskz_set1_epi64(lanes[i], steps[i]), size);
    }
    return rests;
}

static inline VECTORS __mmask16 first_lanes(uint32_t count)
{
    return count >= LANES ? (__mmask16)0xffff : (__mmask16)((1u << count) - 1);
}

VECTORS uint32_t tree_split_vectors(const struct tree_split *split, uint16_t *slots)
{
    uint16_t right[TREE_BLOCK + LANES];
    uint32_t lefts = 0;
    uint32_t rights = 0;
    int64_t steps[5] = {split->left_size};
    for (int i = 1; i < 5; i++)
        steps[i] = twice(steps[i - 1], split->size);
    int64_t rest = split->rest + split->left_size;
    __m512i size = _mm512_set1_epi64(split->size);
    __m512i left_size = _mm512_set1_epi64(split->left_size);
    __m512i step = _mm512_set1_epi64(steps[4]);
    __m512i first = rests_from(rest >= split->size ? rest - split->size : rest, steps, size);
    __m512i second = add_lanes(first, _mm512_set1_epi64(steps[3]), size);
    for (uint32_t done = 0; done < split->count; done += LANES) { /* <= 2048 slots by 16 */
        __mmask16 here = first_lanes(split->count - done);
        /* it went left if the rest passed the size, and so is below what was added */
        __mmask16 goes_left = here & _mm512_kunpackb(_mm512_cmplt_epu64_mask(second, left_size),
                                                     _mm512_cmplt_epu64_mask(first, left_size));
        __mmask16 goes_right = here & (__mmask16)~goes_left;
        __m256i taken = _mm256_maskz_loadu_epi16(here, slots + done);
        __m256i to_left = _mm256_maskz_compress_epi16(goes_left, taken);
        uint32_t more = (uint32_t)__builtin_popcount(goes_left);
        first = add_lanes(first, step, size);
        second = add_lanes(second, step, size);
        _mm256_storeu_si256((__m256i *)(right + rights),
                            _mm256_maskz_compress_epi16(goes_right, taken));
        if (here == 0xffff) /* whole vectors: what is behind the place was read already */
            _mm256_storeu_si256((__m256i *)(slots + lefts), to_left);
        else
            _mm256_mask_storeu_epi16(slots + lefts, first_lanes(more), to_left);
        lefts += more;
        rights += (uint32_t)__builtin_popcount(goes_right);
    }
    memcpy(slots + lefts, right, rights * sizeof(*slots));
    return lefts;
}
#else
bool tree_split_has_vectors(void)
{
    return false;
}

uint32_t tree_split_vectors(const struct tree_split *split, uint16_t *slots)
{
    return tree_split_plain(split, slots);
}
#endif

uint32_t tree_split(const struct tree_split *split, uint16_t *slots)
{
    assert(split->count <= TREE_BLOCK);
    return split->count >= VECTORS_FROM && tree_split_has_vectors()
               ? tree_split_vectors(split, slots)
               : tree_split_plain(split, slots);
}

#include "sampler/tree_split.h"

#include <assert.h>
#include <string.h>

#include "sampler/tree.h"

/* Fewer positions are not worth the vectors' start. */
#define VECTORS_FROM 32
#define LANES 16

/* From position `begin` on; `lefts` and `rights` went before. */
static uint32_t part(const struct tree_split *split, int64_t rest, uint32_t begin, uint32_t lefts,
                     uint16_t *slots, uint16_t *right)
{
    uint32_t rights = begin - lefts;
    for (uint32_t i = begin; i < split->count; i++) {
        rest += split->left_size;
        bool goes_left = rest >= split->size;
        rest -= goes_left ? split->size : 0;
        right[rights] = slots[i];
        slots[lefts] = slots[i];
        lefts += goes_left;
        rights += !goes_left;
    }
    /* cppcheck-suppress uninitvar ; the loop or the caller filled `rights` of them */
    memcpy(slots + lefts, right, rights * sizeof(*slots));
    return lefts;
}

uint32_t tree_split_plain(const struct tree_split *split, uint16_t *slots)
{
    uint16_t right[TREE_BLOCK];
    return part(split, split->rest, 0, 0, slots, right);
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

VECTORS uint32_t tree_split_vectors(const struct tree_split *split, uint16_t *slots)
{
    uint16_t right[TREE_BLOCK + LANES];
    int64_t rests[LANES / 2];
    int64_t rest = split->rest;
    uint32_t lefts = 0, done = 0;
    for (int i = 0; i < LANES / 2; i++) {
        rest += split->left_size;
        rest -= rest >= split->size ? split->size : 0;
        rests[i] = rest;
    }
    int64_t step = twice(twice(twice(split->left_size, split->size), split->size), split->size);
    __m512i size = _mm512_set1_epi64(split->size);
    __m512i left_size = _mm512_set1_epi64(split->left_size);
    __m512i first = _mm512_loadu_si512(rests);
    __m512i second = add_lanes(first, _mm512_set1_epi64(step), size);
    __m512i steps = _mm512_set1_epi64(twice(step, split->size));
    rest = split->rest;
    for (; done + LANES <= split->count; done += LANES) {
        /* it went left if the rest passed the size, and so is below what was added */
        __mmask16 goes_left = _mm512_kunpackb(_mm512_cmplt_epu64_mask(second, left_size),
                                              _mm512_cmplt_epu64_mask(first, left_size));
        __m256i taken = _mm256_loadu_si256((const __m256i *)(slots + done));
        rest = _mm_extract_epi64(_mm512_extracti32x4_epi32(second, 3), 1);
        first = add_lanes(first, steps, size);
        second = add_lanes(second, steps, size);
        /* whole vectors: what is behind the place was read already */
        _mm256_storeu_si256((__m256i *)(slots + lefts),
                            _mm256_maskz_compress_epi16(goes_left, taken));
        _mm256_storeu_si256((__m256i *)(right + done - lefts),
                            _mm256_maskz_compress_epi16((__mmask16)~goes_left, taken));
        lefts += (uint32_t)__builtin_popcount(goes_left);
    }
    return part(split, rest, done, lefts, slots, right);
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

/* SPDX-License-Identifier: MIT */
/*
 * Splitting a block with AVX-512. Eight cells draw at once, and their positions become the bits of
 * a word that stands for 64 positions: a shift by less than 0 or more than 63 gives 0, so that a
 * vector may reach over the word's ends and serves the next word too. Slots are then packed by
 * vpcompressw, 16 at a time: those that go left to the front of the array they come from, which has
 * been read that far; those that go right aside, and after the others at the end.
 */
#include "sampler/shuffle/tree_split.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define WORD 64

#define VECTORS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline))
#define CELLS 8  /* per vector */
#define SLOTS 16 /* per vector */

/* Cells are short, and m has less than 32 bits: the products that are needed fit a lane. */
static bool suits(const struct tree_cells *cells)
{
    return cells->left_size >> 32 == 0 && cells->size >> TREE_SHORT_BITS < cells->left_size &&
           __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi2");
}

/* ---- eight cells -------------------------------------------------------- */

/* Eight consecutive boundaries, their positions counted from the block's first, and the cells after
 * them. */
struct boundaries {
    __m512i at, rest;
    __m512i counters; /* the cells' numbers in the sequence of random_mix() */
    __m512i numbers;
    __mmask8 goes_before;
};

/* Constants of a node. */
struct node {
    __m512i m, fraction, one;
    struct tree_boundary stride; /* eight boundaries ahead */
};

/* random_mix() */
INLINE VECTORS __m512i mix(__m512i value)
{
    value = _mm512_xor_si512(value, _mm512_srli_epi64(value, 30));
    value = _mm512_mullo_epi64(value, _mm512_set1_epi64((int64_t)UINT64_C(0xbf58476d1ce4e5b9)));
    value = _mm512_xor_si512(value, _mm512_srli_epi64(value, 27));
    value = _mm512_mullo_epi64(value, _mm512_set1_epi64((int64_t)UINT64_C(0x94d049bb133111eb)));
    return _mm512_xor_si512(value, _mm512_srli_epi64(value, 31));
}

/* tree_boundary_add() in some of the lanes. `is_exact`: all rests are 0. */
INLINE VECTORS void add_step(struct boundaries *boundaries, __mmask8 lanes,
                             struct tree_boundary step, const struct node *node, bool is_exact)
{
    boundaries->at =
        _mm512_mask_add_epi64(boundaries->at, lanes, boundaries->at, _mm512_set1_epi64(step.at));
    if (is_exact)
        return;
    __m512i rest = _mm512_mask_add_epi64(boundaries->rest, lanes, boundaries->rest,
                                         _mm512_set1_epi64(step.rest));
    __mmask8 carries = _mm512_cmpge_epu64_mask(rest, node->m);
    boundaries->rest = _mm512_mask_sub_epi64(rest, carries, rest, node->m);
    boundaries->at = _mm512_mask_add_epi64(boundaries->at, carries, boundaries->at, node->one);
}

INLINE VECTORS void draw_numbers(struct boundaries *boundaries, const struct node *node,
                                 bool is_exact)
{
    boundaries->numbers = mix(boundaries->counters);
    if (is_exact)
        return;
    __m512i coins = _mm512_srli_epi64(
        _mm512_mullo_epi64(boundaries->numbers, _mm512_set1_epi64((int64_t)RANDOM_STEP)), 32);
    coins = _mm512_srli_epi64(_mm512_mul_epu32(coins, node->m), 32);
    boundaries->goes_before = _mm512_cmplt_epu64_mask(coins, boundaries->rest);
}

/* Boundaries j ... j + 7 of a walk. Lanes whose number has bit i advance by 2^i steps. */
INLINE VECTORS struct boundaries start(const struct tree_cells *cells, const struct tree_walk *walk,
                                       int64_t first, struct node *node, bool is_exact)
{
    static const __mmask8 lanes[3] = {0xaa, 0xcc, 0xf0};
    const __m512i steps = _mm512_setr_epi64(0, (int64_t)RANDOM_STEP, (int64_t)(2 * RANDOM_STEP),
                                            (int64_t)(3 * RANDOM_STEP), (int64_t)(4 * RANDOM_STEP),
                                            (int64_t)(5 * RANDOM_STEP), (int64_t)(6 * RANDOM_STEP),
                                            (int64_t)(7 * RANDOM_STEP));
    uint64_t counter = cells->key + (uint64_t)walk->j * RANDOM_STEP;
    struct boundaries boundaries = {
        .at = _mm512_set1_epi64(walk->from.at - first),
        .rest = _mm512_set1_epi64(walk->from.rest),
        .counters = _mm512_add_epi64(steps, _mm512_set1_epi64((int64_t)counter)),
    };
    node->stride = walk->step;
    for (int i = 0; i < 3; i++) {
        add_step(&boundaries, lanes[i], node->stride, node, is_exact);
        node->stride = tree_boundary_add(node->stride, node->stride, cells->left_size);
    }
    draw_numbers(&boundaries, node, is_exact);
    return boundaries;
}

INLINE VECTORS struct boundaries next_boundaries(const struct boundaries *here,
                                                 const struct node *node, bool is_exact)
{
    struct boundaries next = *here;
    add_step(&next, 0xff, node->stride, node, is_exact);
    next.counters =
        _mm512_add_epi64(here->counters, _mm512_set1_epi64((int64_t)(RANDOM_STEP * CELLS)));
    draw_numbers(&next, node, is_exact);
    return next;
}

/* tree_cells_draw() of eight cells; `next` are the eight boundaries after theirs. */
INLINE VECTORS __m512i draw(const struct boundaries *here, const struct boundaries *next,
                            const struct node *node, bool is_exact)
{
    __m512i to_at = _mm512_alignr_epi64(next->at, here->at, 1);
    __mmask8 is_across = is_exact ? 0 : _mm512_test_epi64_mask(here->rest, here->rest);
    __m512i inside = _mm512_mask_add_epi64(here->at, is_across, here->at, node->one);
    __m512i count = _mm512_sub_epi64(to_at, inside);
    __m512i position =
        _mm512_add_epi64(inside, _mm512_srli_epi64(_mm512_mul_epu32(here->numbers, count), 32));
    if (is_exact)
        return position;
    unsigned to_goes_before = here->goes_before >> 1 | (unsigned)next->goes_before << (CELLS - 1);
    __mmask8 takes_first = is_across & (__mmask8)~here->goes_before &
                           _mm512_cmplt_epu64_mask(here->numbers, node->fraction);
    __mmask8 takes_last =
        (__mmask8)to_goes_before &
        _mm512_cmpge_epu64_mask(here->numbers,
                                _mm512_sub_epi64(_mm512_setzero_si512(), node->fraction));
    position = _mm512_mask_mov_epi64(position, takes_last, to_at);
    return _mm512_mask_mov_epi64(position, takes_first, here->at);
}

/* ---- slots -------------------------------------------------------------- */

struct packing {
    uint16_t *slots; /* those that go left, packed at the front */
    uint32_t lefts, rights;
    uint16_t right[TREE_BLOCK + SLOTS];
};

INLINE VECTORS __mmask16 first_lanes(uint32_t count)
{
    return count >= SLOTS ? (__mmask16)0xffff : (__mmask16)((1u << count) - 1);
}

/* Slots done ... of the block's `count`, 16 at most, by the marks of a word. */
INLINE VECTORS void pack(struct packing *packing, uint32_t done, uint32_t count, uint64_t word)
{
    __mmask16 here = first_lanes(count - done);
    __mmask16 goes_left = here & (__mmask16)word;
    __mmask16 goes_right = here & (__mmask16)~word;
    __m256i taken = _mm256_maskz_loadu_epi16(here, packing->slots + done);
    __m256i to_left = _mm256_maskz_compress_epi16(goes_left, taken);
    uint32_t more = (uint32_t)__builtin_popcount(goes_left);
    _mm256_storeu_si256((__m256i *)(packing->right + packing->rights),
                        _mm256_maskz_compress_epi16(goes_right, taken));
    if (here == 0xffff) /* whole vectors: slots beyond were read already */
        _mm256_storeu_si256((__m256i *)(packing->slots + packing->lefts), to_left);
    else
        _mm256_mask_storeu_epi16(packing->slots + packing->lefts, first_lanes(more), to_left);
    packing->lefts += more;
    packing->rights += (uint32_t)__builtin_popcount(goes_right);
}

INLINE VECTORS uint32_t split_from(const struct tree_cells *cells, const struct tree_walk *walk,
                                   int64_t first, uint16_t *slots, uint32_t count,
                                   int64_t *ret_before, bool is_exact)
{
    struct node node = {
        .m = _mm512_set1_epi64(cells->left_size),
        .fraction = _mm512_set1_epi64((int64_t)cells->fraction),
        .one = _mm512_set1_epi64(1),
    };
    struct packing packing; /* not set to zero: only what was written is read */
    struct boundaries here = start(cells, walk, first, &node, is_exact);
    struct boundaries next = next_boundaries(&here, &node, is_exact);
    __m512i positions = draw(&here, &next, &node, is_exact);
    *ret_before = walk->j + (_mm512_movepi64_mask(positions) & 1);
    packing.slots = slots;
    packing.lefts = packing.rights = 0;
    for (uint32_t base = 0; base < count; base += WORD) { /* <= 2048 positions by 64 */
        __m512i origin = _mm512_set1_epi64(base);
        int64_t end = base + WORD < count ? base + WORD : count;
        __m512i marks = _mm512_sllv_epi64(node.one, _mm512_sub_epi64(positions, origin));
        while (_mm_cvtsi128_si64(_mm512_castsi512_si128(next.at)) < end) { /* by 8 cells */
            here = next;
            next = next_boundaries(&here, &node, is_exact);
            positions = draw(&here, &next, &node, is_exact);
            marks = _mm512_or_si512(
                marks, _mm512_sllv_epi64(node.one, _mm512_sub_epi64(positions, origin)));
        }
        uint64_t word = (uint64_t)_mm512_reduce_or_epi64(marks);
        for (uint32_t done = base; done < end; done += SLOTS, word >>= SLOTS)
            pack(&packing, done, count, word);
    }
    memcpy(slots + packing.lefts, packing.right, packing.rights * sizeof(*slots));
    return packing.lefts;
}

static VECTORS uint32_t split(const struct tree_cells *cells, int64_t first, uint16_t *slots,
                              uint32_t count, int64_t *ret_before)
{
    struct tree_walk walk = tree_walk_to(cells, first);
    if (walk.step.rest == 0)
        return split_from(cells, &walk, first, slots, count, ret_before, true);
    return split_from(cells, &walk, first, slots, count, ret_before, false);
}

const struct tree_splitter tree_splitter_avx512 = {"AVX-512", suits, split};
#endif

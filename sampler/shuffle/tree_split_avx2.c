/* SPDX-License-Identifier: MIT */
/*
 * Splitting a block with AVX2: cells draw one after the other, since the processor has no vector
 * product of 64 bits; slots are then packed four at a time by one shuffle, the first half of whose
 * result are those that go left. They go to the front of the array they come from, which has been
 * read that far; those that go right aside, and after the others at the end.
 */
#include "sampler/shuffle/tree_split.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi2,popcnt")))
#define MARKS 16 /* per vector */
#define SLOTS 4  /* per shuffle */

static bool suits(const struct tree_cells *cells)
{
    (void)cells;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
}

/* Bytes of slot i of four; in row b those that go left by the bits of b, then those that do not. */
#define S(i) (2 * (i)), (2 * (i) + 1)
#define ROW(l0, l1, l2, l3, r0, r1, r2, r3)                    \
    {                                                          \
        S(l0), S(l1), S(l2), S(l3), S(r0), S(r1), S(r2), S(r3) \
    }
#define NONE 0 /* not read */

static const uint8_t packed[1 << SLOTS][16] = {
    ROW(NONE, NONE, NONE, NONE, 0, 1, 2, 3), ROW(0, NONE, NONE, NONE, 1, 2, 3, NONE),
    ROW(1, NONE, NONE, NONE, 0, 2, 3, NONE), ROW(0, 1, NONE, NONE, 2, 3, NONE, NONE),
    ROW(2, NONE, NONE, NONE, 0, 1, 3, NONE), ROW(0, 2, NONE, NONE, 1, 3, NONE, NONE),
    ROW(1, 2, NONE, NONE, 0, 3, NONE, NONE), ROW(0, 1, 2, NONE, 3, NONE, NONE, NONE),
    ROW(3, NONE, NONE, NONE, 0, 1, 2, NONE), ROW(0, 3, NONE, NONE, 1, 2, NONE, NONE),
    ROW(1, 3, NONE, NONE, 0, 2, NONE, NONE), ROW(0, 1, 3, NONE, 2, NONE, NONE, NONE),
    ROW(2, 3, NONE, NONE, 0, 1, NONE, NONE), ROW(0, 2, 3, NONE, 1, NONE, NONE, NONE),
    ROW(1, 2, 3, NONE, 0, NONE, NONE, NONE), ROW(0, 1, 2, 3, NONE, NONE, NONE, NONE),
};

static TARGET uint32_t split(const struct tree_cells *cells, int64_t first, uint16_t *slots,
                             uint32_t count, int64_t *ret_before)
{
    uint8_t goes_left[TREE_BLOCK + MARKS];
    uint16_t right[TREE_BLOCK + SLOTS];
    uint32_t lefts = 0;
    uint32_t done = 0;
    memset(goes_left, 0, count + MARKS);
    *ret_before = tree_split_mark(cells, first, count, goes_left);
    unsigned marks = 0;
    for (; done + SLOTS <= count; done += SLOTS) {
        if (done % MARKS == 0)
            marks = (unsigned)_mm_movemask_epi8(_mm_loadu_si128((const void *)(goes_left + done)));
        unsigned left = marks & ((1 << SLOTS) - 1);
        __m128i taken = _mm_loadl_epi64((const void *)(slots + done));
        __m128i sorted = _mm_shuffle_epi8(taken, _mm_loadu_si128((const void *)packed[left]));
        _mm_storel_epi64((void *)(slots + lefts), sorted);
        _mm_storel_epi64((void *)(right + (done - lefts)), _mm_unpackhi_epi64(sorted, sorted));
        lefts += (uint32_t)__builtin_popcount(left);
        marks >>= SLOTS;
    }
    for (; done < count; done++) {
        bool is_left = goes_left[done];
        right[done - lefts] = slots[done];
        slots[lefts] = slots[done];
        lefts += is_left;
    }
    memcpy(slots + lefts, right, (count - lefts) * sizeof(*slots));
    return lefts;
}

const struct tree_splitter tree_splitter_avx2 = {"AVX2", suits, split};
#endif

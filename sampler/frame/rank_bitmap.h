/* SPDX-License-Identifier: MIT */
/*
 * Some of the positions 0 ... B-1, as a bitmap that can be asked both ways in O(1): how many chosen
 * ones are before a position (rank), and where the k-th chosen one is (select).
 *
 * 480 bits stand with the count of those before them in one cache line, so that a rank touches one
 * line; where to look for the k-th is sampled about every 8192 positions. 0.134 bytes a position.
 *
 * Filled by rank_bitmap_put() and rank_bitmap_finish(); immutable afterwards; any thread.
 *
 * Dimensions: B positions, C of them chosen.
 */
#ifndef SAMPLER_FRAME_RANK_BITMAP_H
#define SAMPLER_FRAME_RANK_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define RANK_BITMAP_LINE_BITS 480
#define RANK_BITMAP_BASE_SHIFT 22 /* lines that share a base: their counts stay below 2^32 */

/* A cache line. Bit i of it is bit i % 32 of words[i / 32]. */
struct rank_bitmap_line {
    _Alignas(64) uint32_t before; /* chosen ones since the line's base */
    uint32_t words[15];
};

struct rank_bitmap_kernel; /* rank_bitmap_kernels.h */

struct rank_bitmap {
    int64_t positions;              /* B */
    int64_t ones;                   /* C */
    struct rank_bitmap_line *lines; /* [line_count], the last without bits */
    size_t line_count;
    int64_t *bases;    /* chosen ones before each group of 2^RANK_BITMAP_BASE_SHIFT lines */
    uint32_t *samples; /* where every 2^sample_shift-th chosen one is, in 2^place_shift positions;
                        * then B */
    unsigned sample_shift, place_shift;
    const struct rank_bitmap_kernel *kernel;
};

/* None of `positions` >= 1 is chosen yet. */
enum error rank_bitmap_new(int64_t positions, struct rank_bitmap **ret_bitmap) MUST_CHECK;
void rank_bitmap_free(struct rank_bitmap *bitmap);

static inline void rank_bitmap_put(struct rank_bitmap *bitmap, int64_t position, bool is_chosen)
{
    uint64_t line = (uint64_t)position / RANK_BITMAP_LINE_BITS;
    uint32_t bit = (uint32_t)((uint64_t)position % RANK_BITMAP_LINE_BITS);
    bitmap->lines[line].words[bit / 32] |= (uint32_t)is_chosen << bit % 32;
}

/* Up to 32 positions from `first` on, a multiple of 32; bit i of `bits` is whether
 * first + i is chosen. Threads that put into different lines do not disturb each other: a line
 * begins at each multiple of RANK_BITMAP_LINE_BITS. */
static inline void rank_bitmap_put_bits(struct rank_bitmap *bitmap, int64_t first, uint32_t bits)
{
    uint64_t line = (uint64_t)first / RANK_BITMAP_LINE_BITS;
    uint32_t bit = (uint32_t)((uint64_t)first % RANK_BITMAP_LINE_BITS);
    bitmap->lines[line].words[bit / 32] |= bits << bit % 32;
}

/* Counts. Afterwards nothing is put, and all below may be asked. */
enum error rank_bitmap_finish(struct rank_bitmap *bitmap) MUST_CHECK;

static inline bool rank_bitmap_has(const struct rank_bitmap *bitmap, int64_t position)
{
    uint64_t line = (uint64_t)position / RANK_BITMAP_LINE_BITS;
    uint32_t bit = (uint32_t)((uint64_t)position % RANK_BITMAP_LINE_BITS);
    return bitmap->lines[line].words[bit / 32] >> bit % 32 & 1;
}

/* Chosen ones before `position`, 0 ... B. */
int64_t rank_bitmap_rank(const struct rank_bitmap *bitmap, int64_t position);
/* Where the k-th chosen one is, 0 <= k < C. */
int64_t rank_bitmap_select(const struct rank_bitmap *bitmap, int64_t k);

/* The same of many; the same array may be both. */
void rank_bitmap_rank_many(const struct rank_bitmap *bitmap, const int64_t *positions, size_t count,
                           int64_t *ret_ranks);
void rank_bitmap_select_many(const struct rank_bitmap *bitmap, const int64_t *ks, size_t count,
                             int64_t *ret_positions);

/* The chosen ones first, first + 1, ... first + count - 1. */
void rank_bitmap_read(const struct rank_bitmap *bitmap, int64_t first, size_t count,
                      int64_t *ret_positions);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A subset of the positions 0 ... B-1 as a bitmap with O(1) rank (how many chosen ones precede a
 * position) and select (position of the k-th chosen one).
 *
 * 480 bits share a cache line with the count of chosen ones before them, so that a rank touches one
 * line; select is sampled about every 8192 positions. 0.134 bytes per position.
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

/* A cache line. Its bit i is bit i % 32 of words[i / 32]. */
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
    uint32_t *samples; /* each 2^sample_shift-th chosen one, in 2^place_shift positions; then B */
    unsigned sample_shift, place_shift;
    const struct rank_bitmap_kernel *kernel;
};

/* Initially none of `positions` >= 1 is chosen. */
enum error rank_bitmap_new(int64_t positions, struct rank_bitmap **ret_bitmap) MUST_CHECK;
void rank_bitmap_free(struct rank_bitmap *bitmap);

static inline void rank_bitmap_put(struct rank_bitmap *bitmap, int64_t position, bool is_chosen)
{
    uint64_t line = (uint64_t)position / RANK_BITMAP_LINE_BITS;
    uint32_t bit = (uint32_t)((uint64_t)position % RANK_BITMAP_LINE_BITS);
    bitmap->lines[line].words[bit / 32] |= (uint32_t)is_chosen << bit % 32;
}

/* Up to 32 positions from `first` on, a multiple of 32; bit i of `bits` tells whether first + i is
 * chosen. Threads may write different lines concurrently: a line begins at each multiple of
 * RANK_BITMAP_LINE_BITS. */
static inline void rank_bitmap_put_bits(struct rank_bitmap *bitmap, int64_t first, uint32_t bits)
{
    uint64_t line = (uint64_t)first / RANK_BITMAP_LINE_BITS;
    uint32_t bit = (uint32_t)((uint64_t)first % RANK_BITMAP_LINE_BITS);
    bitmap->lines[line].words[bit / 32] |= bits << bit % 32;
}

/* Computes the counts. Afterwards only the functions below may be called. */
enum error rank_bitmap_finish(struct rank_bitmap *bitmap) MUST_CHECK;

static inline bool rank_bitmap_has(const struct rank_bitmap *bitmap, int64_t position)
{
    uint64_t line = (uint64_t)position / RANK_BITMAP_LINE_BITS;
    uint32_t bit = (uint32_t)((uint64_t)position % RANK_BITMAP_LINE_BITS);
    return bitmap->lines[line].words[bit / 32] >> bit % 32 & 1;
}

/* Number of chosen ones before `position`, 0 ... B. */
int64_t rank_bitmap_rank(const struct rank_bitmap *bitmap, int64_t position);
/* Position of the k-th chosen one, 0 <= k < C. */
int64_t rank_bitmap_select(const struct rank_bitmap *bitmap, int64_t k);

/* The same for many; input and output may be the same array. */
void rank_bitmap_rank_many(const struct rank_bitmap *bitmap, const int64_t *positions, size_t count,
                           int64_t *ret_ranks);
void rank_bitmap_select_many(const struct rank_bitmap *bitmap, const int64_t *ks, size_t count,
                             int64_t *ret_positions);

/* The positions of chosen ones first, first + 1, ... first + count - 1. */
void rank_bitmap_read(const struct rank_bitmap *bitmap, int64_t first, size_t count,
                      int64_t *ret_positions);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Cumulative sums of the units' integer weights: which unit holds a point of [0, W)?
 *
 * A weight w becomes floor(w * 2^s), at least 1 if w > 0, with one s for all: the largest for which
 * the sum W of all has WEIGHT_BITS bits. Weights are doubles of 53 bits: a weight above 2^-69 of
 * the total is exact to the last bit; the probability of a unit with 2^-83 of it is within 1e-12
 * (2^-45 and 2^-59 of what is left, where some units are certain). Integer arithmetic throughout.
 *
 * Memory: the sum before each WEIGHT_BLOCK units and a guide into these sums, 0.3 bytes per unit. A
 * lookup reads the guide, one or two sums and the weights of one block.
 *
 * Units whose weight is at least `certain` count as 0 in the sums (design weighted includes them
 * without drawing); if there are any, their number before each block is stored, 0.125 bytes per
 * unit.
 *
 * Immutable; any thread. Dimensions: N units, W the sum.
 */
#ifndef SAMPLER_DESIGN_WEIGHT_SUMS_H
#define SAMPLER_DESIGN_WEIGHT_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/frame/frame.h"

#define WEIGHT_BITS 124
#define WEIGHT_BLOCK 64

typedef unsigned __int128 weight; /* an integer weight, or a sum of them */

struct weight_sums {
    const double *weights; /* [N] borrowed */
    int64_t units;         /* N */
    int64_t blocks;
    int scale;               /* s */
    weight total;            /* W, without the certain ones */
    double certain;          /* the least of their weights; INFINITY: there are none */
    int64_t certain_units;   /* their number */
    weight *before;          /* [blocks + 1] owned */
    int64_t *certain_before; /* [blocks + 1] owned; NULL: none is certain */
    uint32_t *guide; /* [2^guide_bits + 1] owned: the block of the first point of each part */
    unsigned guide_bits, total_bits;
};

/* `size` 0: no unit is certain. Else the weights are for a sample of that many units with
 * proportional probabilities: units with size * w >= W are certain, and so on among the rest until
 * none is. ERROR_INPUT naming the id of a negative or NaN weight, ERROR_USAGE if the frame has no
 * weights, all are 0 or fewer than `size` are above 0. O(N) per round. */
enum error weight_sums_init(struct weight_sums *sums, const struct frame *frame,
                            int64_t size) MUST_CHECK;
void weight_sums_release(struct weight_sums *sums);

static inline bool weight_sums_is_certain(const struct weight_sums *sums, int64_t row)
{
    return sums->weights[row] >= sums->certain;
}

/* A unit's integer weight; 0 for a certain one. */
weight weight_of(const struct weight_sums *sums, int64_t row);
/* The units that hold points of [0, W). */
void weight_sums_find(const struct weight_sums *sums, const weight *points, size_t count,
                      int64_t *ret_rows);
/* The first point that a unit holds. */
weight weight_sums_before(const struct weight_sums *sums, int64_t row);

/* Certain unit number c (in frame order), and its inverse. */
int64_t weight_sums_certain_row(const struct weight_sums *sums, int64_t c);
int64_t weight_sums_certain_rank(const struct weight_sums *sums, int64_t row);

#endif

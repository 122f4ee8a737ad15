/* SPDX-License-Identifier: MIT */
/*
 * One inner node of the stratified tree: which of its positions go left.
 *
 * Of n positions m are the left child's, 0 < m <= n / 2. The line from 0 to n is divided into m
 * cells of equal length n / m, real numbers; each cell has one position that goes left, drawn at
 * random in each epoch and independently of all other cells (jittered sampling), as follows:
 *
 *   - A position that lies across the boundary of two cells belongs to one of them by a coin, the
 *     left one with the part of it that lies there.
 *   - A cell draws a boundary position that belongs to it with probability m / n, and otherwise one
 *     of the positions that lie inside it, all alike.
 *
 * Therefore:
 *   - Every position goes left with probability m / n (to 2^-32: coins and choices have 32 bits).
 *   - Of the first t positions, t m / n rounded down or up go left: less than 1 off.
 *   - Positions in cells that do not touch are independent, near ones repel each other: no stride
 *     and no taking of turns sees one side more often than chance would let it.
 *   - Draw j is in cell j: both ways are closed forms.
 *
 * Integers only: boundary j is floor(j n / m) and a rest of j n mod m. Immutable, any thread.
 */
#ifndef SAMPLER_SHUFFLE_TREE_CELLS_H
#define SAMPLER_SHUFFLE_TREE_CELLS_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/shuffle/random.h"

struct tree_cells {
    int64_t size, left_size; /* n < 2^62, m */
    uint64_t fraction;       /* tree_cells_fraction(m, n) */
    uint64_t key;            /* of the node and the epoch */
};

/* a b / 2^64, rounded down. */
static inline uint64_t tree_multiply_high(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

/* The interior of a short cell has less than 2^16 positions: 32 random bits choose one. */
#define TREE_SHORT_BITS 16

/* m / n in 1/2^64, rounded down. */
uint64_t tree_cells_fraction(int64_t left_size, int64_t size);

/* The position of the left child's draw j, 0 <= j < m, and of the right child's, 0 <= j < n - m. */
int64_t tree_cells_left(const struct tree_cells *cells, int64_t j);
int64_t tree_cells_right(const struct tree_cells *cells, int64_t j);

/* How many of the first t positions go left, 0 <= t <= n. */
int64_t tree_cells_before(const struct tree_cells *cells, int64_t t);

/* ---- from cell to cell, for tree_split*.c ------------------------------- */

/* A boundary of cells: the position that contains it, and the part of that position before it, in
 * 1/m. */
struct tree_boundary {
    int64_t at, rest;
};

/* Boundary a + b of boundaries a and b. */
static inline struct tree_boundary tree_boundary_add(struct tree_boundary a, struct tree_boundary b,
                                                     int64_t left_size)
{
    int64_t rest = a.rest + b.rest - left_size;
    int64_t borrows = -(int64_t)(rest < 0); /* a branch would be mispredicted */
    return (struct tree_boundary){.at = a.at + b.at + 1 + borrows,
                                  .rest = rest + (left_size & borrows)};
}

/* A boundary and the random number of the cell after it. */
struct tree_edge {
    struct tree_boundary boundary;
    uint64_t number;
    bool goes_before; /* the position across the boundary belongs to the cell before it */
};

/* Of cell j, 0 <= j <= m, whose first boundary it is. */
static inline struct tree_edge tree_edge_at(const struct tree_cells *cells, int64_t j,
                                            struct tree_boundary boundary)
{
    uint64_t number = random_mix(cells->key + (uint64_t)j * RANDOM_STEP);
    uint64_t coin = number * RANDOM_STEP & ~UINT64_C(0xffffffff);
    uint64_t part = tree_multiply_high(coin, (uint64_t)cells->left_size);
    return (struct tree_edge){.boundary = boundary,
                              .number = number,
                              .goes_before = (boundary.rest > 0) & ((int64_t)part < boundary.rest)};
}

/* The position that the cell between two edges draws: the definition of the order. At least one
 * lies inside, since n / m >= 2. No branch depends on the numbers: many would be mispredicted. */
static inline int64_t tree_cells_draw(const struct tree_cells *cells, const struct tree_edge *from,
                                      const struct tree_edge *to)
{
    uint64_t number = from->number;
    bool is_across = from->boundary.rest > 0;
    int64_t inside = from->boundary.at + is_across;
    uint64_t count = (uint64_t)(to->boundary.at - inside);
    int64_t position =
        inside + (int64_t)(count >> TREE_SHORT_BITS == 0
                               ? (uint32_t)number * count >> 32
                               : tree_multiply_high(number << 32 | number >> 32, count));
    int64_t takes_first = -(int64_t)(is_across & !from->goes_before & (number < cells->fraction));
    int64_t takes_last = -(int64_t)(to->goes_before & (number >= -cells->fraction));
    position += (to->boundary.at - position) & takes_last;
    return position + ((from->boundary.at - position) & takes_first);
}

/* Cell j, which contains the left end of a position, and the step from each boundary to the
 * next. */
struct tree_walk {
    int64_t j;
    struct tree_boundary from; /* boundary j */
    struct tree_boundary step; /* n / m, n mod m */
};

struct tree_walk tree_walk_to(const struct tree_cells *cells, int64_t position);

#endif

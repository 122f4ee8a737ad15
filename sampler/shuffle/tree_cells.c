/* SPDX-License-Identifier: MIT */
/*
 * tree_cells_draw() in the header is the definition: a cell's draw from its two boundaries. A
 * single draw divides to find them; splitting a block steps from one to the next by addition.
 *
 * A cell has one random number. Its high half decides between a boundary position and the inside,
 * its low half chooses inside (all of it for long cells), and the high half of its product with an
 * odd constant decides to which cell the position across the boundary before it belongs.
 */
#include "sampler/shuffle/tree_cells.h"

typedef unsigned __int128 wide;

uint64_t tree_cells_fraction(int64_t left_size, int64_t size)
{
    return (uint64_t)(((wide)(uint64_t)left_size << 64) / (uint64_t)size);
}

/* a b / divisor; most products fit 64 bits, where a division is one instruction. */
static int64_t multiply_divide(int64_t a, int64_t b, int64_t divisor, int64_t *ret_rest)
{
    wide product = (wide)(uint64_t)a * (uint64_t)b;
    if (product >> 64 == 0) {
        *ret_rest = (int64_t)((uint64_t)product % (uint64_t)divisor);
        return (int64_t)((uint64_t)product / (uint64_t)divisor);
    }
    *ret_rest = (int64_t)(product % (uint64_t)divisor);
    return (int64_t)(product / (uint64_t)divisor);
}

static struct tree_boundary boundary_at(const struct tree_cells *cells, int64_t j)
{
    struct tree_boundary boundary;
    boundary.at = multiply_divide(j, cells->size, cells->left_size, &boundary.rest);
    return boundary;
}

int64_t tree_cells_left(const struct tree_cells *cells, int64_t j)
{
    struct tree_edge from = tree_edge_at(cells, j, boundary_at(cells, j));
    struct tree_edge to = tree_edge_at(cells, j + 1, boundary_at(cells, j + 1));
    return tree_cells_draw(cells, &from, &to);
}

/* Cell floor(t m / n) is the only one whose draw may be before t or not. */
int64_t tree_cells_before(const struct tree_cells *cells, int64_t t)
{
    int64_t rest;
    int64_t j = multiply_divide(t, cells->left_size, cells->size, &rest);
    return j < cells->left_size && tree_cells_left(cells, j) < t ? j + 1 : j;
}

/* The position is j + x, where x draws of the left child come before it: the least x whose own
 * position has more than j of the right child's before it. As the count of the left ones is less
 * than 1 off, x is within 2 of j m / (n - m). */
int64_t tree_cells_right(const struct tree_cells *cells, int64_t j)
{
    int64_t rest;
    int64_t x = multiply_divide(j, cells->left_size, cells->size - cells->left_size, &rest) - 1;
    if (x < 0)
        x = 0;
    while (x < cells->left_size && tree_cells_left(cells, x) - x <= j)
        x++;
    return j + x;
}

/* From position m = j n + r: boundary j lies r / m before the position. */
struct tree_walk tree_walk_to(const struct tree_cells *cells, int64_t position)
{
    struct tree_walk walk;
    int64_t m = cells->left_size;
    int64_t r;
    walk.j = multiply_divide(position, m, cells->size, &r);
    int64_t whole = r / m;
    int64_t part = r - whole * m;
    walk.from.at = position - whole - (part > 0);
    walk.from.rest = part > 0 ? m - part : 0;
    walk.step.at = cells->size / m;
    walk.step.rest = cells->size - walk.step.at * m;
    return walk;
}

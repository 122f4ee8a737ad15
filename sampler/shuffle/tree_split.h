/* SPDX-License-Identifier: MIT */
/*
 * One node of tree_deal(): stably partitions the slots of its consecutive positions into those that
 * go left and those that go right. Private to tree.c and its test.
 */
#ifndef SAMPLER_SHUFFLE_TREE_SPLIT_H
#define SAMPLER_SHUFFLE_TREE_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/shuffle/tree.h"
#include "sampler/shuffle/tree_cells.h"

/* slots[count] of positions first ..., in place, 1 <= count <= TREE_BLOCK; returns how many go
 * left. *ret_before positions of the node before them go left. */
typedef uint32_t tree_split_function(const struct tree_cells *cells, int64_t first, uint16_t *slots,
                                     uint32_t count, int64_t *ret_before);

tree_split_function tree_split;

/* The ways to do it, all with the same results: widest vectors first; the last suits every
 * processor and every node. NULL-terminated. */
struct tree_splitter {
    const char *name;
    bool (*suits)(const struct tree_cells *cells);
    tree_split_function *split;
};

extern const struct tree_splitter *const tree_splitters[];

#define TREE_LEFT 0x80

/* `is_exact`: all rests are 0. */
static inline __attribute__((always_inline)) int64_t
tree_split_mark_from(const struct tree_cells *cells, const struct tree_walk *walk, int64_t first,
                     uint32_t count, uint8_t *goes_left, bool is_exact)
{
    struct tree_boundary start = {.at = walk->from.at - first,
                                  .rest = is_exact ? 0 : walk->from.rest};
    struct tree_edge from = tree_edge_at(cells, walk->j, start);
    int64_t before = walk->j;
    for (int64_t j = walk->j; j < cells->left_size && from.boundary.at < count; j++) {
        struct tree_boundary next = tree_boundary_add(from.boundary, walk->step, cells->left_size);
        if (is_exact)
            next = (struct tree_boundary){.at = from.boundary.at + walk->step.at};
        struct tree_edge to = tree_edge_at(cells, j + 1, next);
        int64_t position = tree_cells_draw(cells, &from, &to);
        if ((uint64_t)position < count)
            goes_left[position] = TREE_LEFT;
        else if (position < 0)
            before++;
        from = to;
    }
    return before;
}

/* Sets goes_left[i], which is 0, to TREE_LEFT if position first + i goes left; returns how many
 * positions before them go left. */
static inline int64_t tree_split_mark(const struct tree_cells *cells, int64_t first, uint32_t count,
                                      uint8_t *goes_left)
{
    struct tree_walk walk = tree_walk_to(cells, first);
    if (walk.step.rest == 0)
        return tree_split_mark_from(cells, &walk, first, count, goes_left, true);
    return tree_split_mark_from(cells, &walk, first, count, goes_left, false);
}

#if defined(__x86_64__)
extern const struct tree_splitter tree_splitter_avx512, tree_splitter_avx2;
#endif

#endif

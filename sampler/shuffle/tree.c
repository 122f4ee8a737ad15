/* SPDX-License-Identifier: MIT */
/*
 * Three ways through the tree, all by the cells of its nodes (tree_cells.h):
 *   tree_deal()      down with a block of positions: at a node its positions are consecutive in its
 *                    own numbering, and those that go left are marked all at once. A node without
 *                    positions of the block is never entered.
 *   tree_position()  up from one leaf: the position of a child's draw at each node
 *   tree_count()     down to one leaf with a prefix length instead of a position
 *
 * Any change here changes published orders: test_tree has their values.
 */
#include "sampler/shuffle/tree.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "sampler/shuffle/tree_cells.h"
#include "sampler/shuffle/tree_shape.h"
#include "sampler/shuffle/tree_split.h"

enum error tree_init(struct tree *tree, const int64_t *sizes, uint32_t strata)
{
    *tree = (struct tree){.strata = strata};
    for (uint32_t i = 0; i < strata; i++) {
        assert(sizes[i] >= 1);
        tree->positions += sizes[i];
    }
    if (strata == 1)
        return OK;
    enum error error = ERROR_MEMORY;
    tree->nodes = array_new(strata - 1, sizeof(*tree->nodes), "the stratified tree");
    tree->parents =
        array_new(2 * (size_t)strata - 1, sizeof(*tree->parents), "the stratified tree");
    if (tree->nodes && tree->parents)
        error = tree_shape(tree, sizes);
    if (error)
        tree_release(tree);
    return error;
}

void tree_release(struct tree *tree)
{
    free(tree->nodes);
    free(tree->parents);
    tree->nodes = NULL;
    tree->parents = NULL;
}

/* Of inner node `number`, counted from L, in this epoch. */
static struct tree_cells cells_of(const struct tree *tree, struct random_key deals, uint32_t number,
                                  int64_t size)
{
    const struct tree_node *node = &tree->nodes[number - tree->strata];
    return (struct tree_cells){
        .size = size,
        .left_size = node->left_size,
        .fraction = node->fraction,
        .key = random_at(deals, number),
    };
}

/* ---- dealing out -------------------------------------------------------- */

/* A node yet to deal: `count` consecutive positions from `first`, for slots[begin...]. */
struct pending {
    uint32_t node;
    int64_t size, first;
    uint32_t begin, count;
};

/* 0, 1, 2, ...: the root has all slots of the block, in order. Eight at a time. */
static void count_up(uint16_t *ret_slots, uint32_t count)
{
    typedef uint16_t lanes __attribute__((vector_size(16), aligned(2)));
    lanes next = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8, next += 8)
        *(lanes *)(ret_slots + i) = next;
    for (; i < count; i++)
        ret_slots[i] = (uint16_t)i;
}

/* Depth first, left before right. Every task owns slots [begin, begin + count), and the tasks on
 * the stack and the runs found so far partition all slots; a split is stable, so that slots ascend
 * within a task. The stack holds one right sibling per level: TREE_DEPTH is enough. */
size_t tree_deal(const struct tree *tree, struct random_key deals, int64_t first, uint32_t count,
                 struct tree_run ret_runs[TREE_BLOCK], uint16_t ret_slots[TREE_BLOCK])
{
    assert(count <= TREE_BLOCK);
    struct pending stack[TREE_DEPTH];
    size_t depth = 0, runs = 0;
    count_up(ret_slots, count);
    if (count > 0)
        stack[depth++] = (struct pending){.node = 2 * (tree->strata - 1),
                                          .size = tree->positions,
                                          .first = first,
                                          .count = count};
    while (depth > 0) {
        struct pending work = stack[--depth];
        if (work.node < tree->strata) {
            ret_runs[runs++] =
                (struct tree_run){.stratum = work.node, .first = work.first, .count = work.count};
            continue;
        }
        const struct tree_node *node = &tree->nodes[work.node - tree->strata];
        struct tree_cells cells = cells_of(tree, deals, work.node, work.size);
        int64_t left_first;
        uint32_t lefts =
            tree_split(&cells, work.first, ret_slots + work.begin, work.count, &left_first);
        if (lefts < work.count)
            stack[depth++] = (struct pending){.node = node->child[1],
                                              .size = work.size - node->left_size,
                                              .first = work.first - left_first,
                                              .begin = work.begin + lefts,
                                              .count = work.count - lefts};
        if (lefts > 0)
            stack[depth++] = (struct pending){.node = node->child[0],
                                              .size = node->left_size,
                                              .first = left_first,
                                              .begin = work.begin,
                                              .count = lefts};
    }
    return runs;
}

/* ---- one stratum -------------------------------------------------------- */

/* The path from a stratum up to the root: at each step the inner node, its size and the side of the
 * path there. */
struct step {
    uint32_t node;
    int64_t size;
    bool is_right;
};

static size_t way_up(const struct tree *tree, uint32_t stratum, struct step ret_steps[TREE_DEPTH])
{
    size_t depth = 0;
    uint32_t below = stratum;
    while (below != 2 * (tree->strata - 1)) {
        uint32_t node = tree->parents[below];
        ret_steps[depth++] = (struct step){.node = node + tree->strata,
                                           .is_right = tree->nodes[node].child[1] == below};
        below = node + tree->strata;
    }
    int64_t size = tree->positions;
    for (size_t i = depth; i-- > 0;) {
        struct step *step = &ret_steps[i];
        int64_t left_size = tree->nodes[step->node - tree->strata].left_size;
        step->size = size;
        size = step->is_right ? size - left_size : left_size;
    }
    return depth;
}

int64_t tree_position(const struct tree *tree, struct random_key deals, uint32_t stratum, int64_t j)
{
    struct step steps[TREE_DEPTH];
    size_t depth = way_up(tree, stratum, steps);
    for (size_t i = 0; i < depth; i++) {
        struct tree_cells cells = cells_of(tree, deals, steps[i].node, steps[i].size);
        j = steps[i].is_right ? tree_cells_right(&cells, j) : tree_cells_left(&cells, j);
    }
    return j;
}

int64_t tree_count(const struct tree *tree, struct random_key deals, uint32_t stratum, int64_t t)
{
    struct step steps[TREE_DEPTH];
    for (size_t i = way_up(tree, stratum, steps); i-- > 0;) {
        struct tree_cells cells = cells_of(tree, deals, steps[i].node, steps[i].size);
        int64_t lefts = tree_cells_before(&cells, t);
        t = steps[i].is_right ? t - lefts : lefts;
    }
    return t;
}

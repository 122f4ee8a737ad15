/* SPDX-License-Identifier: MIT */
/*
 * Nodes are numbered 0 ... 2 L - 2: the strata, then the inner nodes in the order in which
 * Huffman's algorithm makes them. A node comes behind its children, the root is last. nodes[i] is
 * number L + i. The algorithm needs no heap: sorted leaves and inner nodes are two queues, both
 * ascending.
 *
 * Three ways through the tree, all on the same floor per node (tree.h):
 *   tree_deal()      down with a block of positions: at a node its positions are consecutive in its
 *                    own numbering, so that one division gives where they start in the left child,
 *                    and tree_split() goes on by adding. A node without positions of the block is
 *                    never entered: O(runs * depth) divisions and hashes, and a step a position and
 *                    level.
 *   tree_position()  up from one leaf, inverting the floor at each node
 *   tree_count()     down to one leaf with a prefix length instead of a position
 *
 * Sizes stay below 2^62, so that q * part + phase fits 128 bits, and mostly 64, where a division is
 * one instruction. Whatever changes here changes published orders: test_tree has their values.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "sampler/shuffle/tree.h"
#include "sampler/shuffle/tree_split.h"

#define ONE_Q32 (UINT64_C(1) << 32)

typedef unsigned __int128 wide;

/* ---- building ----------------------------------------------------------- */

struct leaf {
    int64_t size;
    uint32_t stratum;
};

/* Ascending by size, then by number, so that every machine builds the same tree. */
static int compare_leaves(const void *a, const void *b)
{
    const struct leaf *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return x->stratum < y->stratum ? -1 : 1;
}

/* Huffman with two queues: the sorted leaves, and the inner nodes in the order they are made. */
struct joiner {
    const struct leaf *leaves;
    const int64_t *inner; /* sizes of the inner nodes made so far */
    uint32_t leaves_used, inner_used;
    uint32_t strata, inner_made;
};

/* Takes the smaller head; a leaf on a tie. */
static uint32_t take_smallest(struct joiner *joiner, int64_t *ret_size)
{
    bool has_leaf = joiner->leaves_used < joiner->strata;
    bool has_inner = joiner->inner_used < joiner->inner_made;
    if (has_leaf && (!has_inner || joiner->leaves[joiner->leaves_used].size <=
                                       joiner->inner[joiner->inner_used])) {
        const struct leaf *leaf = &joiner->leaves[joiner->leaves_used++];
        *ret_size = leaf->size;
        return leaf->stratum;
    }
    *ret_size = joiner->inner[joiner->inner_used];
    return joiner->strata + joiner->inner_used++;
}

static void join(struct tree *tree, const struct leaf *leaves, int64_t *inner)
{
    struct joiner joiner = {.leaves = leaves, .inner = inner, .strata = tree->strata};
    for (uint32_t i = 0; i + 1 < tree->strata; i++) {
        int64_t sizes[2];
        struct tree_node *node = &tree->nodes[i];
        for (int side = 0; side < 2; side++) {
            node->child[side] = take_smallest(&joiner, &sizes[side]);
            tree->parents[node->child[side]] = i;
        }
        node->left_size = sizes[0];
        inner[i] = sizes[0] + sizes[1];
        joiner.inner_made = i + 1;
    }
}

/* The largest S of tree.h, in 1/2^32, rounded up: S(child) = S(node) * size(child)/size(node) + 1
 * from S(root) = 0, downwards. `reach` holds S of the inner nodes. */
static uint64_t largest_reach_q32(const struct tree *tree, const int64_t *inner, uint64_t *reach)
{
    uint64_t largest = ONE_Q32;
    uint32_t root = tree->strata - 2;
    reach[root] = 0;
    for (uint32_t i = root + 1; i-- > 0;) {
        const struct tree_node *node = &tree->nodes[i];
        for (int side = 0; side < 2; side++) {
            int64_t size = side == 0 ? node->left_size : inner[i] - node->left_size;
            uint64_t value =
                (uint64_t)((wide)reach[i] * (uint64_t)size / (uint64_t)inner[i]) + 1 + ONE_Q32;
            if (node->child[side] >= tree->strata)
                reach[node->child[side] - tree->strata] = value;
            else if (value > largest)
                largest = value;
        }
    }
    return largest;
}

/* min(1, 4 / S - 1) in 1/2^32: |e| < 2 / S at every node keeps every prefix less than 2 off. */
static uint64_t spread_for(uint64_t reach_q32)
{
    uint64_t most = (uint64_t)(((wide)4 << 64) / reach_q32);
    return most >= 2 * ONE_Q32 ? ONE_Q32 : most - ONE_Q32;
}

static enum error build(struct tree *tree, const int64_t *sizes)
{
    uint32_t strata = tree->strata;
    struct leaf *leaves = array_new(strata, sizeof(*leaves), "the strata's sizes");
    int64_t *inner = array_new(strata, sizeof(*inner), "the sizes of a tree's nodes");
    uint64_t *reach = array_new(strata, sizeof(*reach), "the reach of a tree's nodes");
    enum error error = ERROR_MEMORY;
    if (!leaves || !inner || !reach)
        goto out;
    for (uint32_t i = 0; i < strata; i++)
        leaves[i] = (struct leaf){.size = sizes[i], .stratum = i};
    qsort(leaves, strata, sizeof(*leaves), compare_leaves);
    join(tree, leaves, inner);
    tree->spread_q32 = spread_for(largest_reach_q32(tree, inner, reach));
    error = OK;
out:
    free(leaves);
    free(inner);
    free(reach);
    return error;
}

enum error tree_init(struct tree *tree, const int64_t *sizes, uint32_t strata)
{
    *tree = (struct tree){.strata = strata, .spread_q32 = ONE_Q32};
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
        error = build(tree, sizes);
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

/* ---- one node ----------------------------------------------------------- */

/* The node's phase in this epoch: uniform on the middle spread / 2^32 of [0, size), at least one
 * value. */
static int64_t phase_of(const struct tree *tree, struct random_key phases, uint32_t node,
                        int64_t size)
{
    uint64_t width = (uint64_t)((wide)(uint64_t)size * tree->spread_q32 >> 32);
    if (width == 0)
        width = 1;
    return (size - (int64_t)width) / 2 + (int64_t)random_below(phases, node, width);
}

/* floor((q * part + phase) / size); the rest of that division to *ret_rest. */
static int64_t floor_at(int64_t q, int64_t part, int64_t phase, int64_t size, int64_t *ret_rest)
{
    wide sum = (wide)(uint64_t)q * (uint64_t)part + (uint64_t)phase;
    if (sum >> 64 == 0) { /* one machine division instead of a long one */
        *ret_rest = (int64_t)((uint64_t)sum % (uint64_t)size);
        return (int64_t)((uint64_t)sum / (uint64_t)size);
    }
    *ret_rest = (int64_t)(sum % (uint64_t)size);
    return (int64_t)(sum / (uint64_t)size);
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

/* Depth first, left before right. Every piece of work owns slots [begin, begin + count), and the
 * pieces on the stack and the runs found so far part all slots among them; a split is stable, so
 * that slots ascend within a piece. The stack holds one right sibling a level: TREE_DEPTH is
 * enough. */
size_t tree_deal(const struct tree *tree, struct random_key phases, int64_t first, uint32_t count,
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
        int64_t phase = phase_of(tree, phases, work.node, work.size);
        int64_t rest;
        int64_t left_first = floor_at(work.first, node->left_size, phase, work.size, &rest);
        struct tree_split split = {
            .size = work.size, .left_size = node->left_size, .rest = rest, .count = work.count};
        uint32_t lefts = tree_split(&split, ret_slots + work.begin);
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

/* The way from a stratum up to the root: at each step the inner node, its size and the side that
 * the way takes there. */
struct step {
    uint32_t node;
    int64_t size, part; /* of the node; of the child on the way */
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
        step->part = step->is_right ? size - left_size : left_size;
        size = step->part;
    }
    return depth;
}

/* The right child counts t - floor((t m + phase)/n) = floor((t (n-m) + n-1-phase)/n): the same
 * formula with its own part and the mirrored phase. */
static int64_t phase_on_way(const struct tree *tree, struct random_key phases,
                            const struct step *step)
{
    int64_t phase = phase_of(tree, phases, step->node, step->size);
    return step->is_right ? step->size - 1 - phase : phase;
}

int64_t tree_position(const struct tree *tree, struct random_key phases, uint32_t stratum,
                      int64_t j)
{
    struct step steps[TREE_DEPTH];
    size_t depth = way_up(tree, stratum, steps);
    for (size_t i = 0; i < depth; i++) {
        const struct step *step = &steps[i];
        int64_t phase = phase_on_way(tree, phases, step);
        /* the first t with floor((t part + phase)/size) = j + 1 is one behind the position */
        wide needed = (wide)(uint64_t)(j + 1) * (uint64_t)step->size - (uint64_t)phase;
        j = (int64_t)((needed + (uint64_t)step->part - 1) / (uint64_t)step->part) - 1;
    }
    return j;
}

int64_t tree_count(const struct tree *tree, struct random_key phases, uint32_t stratum, int64_t t)
{
    struct step steps[TREE_DEPTH];
    for (size_t i = way_up(tree, stratum, steps); i-- > 0;) {
        int64_t rest;
        t = floor_at(t, steps[i].part, phase_on_way(tree, phases, &steps[i]), steps[i].size, &rest);
    }
    return t;
}

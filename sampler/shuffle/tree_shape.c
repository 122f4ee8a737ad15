/* SPDX-License-Identifier: MIT */
/*
 * Nodes are numbered 0 ... 2 L - 2: the strata, then the inner nodes in the order in which they are
 * made, nodes[i] being number L + i. A node comes behind its children, the root is last, and the
 * left child is the smaller one. Huffman's algorithm needs no heap: sorted leaves and inner nodes
 * are two queues, both ascending.
 */
#include "sampler/shuffle/tree_shape.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/divisor.h"
#include "sampler/shuffle/tree_cells.h"

#define ONE_Q32 (UINT64_C(1) << 32)

/* With more strata only Huffman's tree is tried: its bound is close to 2 there, unless most of the
 * strata are almost empty. */
#define STRATA_TRIED 16384

typedef unsigned __int128 wide;

struct leaf {
    int64_t size;
    uint32_t stratum;
};

struct shape {
    struct tree *tree;
    struct leaf *leaves; /* [L] ascending */
    int64_t *sizes;      /* [L - 1] of the inner nodes */
    uint64_t *errors;    /* [L - 1] of the inner nodes, bound() */
    uint32_t made;       /* inner nodes so far */
};

/* A subtree. */
struct part {
    uint32_t node;
    int64_t size;
};

/* Ascending by size, then by number, so that every machine builds the same tree. */
static int compare_leaves(const void *a, const void *b)
{
    const struct leaf *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return x->stratum < y->stratum ? -1 : 1;
}

static struct part join(struct shape *shape, struct part a, struct part b)
{
    struct tree *tree = shape->tree;
    struct part smaller = b.size < a.size ? b : a;
    struct part larger = b.size < a.size ? a : b;
    uint32_t number = shape->made++;
    int64_t size = a.size + b.size;
    tree->nodes[number] = (struct tree_node){
        .child = {smaller.node, larger.node},
        .left_size = smaller.size,
        .fraction = tree_cells_fraction(smaller.size, size),
    };
    tree->parents[a.node] = tree->parents[b.node] = number;
    shape->sizes[number] = size;
    return (struct part){.node = tree->strata + number, .size = size};
}

static struct part leaf_part(const struct shape *shape, uint32_t leaf)
{
    return (struct part){.node = shape->leaves[leaf].stratum, .size = shape->leaves[leaf].size};
}

/* The smaller head of the two queues, leaves up to `end` and inner nodes; a leaf on a tie. */
static struct part take_smallest(const struct shape *shape, uint32_t *leaf, uint32_t end,
                                 uint32_t *inner)
{
    bool has_leaf = *leaf < end;
    bool has_inner = *inner < shape->made;
    if (has_leaf && (!has_inner || shape->leaves[*leaf].size <= shape->sizes[*inner]))
        return leaf_part(shape, (*leaf)++);
    uint32_t number = (*inner)++;
    return (struct part){.node = shape->tree->strata + number, .size = shape->sizes[number]};
}

/* Huffman's tree of leaves first ... end - 1, at least one. */
static struct part huffman(struct shape *shape, uint32_t first, uint32_t end)
{
    uint32_t leaf = first;
    uint32_t inner = shape->made;
    for (uint32_t joins = end - first - 1; joins > 0; joins--) {
        struct part a = take_smallest(shape, &leaf, end, &inner);
        join(shape, a, take_smallest(shape, &leaf, end, &inner));
    }
    return take_smallest(shape, &leaf, end, &inner);
}

/* The k smallest in a subtree, with the largest beside them if `with_largest`; k = 0: Huffman's
 * tree. */
static void build(struct shape *shape, uint32_t k, bool with_largest)
{
    uint32_t strata = shape->tree->strata;
    shape->made = 0;
    if (k == 0) {
        huffman(shape, 0, strata);
        return;
    }
    struct part smallest = huffman(shape, 0, k);
    if (with_largest)
        smallest = join(shape, smallest, leaf_part(shape, strata - 1));
    join(shape, smallest, huffman(shape, k, strata - with_largest));
}

/* The most that a node's own counts may be off, in 1/2^32, rounded up: (n - gcd(n, m)) / n, as the
 * parts of a position before and after a boundary are multiples of gcd(n, m) / m. */
static uint64_t own_error_q32(int64_t size, int64_t left_size)
{
    int64_t divisor = common_divisor(size, left_size);
    return (uint64_t)(((wide)(uint64_t)(size - divisor) << 32) / (uint64_t)size) + 1;
}

/* The largest error of a leaf, in 1/2^32, rounded up: error(child) = own(node) + error(node) *
 * size(child) / size(node), error(root) = 0, downwards. */
static uint64_t bound_q32(const struct shape *shape)
{
    const struct tree *tree = shape->tree;
    uint64_t largest = 0;
    uint32_t root = tree->strata - 2;
    shape->errors[root] = 0;
    for (uint32_t i = root + 1; i-- > 0;) {
        const struct tree_node *node = &tree->nodes[i];
        uint64_t own = own_error_q32(shape->sizes[i], node->left_size);
        for (int side = 0; side < 2; side++) {
            int64_t size = side == 0 ? node->left_size : shape->sizes[i] - node->left_size;
            wide above = (wide)shape->errors[i] * (uint64_t)size / (uint64_t)shape->sizes[i];
            uint64_t error = own + (uint64_t)above + 1;
            if (node->child[side] >= tree->strata)
                shape->errors[node->child[side] - tree->strata] = error;
            else if (error > largest)
                largest = error;
        }
    }
    return largest;
}

/* With many strata a shallow tree is worth more than the last tenth of the bound. */
static uint64_t enough_q32(uint32_t strata)
{
    return strata <= 64 ? 2 * ONE_Q32 : 2 * ONE_Q32 + ONE_Q32 / 8;
}

/* Builds the best tree; every k up to 8, then each an eighth larger than the one before. */
static void build_best(struct shape *shape)
{
    uint32_t strata = shape->tree->strata;
    uint64_t enough = enough_q32(strata);
    uint32_t best_k = 0;
    bool best_with_largest = false;
    build(shape, 0, false);
    uint64_t best = shape->tree->bound_q32 = bound_q32(shape);
    if (strata > STRATA_TRIED || best <= enough)
        return;
    for (uint32_t k = 1; k + 1 < strata && best > enough; k += 1 + k / 8) {
        for (int with_largest = 0; with_largest < 2; with_largest++) {
            build(shape, k, with_largest);
            uint64_t bound = bound_q32(shape);
            if (bound >= best)
                continue;
            best = bound;
            best_k = k;
            best_with_largest = with_largest;
        }
    }
    build(shape, best_k, best_with_largest);
    shape->tree->bound_q32 = best;
}

enum error tree_shape(struct tree *tree, const int64_t *sizes)
{
    uint32_t strata = tree->strata;
    struct shape shape = {
        .tree = tree,
        .leaves = array_new(strata, sizeof(*shape.leaves), "the strata's sizes"),
        .sizes = array_new(strata, sizeof(*shape.sizes), "the sizes of a tree's nodes"),
        .errors = array_new(strata, sizeof(*shape.errors), "the errors of a tree's nodes"),
    };
    enum error error = ERROR_MEMORY;
    if (shape.leaves && shape.sizes && shape.errors) {
        for (uint32_t i = 0; i < strata; i++)
            shape.leaves[i] = (struct leaf){.size = sizes[i], .stratum = i};
        qsort(shape.leaves, strata, sizeof(*shape.leaves), compare_leaves);
        build_best(&shape);
        error = OK;
    }
    free(shape.leaves);
    free(shape.sizes);
    free(shape.errors);
    return error;
}

/* SPDX-License-Identifier: MIT */
/*
 * The stratified order in closed form: a Huffman tree over the strata's sizes deals the positions
 * of an epoch out to the strata.
 *
 * At an inner node with n positions, m of them the left child's, position q goes left exactly if
 * floor(((q+1) m + phase) / n) > floor((q m + phase) / n); its position in the left child is that
 * floor, in the right child q minus it. A leaf is (stratum, j): the stratum's j-th draw of the
 * epoch. 128-bit products, no floating point. What always holds:
 *   - over an epoch stratum h gets exactly sizes[h] positions, and j counts 0, 1, 2, ...
 *   - at every prefix of t positions its count is less than 2 away from t * sizes[h] / n.
 *
 * Why less than 2: one node errs by e = phase/n - frac(...), and the errors on the way to a leaf of
 * size s add up to the sum of e_i * s / s_i, s_i the sizes of the nodes below the root on that way.
 * In a Huffman tree sum(s / s_i) stays below 3.36 (the sum of the reciprocal Fibonacci numbers).
 * tree_init() computes its largest value S for the tree at hand and draws every phase, one for
 * each (epoch, node), from the middle n * min(1, 4/S - 1) values of [0, n): then |e| < 2/S. Where
 * S <= 2 (labels of like sizes) all of [0, n) is used, and the probability of a label at a position
 * is exactly its share.
 *
 * Immutable after tree_init(); any thread. 24 bytes a stratum.
 *
 * Dimensions: L strata, n positions an epoch.
 */
#ifndef SAMPLER_SHUFFLE_TREE_H
#define SAMPLER_SHUFFLE_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/shuffle/random.h"

#define TREE_DEPTH 96   /* more than a Huffman tree of less than 2^62 can have */
#define TREE_BLOCK 2048 /* positions dealt out together */

struct tree_node {
    uint32_t child[2]; /* left, right: below L a stratum, else inner node (number - L) */
    int64_t left_size; /* m */
};

struct tree {
    uint32_t strata;         /* L */
    int64_t positions;       /* n of the root: the sum of all sizes */
    struct tree_node *nodes; /* [L - 1] owned; the last is the root */
    uint32_t *parents;       /* [2 L - 1] owned; strata, then inner nodes */
    uint64_t spread_q32;     /* phases come from the middle spread / 2^32 of [0, n) */
};

/* Consecutive draws j = first ... first + count - 1 of one stratum. */
struct tree_run {
    uint32_t stratum;
    int64_t first;
    uint32_t count;
};

/* sizes[L], each >= 1, their sum below 2^62; L >= 1. O(L log L). */
enum error tree_init(struct tree *tree, const int64_t *sizes, uint32_t strata) MUST_CHECK;
void tree_release(struct tree *tree);

/* Deals out positions first ... first + count - 1 of an epoch, count <= TREE_BLOCK: returns the
 * number of runs, one a stratum that got any, at most `count`. The draws of all runs, one run
 * behind the other, belong to positions first + ret_slots[0], first + ret_slots[1], ... `phases`
 * is the epoch's key. */
size_t tree_deal(const struct tree *tree, struct random_key phases, int64_t first, uint32_t count,
                 struct tree_run ret_runs[TREE_BLOCK], uint16_t ret_slots[TREE_BLOCK]);

/* The position of a stratum's draw j in the epoch: the inverse of tree_deal(). */
int64_t tree_position(const struct tree *tree, struct random_key phases, uint32_t stratum,
                      int64_t j);

/* How many of the epoch's first t positions are the stratum's, 0 <= t <= n. */
int64_t tree_count(const struct tree *tree, struct random_key phases, uint32_t stratum, int64_t t);

#endif

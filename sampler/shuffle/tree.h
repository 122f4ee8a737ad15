/* SPDX-License-Identifier: MIT */
/*
 * The stratified order in closed form: a binary tree over the strata's sizes assigns the positions
 * of an epoch to the strata.
 *
 * An inner node sends some of its positions left, the others right, at random in each epoch
 * (tree_cells.h); a position's number in a child is how many went there before it. A leaf is
 * (stratum, j): the stratum's j-th draw of the epoch. Integers only. Invariants:
 *   - over an epoch stratum h gets exactly sizes[h] positions, and j counts 0, 1, 2, ...
 *   - at every prefix of t positions its count is at most bound_q32 / 2^32 away from
 *     t * sizes[h] / n: 1 for two strata, 2 or little more for many (tree_shape.h)
 *   - over keys, every position is each stratum's with probability sizes[h] / n, exactly, as nodes
 *     are independent: the expected count at every prefix is t * sizes[h] / n
 *
 * Immutable after tree_init(); any thread. 32 bytes per stratum.
 *
 * Dimensions: L strata, n positions per epoch.
 */
#ifndef SAMPLER_SHUFFLE_TREE_H
#define SAMPLER_SHUFFLE_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/shuffle/random.h"

#define TREE_DEPTH 128  /* more than a tree of less than 2^62 positions can have */
#define TREE_BLOCK 2048 /* positions assigned together */

struct tree_node {
    uint32_t child[2]; /* left, right: below L a stratum, else inner node (number - L) */
    int64_t left_size; /* of the left child, the smaller one */
    uint64_t fraction; /* its share of the node, in 1/2^64 */
};

struct tree {
    uint32_t strata;         /* L */
    int64_t positions;       /* n of the root: the sum of all sizes */
    struct tree_node *nodes; /* [L - 1] owned; the last is the root */
    uint32_t *parents;       /* [2 L - 1] owned; strata, then inner nodes */
    uint64_t bound_q32;      /* the most by which a count is off its share, in 1/2^32 */
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

/* Assigns positions first ... first + count - 1 of an epoch, count <= TREE_BLOCK: returns the
 * number of runs, one per stratum that got any, at most `count`. The draws of all runs,
 * concatenated, belong to positions first + ret_slots[0], first + ret_slots[1], ... `deals` is the
 * epoch's key. */
size_t tree_deal(const struct tree *tree, struct random_key deals, int64_t first, uint32_t count,
                 struct tree_run ret_runs[TREE_BLOCK], uint16_t ret_slots[TREE_BLOCK]);

/* The position of a stratum's draw j in the epoch: the inverse of tree_deal(). */
int64_t tree_position(const struct tree *tree, struct random_key deals, uint32_t stratum,
                      int64_t j);

/* How many of the epoch's first t positions are the stratum's, 0 <= t <= n. */
int64_t tree_count(const struct tree *tree, struct random_key deals, uint32_t stratum, int64_t t);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The shape of the stratified tree: which strata separate at which node. Private to tree.c and its
 * test.
 *
 * A node's error is less than 1 (tree_cells.h), at most 1 - gcd(n, m) / n. The error of a leaf of
 * size s is that of its own node plus a share of those of the nodes above: less than 1 + the sum of
 * s / s_i over its ancestors below the root, s_i their sizes. The largest such sum is the tree's
 * bound.
 *
 * Huffman's tree is the shallowest and the fastest, and is used if its bound is at most 2 (2.125
 * with more than 64 strata), which holds for similar sizes. Small strata next to large ones deep in
 * the tree increase the bound: so trees are tried in which the k smallest strata form a subtree
 * directly below the root, alone or with the largest stratum, and the one with the least bound is
 * used.
 */
#ifndef SAMPLER_SHUFFLE_TREE_SHAPE_H
#define SAMPLER_SHUFFLE_TREE_SHAPE_H

#include "sampler/shuffle/tree.h"

/* Sets nodes, parents and bound_q32 of a tree of two strata or more, whose arrays are allocated.
 * Integers only: the same tree on every machine. O(L log L). */
enum error tree_shape(struct tree *tree, const int64_t *sizes) MUST_CHECK;

#endif

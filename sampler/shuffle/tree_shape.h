/* SPDX-License-Identifier: MIT */
/*
 * The shape of the stratified tree: which strata part from which. Private to tree.c and its test.
 *
 * A node errs by less than 1 (tree_cells.h), by 1 - gcd(n, m) / n at most, and a leaf of size s by
 * what its own node errs and a share of what the nodes above it do: less than 1 + the sum of
 * s / s_i over the nodes below the root that it is under, s_i their sizes. The largest such sum is
 * the tree's bound.
 *
 * Huffman's tree is the shallowest, and the fastest, and taken where its bound is 2 at most (2.125
 * with more than 64 strata), as it is where sizes are alike. What makes it large are small strata
 * that stand beside large ones deep in the tree: so trees are tried in which the k smallest strata
 * have a tree of their own right below the root, alone or with the largest stratum, and the one
 * with the least bound is taken.
 */
#ifndef SAMPLER_SHUFFLE_TREE_SHAPE_H
#define SAMPLER_SHUFFLE_TREE_SHAPE_H

#include "sampler/shuffle/tree.h"

/* Sets nodes, parents and bound_q32 of a tree of two strata or more, whose arrays are there.
 * Integers only: the same tree on every machine. O(L log L). */
enum error tree_shape(struct tree *tree, const int64_t *sizes) MUST_CHECK;

#endif

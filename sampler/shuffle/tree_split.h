/* SPDX-License-Identifier: MIT */
/*
 * One node of tree_deal(): the slots of its consecutive positions, stably parted into those that go
 * left and those that go right. The floor of tree.h moves by steps: it goes up exactly when the
 * rest passes the size. Private to tree.c and its test.
 */
#ifndef SAMPLER_SHUFFLE_TREE_SPLIT_H
#define SAMPLER_SHUFFLE_TREE_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

struct tree_split {
    int64_t size, left_size; /* of the node; of its left child, 0 < left_size < size < 2^62 */
    int64_t rest;            /* at the first position: (first * left_size + phase) mod size */
    uint32_t count;          /* at most TREE_BLOCK */
};

/* In place; returns how many go left. */
uint32_t tree_split(const struct tree_split *split, uint16_t *slots);

/* The definition, and the one with vectors, where the processor has them: same results. */
uint32_t tree_split_plain(const struct tree_split *split, uint16_t *slots);
bool tree_split_has_vectors(void);
uint32_t tree_split_vectors(const struct tree_split *split, uint16_t *slots);

#endif

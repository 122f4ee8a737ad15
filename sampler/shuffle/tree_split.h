/* SPDX-License-Identifier: MIT */
/*
 * One node of tree_deal(): stably partitions the slots of its consecutive positions into those that
 * go left and those that go right. Private to tree.c and its test.
 */
#ifndef SAMPLER_SHUFFLE_TREE_SPLIT_H
#define SAMPLER_SHUFFLE_TREE_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/shuffle/tree_cells.h"

/* slots[count] of positions first ..., in place, 1 <= count <= TREE_BLOCK; returns how many go
 * left. *ret_before positions of the node before them go left. */
uint32_t tree_split(const struct tree_cells *cells, int64_t first, uint16_t *slots, uint32_t count,
                    int64_t *ret_before);

/* The reference, and a vector version for processors and sizes that allow it: same results. */
uint32_t tree_split_plain(const struct tree_cells *cells, int64_t first, uint16_t *slots,
                          uint32_t count, int64_t *ret_before);
bool tree_split_has_vectors(const struct tree_cells *cells);
uint32_t tree_split_vectors(const struct tree_cells *cells, int64_t first, uint16_t *slots,
                            uint32_t count, int64_t *ret_before);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Shared by designs that deal positions to labels by a tree (tree.h): a block of positions as runs
 * of draws, one run per label, and the ranks of those draws in their strata.
 */
#ifndef SAMPLER_DESIGN_DESIGN_STRATA_H
#define SAMPLER_DESIGN_DESIGN_STRATA_H

#include "sampler/order/design.h"
#include "sampler/order/position_list.h"

/* ERROR_USAGE for a frame without labels. */
enum error design_need_labels(const struct order *order) MUST_CHECK;

struct deal {
    struct tree_run runs[ORDER_BLOCK];
    uint16_t slots[ORDER_BLOCK];
    uint64_t ranks[ORDER_BLOCK];
    size_t run_count;
};

/* Positions first ... first + count - 1 of the epoch as runs of the tree's strata. */
void deal_positions(struct deal *deal, const struct order *order, const struct epoch *epoch,
                    int64_t first, size_t count);

/* order_balance_error() of the tree. */
double deal_balance_error(const struct order *order);

/* Ranks with replacement: each draw is independent, from the whole stratum. */
void deal_draw_with_replacement(struct deal *deal, const struct order *order,
                                const struct epoch *epoch, const uint32_t *labels);

/* Rows and labels (may be NULL) in order of position. `labels` maps strata to labels; NULL: the
 * numbers are the same. */
void deal_place(const struct deal *deal, const struct order *order, const uint32_t *labels,
                int64_t *ret_rows, uint32_t *ret_labels);

/* With replacement: the positions below `end` at which the row was drawn; examines every draw of
 * its stratum. Errors as order_positions(). */
enum error deal_find_draws(const struct order *order, const struct epoch *epoch, uint32_t stratum,
                           int64_t row, int64_t end, struct position_list *list) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * proportional: the tree deals positions to the strata by their sizes; each stratum runs through
 * its own permutation or, with replacement, draws from all of it each time. The exact label counts
 * are the same in both cases.
 */
#include <stdlib.h>

#include "common/array.h"
#include "sampler/design/design_strata.h"
#include "sampler/design/designs.h"
#include "sampler/shuffle/permutation.h"

static enum error proportional_init(struct order *order, const struct design_fields *fields)
{
    (void)fields;
    const struct frame *frame = order->frame;
    enum error error = design_need_labels(order);
    if (error)
        return error;
    uint32_t labels = frame_labels(frame);
    int64_t *sizes = array_new(labels, sizeof(*sizes), "the strata's sizes");
    if (!sizes)
        return ERROR_MEMORY;
    for (uint32_t label = 0; label < labels; label++)
        sizes[label] = frame_label_units(frame, label);
    error = tree_init(&order->tree, sizes, labels);
    free(sizes);
    if (!error)
        order->epoch_positions = frame_units(frame);
    return error;
}

/* ---- positions to rows -------------------------------------------------- */

static void permute(const struct order *order, const struct epoch *epoch, struct deal *deal)
{
    struct permutation_run runs[ORDER_BLOCK];
    for (size_t i = 0; i < deal->run_count; i++) {
        const struct tree_run *run = &deal->runs[i];
        runs[i] = (struct permutation_run){
            .units = (uint64_t)frame_label_units(order->frame, run->stratum),
            .key = random_at(epoch->units, run->stratum),
            .first = (uint64_t)run->first,
            .count = run->count,
        };
    }
    permutation_runs(runs, deal->run_count, deal->ranks);
}

static size_t proportional_units(const struct order *order, const struct epoch *epoch,
                                 int64_t first, size_t count, int64_t *ret_rows,
                                 uint32_t *ret_labels)
{
    struct deal deal;
    deal_positions(&deal, order, epoch, first, count);
    if (order->replacement)
        deal_draw_with_replacement(&deal, order, epoch, NULL);
    else
        permute(order, epoch, &deal);
    deal_place(&deal, order, NULL, ret_rows, ret_labels);
    return count;
}

/* ---- and back ----------------------------------------------------------- */

static int64_t proportional_position(const struct order *order, const struct epoch *epoch,
                                     int64_t row)
{
    uint32_t label = frame_label(order->frame, row);
    struct permutation permutation;
    permutation_init(&permutation, (uint64_t)frame_label_units(order->frame, label),
                     random_at(epoch->units, label));
    uint64_t j = permutation_find(&permutation, (uint64_t)frame_stratum_rank(order->frame, row));
    return tree_position(&order->tree, epoch->choices, label, (int64_t)j);
}

static enum error proportional_positions(const struct order *order, const struct epoch *epoch,
                                         int64_t row, int64_t end, struct position_list *list)
{
    return deal_find_draws(order, epoch, frame_label(order->frame, row), row, end, list);
}

static int64_t proportional_label_count(const struct order *order, const struct epoch *epoch,
                                        uint32_t label, int64_t t)
{
    return tree_count(&order->tree, epoch->choices, label, t);
}

const struct design_ops design_proportional = {
    .name = "proportional",
    .takes_replacement = true,
    .init = proportional_init,
    .units = proportional_units,
    .position = proportional_position,
    .positions = proportional_positions,
    .label_count = proportional_label_count,
    .balance_error = deal_balance_error,
};

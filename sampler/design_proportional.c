/*
 * proportional: the tree deals positions out to the strata by their sizes; each stratum runs
 * through a permutation of its own, or, with replacement, draws anew each time. Label counts are
 * the same exact ones either way.
 */
#include <stdlib.h>

#include "common/array.h"
#include "sampler/design.h"
#include "sampler/permutation.h"

static enum error proportional_init(struct order *order)
{
    const struct frame *frame = order->frame;
    if (!frame_has_labels(frame))
        return error_set(ERROR_USAGE, "design proportional needs labels, and the frame has none; "
                                      "srs is right, or name the label column in the store's URI");
    uint32_t labels = frame_labels(frame);
    int64_t *sizes = array_new(labels, sizeof(*sizes), "the strata's sizes");
    if (!sizes)
        return ERROR_MEMORY;
    for (uint32_t label = 0; label < labels; label++)
        sizes[label] = frame_label_units(frame, label);
    enum error error = tree_init(&order->tree, sizes, labels);
    free(sizes);
    if (!error)
        order->epoch_positions = frame_units(frame);
    return error;
}

static void proportional_release(struct order *order)
{
    tree_release(&order->tree);
}

/* ---- positions to rows ------------------------------------------------------------------------
 */
/* What the tree dealt out, and then the ranks that it gives: one run behind the other. */
struct deal {
    struct tree_run runs[ORDER_BLOCK];
    uint16_t slots[ORDER_BLOCK];
    uint64_t ranks[ORDER_BLOCK];
    size_t run_count;
};

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

static void draw_anew(const struct order *order, const struct epoch *epoch, struct deal *deal)
{
    uint64_t *rank = deal->ranks;
    for (size_t i = 0; i < deal->run_count; i++) {
        const struct tree_run *run = &deal->runs[i];
        struct random_key key = random_key_at(epoch->units, run->stratum);
        uint64_t units = (uint64_t)frame_label_units(order->frame, run->stratum);
        for (uint32_t j = 0; j < run->count; j++)
            *rank++ = random_below(key, (uint64_t)run->first + j, units);
    }
}

static void place(const struct order *order, const struct deal *deal, int64_t *ret_rows,
                  uint32_t *ret_labels)
{
    const struct partition *strata = frame_strata(order->frame);
    int64_t rows[ORDER_BLOCK];
    size_t done = 0;
    for (size_t i = 0; i < deal->run_count; i++) {
        const struct tree_run *run = &deal->runs[i];
        partition_gather(strata, run->stratum, deal->ranks + done, run->count, rows + done);
        for (uint32_t j = 0; ret_labels && j < run->count; j++)
            ret_labels[deal->slots[done + j]] = run->stratum;
        done += run->count;
    }
    for (size_t i = 0; i < done; i++)
        ret_rows[deal->slots[i]] = rows[i];
}

static void proportional_units(const struct order *order, const struct epoch *epoch, int64_t first,
                               size_t count, int64_t *ret_rows, uint32_t *ret_labels)
{
    struct deal deal;
    deal.run_count =
        tree_deal(&order->tree, epoch->phases, first, (uint32_t)count, deal.runs, deal.slots);
    if (order->replacement)
        draw_anew(order, epoch, &deal);
    else
        permute(order, epoch, &deal);
    place(order, &deal, ret_rows, ret_labels);
}

/* ---- and back ---------------------------------------------------------------------------------
 */
static int64_t proportional_position(const struct order *order, const struct epoch *epoch,
                                     int64_t row)
{
    uint32_t label = frame_label(order->frame, row);
    struct permutation permutation;
    permutation_init(&permutation, (uint64_t)frame_label_units(order->frame, label),
                     random_at(epoch->units, label));
    uint64_t j = permutation_find(&permutation, (uint64_t)frame_stratum_rank(order->frame, row));
    return tree_position(&order->tree, epoch->phases, label, (int64_t)j);
}

static int64_t proportional_label_count(const struct order *order, const struct epoch *epoch,
                                        uint32_t label, int64_t t)
{
    return tree_count(&order->tree, epoch->phases, label, t);
}

const struct design_ops design_proportional = {
    .name = "proportional",
    .init = proportional_init,
    .release = proportional_release,
    .units = proportional_units,
    .position = proportional_position,
    .label_count = proportional_label_count,
};

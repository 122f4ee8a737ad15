/* SPDX-License-Identifier: MIT */
#include "sampler/design/design_strata.h"

enum error design_need_labels(const struct order *order)
{
    if (frame_has_labels(order->frame))
        return OK;
    return error_set(ERROR_USAGE,
                     "design %s needs labels, and the frame has none; srs is right, or name the "
                     "label column in the store's URI",
                     order->ops->name);
}

static uint32_t label_of(const uint32_t *labels, uint32_t stratum)
{
    return labels ? labels[stratum] : stratum;
}

void deal_positions(struct deal *deal, const struct order *order, const struct epoch *epoch,
                    int64_t first, size_t count)
{
    deal->run_count =
        tree_deal(&order->tree, epoch->choices, first, (uint32_t)count, deal->runs, deal->slots);
}

double deal_balance_error(const struct order *order)
{
    return (double)order->tree.bound_q32 / 0x1p32;
}

void deal_draw_with_replacement(struct deal *deal, const struct order *order,
                                const struct epoch *epoch, const uint32_t *labels)
{
    uint64_t *rank = deal->ranks;
    for (size_t i = 0; i < deal->run_count; i++) {
        const struct tree_run *run = &deal->runs[i];
        uint32_t label = label_of(labels, run->stratum);
        struct random_key key = random_key_at(epoch->units, label);
        uint64_t units = (uint64_t)frame_label_units(order->frame, label);
        for (uint32_t j = 0; j < run->count; j++)
            *rank++ = random_below(key, (uint64_t)run->first + j, units);
    }
}

static void place(const int64_t *rows, uint32_t label, const uint16_t *slots, size_t count,
                  int64_t *ret_rows, uint32_t *ret_labels)
{
    for (size_t i = 0; i < count; i++) {
        ret_rows[slots[i]] = rows[i];
        ret_labels[slots[i]] = label;
    }
}

static void place_rows(const int64_t *rows, const uint16_t *slots, size_t count, int64_t *ret_rows)
{
    for (size_t i = 0; i < count; i++)
        ret_rows[slots[i]] = rows[i];
}

void deal_place(const struct deal *deal, const struct order *order, const uint32_t *labels,
                int64_t *ret_rows, uint32_t *ret_labels)
{
    const struct partition *strata = frame_strata(order->frame);
    const uint16_t *slots = deal->slots;
    const uint64_t *ranks = deal->ranks;
    for (size_t i = 0; i < deal->run_count; i++) {
        const struct tree_run *run = &deal->runs[i];
        uint32_t label = label_of(labels, run->stratum);
        int64_t rows[ORDER_BLOCK];
        partition_gather(strata, label, ranks, run->count, rows);
        if (ret_labels)
            place(rows, label, slots, run->count, ret_rows, ret_labels);
        else
            place_rows(rows, slots, run->count, ret_rows);
        slots += run->count;
        ranks += run->count;
    }
}

enum error deal_find_draws(const struct order *order, const struct epoch *epoch, uint32_t stratum,
                           int64_t row, int64_t end, struct position_list *list)
{
    uint32_t label = frame_label(order->frame, row);
    struct random_key key = random_key_at(epoch->units, label);
    uint64_t units = (uint64_t)frame_label_units(order->frame, label);
    uint64_t rank = (uint64_t)frame_stratum_rank(order->frame, row);
    int64_t draws = tree_count(&order->tree, epoch->choices, stratum, end);
    enum error error = OK;
    for (int64_t j = 0; j < draws && !error; j++) {
        if (j % POSITION_LIST_LOOK == POSITION_LIST_LOOK - 1)
            error = position_list_check(list);
        if (!error && random_below(key, (uint64_t)j, units) == rank)
            error =
                position_list_add(list, tree_position(&order->tree, epoch->choices, stratum, j));
    }
    return error;
}

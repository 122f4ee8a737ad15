/* SPDX-License-Identifier: MIT */
/*
 * srs, simple random sampling: one permutation of all rows per epoch; with replacement every
 * position is an independent draw from all rows.
 */
#include "sampler/design/designs.h"
#include "sampler/order/position_list.h"
#include "sampler/shuffle/permutation.h"

static enum error srs_init(struct order *order, const struct design_fields *fields)
{
    (void)fields;
    order->epoch_positions = frame_units(order->frame);
    return OK;
}

static uint64_t srs_key(const struct epoch *epoch)
{
    return random_at(epoch->units, 0);
}

static size_t srs_units(const struct order *order, const struct epoch *epoch, int64_t first,
                        size_t count, int64_t *ret_rows, uint32_t *ret_labels)
{
    uint64_t units = (uint64_t)frame_units(order->frame);
    if (order->replacement) {
        for (size_t i = 0; i < count; i++)
            ret_rows[i] = (int64_t)random_below(epoch->units, (uint64_t)first + i, units);
    } else {
        struct permutation_run run = {
            .units = units, .key = srs_key(epoch), .first = (uint64_t)first, .count = count};
        permutation_runs(&run, 1, (uint64_t *)ret_rows);
    }
    if (ret_labels)
        frame_gather_labels(order->frame, ret_rows, count, ret_labels);
    return count;
}

static int64_t srs_position(const struct order *order, const struct epoch *epoch, int64_t row)
{
    struct permutation permutation;
    permutation_init(&permutation, (uint64_t)frame_units(order->frame), srs_key(epoch));
    return (int64_t)permutation_find(&permutation, (uint64_t)row);
}

/* With replacement: examines every draw before `end`. */
static enum error srs_positions(const struct order *order, const struct epoch *epoch, int64_t row,
                                int64_t end, struct position_list *list)
{
    uint64_t units = (uint64_t)frame_units(order->frame);
    enum error error = OK;
    for (int64_t p = 0; p < end && !error; p++) {
        if (p % POSITION_LIST_LOOK == POSITION_LIST_LOOK - 1)
            error = position_list_check(list);
        if (!error && (int64_t)random_below(epoch->units, (uint64_t)p, units) == row)
            error = position_list_add(list, p);
    }
    return error;
}

static int64_t srs_label_count(const struct order *order, const struct epoch *epoch, uint32_t label,
                               int64_t t)
{
    (void)epoch;
    if (frame_labels(order->frame) == 1)
        return t;
    if (t == order->epoch_positions && !order->replacement)
        return frame_label_units(order->frame, label);
    return -1;
}

const struct design_ops design_srs = {
    .name = "srs",
    .takes_replacement = true,
    .init = srs_init,
    .units = srs_units,
    .position = srs_position,
    .positions = srs_positions,
    .label_count = srs_label_count,
};

/* SPDX-License-Identifier: MIT */
/* sequential: frame order, the same in every epoch. */
#include "sampler/design/designs.h"

static enum error sequential_init(struct order *order, const struct design_fields *fields)
{
    (void)fields;
    order->epoch_positions = frame_units(order->frame);
    return OK;
}

static size_t sequential_units(const struct order *order, const struct epoch *epoch, int64_t first,
                               size_t count, int64_t *ret_rows, uint32_t *ret_labels)
{
    (void)epoch;
    for (size_t i = 0; i < count; i++)
        ret_rows[i] = first + (int64_t)i;
    if (ret_labels)
        frame_gather_labels(order->frame, ret_rows, count, ret_labels);
    return count;
}

static int64_t sequential_position(const struct order *order, const struct epoch *epoch,
                                   int64_t row)
{
    (void)order;
    (void)epoch;
    return row;
}

static int64_t sequential_label_count(const struct order *order, const struct epoch *epoch,
                                      uint32_t label, int64_t t)
{
    (void)epoch;
    return partition_rows_before(frame_strata(order->frame), label, t);
}

const struct design_ops design_sequential = {
    .name = "sequential",
    .init = sequential_init,
    .units = sequential_units,
    .position = sequential_position,
    .label_count = sequential_label_count,
};

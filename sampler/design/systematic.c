/* SPDX-License-Identifier: MIT */
/*
 * systematic: n units at a fractional interval N / n from a random start, in frame order. Draw j of
 * an epoch is row floor((U + j N) / n), U uniform on [0, N): over all U the numerators take each
 * value below n N once, and each row has n of them, so that its probability is exactly n / N.
 */
#include <inttypes.h>

#include "sampler/design/design_fields.h"
#include "sampler/design/designs.h"

typedef unsigned __int128 wide;

static enum error systematic_init(struct order *order, const struct design_fields *fields)
{
    if (fields->size > frame_units(order->frame))
        return error_set(ERROR_USAGE,
                         "size is %" PRId64 "; right for design systematic is 1 to %" PRId64
                         ", the units of the frame",
                         fields->size, frame_units(order->frame));
    order->epoch_positions = fields->size;
    return OK;
}

static uint64_t start_of(const struct order *order, const struct epoch *epoch)
{
    return random_below(epoch->units, 0, (uint64_t)frame_units(order->frame));
}

/* One division for the first row, then additions. */
static size_t systematic_units(const struct order *order, const struct epoch *epoch, int64_t first,
                               size_t count, int64_t *ret_rows, uint32_t *ret_labels)
{
    uint64_t units = (uint64_t)frame_units(order->frame);
    uint64_t size = (uint64_t)order->epoch_positions;
    wide numerator = start_of(order, epoch) + (wide)(uint64_t)first * units;
    uint64_t row = (uint64_t)(numerator / size);
    uint64_t rest = (uint64_t)(numerator % size);
    for (size_t i = 0; i < count; i++) {
        ret_rows[i] = (int64_t)row;
        row += units / size;
        rest += units % size;
        row += rest >= size;
        rest -= rest >= size ? size : 0;
    }
    if (ret_labels)
        frame_gather_labels(order->frame, ret_rows, count, ret_labels);
    return count;
}

static int64_t systematic_position(const struct order *order, const struct epoch *epoch,
                                   int64_t row)
{
    wide units = (wide)(uint64_t)frame_units(order->frame);
    wide size = (wide)(uint64_t)order->epoch_positions;
    wide start = start_of(order, epoch);
    wide lowest = (wide)(uint64_t)row * size; /* the row's numerators: `size` of them, from here */
    wide draw = lowest <= start ? 0 : (lowest - start + units - 1) / units;
    return draw < size && start + draw * units < lowest + size ? (int64_t)draw : -1;
}

static double systematic_probability(const struct order *order, int64_t row)
{
    (void)row;
    return (double)order->epoch_positions / (double)frame_units(order->frame);
}

const struct design_ops design_systematic = {
    .name = "systematic",
    .init = systematic_init,
    .units = systematic_units,
    .position = systematic_position,
    .probability = systematic_probability,
};

/* SPDX-License-Identifier: MIT */
/*
 * weighted: probability proportional to weight. With replacement N draws per epoch, each from all
 * units. Without: one systematic sample of n units in frame order from a random start, at intervals
 * of W / n on the line of cumulative weights (units that would be hit twice are certain, and
 * included first, weight_sums.h); positions are the sample's units in random order.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"
#include "sampler/design/design_fields.h"
#include "sampler/design/designs.h"
#include "sampler/design/weight_sums.h"
#include "sampler/order/position_list.h"
#include "sampler/shuffle/permutation.h"

struct weighted {
    struct weight_sums sums;
    double *label_shares; /* [L] owned */
};

static const struct weighted *weighted_of(const struct order *order)
{
    return order->own;
}

/* ---- life cycle --------------------------------------------------------- */

static double weighted_probability(const struct order *order, int64_t row)
{
    const struct weight_sums *sums = &weighted_of(order)->sums;
    weight own = weight_of(sums, row);
    if (order->replacement)
        return (double)frame_units(order->frame) * ((double)own / (double)sums->total);
    if (weight_sums_is_certain(sums, row))
        return 1;
    if (own == 0)
        return 0;
    return (double)(order->epoch_positions - sums->certain_units) *
           ((double)own / (double)sums->total);
}

/* A label's share: the number of its certain units, plus its part of the other units' weight. */
static enum error share_out(const struct order *order, double *shares)
{
    const struct weight_sums *sums = &weighted_of(order)->sums;
    const struct frame *frame = order->frame;
    if (frame_labels(frame) == 1) {
        shares[0] = 1;
        return OK;
    }
    weight *drawn = array_new(frame_labels(frame), sizeof(*drawn), "the labels' weights");
    if (!drawn)
        return ERROR_MEMORY;
    double points = (double)(order->epoch_positions - sums->certain_units);
    for (int64_t row = 0; row < frame_units(frame); row++) {
        uint32_t label = frame_label(frame, row);
        shares[label] += weight_sums_is_certain(sums, row);
        drawn[label] += weight_of(sums, row);
    }
    for (uint32_t label = 0; label < frame_labels(frame); label++) {
        if (drawn[label] > 0)
            shares[label] += points * ((double)drawn[label] / (double)sums->total);
        shares[label] /= (double)order->epoch_positions;
    }
    free(drawn);
    return OK;
}

static void weighted_release(struct order *order)
{
    struct weighted *weighted = order->own;
    weight_sums_release(&weighted->sums);
    free(weighted->label_shares);
    free(weighted);
}

static enum error weighted_init(struct order *order, const struct design_fields *fields)
{
    int64_t units = frame_units(order->frame);
    if (fields->size > units)
        return error_set(ERROR_USAGE,
                         "size is %" PRId64 "; right for design weighted is 1 to %" PRId64
                         ", the units of the frame",
                         fields->size, units);
    struct weighted *weighted = array_new(1, sizeof(*weighted), "a design");
    if (!weighted)
        return ERROR_MEMORY;
    enum error error = weight_sums_init(&weighted->sums, order->frame, fields->size);
    if (error) {
        free(weighted);
        return error;
    }
    order->own = weighted;
    order->epoch_positions = order->replacement ? units : fields->size;
    weighted->label_shares =
        array_new(frame_labels(order->frame), sizeof(double), "the labels' shares");
    error = weighted->label_shares ? share_out(order, weighted->label_shares) : ERROR_MEMORY;
    if (error)
        weighted_release(order);
    return error;
}

static double weighted_label_share(const struct order *order, uint32_t label)
{
    return weighted_of(order)->label_shares[label];
}

/* ---- with replacement --------------------------------------------------- */

struct point_keys {
    struct random_key low, high;
};

static struct point_keys keys_of(const struct epoch *epoch)
{
    return (struct point_keys){.low = random_key_at(epoch->units, 0),
                               .high = random_key_at(epoch->units, 1)};
}

/* Uniform on [0, W), exactly: as many random bits as W has, redrawn while they are W or more. */
static weight draw_point(const struct weight_sums *sums, const struct point_keys *keys,
                         uint64_t number)
{
    uint64_t low = random_at(keys->low, number);
    uint64_t high = random_at(keys->high, number);
    for (;;) {
        weight point = ((weight)high << 64 | low) >> (128 - sums->total_bits);
        if (point < sums->total)
            return point;
        low = random_mix(low + RANDOM_STEP);
        high = random_mix(high + RANDOM_STEP);
    }
}

/* ---- without: the systematic sample ------------------------------------- */

/* Its point number j is floor((start + j W) / n), in parts that do not overflow. */
struct sample {
    weight start_whole, interval_whole; /* divided by n, */
    uint64_t start_rest, interval_rest; /* and the remainders */
    uint64_t points;                    /* n, without the certain units */
};

static struct sample sample_of(const struct order *order, const struct epoch *epoch)
{
    const struct weight_sums *sums = &weighted_of(order)->sums;
    uint64_t points = (uint64_t)(order->epoch_positions - sums->certain_units);
    if (points == 0)
        return (struct sample){.points = 0};
    struct point_keys keys = keys_of(epoch);
    weight start = draw_point(sums, &keys, 0);
    return (struct sample){.start_whole = start / points,
                           .start_rest = (uint64_t)(start % points),
                           .interval_whole = sums->total / points,
                           .interval_rest = (uint64_t)(sums->total % points),
                           .points = points};
}

static weight point_at(const struct sample *sample, uint64_t j)
{
    assert(sample->points > 0);
    weight rests = (weight)j * sample->interval_rest + sample->start_rest;
    return sample->start_whole + j * sample->interval_whole + rests / sample->points;
}

/* The first point at or after a weight; `points` if there is none. */
static uint64_t first_point(const struct sample *sample, weight from)
{
    uint64_t low = 0;
    uint64_t high = sample->points;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (point_at(sample, middle) < from)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t places_key(const struct epoch *epoch)
{
    return random_at(epoch->choices, 0);
}

/* ---- positions to rows -------------------------------------------------- */

static void draw_with_replacement(const struct order *order, const struct epoch *epoch,
                                  int64_t first, size_t count, int64_t *ret_rows)
{
    const struct weight_sums *sums = &weighted_of(order)->sums;
    struct point_keys keys = keys_of(epoch);
    weight points[ORDER_BLOCK];
    for (size_t i = 0; i < count; i++)
        points[i] = draw_point(sums, &keys, (uint64_t)first + i);
    weight_sums_find(sums, points, count, ret_rows);
}

/* Places of the sample: certain units first, then the points. */
static void take_sample(const struct order *order, const struct epoch *epoch, int64_t first,
                        size_t count, int64_t *ret_rows)
{
    const struct weight_sums *sums = &weighted_of(order)->sums;
    struct sample sample = sample_of(order, epoch);
    uint64_t places[ORDER_BLOCK];
    uint16_t slots[ORDER_BLOCK] = {0};
    weight points[ORDER_BLOCK];
    int64_t rows[ORDER_BLOCK];
    size_t drawn = 0;
    struct permutation_run run = {.units = (uint64_t)order->epoch_positions,
                                  .key = places_key(epoch),
                                  .first = (uint64_t)first,
                                  .count = count};
    permutation_runs(&run, 1, places);
    for (size_t i = 0; i < count; i++) {
        if ((int64_t)places[i] < sums->certain_units) {
            ret_rows[i] = weight_sums_certain_row(sums, (int64_t)places[i]);
            continue;
        }
        points[drawn] = point_at(&sample, places[i] - (uint64_t)sums->certain_units);
        slots[drawn++] = (uint16_t)i;
    }
    weight_sums_find(sums, points, drawn, rows);
    for (size_t i = 0; i < drawn; i++)
        ret_rows[slots[i]] = rows[i];
}

static size_t weighted_units(const struct order *order, const struct epoch *epoch, int64_t first,
                             size_t count, int64_t *ret_rows, uint32_t *ret_labels)
{
    if (order->replacement)
        draw_with_replacement(order, epoch, first, count, ret_rows);
    else
        take_sample(order, epoch, first, count, ret_rows);
    if (ret_labels)
        frame_gather_labels(order->frame, ret_rows, count, ret_labels);
    return count;
}

/* ---- and back ----------------------------------------------------------- */

static int64_t place_of(const struct order *order, const struct epoch *epoch, int64_t row)
{
    const struct weight_sums *sums = &weighted_of(order)->sums;
    weight own = weight_of(sums, row);
    if (weight_sums_is_certain(sums, row))
        return weight_sums_certain_rank(sums, row);
    if (own == 0)
        return -1;
    struct sample sample = sample_of(order, epoch);
    weight before = weight_sums_before(sums, row);
    uint64_t j = first_point(&sample, before);
    if (j == sample.points || point_at(&sample, j) >= before + own)
        return -1;
    return sums->certain_units + (int64_t)j;
}

static int64_t weighted_position(const struct order *order, const struct epoch *epoch, int64_t row)
{
    int64_t place = place_of(order, epoch, row);
    if (place < 0)
        return -1;
    struct permutation places;
    permutation_init(&places, (uint64_t)order->epoch_positions, places_key(epoch));
    return (int64_t)permutation_find(&places, (uint64_t)place);
}

/* With replacement: examines every draw before `end`. */
static enum error weighted_positions(const struct order *order, const struct epoch *epoch,
                                     int64_t row, int64_t end, struct position_list *list)
{
    const struct weight_sums *sums = &weighted_of(order)->sums;
    struct point_keys keys = keys_of(epoch);
    weight before = weight_sums_before(sums, row);
    weight behind = before + weight_of(sums, row);
    enum error error = OK;
    for (int64_t p = 0; p < end && !error; p++) {
        if (p % POSITION_LIST_LOOK == POSITION_LIST_LOOK - 1)
            error = position_list_check(list);
        weight point = draw_point(sums, &keys, (uint64_t)p);
        if (!error && point >= before && point < behind)
            error = position_list_add(list, p);
    }
    return error;
}

const struct design_ops design_weighted = {
    .name = "weighted",
    .takes_replacement = true,
    .init = weighted_init,
    .release = weighted_release,
    .units = weighted_units,
    .position = weighted_position,
    .positions = weighted_positions,
    .probability = weighted_probability,
    .label_share = weighted_label_share,
};

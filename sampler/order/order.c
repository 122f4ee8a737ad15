/* SPDX-License-Identifier: MIT */
/* The part of every order that is independent of its design: splits requests at epochs and into
 * blocks, and calls the design's table. */
#include "sampler/order/order.h"

#include <assert.h>
#include <stdlib.h>

#include "sampler/order/design.h"
#include "sampler/order/epoch_counts.h"
#include "sampler/order/position_list.h"

void order_free(struct order *order)
{
    if (!order)
        return;
    if (order->ops->release)
        order->ops->release(order);
    tree_release(&order->tree);
    epoch_counts_free(order->counts);
    free(order->fields);
    free(order);
}

/* ---- what kind of order it is ------------------------------------------- */

int64_t order_epoch_positions(const struct order *order)
{
    return order->epoch_positions;
}

int64_t order_batch_size(const struct order *order)
{
    return order->batch_size;
}

bool order_skips_positions(const struct order *order)
{
    return order->skips_positions;
}

bool order_tells_span(const struct order *order)
{
    return order->skips_positions || order->ops->tells_span;
}

bool order_repeats(const struct order *order)
{
    return order->repeats;
}

double order_epoch_units_mean(const struct order *order)
{
    return order->epoch_units;
}

bool order_epoch_may_have(const struct order *order, int64_t units)
{
    return !order->ops->may_have || order->ops->may_have(order, units);
}

const char *order_fields(const struct order *order)
{
    return order->fields;
}

double order_label_share(const struct order *order, uint32_t label)
{
    if (order->ops->label_share)
        return order->ops->label_share(order, label);
    return (double)frame_label_units(order->frame, label) / (double)frame_units(order->frame);
}

double order_balance_error(const struct order *order)
{
    return order->ops->balance_error ? order->ops->balance_error(order) : -1;
}

const char *order_name(const struct order *order)
{
    return order->name;
}

void order_probabilities(const struct order *order, const int64_t *rows, size_t count,
                         double *ret_probabilities)
{
    for (size_t i = 0; i < count; i++)
        ret_probabilities[i] =
            order->ops->probability ? order->ops->probability(order, rows[i]) : 1;
}

/* ---- positions to units ------------------------------------------------- */

/* Split at epochs and into blocks; ret_labels may be NULL. */
static size_t find_rows(const struct order *order, int64_t first, int64_t positions,
                        int64_t *ret_rows, uint32_t *ret_labels)
{
    int64_t number = first / order->epoch_positions;
    int64_t within = first % order->epoch_positions;
    struct epoch epoch = epoch_of(order, number);
    size_t found = 0;
    for (int64_t done = 0; done < positions;) {
        int64_t step = positions - done < ORDER_BLOCK ? positions - done : ORDER_BLOCK;
        if (order->epoch_positions - within < step)
            step = order->epoch_positions - within;
        found += order->ops->units(order, &epoch, within, (size_t)step, ret_rows + found,
                                   ret_labels ? ret_labels + found : NULL);
        done += step;
        within += step;
        if (within == order->epoch_positions && done < positions) {
            within = 0;
            epoch = epoch_of(order, ++number);
        }
    }
    return found;
}

size_t order_units(const struct order *order, int64_t first, int64_t positions, int64_t *ret_ids,
                   uint32_t *ret_labels, int64_t *ret_rows)
{
    assert(first >= 0 && positions >= 0);
    int64_t *rows = ret_rows ? ret_rows : ret_ids;
    size_t found = find_rows(order, first, positions, rows, ret_labels);
    frame_gather_ids(order->frame, rows, found, ret_ids);
    return found;
}

/* ---- and back ----------------------------------------------------------- */

int64_t order_position(const struct order *order, int64_t row, int64_t epoch)
{
    if (order->repeats)
        return -1;
    struct epoch keys = epoch_of(order, epoch);
    int64_t position = order->ops->position(order, &keys, row);
    return position < 0 ? -1 : epoch * order->epoch_positions + position;
}

static enum error find_positions(const struct order *order, int64_t row, int64_t epoch, int64_t end,
                                 struct position_list *list)
{
    int64_t start = epoch * order->epoch_positions;
    if (!order->repeats) {
        int64_t position = order_position(order, row, epoch);
        return position < 0 || position >= end ? OK : position_list_add(list, position);
    }
    int64_t within = end - start < order->epoch_positions ? end - start : order->epoch_positions;
    struct epoch keys = epoch_of(order, epoch);
    enum error error = within <= 0 ? OK : order->ops->positions(order, &keys, row, within, list);
    for (size_t i = 0; i < list->count; i++)
        list->positions[i] += start;
    return error;
}

enum error order_positions(const struct order *order, int64_t row, int64_t epoch, int64_t end,
                           const struct order_search *search, int64_t **ret_positions,
                           size_t *ret_count)
{
    struct position_list list = {.search = search};
    enum error error = find_positions(order, row, epoch, end, &list);
    if (error) {
        free(list.positions);
        return error;
    }
    *ret_positions = list.positions;
    *ret_count = list.count;
    return OK;
}

enum error order_label_count(const struct order *order, uint32_t label, int64_t epoch, int64_t t,
                             int64_t *ret_count)
{
    int64_t count = 0;
    assert(t >= 0 && t <= order->epoch_positions);
    if (t > 0 && order->ops->label_count) {
        struct epoch keys = epoch_of(order, epoch);
        count = order->ops->label_count(order, &keys, label, t);
    } else if (t > 0) {
        count = -1;
    }
    if (count < 0)
        return error_set(ERROR_UNAVAILABLE,
                         "design %s has no closed form for how often a label came",
                         order->ops->name);
    *ret_count = count;
    return OK;
}

/* ---- skipped positions -------------------------------------------------- */

void order_reach(const struct order *order, int64_t first, int64_t units, int64_t *ret_positions,
                 int64_t *ret_units)
{
    assert(first >= 0 && units >= 1);
    int64_t within = first % order->epoch_positions;
    int64_t left = order->epoch_positions - within;
    if (!order->skips_positions) {
        *ret_positions = *ret_units = units < left ? units : left;
        return;
    }
    struct epoch keys = epoch_of(order, first / order->epoch_positions);
    *ret_positions = order->ops->reach(order, &keys, within, units, ret_units);
}

enum error order_epoch_units(const struct order *order, int64_t epoch, int64_t *ret_units)
{
    if (order->skips_positions)
        return epoch_counts_get(order->counts, order, epoch, ret_units);
    *ret_units = order->epoch_positions;
    return OK;
}

int64_t order_counted_epochs(const struct order *order)
{
    return order->counts ? epoch_counts_known(order->counts) : 0;
}

int64_t order_unit_position(const struct order *order, int64_t epoch, int64_t j)
{
    int64_t start = epoch * order->epoch_positions;
    if (!order->skips_positions)
        return start + j;
    struct epoch keys = epoch_of(order, epoch);
    return start + order->ops->unit_position(order, &keys, j);
}

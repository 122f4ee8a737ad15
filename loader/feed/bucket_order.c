/* SPDX-License-Identifier: MIT */
#include "loader/feed/bucket_order.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/splitmix64.h"

#define DIGIT_BITS 11 /* three passes sort 32 bits */
#define DIGITS (1u << DIGIT_BITS)

enum error bucket_order_init(struct bucket_order *order, size_t batches, size_t batch_rows)
{
    static const char what[] = "a window of batches";
    size_t units = batches * batch_rows;
    *order = (struct bucket_order){.batch_rows = batch_rows,
                                   .order = array_new(units, sizeof(*order->order), what),
                                   .room = array_new(units, sizeof(*order->room), what),
                                   .turns = array_new(batches, sizeof(*order->turns), what)};
    if (order->order && order->room && order->turns)
        return OK;
    bucket_order_release(order);
    return ERROR_MEMORY;
}

void bucket_order_release(struct bucket_order *order)
{
    free(order->order);
    free(order->room);
    free(order->turns);
    *order = (struct bucket_order){.order = NULL};
}

/* One pass of a radix sort, which is stable. */
static void sort_digit(const struct bucket_order *order, const int64_t *lengths, unsigned shift)
{
    size_t starts[DIGITS + 1] = {0};
    for (size_t i = 0; i < order->units; i++)
        starts[((uint64_t)lengths[order->order[i]] >> shift) % DIGITS + 1]++;
    for (size_t digit = 0; digit < DIGITS; digit++)
        starts[digit + 1] += starts[digit];
    for (size_t i = 0; i < order->units; i++) {
        uint32_t unit = order->order[i];
        order->room[starts[((uint64_t)lengths[unit] >> shift) % DIGITS]++] = unit;
    }
    memcpy(order->order, order->room, order->units * sizeof(*order->order));
}

static void shuffle_turns(struct bucket_order *order, int64_t seed, int64_t window)
{
    uint64_t state = (uint64_t)seed;
    state = splitmix64_next(&state) ^ (uint64_t)window;
    for (size_t i = 0; i < order->batches; i++) {
        uint32_t other = splitmix64_below(&state, i + 1);
        order->turns[i] = order->turns[other];
        order->turns[other] = (uint32_t)i;
    }
}

void bucket_order_make(struct bucket_order *order, const int64_t *lengths, size_t units,
                       int64_t seed, int64_t window)
{
    order->units = units;
    order->batches = (units + order->batch_rows - 1) / order->batch_rows;
    for (size_t i = 0; i < units; i++)
        order->order[i] = (uint32_t)i;
    for (unsigned shift = 0; shift < 32; shift += DIGIT_BITS)
        sort_digit(order, lengths, shift);
    shuffle_turns(order, seed, window);
}

size_t bucket_order_batch(const struct bucket_order *order, size_t number,
                          const uint32_t **ret_units)
{
    size_t begin = order->turns[number] * order->batch_rows, left = order->units - begin;
    *ret_units = order->order + begin;
    return left < order->batch_rows ? left : order->batch_rows;
}

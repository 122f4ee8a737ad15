/* SPDX-License-Identifier: MIT */
#include "sampler/order/batching_search.h"

#include "sampler/order/design.h"

#define STEP_LEAST INT64_C(64)
#define STEP_MOST (INT64_C(1) << 20)

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* All within one epoch. */
static int64_t count(const struct order *order, int64_t first, int64_t positions)
{
    struct epoch keys = epoch_of(order, first / order->epoch_positions);
    return order->ops->count(order, &keys, first % order->epoch_positions, positions);
}

/* How many positions to examine next for this many units. */
static int64_t choose_step(const struct batching_search *search, int64_t units, int64_t end,
                           int64_t budget)
{
    double share =
        order_epoch_units_mean(search->batching.order) / (double)search->batching.epoch_positions;
    double wanted = (double)units / share * 1.25;
    int64_t step = wanted < (double)STEP_MOST ? (int64_t)wanted : STEP_MOST;
    if (step > budget)
        step = budget;
    if (step < STEP_LEAST)
        step = STEP_LEAST;
    return smaller(step, end - search->at);
}

/* The fewest positions from `at` that hold `units`; `positions` of them hold at least as many. */
static int64_t find_unit(const struct order *order, int64_t at, int64_t positions, int64_t units)
{
    int64_t low = 0;
    int64_t high = positions;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        int64_t here = count(order, at + low, middle - low);
        if (here >= units) {
            high = middle;
        } else {
            units -= here;
            low = middle;
        }
    }
    return high;
}

/* Ends the epoch's part at `end`, as next_skipping() of batching.c does. */
static void end_epoch(struct batching_search *search, int64_t end)
{
    struct span *span = &search->span;
    span->positions = end - span->first;
    span->units += search->seen;
    if (search->batching.tail == TAIL_DROP && search->seen < search->size)
        *span = (struct span){.first = end};
    bool is_short = search->batching.tail == TAIL_KEEP && search->seen > 0;
    search->done = is_short || span->units >= search->size || end >= search->limit ||
                   end >= batching_end(&search->batching);
    search->start = search->at = end;
    search->seen = 0;
    search->reached = -1;
}

/* Up to the last unit needed. */
static void look_for_units(struct batching_search *search, int64_t end, int64_t *budget)
{
    const struct order *order = search->batching.order;
    int64_t wanted = search->size - search->span.units - search->seen;
    int64_t step = choose_step(search, wanted, end, *budget);
    int64_t here = count(order, search->at, step);
    *budget -= step;
    if (here >= wanted) {
        *budget -= step;
        step = find_unit(order, search->at, step, wanted);
        here = wanted;
        search->reached = search->at + step;
    }
    search->at += step;
    search->seen += here;
}

/* Positions after an epoch's last unit belong to its batch: is there another unit? */
static void look_behind(struct batching_search *search, int64_t end, int64_t *budget)
{
    int64_t step = choose_step(search, 1, end, *budget);
    *budget -= step;
    if (count(search->batching.order, search->at, step) > 0)
        end_epoch(search, search->reached);
    else
        search->at += step;
}

bool batching_search_run(struct batching_search *search, int64_t *budget)
{
    int64_t positions = search->batching.epoch_positions;
    while (!search->done && *budget > 0) {
        int64_t end = smaller((search->start / positions + 1) * positions, search->limit);
        if (search->at >= end)
            end_epoch(search, end);
        else if (search->reached < 0)
            look_for_units(search, end, budget);
        else
            look_behind(search, end, budget);
    }
    return search->done;
}

static bool is_same(const struct batching_search *search, const struct batching *batching,
                    int64_t position, int64_t size, int64_t limit)
{
    return search->size == size && search->position == position && search->limit == limit &&
           search->batching.tail == batching->tail && search->batching.epochs == batching->epochs;
}

bool batching_search_is_behind(const struct batching_search *search,
                               const struct batching_search *other)
{
    return is_same(search, &other->batching, other->position, other->size, other->limit) &&
           !search->done && (other->done || other->at > search->at);
}

static void start(struct batching_search *search, const struct batching *batching, int64_t position,
                  int64_t size, int64_t limit)
{
    *search = (struct batching_search){
        .batching = *batching,
        .position = position,
        .size = size,
        .limit = limit,
        .done = position >= limit || position >= batching_end(batching),
        .span = {.first = position},
        .start = position,
        .at = position,
        .reached = -1,
    };
}

bool batching_search_next(struct batching_search *search, const struct batching *batching,
                          int64_t position, int64_t size, int64_t limit, int64_t *budget,
                          struct span *ret_span)
{
    if (!batching->order || !order_skips_positions(batching->order)) {
        batching_next(batching, position, size, ret_span);
        if (limit - position < ret_span->positions)
            ret_span->positions = ret_span->units = limit - position;
        return true;
    }
    if (!is_same(search, batching, position, size, limit))
        start(search, batching, position, size, limit);
    if (!batching_search_run(search, budget))
        return false;
    *ret_span = search->span;
    if (ret_span->units == 0 && limit >= batching_end(batching))
        *ret_span = (struct span){.first = batching_end(batching)};
    return true;
}

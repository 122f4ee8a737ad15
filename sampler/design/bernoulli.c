/* SPDX-License-Identifier: MIT */
/*
 * bernoulli: every unit independently with probability r, drawn again in each epoch. Positions are
 * those of srs, a permutation of all rows; each has one trial (bernoulli_trials.h), and those that
 * fail are skipped. The probability is r to within 2^-64.
 *
 * Drawing evaluates the trials of the positions that it covers. Unit number j of an epoch is found
 * by a table of the successes before each of at most BLOCKS parts of the epoch, counted on first
 * use (epoch_tables.h).
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/text.h"
#include "sampler/design/bernoulli_trials.h"
#include "sampler/design/design_fields.h"
#include "sampler/design/designs.h"
#include "sampler/design/epoch_tables.h"
#include "sampler/shuffle/permutation.h"

#define BLOCKS 65536
#define BLOCK_POSITIONS 4096 /* at least */
#define LEAST_UNITS 0.01     /* per epoch on average: a batch must come to an end */

struct bernoulli {
    double rate;
    uint64_t limit; /* of bernoulli_trials.h */
    int64_t block_positions, blocks;
    struct epoch_tables *tables; /* [blocks + 1] successes before */
};

static const struct bernoulli *bernoulli_of(const struct order *order)
{
    return order->own;
}

/* ---- life cycle --------------------------------------------------------- */

static uint64_t limit_of(double rate)
{
    uint64_t successes = rate < 1 ? (uint64_t)ldexp(rate, 64) : 0; /* of 2^64; 0: all */
    return rate < 1 && successes == 0 ? 0 : successes - 1;
}

static enum error bernoulli_init(struct order *order, const struct design_fields *fields)
{
    int64_t units = frame_units(order->frame);
    double least = LEAST_UNITS / (double)units;
    if (fields->rate < least)
        return error_set(ERROR_USAGE,
                         "rate is %g; right for the frame's %" PRId64
                         " %s is %g to 1: with less hardly an epoch would have a unit",
                         fields->rate, units, text_plural(units, "unit", "units"), least);
    struct bernoulli *bernoulli = array_new(1, sizeof(*bernoulli), "a design");
    if (!bernoulli)
        return ERROR_MEMORY;
    bernoulli->rate = fields->rate;
    bernoulli->limit = limit_of(fields->rate);
    bernoulli->block_positions = units / BLOCKS + 1;
    if (bernoulli->block_positions < BLOCK_POSITIONS)
        bernoulli->block_positions = BLOCK_POSITIONS;
    bernoulli->blocks = (units + bernoulli->block_positions - 1) / bernoulli->block_positions;
    enum error error = epoch_tables_new((size_t)bernoulli->blocks + 1, "the places of chosen units",
                                        &bernoulli->tables);
    if (error) {
        free(bernoulli);
        return error;
    }
    order->own = bernoulli;
    order->epoch_positions = units;
    order->skips_positions = fields->rate < 1;
    order->epoch_units = fields->rate * (double)units;
    return OK;
}

static void bernoulli_release(struct order *order)
{
    struct bernoulli *bernoulli = order->own;
    epoch_tables_free(bernoulli->tables);
    free(bernoulli);
}

/* ---- positions to rows -------------------------------------------------- */

static uint64_t places_key(const struct epoch *epoch)
{
    return random_at(epoch->units, 0);
}

/* Successes among first ... first + count - 1, as offsets from 0. */
static size_t find_successes(const struct order *order, const struct epoch *epoch, int64_t first,
                             size_t count, uint16_t *ret_places)
{
    size_t found = 0;
    for (size_t done = 0; done < count; done += 64) {
        uint64_t mask = bernoulli_trials_mask(epoch->choices, bernoulli_of(order)->limit,
                                              first + (int64_t)done);
        if (count - done < 64)
            mask &= (UINT64_C(1) << (count - done)) - 1;
        for (; mask != 0; mask &= mask - 1)
            ret_places[found++] = (uint16_t)(done + (size_t)__builtin_ctzll(mask));
    }
    return found;
}

/* Many successes: permutes all positions in vectors, and keeps the successes. */
static void permute_all(const struct permutation_run *run, const uint16_t *places, size_t found,
                        int64_t *ret_rows)
{
    uint64_t units[ORDER_BLOCK];
    permutation_runs(run, 1, units);
    for (size_t i = 0; i < found; i++)
        ret_rows[i] = (int64_t)units[places[i]];
}

static void permute_some(const struct permutation_run *run, const uint16_t *places, size_t found,
                         int64_t *ret_rows)
{
    struct permutation permutation;
    permutation_init(&permutation, run->units, run->key);
    for (size_t i = 0; i < found; i++)
        ret_rows[i] = (int64_t)permutation_at(&permutation, run->first + places[i]);
}

static size_t bernoulli_units(const struct order *order, const struct epoch *epoch, int64_t first,
                              size_t count, int64_t *ret_rows, uint32_t *ret_labels)
{
    uint16_t places[ORDER_BLOCK];
    size_t found = find_successes(order, epoch, first, count, places);
    struct permutation_run run = {.units = (uint64_t)order->epoch_positions,
                                  .key = places_key(epoch),
                                  .first = (uint64_t)first,
                                  .count = count};
    if (8 * found >= count)
        permute_all(&run, places, found, ret_rows);
    else
        permute_some(&run, places, found, ret_rows);
    if (ret_labels)
        frame_gather_labels(order->frame, ret_rows, found, ret_labels);
    return found;
}

static int64_t bernoulli_position(const struct order *order, const struct epoch *epoch, int64_t row)
{
    struct permutation permutation;
    permutation_init(&permutation, (uint64_t)order->epoch_positions, places_key(epoch));
    uint64_t position = permutation_find(&permutation, (uint64_t)row);
    return random_at(epoch->choices, position) <= bernoulli_of(order)->limit ? (int64_t)position
                                                                             : -1;
}

static double bernoulli_probability(const struct order *order, int64_t row)
{
    (void)row;
    return bernoulli_of(order)->rate;
}

/* ---- skipped positions -------------------------------------------------- */

static int64_t bernoulli_count(const struct order *order, const struct epoch *epoch, int64_t first,
                               int64_t positions)
{
    return bernoulli_trials_count(epoch->choices, bernoulli_of(order)->limit, first, positions);
}

/* Index of the set bit number j of a mask. */
static int64_t bit_number(uint64_t mask, int64_t j)
{
    for (; j > 0; j--)
        mask &= mask - 1;
    return __builtin_ctzll(mask);
}

/* The position of success number j (from 0) at or after `first`; M if there are only *ret_seen.
 * Counts whole steps, then 64 at a time. */
static int64_t find_head(const struct order *order, const struct epoch *epoch, int64_t first,
                         int64_t j, int64_t *ret_seen)
{
    int64_t end = order->epoch_positions;
    int64_t seen = 0;
    for (int64_t step = 1024; step >= 64; step /= 16) {
        while (end - first >= step) {
            int64_t successes = bernoulli_count(order, epoch, first, step);
            if (seen + successes > j)
                break;
            seen += successes;
            first += step;
        }
    }
    uint64_t mask = bernoulli_trials_mask(epoch->choices, bernoulli_of(order)->limit, first);
    if (end - first < 64)
        mask &= (UINT64_C(1) << (end - first)) - 1;
    int64_t successes = __builtin_popcountll(mask);
    *ret_seen = seen + successes;
    return seen + successes > j ? first + bit_number(mask, j - seen) : end;
}

static int64_t bernoulli_reach(const struct order *order, const struct epoch *epoch, int64_t first,
                               int64_t units, int64_t *ret_units)
{
    int64_t seen;
    int64_t end = order->epoch_positions;
    int64_t last = find_head(order, epoch, first, units - 1, &seen);
    if (last == end) {
        *ret_units = seen;
        return end - first;
    }
    *ret_units = units;
    bool is_epochs_last = find_head(order, epoch, last + 1, 0, &seen) == end;
    return is_epochs_last ? end - first : last + 1 - first;
}

static void fill_table(const struct order *order, const struct epoch *epoch, int64_t *before)
{
    const struct bernoulli *bernoulli = bernoulli_of(order);
    before[0] = 0;
    for (int64_t block = 0; block < bernoulli->blocks; block++) {
        int64_t first = block * bernoulli->block_positions;
        int64_t left = order->epoch_positions - first;
        int64_t step = left < bernoulli->block_positions ? left : bernoulli->block_positions;
        before[block + 1] = before[block] + bernoulli_count(order, epoch, first, step);
    }
}

static int64_t bernoulli_unit_position(const struct order *order, const struct epoch *epoch,
                                       int64_t j)
{
    const struct bernoulli *bernoulli = bernoulli_of(order);
    const int64_t *before = epoch_tables_borrow(bernoulli->tables, order, epoch, fill_table);
    int64_t low = epoch_table_find(before, bernoulli->blocks, j);
    int64_t seen;
    int64_t left = j - before[low];
    epoch_tables_put(bernoulli->tables, before);
    return find_head(order, epoch, low * bernoulli->block_positions, left, &seen);
}

/* Chernoff's bound: P(at least t N units of N) <= exp(-N (t ln(t/r) + (1-t) ln((1-t)/(1-r)))) for
 * t > r. */
static bool bernoulli_may_have(const struct order *order, int64_t units)
{
    double all = (double)order->epoch_positions;
    double rate = bernoulli_of(order)->rate;
    double share = (double)units / all;
    if (share <= rate || share > 1)
        return share <= rate;
    double rest = share < 1 ? (1 - share) * log((1 - share) / (1 - rate)) : 0;
    return all * (share * log(share / rate) + rest) < log(ORDER_HOPELESS_EPOCHS);
}

const struct design_ops design_bernoulli = {
    .name = "bernoulli",
    .tells_span = true, /* so that its clients find it at rate 1, too */
    .init = bernoulli_init,
    .release = bernoulli_release,
    .units = bernoulli_units,
    .position = bernoulli_position,
    .probability = bernoulli_probability,
    .reach = bernoulli_reach,
    .count = bernoulli_count,
    .may_have = bernoulli_may_have,
    .unit_position = bernoulli_unit_position,
};

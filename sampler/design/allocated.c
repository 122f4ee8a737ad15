/* SPDX-License-Identifier: MIT */
/*
 * equal, quota, neyman: each label has its own number of draws per epoch, and the tree deals
 * positions by these. Without replacement a label continues where it stopped, also across epochs:
 * its draw j of epoch e is number g = e * draws + j of all, in pass g div units, each pass being a
 * separate permutation. With replacement all draws are independent.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"
#include "sampler/design/design_fields.h"
#include "sampler/design/design_strata.h"
#include "sampler/design/designs.h"
#include "sampler/design/shares.h"
#include "sampler/shuffle/permutation.h"

#define NO_STRATUM UINT32_MAX
#define POSITIONS_LIMIT (INT64_C(1) << 62)

static const char memory[] = "the labels' draws";

/* Labels without a draw are not in the tree: S strata of L labels. */
struct allocation {
    int64_t *draws;   /* [S] per epoch */
    uint32_t *labels; /* [S] */
    uint32_t *strata; /* [L], or NO_STRATUM */
    double rounding;  /* the most by which draws differ from the shares of M */
};

static const struct allocation *allocation_of(const struct order *order)
{
    return order->own;
}

/* ---- life cycle --------------------------------------------------------- */

static void allocation_free(struct allocation *allocation)
{
    if (!allocation)
        return;
    free(allocation->draws);
    free(allocation->labels);
    free(allocation->strata);
    free(allocation);
}

static struct allocation *allocation_new(uint32_t labels)
{
    struct allocation *allocation = array_new(1, sizeof(*allocation), memory);
    if (!allocation)
        return NULL;
    allocation->draws = array_new(labels, sizeof(*allocation->draws), memory);
    allocation->labels = array_new(labels, sizeof(*allocation->labels), memory);
    allocation->strata = array_new(labels, sizeof(*allocation->strata), memory);
    if (allocation->draws && allocation->labels && allocation->strata)
        return allocation;
    allocation_free(allocation);
    return NULL;
}

/* Takes `allocation`, whose draws are still those of the labels. */
static enum error finish(struct order *order, struct allocation *allocation)
{
    uint32_t strata = 0;
    for (uint32_t label = 0; label < frame_labels(order->frame); label++) {
        int64_t draws = allocation->draws[label];
        allocation->strata[label] = draws > 0 ? strata : NO_STRATUM;
        if (draws == 0)
            continue;
        allocation->draws[strata] = draws;
        allocation->labels[strata++] = label;
    }
    enum error error = tree_init(&order->tree, allocation->draws, strata);
    if (error) {
        allocation_free(allocation);
        return error;
    }
    order->own = allocation;
    order->epoch_positions = order->tree.positions;
    order->repeats = true;
    return OK;
}

static void allocated_release(struct order *order)
{
    allocation_free(order->own);
}

static enum error equal_init(struct order *order, const struct design_fields *fields)
{
    uint32_t labels = frame_labels(order->frame);
    int64_t largest = 0;
    int64_t positions;
    (void)fields;
    enum error error = design_need_labels(order);
    if (error)
        return error;
    for (uint32_t label = 0; label < labels; label++) {
        if (frame_label_units(order->frame, label) > largest)
            largest = frame_label_units(order->frame, label);
    }
    if (__builtin_mul_overflow(largest, (int64_t)labels, &positions) ||
        positions >= POSITIONS_LIMIT)
        return error_set(ERROR_USAGE,
                         "design equal: an epoch would pass 2^62 draws, %" PRIu32
                         " labels times the %" PRId64 " units of the largest",
                         labels, largest);
    struct allocation *allocation = allocation_new(labels);
    if (!allocation)
        return ERROR_MEMORY;
    for (uint32_t label = 0; label < labels; label++)
        allocation->draws[label] = largest;
    return finish(order, allocation);
}

/* Allocates draws by numbers[L], each times the label's units if `by_units`. */
static enum error share_out(struct order *order, const double *numbers, bool by_units,
                            struct allocation *allocation)
{
    uint32_t labels = frame_labels(order->frame);
    uint64_t *shares = array_new(labels, sizeof(*shares), memory);
    int64_t *sizes = array_new(labels, sizeof(*sizes), memory);
    enum error error = shares && sizes ? OK : ERROR_MEMORY;
    if (!error) {
        for (uint32_t label = 0; label < labels; label++)
            sizes[label] = frame_label_units(order->frame, label);
        shares_of_numbers(numbers, labels, shares);
        if (by_units)
            shares_multiply(shares, sizes, labels);
        error = shares_allocate(order->frame, shares, sizes, labels, allocation->draws,
                                &allocation->rounding);
    }
    free(shares);
    free(sizes);
    return error;
}

static enum error init_by_numbers(struct order *order, const double *numbers, bool by_units)
{
    enum error error = design_need_labels(order);
    if (error)
        return error;
    struct allocation *allocation = allocation_new(frame_labels(order->frame));
    if (!allocation)
        return ERROR_MEMORY;
    error = share_out(order, numbers, by_units, allocation);
    if (error) {
        allocation_free(allocation);
        return error;
    }
    return finish(order, allocation);
}

static enum error quota_init(struct order *order, const struct design_fields *fields)
{
    return init_by_numbers(order, fields->shares, false);
}

static enum error neyman_init(struct order *order, const struct design_fields *fields)
{
    if (!fields->deviations)
        return error_set(ERROR_USAGE,
                         "the deviations of column %s are not measured yet: they are part of the "
                         "design (design_fields_resolve)",
                         fields->column);
    return init_by_numbers(order, fields->deviations, true);
}

/* ---- positions to rows -------------------------------------------------- */

static struct random_key passes_key(const struct order *order, uint32_t label)
{
    return random_key_at(order_walk_key(order), label);
}

/* The runs of a deal, split where a label's pass ends: at most one run per position. */
static void permute(const struct order *order, const struct epoch *epoch, struct deal *deal)
{
    const struct allocation *allocation = allocation_of(order);
    struct permutation_run runs[ORDER_BLOCK];
    size_t count = 0;
    for (size_t i = 0; i < deal->run_count; i++) {
        const struct tree_run *run = &deal->runs[i];
        uint32_t label = allocation->labels[run->stratum];
        int64_t units = frame_label_units(order->frame, label);
        int64_t draw = epoch->number * allocation->draws[run->stratum] + run->first;
        struct random_key key = passes_key(order, label);
        for (int64_t left = run->count; left > 0;) {
            int64_t within = draw % units;
            int64_t step = units - within < left ? units - within : left;
            runs[count] = (struct permutation_run){.units = (uint64_t)units,
                                                   .key = random_at(key, (uint64_t)(draw / units)),
                                                   .first = (uint64_t)within,
                                                   .count = (size_t)step};
            count++;
            draw += step;
            left -= step;
        }
    }
    permutation_runs(runs, count, deal->ranks);
}

static size_t allocated_units(const struct order *order, const struct epoch *epoch, int64_t first,
                              size_t count, int64_t *ret_rows, uint32_t *ret_labels)
{
    struct deal deal;
    const uint32_t *labels = allocation_of(order)->labels;
    deal_positions(&deal, order, epoch, first, count);
    if (order->replacement)
        deal_draw_with_replacement(&deal, order, epoch, labels);
    else
        permute(order, epoch, &deal);
    deal_place(&deal, order, labels, ret_rows, ret_labels);
    return count;
}

/* ---- and back ----------------------------------------------------------- */

static enum error allocated_positions(const struct order *order, const struct epoch *epoch,
                                      int64_t row, int64_t end, struct position_list *list)
{
    const struct allocation *allocation = allocation_of(order);
    uint32_t label = frame_label(order->frame, row);
    uint32_t stratum = allocation->strata[label];
    if (stratum == NO_STRATUM)
        return OK;
    if (order->replacement)
        return deal_find_draws(order, epoch, stratum, row, end, list);
    int64_t units = frame_label_units(order->frame, label);
    int64_t first = epoch->number * allocation->draws[stratum];
    int64_t draws = tree_count(&order->tree, epoch->choices, stratum, end);
    uint64_t rank = (uint64_t)frame_stratum_rank(order->frame, row);
    struct random_key key = passes_key(order, label);
    enum error error = OK;
    for (int64_t pass = first / units; pass * units < first + draws && !error; pass++) {
        struct permutation permutation;
        permutation_init(&permutation, (uint64_t)units, random_at(key, (uint64_t)pass));
        int64_t draw = pass * units + (int64_t)permutation_find(&permutation, rank) - first;
        if (pass % POSITION_LIST_LOOK_PASSES == POSITION_LIST_LOOK_PASSES - 1)
            error = position_list_check(list);
        if (!error && draw >= 0 && draw < draws)
            error =
                position_list_add(list, tree_position(&order->tree, epoch->choices, stratum, draw));
    }
    return error;
}

static int64_t allocated_label_count(const struct order *order, const struct epoch *epoch,
                                     uint32_t label, int64_t t)
{
    uint32_t stratum = allocation_of(order)->strata[label];
    return stratum == NO_STRATUM ? 0 : tree_count(&order->tree, epoch->choices, stratum, t);
}

static double draws_of(const struct order *order, uint32_t label)
{
    uint32_t stratum = allocation_of(order)->strata[label];
    return stratum == NO_STRATUM ? 0 : (double)allocation_of(order)->draws[stratum];
}

static double allocated_probability(const struct order *order, int64_t row)
{
    uint32_t label = frame_label(order->frame, row);
    return draws_of(order, label) / (double)frame_label_units(order->frame, label);
}

static double allocated_label_share(const struct order *order, uint32_t label)
{
    return draws_of(order, label) / (double)order->epoch_positions;
}

static double allocated_balance_error(const struct order *order)
{
    return deal_balance_error(order) + allocation_of(order)->rounding;
}

#define ALLOCATED(design, starter)                                                                \
    {                                                                                             \
        .name = (design), .takes_replacement = true, .init = (starter),                           \
        .release = allocated_release, .units = allocated_units, .positions = allocated_positions, \
        .label_count = allocated_label_count, .probability = allocated_probability,               \
        .label_share = allocated_label_share, .balance_error = allocated_balance_error            \
    }

const struct design_ops design_equal = ALLOCATED("equal", equal_init);
const struct design_ops design_quota = ALLOCATED("quota", quota_init);
const struct design_ops design_neyman = ALLOCATED("neyman", neyman_init);

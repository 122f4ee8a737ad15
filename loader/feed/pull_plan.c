/* SPDX-License-Identifier: MIT */
#include "loader/feed/pull_plan.h"

#include <assert.h>
#include <string.h>

#include "loader/feed/sampler_batch.h"

#define BLOCK_LIMIT 64

/* Designs whose batches are the next positions of the order, at any size. */
static const char *const plain_designs[] = {"proportional", "srs",    "sequential", "equal",
                                            "quota",        "neyman", NULL};

/* Other designs, whose batches cover as many positions as they hold units. */
static const char *const even_designs[] = {"pxk", "weighted", "systematic", NULL};

static bool is_one_of(const char *design, const char *const designs[])
{
    while (*designs && strcmp(design, *designs) != 0)
        designs++;
    return *designs != NULL;
}

static bool is_tail_known(const char *tail)
{
    return strcmp(tail, "keep") == 0 || strcmp(tail, "drop") == 0 || strcmp(tail, "span") == 0;
}

void pull_plan_init(struct pull_plan *plan, const struct sampler_stream *stream, size_t batch_rows,
                    size_t rows_ahead)
{
    assert(batch_rows > 0 && batch_rows <= SAMPLER_BATCH_ROWS_LIMIT);
    int64_t rows = (int64_t)batch_rows;
    int64_t draws = stream->epoch_draws;
    bool known = is_tail_known(stream->tail);
    *plan = (struct pull_plan){.batch_rows = rows,
                               .block = 1,
                               .epoch_draws = draws,
                               .drop = strcmp(stream->tail, "drop") == 0,
                               .plain = known && is_one_of(stream->design, plain_designs)};
    plan->even = plan->plain || (known && is_one_of(stream->design, even_designs));
    if (stream->epochs == 0 || __builtin_mul_overflow(stream->epochs, draws, &plan->end))
        plan->end = INT64_MAX;
    if (strcmp(stream->tail, "keep") == 0)
        plan->epoch_batches = draws / rows + (draws % rows != 0);
    else if (plan->drop)
        plan->epoch_batches = draws / rows;
    if (plan->drop && plan->epoch_batches == 0)
        plan->plain = false; /* the sampler refuses such a size with the best message */
    if (plan->plain && rows_ahead > batch_rows)
        plan->block = (int64_t)(rows_ahead / batch_rows);
    if (plan->block > BLOCK_LIMIT)
        plan->block = BLOCK_LIMIT;
    if (plan->epoch_batches > 0 && plan->block > plan->epoch_batches)
        plan->block = plan->epoch_batches;
}

void pull_plan_single(struct pull_plan *plan)
{
    plan->block = 1;
}

int64_t pull_plan_batches(const struct pull_plan *plan, int64_t epochs)
{
    int64_t batches, positions;
    if (epochs == 0)
        return INT64_MAX;
    if (!plan->even)
        return -1;
    if (plan->epoch_batches > 0 || plan->drop)
        return __builtin_mul_overflow(plan->epoch_batches, epochs, &batches) ? INT64_MAX : batches;
    if (__builtin_mul_overflow(plan->epoch_draws, epochs, &positions))
        return INT64_MAX;
    return positions / plan->batch_rows + (positions % plan->batch_rows != 0);
}

int64_t pull_plan_epoch(const struct pull_plan *plan, int64_t index)
{
    if (!plan->even || plan->epoch_draws == 0 || index > INT64_MAX / plan->batch_rows)
        return -1;
    if (plan->epoch_batches > 0)
        return index / plan->epoch_batches;
    return plan->drop ? -1 : index * plan->batch_rows / plan->epoch_draws;
}

/* The n batches that batch k belongs to; with `drop` only k, if fewer than n B units of the epoch
 * are left and the sampler would skip them. */
static int64_t block_at(const struct pull_plan *plan, int64_t k)
{
    int64_t start = k - k % plan->block;
    bool whole = !plan->drop || start + plan->block <= plan->epoch_batches;
    return whole ? plan->block : 1;
}

void pull_plan_at(const struct pull_plan *plan, int64_t index, struct pull_request *ret_request)
{
    int64_t rows = plan->batch_rows;
    bool refused = plan->drop && plan->epoch_batches == 0;
    if (!plan->even || refused || index > INT64_MAX / 4 / rows) { /* no order is that long */
        *ret_request = (struct pull_request){.size = (size_t)rows, .index = index, .first = -1};
        return;
    }
    int64_t epoch = plan->epoch_batches > 0 ? index / plan->epoch_batches : 0;
    int64_t k = plan->epoch_batches > 0 ? index % plan->epoch_batches : index;
    int64_t block = block_at(plan, k);
    int64_t start = k / block * block * rows; /* within the epoch */
    int64_t first = epoch * plan->epoch_draws + start;
    int64_t left = plan->epoch_batches > 0 ? plan->epoch_draws - start : plan->end - first;
    int64_t blocks_an_epoch = 0;
    if (plan->epoch_batches > 0 && plan->drop)
        blocks_an_epoch = plan->epoch_draws / (block * rows);
    else if (plan->epoch_batches > 0)
        blocks_an_epoch = (plan->epoch_batches + block - 1) / block;
    *ret_request = (struct pull_request){
        .size = (size_t)(block * rows),
        .index = epoch * blocks_an_epoch + k / block,
        .first = first,
        .skip_rows = (size_t)(k % block * rows),
    };
    if (left > 0)
        ret_request->rows = (size_t)(left < block * rows ? left : block * rows);
}

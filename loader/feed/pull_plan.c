/* SPDX-License-Identifier: MIT */
#include "loader/feed/pull_plan.h"

#include <assert.h>
#include <string.h>

#define BLOCK_LIMIT 64

/* Designs whose batches are the next positions of the order, whatever the size. */
static const char *const plain_designs[] = {"proportional", "srs",   "sequential",
                                            "equal",        "quota", "neyman"};

static bool is_plain(const struct sampler_stream *stream)
{
    bool known_tail = strcmp(stream->tail, "keep") == 0 || strcmp(stream->tail, "drop") == 0 ||
                      strcmp(stream->tail, "span") == 0;
    for (size_t i = 0; i < sizeof(plain_designs) / sizeof(plain_designs[0]); i++) {
        if (strcmp(stream->design, plain_designs[i]) == 0)
            return known_tail;
    }
    return false;
}

void pull_plan_init(struct pull_plan *plan, const struct sampler_stream *stream, size_t batch_rows,
                    size_t rows_ahead)
{
    assert(batch_rows > 0 && batch_rows <= SAMPLER_BATCH_ROWS_LIMIT);
    int64_t rows = (int64_t)batch_rows;
    int64_t draws = stream->epoch_draws;
    *plan = (struct pull_plan){.batch_rows = rows,
                               .block = 1,
                               .epoch_draws = draws,
                               .drop = strcmp(stream->tail, "drop") == 0,
                               .plain = is_plain(stream)};
    if (strcmp(stream->tail, "keep") == 0)
        plan->epoch_batches = draws / rows + (draws % rows != 0);
    else if (plan->drop)
        plan->epoch_batches = draws / rows;
    if (plan->drop && plan->epoch_batches == 0)
        plan->plain = false; /* the sampler refuses such a size, and says so best */
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

/* The n batches that batch k belongs to; with `drop` k alone, where fewer than n B units are left
 * of the epoch and the sampler would skip them. */
static int64_t block_at(const struct pull_plan *plan, int64_t k)
{
    int64_t start = k - k % plan->block;
    bool whole = !plan->drop || start + plan->block <= plan->epoch_batches;
    return whole ? plan->block : 1;
}

void pull_plan_at(const struct pull_plan *plan, int64_t index, struct pull_request *ret_request)
{
    int64_t rows = plan->batch_rows;
    if (!plan->plain || index > INT64_MAX / 4 / rows) { /* no order is that long */
        *ret_request = (struct pull_request){.size = (size_t)rows, .index = index, .first = -1};
        return;
    }
    int64_t epoch = plan->epoch_batches > 0 ? index / plan->epoch_batches : 0;
    int64_t k = plan->epoch_batches > 0 ? index % plan->epoch_batches : index;
    int64_t block = block_at(plan, k);
    int64_t start = k / block * block * rows; /* within the epoch */
    int64_t left = plan->epoch_draws - start;
    int64_t blocks_an_epoch = 0;
    if (plan->epoch_batches > 0 && plan->drop)
        blocks_an_epoch = plan->epoch_draws / (block * rows);
    else if (plan->epoch_batches > 0)
        blocks_an_epoch = (plan->epoch_batches + block - 1) / block;
    *ret_request = (struct pull_request){
        .size = (size_t)(block * rows),
        .index = epoch * blocks_an_epoch + k / block,
        .first = epoch * plan->epoch_draws + start,
        .skip_rows = (size_t)(k % block * rows),
    };
    if (plan->epoch_batches > 0)
        ret_request->rows = (size_t)(left < block * rows ? left : block * rows);
}

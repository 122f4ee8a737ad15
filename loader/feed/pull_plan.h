/* SPDX-License-Identifier: MIT */
/*
 * Which request contains batch K? For FEED_INDEX, where any batch may be next: several
 * batches of B are requested as one of n * B, which costs one round trip instead of n, and cut
 * here. The cut is the same as the sampler's would be:
 *
 *   keep   batches restart at each epoch, so that batch k of an epoch is units k B .. k B + B - 1
 *          of it whether requested alone or inside a larger one; the last is short either way
 *   drop   the same, as long as the larger batch is not dropped at the epoch's end; there the
 *          request is for B
 *   span   batch K is positions K B .. K B + B - 1, epochs or not
 *
 * and every response is checked against the positions where it must begin and end, unless each
 * batch of the design decides how many it covers. If a design's batches are not simply the next
 * positions of the order, they are requested one by one. Pure arithmetic, no state.
 *
 * Dimensions: B rows per batch, n batches per request, M positions per epoch.
 */
#ifndef LOADER_FEED_PULL_PLAN_H
#define LOADER_FEED_PULL_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/feed/sampler_stream.h"

struct pull_plan {
    int64_t batch_rows;    /* B */
    int64_t block;         /* n */
    int64_t epoch_draws;   /* M */
    int64_t epoch_batches; /* keep: ceil(M / B); drop: floor(M / B); span: 0 */
    int64_t end;           /* the stream's, as a position; INT64_MAX: none */
    bool drop;
    bool plain; /* batches are the next positions of the order: n may be above 1 */
    bool even;  /* all but an epoch's last cover equally many positions */
};

struct pull_request {
    size_t size;      /* for /batch?size= */
    int64_t index;    /* for /batch?index= */
    int64_t first;    /* the position at which the response must begin; -1: unknown */
    size_t rows;      /* how many units it must hold; 0: unknown, or beyond the end */
    size_t skip_rows; /* units of the response before batch K */
};

/* Plans batches of `batch_rows` of `stream`, up to about `rows_ahead` units per request. */
void pull_plan_init(struct pull_plan *plan, const struct sampler_stream *stream, size_t batch_rows,
                    size_t rows_ahead);

/* From now on batch by batch: a sampler may refuse the larger size. */
void pull_plan_single(struct pull_plan *plan);

/* The stream's number of batches; INT64_MAX: no end; -1: only the sampler knows, since each batch
 * decides how many positions it covers. */
int64_t pull_plan_batches(const struct pull_plan *plan, int64_t epochs);

/* The epoch of the first unit of batch number `index` (>= 0); -1: only the sampler knows. */
int64_t pull_plan_epoch(const struct pull_plan *plan, int64_t index);

/* The request whose response starts with, or contains, batch number `index` (>= 0). */
void pull_plan_at(const struct pull_plan *plan, int64_t index, struct pull_request *ret_request);

#endif

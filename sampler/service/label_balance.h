/* SPDX-License-Identifier: MIT */
/*
 * The labels of a stream as the live page shows them: units drawn in this epoch against the target
 * share, and in the last minute. Of more than BALANCE_ALL labels only the BALANCE_LARGEST with the
 * largest share and the BALANCE_WORST with the largest deviation, in units.
 *
 * Dimensions: L labels, K labels requested.
 */
#ifndef SAMPLER_SERVICE_LABEL_BALANCE_H
#define SAMPLER_SERVICE_LABEL_BALANCE_H

#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "sampler/service/history.h"
#include "sampler/service/label_counter.h"
#include "sampler/stream/sampling_plan.h"

#define BALANCE_ALL 64
#define BALANCE_LARGEST 24
#define BALANCE_WORST 12

/* Appends a JSON object:
 *   {"count":L,"epoch":E,"drawn":T,"rows":[[label,units,drawn,wanted share,last minute|null],...]}
 * with "worst":[...] beside rows if not all are listed; or {"count":L} alone while the units drawn
 * so far are still being counted (`counts->left`; call again). O(L log L) or a bounded count;
 * blocks for that long. */
enum error label_balance_write(const struct sampling_plan *plan, const struct label_counts *counts,
                               const struct history_span *spans, size_t span_count,
                               struct buffer *out) MUST_CHECK;

/* Limits of counting: positions without a closed form (some tenths of a second), else epochs times
 * labels. */
#define LABEL_WINDOW_LIMIT (INT64_C(4) << 20)

/* How many units of each label are at the positions of `spans`: `last_minute` of GET /labels. In
 * closed form if the order has one, else counted. ret_counts [K], for `labels` [K] (NULL: all, K =
 * L). ERROR_UNAVAILABLE beyond the limit. Blocks while it counts. */
enum error label_window_counts(const struct sampling_plan *plan, const struct history_span *spans,
                               size_t span_count, const uint32_t *labels, size_t label_count,
                               int64_t *ret_counts) MUST_CHECK;

#endif

/*
 * How many units of a label lie at given positions of an order: what GET /labels calls
 * `last_minute`. In closed form where the order has one, else counted.
 *
 * Dimensions: L labels, K labels asked for.
 */
#ifndef SAMPLER_SERVICE_LABEL_WINDOW_H
#define SAMPLER_SERVICE_LABEL_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/service/history.h"
#include "sampler/stream/sampling_plan.h"

/* More than this is not counted: positions where there is no closed form (some tenths of a second
 * of them), else epochs times labels. */
#define LABEL_WINDOW_LIMIT (INT64_C(4) << 20)

/* ret_counts [K], of `labels` [K] (NULL: of all, K = L). ERROR_UNAVAILABLE beyond the limit. Blocks
 * as long as the counting takes. */
enum error label_window_counts(const struct sampling_plan *plan, const struct history_span *spans,
                               size_t span_count, const uint32_t *labels, size_t label_count,
                               int64_t *ret_counts) MUST_CHECK;

#endif

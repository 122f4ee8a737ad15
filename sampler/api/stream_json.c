/* SPDX-License-Identifier: MIT */
#include "sampler/api/stream_json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/json.h"

const char *stream_state_name(enum stream_state state)
{
    static const char *const names[] = {"running", "paused", "ended", "unavailable"};
    return names[state];
}

static void add_definition(struct buffer *buffer, const struct stream_definition *definition,
                           const struct stream_binding *binding)
{
    buffer_print(buffer,
                 "{\"name\":\"%s\",\"frame\":\"%s\",\"digest\":\"%s\",\"design\":\"%s\","
                 "\"replacement\":%s,\"seed\":%" PRIu64,
                 definition->name, definition->frame, binding->digest, definition->design,
                 json_truth(definition->replacement), definition->seed);
}

/* Fields that only some streams have. */
static void add_options(struct buffer *buffer, const struct stream_definition *definition,
                        const struct split_shares *shares)
{
    if (definition->rows_end > 0)
        buffer_print(buffer, ",\"rows\":\"%" PRId64 ":%" PRId64 "\"", definition->rows_begin,
                     definition->rows_end);
    if (definition->split != SPLIT_NONE)
        buffer_print(buffer, ",\"split\":\"%s\"", split_name(definition->split));
    if (shares)
        buffer_print(buffer, ",\"splits\":[%.15g,%.15g,%.15g]", shares->train, shares->validation,
                     shares->test);
    if (definition->lease_ms > 0)
        buffer_print(buffer, ",\"lease_s\":%.15g", (double)definition->lease_ms / 1000);
    const char *fields = definition->fields ? definition->fields : "";
    size_t length = strlen(fields);
    if (length > 2) { /* without its braces */
        buffer_add(buffer, ",", 1);
        buffer_add(buffer, fields + 1, length - 2);
    }
}

/* In millionths, rounded up: it is a bound. Excludes its own rounding up in 2^-32. */
static double round_bound(double error)
{
    return ceil(error * 1e6 - 1e-3) / 1e6;
}

/* The source of its units, and how closely labels keep to their shares. */
static void add_order(struct buffer *buffer, const struct order *order)
{
    buffer_print(buffer, ",\"order\":\"%s\"", order_name(order));
    double error = order_balance_error(order);
    if (error >= 0)
        buffer_print(buffer, ",\"balance_error\":%.12g", round_bound(error));
}

static void add_status(struct buffer *buffer, const struct stream_definition *definition,
                       const struct stream_binding *binding, const struct stream_status *status)
{
    buffer_print(buffer,
                 ",\"generation\":%" PRId64 ",\"units\":%" PRId64 ",\"epochs\":%" PRId64
                 ",\"tail\":\"%s\",\"position\":%" PRId64 ",\"epoch\":%" PRId64
                 ",\"epoch_draws\":%" PRId64 ",\"leased\":%" PRId64 ",\"acked\":%" PRId64
                 ",\"redelivered\":%" PRId64 ",\"state\":\"%s\"",
                 status->generation, binding->units, definition->epochs,
                 tail_name(definition->tail), status->position, status->epoch,
                 binding->epoch_positions, status->leased, status->acked, status->redelivered,
                 stream_state_name(status->state));
}

enum error stream_text_add(struct buffer *buffer, struct stream *stream)
{
    const struct stream_definition *definition = stream_definition(stream);
    const struct sampling_plan *plan = stream_plan(stream);
    struct stream_status status;
    stream_status(stream, &status);
    add_definition(buffer, definition, stream_binding(stream));
    if (plan) /* else it is set aside */
        add_order(buffer, plan->order);
    add_status(buffer, definition, stream_binding(stream), &status);
    add_options(buffer, definition, plan ? plan->shares : NULL);
    return buffer_add_text(buffer, "}");
}

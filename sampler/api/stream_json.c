#include "sampler/api/stream_json.h"

#include <inttypes.h>
#include <string.h>

static const char *const state_names[] = {"running", "paused", "ended"};

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static enum error add_definition(struct buffer *buffer, const struct stream_definition *definition,
                                 const struct sampling_plan *plan)
{
    return buffer_print(buffer,
                        "{\"name\":\"%s\",\"frame\":\"%s\",\"digest\":\"%s\",\"design\":\"%s\","
                        "\"replacement\":%s,\"seed\":%" PRIu64,
                        definition->name, definition->frame, plan->binding.digest,
                        definition->design, truth(definition->replacement), definition->seed);
}

/* What not every stream has. */
static enum error add_options(struct buffer *buffer, const struct stream_definition *definition)
{
    enum error error = OK;
    if (definition->rows_end > 0)
        error = buffer_print(buffer, ",\"rows\":\"%" PRId64 ":%" PRId64 "\"",
                             definition->rows_begin, definition->rows_end);
    if (!error && definition->split != SPLIT_NONE)
        error = buffer_print(buffer, ",\"split\":\"%s\"", split_name(definition->split));
    if (!error && definition->lease_ms > 0)
        error = buffer_print(buffer, ",\"lease_s\":%.15g", (double)definition->lease_ms / 1000);
    const char *fields = definition->fields ? definition->fields : "";
    size_t length = strlen(fields);
    if (!error && length > 2) { /* without its braces */
        error = buffer_add(buffer, ",", 1);
        if (!error)
            error = buffer_add(buffer, fields + 1, length - 2);
    }
    return error;
}

static enum error add_status(struct buffer *buffer, const struct stream_definition *definition,
                             const struct sampling_plan *plan, const struct stream_status *status)
{
    return buffer_print(buffer,
                        ",\"generation\":%" PRId64 ",\"units\":%" PRId64 ",\"epochs\":%" PRId64
                        ",\"tail\":\"%s\",\"position\":%" PRId64 ",\"epoch\":%" PRId64
                        ",\"epoch_draws\":%" PRId64 ",\"leased\":%" PRId64 ",\"acked\":%" PRId64
                        ",\"redelivered\":%" PRId64 ",\"state\":\"%s\"",
                        status->generation, plan->binding.units, definition->epochs,
                        tail_name(definition->tail), status->position, status->epoch,
                        plan->batching.epoch_positions, status->leased, status->acked,
                        status->redelivered, state_names[status->state]);
}

enum error stream_text_add(struct buffer *buffer, struct stream *stream)
{
    const struct stream_definition *definition = stream_definition(stream);
    const struct sampling_plan *plan = stream_plan(stream);
    struct stream_status status;
    stream_status(stream, &status);
    enum error error = add_definition(buffer, definition, plan);
    if (!error)
        error = add_status(buffer, definition, plan, &status);
    if (!error)
        error = add_options(buffer, definition);
    return error ? error : buffer_add_text(buffer, "}");
}

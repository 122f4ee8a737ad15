/* SPDX-License-Identifier: MIT */
#include "loader/feed/stream_position.h"

#include <inttypes.h>
#include <string.h>

#include "common/json.h"

static void print_text(struct buffer *out, const char *key, const char *value)
{
    buffer_print(out, "\"%s\":", key);
    json_add_string(out, value);
    buffer_add_text(out, ",");
}

static void print_holes(struct buffer *out, const struct index_set *done)
{
    const char *before = ",\"holes\":[";
    int64_t end = index_set_end(done);
    struct index_range hole = index_set_gap(done, 0, end);
    for (; hole.first < hole.end; hole = index_set_gap(done, hole.end, end)) {
        buffer_print(out, "%s[%" PRId64 ",%" PRId64 "]", before, hole.first, hole.end);
        before = ",";
    }
    buffer_add_text(out, before[1] ? "}" : "]}");
}

enum error stream_position_print(const struct stream_position *position,
                                 const struct index_set *done, struct buffer *out)
{
    const struct sampler_stream *stream = &position->stream;
    buffer_add_text(out, "{");
    print_text(out, "name", stream->name);
    print_text(out, "digest", stream->digest);
    print_text(out, "design", stream->design);
    print_text(out, "tail", stream->tail);
    if (stream->order[0])
        print_text(out, "order", stream->order);
    buffer_print(out,
                 "\"replacement\":%s,\"seed\":%" PRId64 ",\"units\":%" PRId64 ",\"epochs\":%" PRId64
                 ",\"epoch_draws\":%" PRId64 ",\"batch_size\":%" PRId64 ",\"next_index\":%" PRId64,
                 stream->replacement ? "true" : "false", stream->seed, stream->units,
                 stream->epochs, stream->epoch_draws, position->batch_rows, index_set_end(done));
    if (position->bucket_window > 0)
        buffer_print(out, ",\"bucket_window\":%" PRId64, position->bucket_window);
    if (position->ended)
        buffer_add_text(out, ",\"ended\":true");
    if (position->stopped)
        buffer_add_text(out, ",\"stopped\":true");
    print_holes(out, done);
    return out->error;
}

/* Ranges of at least one batch, ascending, the last of them before batch next_index - 1. */
static enum error parse_hole(const cJSON *item, const char *what, int64_t next_index,
                             int64_t *least, struct index_set *done)
{
    struct index_range hole;
    if (cJSON_GetArraySize(item) != 2 || !json_integer(item->child, &hole.first) ||
        !json_integer(item->child->next, &hole.end) || hole.first < *least ||
        hole.end <= hole.first || hole.end >= next_index)
        return error_set(ERROR_INPUT,
                         "%s: holes are not ascending [first, end] before batch %" PRId64, what,
                         next_index);
    *least = hole.end + 1;
    return index_set_remove(done, hole);
}

static enum error parse_done(const cJSON *json, const char *what, int64_t next_index,
                             struct index_set *done)
{
    const cJSON *holes = cJSON_GetObjectItemCaseSensitive(json, "holes"), *hole;
    int64_t least = 0;
    enum error error = index_set_add(done, (struct index_range){0, next_index});
    if (!error && holes && !cJSON_IsArray(holes))
        error = error_set(ERROR_INPUT, "%s: holes are %s, not a list", what, json_kind(holes));
    cJSON_ArrayForEach(hole, holes)
    {
        if (!error)
            error = parse_hole(hole, what, next_index, &least, done);
    }
    return error;
}

enum error stream_position_parse(const char *text, const char *what,
                                 struct stream_position *ret_position, struct index_set *done)
{
    int64_t next_index = 0;
    struct stream_position position = {.batch_rows = 0};
    cJSON *json = NULL;
    enum error error = json_parse(text, strlen(text), what, &json);
    if (error)
        return error;
    error = sampler_stream_parse(text, strlen(text), what, &position.stream);
    if (!error)
        error = json_get_integer(json, "batch_size", what, &position.batch_rows);
    if (!error)
        error = json_get_integer(json, "next_index", what, &next_index);
    if (!error && cJSON_GetObjectItemCaseSensitive(json, "bucket_window"))
        error = json_get_integer(json, "bucket_window", what, &position.bucket_window);
    if (error)
        goto out;
    if (position.batch_rows < 1 || next_index < 0) {
        error = error_set(ERROR_INPUT,
                          "%s: batch_size %" PRId64 " and next_index %" PRId64 " are not counts",
                          what, position.batch_rows, next_index);
        goto out;
    }
    position.ended = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "ended"));
    position.stopped = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "stopped"));
    error = parse_done(json, what, next_index, done);
    if (error)
        goto out;
    *ret_position = position;
out:
    cJSON_Delete(json);
    return error;
}

bool stream_position_has_cut_batch(const struct stream_position *position,
                                   const struct index_set *done)
{
    int64_t positions;
    if (strcmp(position->stream.tail, "span") != 0 ||
        __builtin_mul_overflow(position->stream.epochs, position->stream.epoch_draws, &positions))
        return false;
    return positions % position->batch_rows != 0 &&
           index_set_end(done) == positions / position->batch_rows + 1;
}

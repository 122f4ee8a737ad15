/* SPDX-License-Identifier: MIT */
#include "trainer/checkpoint/stream_position.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/text.h"

#define CONNECT_MS 150L
#define PEEK_MS 300

enum error stream_position_fetch(const char *url, const char *stream, int64_t patience_ms,
                                 struct sampler_stream *ret_stream)
{
    struct sampler_client *client = NULL;
    enum error error = sampler_client_open(url, stream, patience_ms, &client);
    if (!error)
        error = sampler_client_describe(client, ret_stream);
    sampler_client_close(client);
    return error;
}

/* A server that refuses connections is asked again, with a line in the log, by every request; a
 * bare connection shows it without. */
static bool takes_connections(const char *url)
{
    CURL *easy = curl_easy_init();
    if (!easy)
        return false;
    CURLcode code = curl_easy_setopt(easy, CURLOPT_URL, url);
    code |= curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    code |= curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, CONNECT_MS);
    code |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    code |= curl_easy_setopt(easy, CURLOPT_PROXY, "");
    if (code == CURLE_OK)
        code = curl_easy_perform(easy);
    curl_easy_cleanup(easy);
    return code == CURLE_OK;
}

enum error stream_position_peek(const char *url, const char *stream,
                                struct sampler_stream *ret_stream)
{
    if (!takes_connections(url))
        return error_set(ERROR_NETWORK, "%s takes no connections now", url);
    return stream_position_fetch(url, stream, PEEK_MS, ret_stream);
}

/* `what` is the sampler's option too. */
static enum error differs(const char *called, const char *what, const char *theirs,
                          const char *ours)
{
    return error_set(ERROR_CONFLICT,
                     "%s is of another order: its %s is %s, the sampler's is %s (start the sampler "
                     "with --%s %s, or with the --state that it had; or train into another "
                     "--logdir)",
                     called, what, theirs, ours, what, theirs);
}

static enum error differs_in_replacement(const char *called, bool theirs)
{
    return error_set(ERROR_CONFLICT,
                     "%s is of another order: its replacement is %s, the sampler's is %s (start "
                     "the sampler with%s --replacement, or with the --state that it had; or train "
                     "into another --logdir)",
                     called, theirs ? "yes" : "no", theirs ? "no" : "yes", theirs ? "" : "out");
}

/* What is left to differ: a design's own fields, and the version of the sampler. */
static enum error compare_orders(const struct sampler_stream *theirs, const char *called,
                                 const struct sampler_stream *ours)
{
    if (strcmp(theirs->order, ours->order) == 0)
        return OK;
    if (theirs->order[0])
        return error_set(ERROR_CONFLICT,
                         "%s is of another order, %s, the sampler's is %s: the design's own fields "
                         "differ, or the sampler's version (train into another --logdir)",
                         called, theirs->order, ours->order);
    return error_set(ERROR_CONFLICT,
                     "%s is of an order without a name, from a version whose orders were others: "
                     "the sampler's batches are not those that it counted (train into another "
                     "--logdir, with --init-from to keep what was learnt)",
                     called);
}

static enum error compare_streams(const struct sampler_stream *theirs, const char *called,
                                  const struct sampler_stream *ours)
{
    if (strcmp(theirs->digest, ours->digest) != 0)
        return error_set(ERROR_CONFLICT,
                         "%s is of another frame: digest %s (%" PRId64 " %s), the sampler's is "
                         "%s (%" PRId64 " %s)",
                         called, theirs->digest, theirs->units,
                         text_plural(theirs->units, "unit", "units"), ours->digest, ours->units,
                         text_plural(ours->units, "unit", "units"));
    if (strcmp(theirs->design, ours->design) != 0)
        return differs(called, "design", theirs->design, ours->design);
    if (theirs->replacement != ours->replacement)
        return differs_in_replacement(called, theirs->replacement);
    if (strcmp(theirs->tail, ours->tail) != 0) /* it decides where the batches of an epoch end */
        return differs(called, "tail", theirs->tail, ours->tail);
    char left[32], right[32];
    snprintf(left, sizeof(left), "%" PRId64, theirs->seed);
    snprintf(right, sizeof(right), "%" PRId64, ours->seed);
    if (theirs->seed != ours->seed)
        return differs(called, "seed", left, right);
    return compare_orders(theirs, called, ours);
}

enum error stream_position_compare_size(const struct stream_position *theirs, const char *called,
                                        int64_t batch_rows)
{
    if (theirs->batch_rows == batch_rows)
        return OK;
    return error_set(
        ERROR_CONFLICT, "%s counts batches of %" PRId64 " %s, this run has --batch-size %" PRId64,
        called, theirs->batch_rows, text_plural(theirs->batch_rows, "row", "rows"), batch_rows);
}

enum error stream_position_compare(const struct stream_position *theirs, const char *called,
                                   const struct stream_position *ours)
{
    enum error error = compare_streams(&theirs->stream, called, &ours->stream);
    return error ? error : stream_position_compare_size(theirs, called, ours->batch_rows);
}

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
    if (position->ended)
        buffer_add_text(out, ",\"ended\":true");
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
    if (error)
        goto out;
    if (position.batch_rows < 1 || next_index < 0) {
        error = error_set(ERROR_INPUT,
                          "%s: batch_size %" PRId64 " and next_index %" PRId64 " are no counts",
                          what, position.batch_rows, next_index);
        goto out;
    }
    position.ended = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "ended"));
    error = parse_done(json, what, next_index, done);
    if (error)
        goto out;
    *ret_position = position;
out:
    cJSON_Delete(json);
    return error;
}

/* SPDX-License-Identifier: MIT */
/*
 * GET /labels: the labels, and how many units of each were drawn. It does not wait for counts: one
 * not yet known is `null`, and `uncounted` is the number of positions left. A response that is
 * certain to exceed the limit is refused at once.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/http/response.h"
#include "sampler/api/handler.h"
#include "sampler/api/routes.h"
#include "sampler/batch/batch_request.h"
#include "sampler/service/live.h"

#define LABEL_LEAST_BYTES 69 /* of the response: one digit per number */
#define SLACK_BYTES (1 << 20)
#define LABELS_AT_ONCE 1000         /* more would block an HTTP thread for too long */
#define COUNT_NS INT64_C(250000000) /* afterwards the response is sent without */

struct counts {
    struct label_counts drawn;
    int64_t *minute; /* [L], or NULL if unknown */
};

static void add_count(struct buffer *body, const char *key, const int64_t *count)
{
    if (count)
        buffer_print(body, ",\"%s\":%" PRId64, key, *count);
    else
        buffer_print(body, ",\"%s\":null", key);
}

static void add_label(struct buffer *body, const struct sampling_plan *plan, uint32_t label,
                      const struct counts *counts)
{
    int64_t units = frame_label_units(plan->frame, label);
    buffer_add_text(body, label > 0 ? ",{\"label\":" : "{\"label\":");
    label_texts_add_json(plan->label_texts, label, body); /* with its ',' */
    buffer_print(body, "\"units\":%" PRId64 ",\"share\":%.10g,\"wanted\":%.10g", units,
                 (double)units / (double)frame_units(plan->frame),
                 order_label_share(plan->order, label));
    add_count(body, "drawn", counts->drawn.left > 0 ? NULL : &counts->drawn.drawn[label]);
    add_count(body, "last_minute", counts->minute ? &counts->minute[label] : NULL);
    buffer_add_text(body, "}");
}

/* Can the response still fit when `written` labels are in it? Refuses as soon as it cannot: all
 * labels may take half a minute, and retrying would not help. */
static enum error check_size(const struct buffer *body, uint32_t labels, uint32_t written)
{
    size_t bytes = body->length + (size_t)(labels - written) * LABEL_LEAST_BYTES;
    size_t limit_bytes = body->limit_bytes - SLACK_BYTES;
    if (bytes <= limit_bytes)
        return OK;
    return error_set(ERROR_USAGE,
                     "the %" PRIu32 " labels of this frame are a response of more than %zu bytes, "
                     "which is the limit; a --max-answer-memory above it raises it, and "
                     "tombola-sampler info lists labels without a server",
                     labels, limit_bytes);
}

static enum error write_labels(struct buffer *body, const struct sampling_plan *plan,
                               const struct counts *counts)
{
    uint32_t labels = frame_labels(plan->frame);
    enum error error = buffer_add_text(body, "{\"labels\":[");
    for (uint32_t label = 0; !error && label < labels; label++) {
        add_label(body, plan, label, counts);
        error = body->error ? body->error : check_size(body, labels, label + 1);
    }
    if (error)
        return error;
    return buffer_print(body, "],\"epoch\":%" PRId64 ",\"uncounted\":%" PRId64 "}\n",
                        counts->drawn.epoch, counts->drawn.left);
}

static enum error add_labels(struct request *request, const _Atomic bool *stop)
{
    struct live *live = ((const struct service *)request->api->work)->live;
    struct stream *stream = request->api->stream;
    const struct sampling_plan *plan = stream_plan(stream);
    struct counts counts;
    (void)stop;
    enum error error = label_counter_ask(live_counter(live), stream, COUNT_NS, &counts.drawn);
    if (error)
        return error;
    int64_t *minute =
        array_new(frame_labels(plan->frame), sizeof(*minute), "the counts of the last minute");
    error = minute ? live_last_minute(live, stream, minute) : ERROR_MEMORY;
    counts.minute = !error ? minute : NULL;
    if (!error || error == ERROR_UNAVAILABLE)
        error = write_labels(&request->body, plan, &counts);
    free(minute);
    free(counts.drawn.drawn);
    return error;
}

/* ---- the request -------------------------------------------------------- */

static enum error read_stream(const struct request *request, char name[STREAM_NAME_BYTES])
{
    struct uri_query query;
    enum error error = uri_query_init(&query, request->query);
    if (error)
        return error;
    error = stream_name_of_query(&query, name);
    if (!error)
        error = uri_query_finish(&query);
    uri_query_release(&query);
    return error;
}

static bool is_slow(struct stream *stream)
{
    return frame_labels(stream_plan(stream)->frame) > LABELS_AT_ONCE ||
           !label_counter_is_quick(stream);
}

/* The --max-answer-memory for all responses together; if it is below its default, a single response
 * may use that. */
static size_t limit_of(const struct request *request)
{
    int64_t limit_bytes = request->thread->responses->limit_bytes;
    return (size_t)(limit_bytes > RESPONSE_MEMORY_DEFAULT_BYTES ? limit_bytes
                                                                : RESPONSE_MEMORY_DEFAULT_BYTES);
}

enum MHD_Result route_labels(struct request *request, struct service *service)
{
    char name[STREAM_NAME_BYTES];
    request->body = (struct buffer)BUFFER_INIT(limit_of(request) + SLACK_BYTES);
    enum error error = read_stream(request, name);
    if (!error)
        error = handler_take_stream(request, service, name);
    if (!error)
        error =
            check_size(&request->body, frame_labels(stream_plan(request->api->stream)->frame), 0);
    if (error)
        return response_error(request, error);
    request->api->work = service; /* borrowed */
    return handler_respond_text(request, add_labels, is_slow(request->api->stream));
}

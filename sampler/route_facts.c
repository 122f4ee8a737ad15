/* /healthz, /readyz, /frames and /labels. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json.h"
#include "sampler/handler.h"
#include "sampler/live.h"
#include "sampler/reply.h"
#include "sampler/routes.h"
#include "sampler/server.h"

#define ANSWER_LIMIT_BYTES ((size_t)1 << 30)
#define LABELS_AT_ONCE 10000 /* more take longer than an HTTP thread should be kept */

static enum MHD_Result reply_ok(struct request *request)
{
    static const char ok[] = "ok\n";
    enum error error = handler_refuse_query(request);
    if (error != OK)
        return reply_error(request, error);
    return reply_static(request, "text/plain; charset=utf-8", ok, sizeof(ok) - 1);
}

enum MHD_Result route_healthz(struct request *request, struct service *service)
{
    (void)service;
    return reply_ok(request);
}

enum MHD_Result route_readyz(struct request *request, struct service *service)
{
    enum server_phase phase = server_phase(request->worker->server);
    if (phase != SERVER_READY)
        return reply_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                             phase == SERVER_STARTING ? "the server is starting"
                                                      : "the server is stopping");
    if (streams_failing(service->streams)) {
        (void)streams_failure(service->streams);
        return reply_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE, error_message());
    }
    return reply_ok(request);
}

/* ---- /frames --------------------------------------------------------------------------------- */

static enum error add_frame(struct buffer *body, const struct named_frame *named)
{
    return buffer_print(
        body, "{\"name\":\"%s\",\"units\":%" PRId64 ",\"labels\":%" PRIu32 ",\"digest\":\"%s\"}",
        named->name, frame_units(named->frame), frame_labels(named->frame), named->digest);
}

enum MHD_Result route_frames(struct request *request, struct service *service)
{
    struct buffer body = BUFFER_INIT(ANSWER_LIMIT_BYTES);
    enum error error = handler_refuse_query(request);
    if (error == OK)
        error = buffer_add_text(&body, "{\"frames\":[");
    for (size_t i = 0; error == OK && i < frame_set_count(service->frames); i++) {
        if (i > 0)
            error = buffer_add(&body, ",", 1);
        if (error == OK)
            error = add_frame(&body, frame_set_at(service->frames, i));
    }
    if (error == OK)
        error = buffer_add_text(&body, "]}\n");
    return reply_json(request, error, MHD_HTTP_OK, &body, NULL);
}

/* ---- /labels --------------------------------------------------------------------------------- */

/* `minute` NULL: not known. */
static enum error add_label(struct buffer *body, const struct walk *walk, uint32_t label,
                            int64_t drawn, const int64_t *minute)
{
    const struct label_texts *texts = walk->label_texts;
    const struct label_text *text = &texts->json[label];
    int64_t units = frame_label_units(walk->frame, label);
    enum error error = buffer_add_text(body, label > 0 ? ",{\"label\":" : "{\"label\":");
    if (error == OK)
        error = buffer_add(body, texts->json_long[label] ? texts->json_long[label] : text->bytes,
                           text->length); /* with its ',' */
    if (error != OK)
        return error;
    error = buffer_print(
        body, "\"units\":%" PRId64 ",\"share\":%.10g,\"wanted\":%.10g,\"drawn\":%" PRId64, units,
        (double)units / (double)frame_units(walk->frame), order_label_share(walk->order, label),
        drawn);
    if (error != OK)
        return error;
    return minute ? buffer_print(body, ",\"last_minute\":%" PRId64 "}", *minute)
                  : buffer_add_text(body, ",\"last_minute\":null}");
}

static enum error add_labels(struct buffer *body, struct live *live, struct stream *stream)
{
    const struct walk *walk = stream_walk(stream);
    uint32_t labels = frame_labels(walk->frame);
    struct stream_status status;
    stream_status(stream, &status);
    int64_t t = status.position - status.epoch * walk->cut.epoch_positions;
    int64_t *drawn = array_new((size_t)labels * 2, sizeof(*drawn), "the counts of labels");
    if (!drawn)
        return ERROR_MEMORY;
    int64_t *minute = drawn + labels;
    enum error error = live_last_minute(live, stream, minute);
    bool counted = error == OK;
    if (error == OK || error == ERROR_UNAVAILABLE)
        error = tally_counts(walk->tally, status.epoch, t, drawn);
    if (error == OK)
        error = buffer_add_text(body, "{\"labels\":[");
    for (uint32_t label = 0; error == OK && label < labels; label++)
        error = add_label(body, walk, label, drawn[label], counted ? &minute[label] : NULL);
    if (error == OK)
        error = buffer_add_text(body, "]}\n");
    free(drawn);
    return error;
}

static enum error read_stream(const struct request *request, char name[STREAM_NAME_BYTES])
{
    struct uri_query query;
    enum error error = uri_query_init(&query, request->query);
    if (error != OK)
        return error;
    error = handler_stream_name(&query, name);
    if (error == OK)
        error = uri_query_finish(&query);
    uri_query_release(&query);
    return error;
}

static void list_labels(struct slow_job *job, const _Atomic bool *stop)
{
    struct request *request = (struct request *)((char *)job - offsetof(struct request, job));
    const struct service *service = request->work;
    request->outcome = *stop ? error_set(ERROR_UNAVAILABLE, "the server is stopping")
                             : add_labels(&request->body, service->live, request->stream);
    error_report_take(request->outcome, &request->report);
    request_resume(request);
}

static enum MHD_Result reply_labels(struct request *request, struct service *service)
{
    (void)service;
    enum error error = request->outcome;
    if (error != OK)
        (void)error_restore(&request->report);
    return reply_json(request, error, MHD_HTTP_OK, &request->body, NULL);
}

enum MHD_Result route_labels(struct request *request, struct service *service)
{
    char name[STREAM_NAME_BYTES];
    request->body = (struct buffer)BUFFER_INIT(ANSWER_LIMIT_BYTES);
    enum error error = read_stream(request, name);
    if (error == OK)
        error = handler_take_stream(request, service, name);
    if (error == OK && frame_labels(stream_walk(request->stream)->frame) > LABELS_AT_ONCE) {
        request->work = service; /* borrowed */
        request->job.run = list_labels;
        return handler_run_slowly(request, reply_labels);
    }
    if (error == OK)
        error = add_labels(&request->body, service->live, request->stream);
    return reply_json(request, error, MHD_HTTP_OK, &request->body, NULL);
}

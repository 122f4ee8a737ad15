/* SPDX-License-Identifier: MIT */
/* /streams and what one stream can be asked for; POST /streams is in stream_create.c. */
#include <stdlib.h>
#include <string.h>

#include "common/http/response.h"
#include "sampler/api/api_request.h"
#include "sampler/api/audit.h"
#include "sampler/api/handler.h"
#include "sampler/api/routes.h"
#include "sampler/api/stream_json.h"

#define BODY_LIMIT_BYTES ((size_t)64 << 20)
#define TOKEN_LIMIT_BYTES (1 << 20)

/* ---- GET ---------------------------------------------------------------- */

static enum error list_streams(struct request *request, const _Atomic bool *stop)
{
    const struct service *service = request->api->work;
    struct buffer *body = &request->body;
    struct stream **list;
    size_t count;
    (void)stop;
    enum error error = streams_list(service->streams, &list, &count);
    if (error)
        return error;
    buffer_add_text(body, "{\"streams\":[");
    for (size_t i = 0; i < count; i++) {
        buffer_add_text(body, i > 0 ? "," : "");
        stream_text_add(body, list[i]);
    }
    streams_put_all(list, count);
    return buffer_add_text(body, "]}\n");
}

enum MHD_Result route_streams(struct request *request, struct service *service)
{
    enum error error = handler_refuse_query(request);
    if (error)
        return response_error(request, error);
    request->body = (struct buffer)BUFFER_INIT(BODY_LIMIT_BYTES);
    request->api->work = service; /* borrowed */
    return handler_respond_text(request, list_streams,
                                streams_count(service->streams) > HANDLER_STREAMS_AT_ONCE);
}

static enum MHD_Result respond_stream(struct request *request, struct service *service)
{
    struct buffer body = BUFFER_INIT(BODY_LIMIT_BYTES);
    (void)service;
    stream_text_add(&body, request->api->stream);
    enum error error = buffer_add_text(&body, "\n");
    return response_json(request, error, MHD_HTTP_OK, &body, NULL);
}

enum MHD_Result route_stream(struct request *request, struct service *service)
{
    enum error error = handler_take_stream(request, service, request->name);
    if (!error)
        error = handler_refuse_query(request);
    return !error ? respond_stream(request, service) : response_error(request, error);
}

/* ---- DELETE ------------------------------------------------------------- */

static enum MHD_Result respond_deleted(struct request *request, struct service *service)
{
    (void)service;
    return response_empty(request, MHD_HTTP_NO_CONTENT);
}

enum MHD_Result route_stream_delete(struct request *request, struct service *service)
{
    bool waits = false;
    enum error error = handler_refuse_query(request);
    if (!error)
        error = handler_take_stream(request, service, request->name);
    audit_expect(request, "stream deleted", LOG_NO_FIELD);
    if (!error)
        error =
            streams_delete(service->streams, request->name, api_request_waiter(request), &waits);
    return handler_finish(request, service, error, waits, respond_deleted);
}

/* ---- POST --------------------------------------------------------------- */

/* The stream is taken first: of one that does not exist no body is read. */
static enum MHD_Result read_change(struct request *request, struct service *service,
                                   bool may_be_empty, api_reader read, request_continuation then)
{
    enum error error = handler_take_stream(request, service, request->name);
    if (error)
        return response_error(request, error);
    return handler_read_body(request, service, may_be_empty, read, then);
}

/* Of those that take no field. */
static enum error read_nothing(struct request *request, struct body *body)
{
    (void)request;
    return body_finish(body);
}

static enum MHD_Result pause_stream(struct request *request, struct service *service)
{
    bool waits = false;
    enum error error = api_request_outcome(request);
    audit_expect(request, "stream paused", LOG_NO_FIELD);
    if (!error)
        error = stream_pause(request->api->stream, api_request_waiter(request), &waits);
    return handler_finish(request, service, error, waits, respond_stream);
}

enum MHD_Result route_stream_pause(struct request *request, struct service *service)
{
    return read_change(request, service, true, read_nothing, pause_stream);
}

static enum MHD_Result resume_stream(struct request *request, struct service *service)
{
    bool waits = false;
    enum error error = api_request_outcome(request);
    audit_expect(request, "stream resumed", LOG_NO_FIELD);
    if (!error)
        error = stream_resume(request->api->stream, api_request_waiter(request), &waits);
    return handler_finish(request, service, error, waits, respond_stream);
}

enum MHD_Result route_stream_resume(struct request *request, struct service *service)
{
    return read_change(request, service, true, read_nothing, resume_stream);
}

static enum error read_position(struct request *request, struct body *body)
{
    int64_t *position = calloc(1, sizeof(*position));
    if (!position)
        return error_set_memory(sizeof(*position), "a position");
    request->api->work = position;
    request->api->release = api_request_free_work;
    enum error error = body_integer(body, "position", 0, INT64_MAX, 0, position);
    if (!error)
        error = body_finish(body);
    return error ? error : body_require(body, "position");
}

static enum MHD_Result seek(struct request *request, struct service *service)
{
    struct stream *stream = request->api->stream;
    const int64_t *position = request->api->work;
    bool waits = false;
    enum error error = api_request_outcome(request);
    audit_expect(request, "stream sought", LOG_NO_FIELD);
    if (!error) {
        live_notice(service->live, stream);
        error = stream_seek(stream, *position, api_request_waiter(request), &waits);
    }
    if (!error)
        live_notice(service->live, stream);
    return handler_finish(request, service, error, waits, respond_stream);
}

enum MHD_Result route_stream_seek(struct request *request, struct service *service)
{
    return read_change(request, service, false, read_position, seek);
}

struct checkpointing {
    char *token; /* owned */
    bool waits;
};

static void release_token(struct request *request)
{
    struct checkpointing *work = request->api->work;
    free(work->token);
    free(work);
}

static enum MHD_Result respond_token(struct request *request, struct service *service)
{
    const struct checkpointing *work = request->api->work;
    struct buffer response = BUFFER_INIT(TOKEN_LIMIT_BYTES);
    (void)service;
    enum error error = buffer_print(&response, "{\"token\":\"%s\"}\n", work->token);
    return response_json(request, error, MHD_HTTP_OK, &response, NULL);
}

static enum error write_token(struct request *request, const _Atomic bool *stop)
{
    struct checkpointing *work = request->api->work;
    (void)stop;
    return stream_checkpoint(request->api->stream, api_request_waiter(request), &work->token,
                             &work->waits);
}

static enum MHD_Result finish_token(struct request *request, struct service *service)
{
    const struct checkpointing *work = request->api->work;
    return handler_finish(request, service, api_request_outcome(request), work->waits,
                          respond_token);
}

static bool has_many_open(struct stream *stream)
{
    struct stream_status status;
    stream_status(stream, &status);
    return status.leased + status.waiting + status.gaps > STREAM_LEASES_AT_ONCE;
}

static enum MHD_Result checkpoint(struct request *request, struct service *service)
{
    enum error error = api_request_outcome(request);
    if (error)
        return response_error(request, error);
    struct checkpointing *work = calloc(1, sizeof(*work));
    if (!work)
        return response_error(request, error_set_memory(sizeof(*work), "a checkpoint token"));
    request->api->work = work;
    request->api->release = release_token;
    audit_expect(request, "stream checkpointed", LOG_NO_FIELD);
    if (has_many_open(request->api->stream))
        return handler_run_slowly(request, write_token, finish_token);
    api_request_settle(request, write_token(request, NULL));
    return finish_token(request, service);
}

enum MHD_Result route_stream_checkpoint(struct request *request, struct service *service)
{
    return read_change(request, service, true, read_nothing, checkpoint);
}

static enum error read_token(struct request *request, struct body *body)
{
    const char *token;
    enum error error = body_text(body, "token", NULL, &token);
    if (!error)
        error = body_finish(body);
    if (!error)
        error = body_require(body, "token");
    if (error)
        return error;
    request->api->work = strdup(token);
    request->api->release = api_request_free_work;
    return request->api->work ? OK : error_set_memory(strlen(token), "a token");
}

static enum MHD_Result restore(struct request *request, struct service *service)
{
    struct stream *stream = request->api->stream;
    bool waits = false;
    enum error error = api_request_outcome(request);
    audit_expect(request, "stream restored", LOG_NO_FIELD);
    if (!error) {
        live_notice(service->live, stream);
        error = stream_restore(stream, request->api->work, api_request_waiter(request), &waits);
    }
    if (!error)
        live_notice(service->live, stream);
    return handler_finish(request, service, error, waits, respond_stream);
}

enum MHD_Result route_stream_restore(struct request *request, struct service *service)
{
    return read_change(request, service, false, read_token, restore);
}

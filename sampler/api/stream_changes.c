/* SPDX-License-Identifier: MIT */
/* /streams and the operations on one stream; POST /streams is in stream_create.c. */
#include <stdlib.h>
#include <string.h>

#include "common/http/response.h"
#include "sampler/api/api_request.h"
#include "sampler/api/audit.h"
#include "sampler/api/handler.h"
#include "sampler/api/routes.h"
#include "sampler/api/stream_json.h"

#define BODY_LIMIT_BYTES ((size_t)1 << 30) /* --max-streams may be 1,000,000 */
#define TOKEN_LIMIT_BYTES (1 << 20)
#define TOKEN_AT_ONCE 4096 /* characters; more would block an HTTP thread for too long */

/* ---- GET ---------------------------------------------------------------- */

static void add_list(struct buffer *body, const char *before, struct stream **list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        buffer_add_text(body, i > 0 ? "," : before);
        stream_text_add(body, list[i]);
    }
    streams_put_all(list, count);
}

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
    add_list(body, "", list, count); /* `default` is in it */
    error = streams_list_aside(service->streams, &list, &count);
    if (error)
        return error;
    add_list(body, ",", list, count);
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

static enum error take_to_delete(struct request *request, const struct service *service)
{
    request->api->stream = streams_take_aside(service->streams, request->name);
    return request->api->stream ? OK : handler_take_stream(request, service, request->name);
}

enum MHD_Result route_stream_delete(struct request *request, struct service *service)
{
    bool waits = false;
    enum error error = handler_refuse_query(request);
    if (!error)
        error = take_to_delete(request, service);
    audit_expect(request, "stream deleted", LOG_NO_FIELD);
    if (!error)
        error = streams_delete(service->streams, request->api->stream, api_request_waiter(request),
                               &waits);
    return handler_finish(request, service, error, waits, respond_deleted);
}

/* ---- POST --------------------------------------------------------------- */

/* The stream is taken first: no body is read for one that does not exist. */
static enum MHD_Result read_change(struct request *request, struct service *service,
                                   bool may_be_empty, api_reader read, request_continuation then)
{
    enum error error = handler_take_stream(request, service, request->name);
    if (error)
        return response_error(request, error);
    return handler_read_body(request, service, may_be_empty, read, then);
}

/* For changes without fields. */
static enum error read_nothing(struct request *request, struct body *body)
{
    (void)request;
    return body_finish(body);
}

static enum MHD_Result set_paused(struct request *request, struct service *service, bool paused)
{
    bool waits = false;
    enum error error = api_request_outcome(request);
    audit_expect(request, paused ? "stream paused" : "stream resumed", LOG_NO_FIELD);
    if (!error)
        error = (paused ? stream_pause : stream_resume)(request->api->stream,
                                                        api_request_waiter(request), &waits);
    return handler_finish(request, service, error, waits, respond_stream);
}

static enum MHD_Result pause_stream(struct request *request, struct service *service)
{
    return set_paused(request, service, true);
}

enum MHD_Result route_stream_pause(struct request *request, struct service *service)
{
    return read_change(request, service, true, read_nothing, pause_stream);
}

static enum MHD_Result resume_stream(struct request *request, struct service *service)
{
    return set_paused(request, service, false);
}

enum MHD_Result route_stream_resume(struct request *request, struct service *service)
{
    return read_change(request, service, true, read_nothing, resume_stream);
}

/* ---- what may take long: seek, checkpoint, restore ---------------------- */

struct change {
    struct service *service; /* borrowed */
    int64_t position;        /* for a seek */
    char *token;             /* owned: of a checkpoint, or for a restore */
    bool waits;
};

static void release_change(struct request *request)
{
    struct change *change = request->api->work;
    free(change->token);
    free(change);
}

static enum error new_change(struct request *request)
{
    struct change *change = calloc(1, sizeof(*change));
    if (!change)
        return error_set_memory(sizeof(*change), "a change of a stream");
    request->api->work = change;
    request->api->release = release_change;
    return OK;
}

static enum MHD_Result finish_change(struct request *request, struct service *service)
{
    const struct change *change = request->api->work;
    return handler_finish(request, service, api_request_outcome(request), change->waits,
                          respond_stream);
}

/* In a thread pool if it would block an HTTP thread for too long. */
static enum MHD_Result make_change(struct request *request, struct service *service, api_task task,
                                   request_continuation finish, bool is_long)
{
    struct change *change = request->api->work;
    change->service = service;
    if (is_long || stream_has_much(request->api->stream))
        return handler_run_slowly(request, task, finish);
    api_request_settle(request, task(request, NULL));
    return finish(request, service);
}

static enum error read_position(struct request *request, struct body *body)
{
    enum error error = new_change(request);
    if (error)
        return error;
    struct change *change = request->api->work;
    error = body_integer(body, "position", 0, INT64_MAX, 0, &change->position);
    if (!error)
        error = body_finish(body);
    return error ? error : body_require(body, "position");
}

static enum error read_token(struct request *request, struct body *body)
{
    const char *token;
    enum error error = body_text(body, "token", NULL, &token);
    if (!error)
        error = body_finish(body);
    if (!error)
        error = body_require(body, "token");
    if (!error)
        error = new_change(request);
    if (error)
        return error;
    struct change *change = request->api->work;
    change->token = strdup(token);
    return change->token ? OK : error_set_memory(strlen(token), "a token");
}

/* To a token's position and gaps, if there is a token, else to a position. */
static enum error jump(struct request *request, const _Atomic bool *stop)
{
    struct change *change = request->api->work;
    struct stream *stream = request->api->stream;
    struct journal_waiter *waiter = api_request_waiter(request);
    (void)stop;
    live_notice(change->service->live, stream);
    enum error error = change->token
                           ? stream_restore(stream, change->token, waiter, &change->waits)
                           : stream_seek(stream, change->position, waiter, &change->waits);
    if (!error)
        live_notice(change->service->live, stream);
    return error;
}

static enum MHD_Result begin_jump(struct request *request, struct service *service)
{
    enum error error = api_request_outcome(request);
    if (error)
        return response_error(request, error);
    const struct change *change = request->api->work;
    audit_expect(request, change->token ? "stream restored" : "stream sought", LOG_NO_FIELD);
    return make_change(request, service, jump, finish_change,
                       change->token && strlen(change->token) > TOKEN_AT_ONCE);
}

enum MHD_Result route_stream_seek(struct request *request, struct service *service)
{
    return read_change(request, service, false, read_position, begin_jump);
}

enum MHD_Result route_stream_restore(struct request *request, struct service *service)
{
    return read_change(request, service, false, read_token, begin_jump);
}

static enum MHD_Result respond_token(struct request *request, struct service *service)
{
    const struct change *change = request->api->work;
    struct buffer response = BUFFER_INIT(TOKEN_LIMIT_BYTES);
    (void)service;
    enum error error = buffer_print(&response, "{\"token\":\"%s\"}\n", change->token);
    return response_json(request, error, MHD_HTTP_OK, &response, NULL);
}

static enum error write_token(struct request *request, const _Atomic bool *stop)
{
    struct change *change = request->api->work;
    (void)stop;
    return stream_checkpoint(request->api->stream, api_request_waiter(request), &change->token,
                             &change->waits);
}

static enum MHD_Result finish_token(struct request *request, struct service *service)
{
    const struct change *change = request->api->work;
    return handler_finish(request, service, api_request_outcome(request), change->waits,
                          respond_token);
}

static enum MHD_Result checkpoint(struct request *request, struct service *service)
{
    enum error error = api_request_outcome(request);
    if (!error)
        error = new_change(request);
    if (error)
        return response_error(request, error);
    audit_expect(request, "stream checkpointed", LOG_NO_FIELD);
    return make_change(request, service, write_token, finish_token, false);
}

enum MHD_Result route_stream_checkpoint(struct request *request, struct service *service)
{
    return read_change(request, service, true, read_nothing, checkpoint);
}

/* SPDX-License-Identifier: MIT */
/* /streams and what one stream can be asked for; POST /streams is in stream_create.c. */
#include <stdlib.h>

#include "common/http/response.h"
#include "sampler/api/api_request.h"
#include "sampler/api/audit.h"
#include "sampler/api/handler.h"
#include "sampler/api/routes.h"
#include "sampler/api/stream_json.h"

#define BODY_LIMIT_BYTES ((size_t)64 << 20)
#define TOKEN_LIMIT_BYTES (1 << 20)
#define STREAMS_AT_ONCE 100 /* more take longer than an HTTP thread should be kept */

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
                                streams_count(service->streams) > STREAMS_AT_ONCE);
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

/* The stream is taken and the body read; false: it was refused, *ret_result says how. */
static bool open_change(struct request *request, struct service *service, bool may_be_empty,
                        struct body *ret_body, enum MHD_Result *ret_result)
{
    enum error error = handler_take_stream(request, service, request->name);
    if (!error)
        return handler_open_body(request, may_be_empty, ret_body, ret_result);
    *ret_result = response_error(request, error);
    return false;
}

/* For those that take no field. */
static bool open_plain(struct request *request, struct service *service,
                       enum MHD_Result *ret_result)
{
    struct body body;
    if (!open_change(request, service, true, &body, ret_result))
        return false;
    enum error error = body_finish(&body);
    body_close(&body);
    if (error)
        *ret_result = response_error(request, error);
    return !error;
}

enum MHD_Result route_stream_pause(struct request *request, struct service *service)
{
    enum MHD_Result refusal;
    bool waits;
    if (!open_plain(request, service, &refusal))
        return refusal;
    audit_expect(request, "stream paused", LOG_NO_FIELD);
    enum error error = stream_pause(request->api->stream, api_request_waiter(request), &waits);
    return handler_finish(request, service, error, waits, respond_stream);
}

enum MHD_Result route_stream_resume(struct request *request, struct service *service)
{
    enum MHD_Result refusal;
    bool waits;
    if (!open_plain(request, service, &refusal))
        return refusal;
    audit_expect(request, "stream resumed", LOG_NO_FIELD);
    enum error error = stream_resume(request->api->stream, api_request_waiter(request), &waits);
    return handler_finish(request, service, error, waits, respond_stream);
}

enum MHD_Result route_stream_seek(struct request *request, struct service *service)
{
    struct body body;
    enum MHD_Result refusal;
    bool waits = false;
    int64_t position;
    if (!open_change(request, service, false, &body, &refusal))
        return refusal;
    enum error error = body_integer(&body, "position", 0, INT64_MAX, 0, &position);
    if (!error)
        error = body_finish(&body);
    if (!error)
        error = body_require(&body, "position");
    body_close(&body);
    audit_expect(request, "stream sought", LOG_NO_FIELD);
    if (!error)
        live_notice(service->live, request->api->stream);
    if (!error)
        error = stream_seek(request->api->stream, position, api_request_waiter(request), &waits);
    if (!error)
        live_notice(service->live, request->api->stream);
    return handler_finish(request, service, error, waits, respond_stream);
}

static enum MHD_Result respond_token(struct request *request, struct service *service)
{
    struct buffer response = BUFFER_INIT(TOKEN_LIMIT_BYTES);
    (void)service;
    enum error error = buffer_print(&response, "{\"token\":\"%s\"}\n", (char *)request->api->work);
    return response_json(request, error, MHD_HTTP_OK, &response, NULL);
}

static void release_token(struct request *request)
{
    free(request->api->work);
}

enum MHD_Result route_stream_checkpoint(struct request *request, struct service *service)
{
    enum MHD_Result refusal;
    char *token = NULL;
    bool waits;
    if (!open_plain(request, service, &refusal))
        return refusal;
    audit_expect(request, "stream checkpointed", LOG_NO_FIELD);
    enum error error =
        stream_checkpoint(request->api->stream, api_request_waiter(request), &token, &waits);
    request->api->work = token;
    request->api->release = release_token;
    return handler_finish(request, service, error, waits, respond_token);
}

enum MHD_Result route_stream_restore(struct request *request, struct service *service)
{
    struct body body;
    enum MHD_Result refusal;
    bool waits = false;
    const char *token;
    if (!open_change(request, service, false, &body, &refusal))
        return refusal;
    enum error error = body_text(&body, "token", NULL, &token);
    if (!error)
        error = body_finish(&body);
    if (!error)
        error = body_require(&body, "token");
    audit_expect(request, "stream restored", LOG_NO_FIELD);
    if (!error)
        live_notice(service->live, request->api->stream);
    if (!error)
        error = stream_restore(request->api->stream, token, api_request_waiter(request), &waits);
    if (!error)
        live_notice(service->live, request->api->stream);
    body_close(&body);
    return handler_finish(request, service, error, waits, respond_stream);
}

/* SPDX-License-Identifier: MIT */
#include "sampler/api/handler.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "common/http/response.h"
#include "common/http/server_state.h"
#include "common/text.h"
#include "sampler/api/audit.h"

#define BODY_AT_ONCE 16384 /* bytes; more would block an HTTP thread for too long */

enum error handler_refuse_query(const struct request *request)
{
    struct uri_query query;
    if (!request->query || !*request->query)
        return OK;
    enum error error = uri_query_init(&query, request->query);
    if (error)
        return error;
    error = uri_query_finish(&query);
    uri_query_release(&query);
    return error;
}

static enum error refuse_aside(const struct service *service, struct stream *stream)
{
    const struct stream_definition *definition = stream_definition(stream);
    const struct named_frame *named;
    enum error error = frame_set_get(service->frames, definition->frame, &named);
    if (error)
        error =
            error_prefix(ERROR_UNAVAILABLE,
                         "the stream \"%s\" stays as it is until the server is started with its "
                         "frame: ",
                         definition->name);
    stream_put(stream);
    return error;
}

enum error handler_take_stream(struct request *request, const struct service *service,
                               const char *name)
{
    char quoted[TEXT_QUOTE_BYTES];
    request->api->stream = streams_take(service->streams, name);
    bool is_being_made = !request->api->stream && reserved_names_has(service->names, name);
    if (!request->api->stream && !is_being_made) /* it may have been created in between */
        request->api->stream = streams_take(service->streams, name);
    api_request_count(request);
    if (request->api->stream)
        return OK;
    struct stream *aside = streams_take_aside(service->streams, name);
    if (aside)
        return refuse_aside(service, aside);
    if (is_being_made)
        return error_set(ERROR_UNAVAILABLE, "the stream %s is being made; ask again",
                         text_quote(quoted, sizeof(quoted), name, strlen(name)));
    return error_set(ERROR_NOT_FOUND, "there is no stream %s; GET /streams lists those that exist",
                     text_quote(quoted, sizeof(quoted), name, strlen(name)));
}

/* False: it was refused, *ret_result is the result. */
static bool check_body(struct request *request, enum MHD_Result *ret_result)
{
    const char *coding = request_header(request, MHD_HTTP_HEADER_CONTENT_ENCODING);
    enum error error = handler_refuse_query(request);
    if (error) {
        *ret_result = response_error(request, error);
        return false;
    }
    if (request->body.length > 0 && coding && strcasecmp(coding, "identity") != 0) {
        *ret_result = response_problem(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                                       "the body must be plain JSON, without Content-Encoding");
        return false;
    }
    if (request->body.length > 0 &&
        !body_type_is_right(request_header(request, MHD_HTTP_HEADER_CONTENT_TYPE))) {
        *ret_result = response_problem(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                                       "the body must be JSON: Content-Type: application/json");
        return false;
    }
    return true;
}

static enum error read_body(struct request *request, const _Atomic bool *stop)
{
    const struct buffer *bytes = &request->body;
    struct body body;
    (void)stop;
    enum error error = body_open(bytes->data ? bytes->data : "", bytes->length,
                                 request->api->body_may_be_empty, &body);
    if (error)
        return error;
    error = request->api->read(request, &body);
    body_close(&body);
    return error;
}

enum MHD_Result handler_read_body(struct request *request, struct service *service,
                                  bool may_be_empty, api_reader read, request_continuation then)
{
    enum MHD_Result refusal;
    if (!check_body(request, &refusal))
        return refusal;
    request->api->body_may_be_empty = may_be_empty;
    request->api->read = read;
    if (request->body.length > BODY_AT_ONCE)
        return handler_run_slowly(request, read_body, then);
    api_request_settle(request, read_body(request, NULL));
    return then(request, service);
}

enum error handler_read_name(struct body *body, const char *field, const char *fallback,
                             char ret_name[STREAM_NAME_BYTES])
{
    char quoted[TEXT_QUOTE_BYTES];
    const char *name;
    enum error error = body_text(body, field, fallback, &name);
    if (error)
        return error;
    if (!name)
        return body_require(body, field);
    if (!stream_name_is_valid(name))
        return error_set(ERROR_INPUT,
                         "\"%s\" is %s: a name is 1 to 64 characters of [A-Za-z0-9._-]", field,
                         text_quote(quoted, sizeof(quoted), name, strlen(name)));
    memcpy(ret_name, name, strlen(name) + 1);
    return OK;
}

/* ---- changes ------------------------------------------------------------ */

static enum MHD_Result respond_kept(struct request *request, struct service *service)
{
    request_continuation respond = request->api->then;
    if (request->api->waiter.error)
        return response_error(request, streams_failure(service->streams));
    if (request->api->outcome)
        return response_error(request, api_request_outcome(request));
    audit_done(request);
    return respond(request, service);
}

enum MHD_Result handler_finish(struct request *request, struct service *service, enum error error,
                               bool waits, request_continuation respond)
{
    if (!waits && error)
        return response_error(request, error);
    if (!waits) {
        audit_done(request);
        return respond(request, service);
    }
    request->api->then = respond;
    api_request_settle(request, error);
    request_wait(request, respond_kept);
    return MHD_YES;
}

enum error handler_wait_as_ack(struct request *request, const char *worker, enum error error,
                               bool *ret_wait)
{
    *ret_wait = false;
    if (error && error != ERROR_CONFLICT)
        return error;
    enum error failed =
        stream_ack(request->api->stream, worker, NULL, 0, api_request_waiter(request), ret_wait);
    return failed ? failed : error;
}

/* ---- thread pools ------------------------------------------------------- */

static void run_task(struct pool_job *job, const _Atomic bool *stop)
{
    struct request *request = (struct request *)((char *)job - offsetof(struct request, job));
    api_request_settle(request, *stop ? error_set(ERROR_UNAVAILABLE, "the server is stopping")
                                      : request->api->task(request, stop));
    request_resume(request);
}

static enum MHD_Result run_in(struct thread_pool *pool, struct request *request, api_task task,
                              request_continuation again)
{
    request->api->task = task;
    request->job.run = run_task;
    request_suspend(request, again);
    enum error error = thread_pool_add(pool, &request->job);
    if (!error)
        return MHD_YES;
    enum MHD_Result result = response_error(request, error);
    request_resume(request);
    return result;
}

enum MHD_Result handler_run_slowly(struct request *request, api_task task,
                                   request_continuation again)
{
    return run_in(request->thread->server->slow_pool, request, task, again);
}

enum MHD_Result handler_search(struct request *request, api_task task, request_continuation again)
{
    return run_in(request->thread->server->search_pool, request, task, again);
}

static enum MHD_Result respond_text(struct request *request, struct service *service)
{
    (void)service;
    return response_json(request, api_request_outcome(request), MHD_HTTP_OK, &request->body, NULL);
}

enum MHD_Result handler_respond_text(struct request *request, api_task task, bool is_long)
{
    if (is_long)
        return handler_run_slowly(request, task, respond_text);
    return response_json(request, task(request, NULL), MHD_HTTP_OK, &request->body, NULL);
}

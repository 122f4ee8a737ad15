/* SPDX-License-Identifier: MIT */
/* POST /ack, /extend and /release: a worker finishes, keeps or returns batches that it leases. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/http/response.h"
#include "common/text.h"
#include "sampler/api/api_request.h"
#include "sampler/api/audit.h"
#include "sampler/api/handler.h"
#include "sampler/api/routes.h"

#define BODY_LIMIT_BYTES ((size_t)32 << 20)

/* The parsed body, which lives as long as the request. */
struct lease_words {
    char stream[STREAM_NAME_BYTES];
    char worker[WORKER_NAME_BYTES];
    int64_t *seqs; /* owned */
    size_t count;
    int64_t number;            /* expires_ms or released, for the response */
    request_continuation then; /* once they are read */
    struct buffer response;    /* of work done in a thread pool; else empty until it is sent */
};

static void release_words(struct request *request)
{
    struct lease_words *words = request->api->work;
    free(words->seqs);
    buffer_release(&words->response);
    free(words);
}

static enum error read_worker(struct body *body, char ret_worker[WORKER_NAME_BYTES])
{
    const char *name;
    char quoted[TEXT_QUOTE_BYTES];
    enum error error = body_text(body, "worker", NULL, &name);
    if (error)
        return error;
    if (!name)
        return body_require(body, "worker");
    if (!worker_name_is_valid(name))
        return error_set(ERROR_INPUT,
                         "\"worker\" is %s: a name is 1 to 128 characters of [A-Za-z0-9._:-]",
                         text_quote(quoted, sizeof(quoted), name, strlen(name)));
    memcpy(ret_worker, name, strlen(name) + 1);
    return OK;
}

/* ---- the body ----------------------------------------------------------- */

static enum error read_release(struct request *request, struct body *body)
{
    struct lease_words *words = request->api->work;
    enum error error = handler_read_name(body, "stream", STREAM_DEFAULT, words->stream);
    if (!error)
        error = read_worker(body, words->worker);
    return error ? error : body_finish(body);
}

static enum error read_seqs(struct request *request, struct body *body)
{
    struct lease_words *words = request->api->work;
    enum error error = handler_read_name(body, "stream", STREAM_DEFAULT, words->stream);
    if (!error)
        error = read_worker(body, words->worker);
    if (!error)
        error = body_integers(body, "seqs", 0, SEQ_MOST, &words->seqs, &words->count);
    return error ? error : body_finish(body);
}

static enum MHD_Result take_stream(struct request *request, struct service *service)
{
    const struct lease_words *words = request->api->work;
    enum error error = api_request_outcome(request);
    if (!error && !request_may(request, SCOPE_DRAW, words->stream))
        return response_forbidden(request, SCOPE_DRAW, words->stream);
    if (!error)
        error = handler_take_stream(request, service, words->stream);
    return error ? response_error(request, error) : words->then(request, service);
}

/* Continues in `then` once the words are read and the stream is taken. */
static enum MHD_Result read_words(struct request *request, struct service *service, api_reader read,
                                  request_continuation then)
{
    struct lease_words *words = calloc(1, sizeof(*words));
    if (!words)
        return response_error(request, error_set_memory(sizeof(*words), "a request"));
    words->then = then;
    words->response = (struct buffer)BUFFER_INIT(BODY_LIMIT_BYTES);
    request->api->work = words;
    request->api->release = release_words;
    return handler_read_body(request, service, false, read, take_stream);
}

/* ---- the response ------------------------------------------------------- */

static void add_list(struct buffer *buffer, const int64_t *list, size_t count)
{
    if (buffer_reserve(buffer, count * (TEXT_INTEGER_BYTES + 1) + 1))
        return;
    char *out = buffer->data + buffer->length;
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            *out++ = ',';
        out = text_write_integer(out, list[i]);
    }
    *out = '\0';
    buffer->length = (size_t)(out - buffer->data);
}

static enum error write_acked(struct lease_words *words)
{
    buffer_add_text(&words->response, "{\"acked\":[");
    add_list(&words->response, words->seqs, words->count);
    return buffer_add_text(&words->response, "]}\n");
}

static enum error write_number(struct lease_words *words, const char *name)
{
    return buffer_print(&words->response, "{\"%s\":%" PRId64 "}\n", name, words->number);
}

static enum MHD_Result respond_written(struct request *request, struct service *service)
{
    struct lease_words *words = request->api->work;
    (void)service;
    return response_json(request, words->response.error, MHD_HTTP_OK, &words->response, NULL);
}

static enum MHD_Result finish_many(struct request *request, struct service *service)
{
    const struct lease_words *words = request->api->work;
    bool waits;
    enum error error =
        handler_wait_as_ack(request, words->worker, api_request_outcome(request), &waits);
    return handler_finish(request, service, error, waits, respond_written);
}

/* ---- POST /ack ---------------------------------------------------------- */

static enum error ack_many(struct request *request, const _Atomic bool *stop)
{
    struct lease_words *words = request->api->work;
    (void)stop;
    enum error error =
        stream_ack_many(request->api->stream, words->worker, words->seqs, words->count);
    return error ? error : write_acked(words);
}

static enum MHD_Result respond_acked(struct request *request, struct service *service)
{
    (void)write_acked(request->api->work);
    return respond_written(request, service);
}

static enum MHD_Result ack(struct request *request, struct service *service)
{
    const struct lease_words *words = request->api->work;
    bool waits;
    if (words->count > STREAM_LEASES_AT_ONCE)
        return handler_run_slowly(request, ack_many, finish_many);
    enum error error = stream_ack(request->api->stream, words->worker, words->seqs, words->count,
                                  api_request_waiter(request), &waits);
    return handler_finish(request, service, error, waits, respond_acked);
}

enum MHD_Result route_ack(struct request *request, struct service *service)
{
    return read_words(request, service, read_seqs, ack);
}

/* ---- POST /extend ------------------------------------------------------- */

static enum error extend_many(struct request *request, const _Atomic bool *stop)
{
    struct lease_words *words = request->api->work;
    (void)stop;
    enum error error =
        stream_extend_many(request->api->stream, words->worker, words->seqs, words->count);
    if (!error) /* nothing: it only determines the duration */
        error = stream_extend(request->api->stream, words->worker, NULL, 0, &words->number);
    return error ? error : write_number(words, "expires_ms");
}

static enum MHD_Result respond_extended(struct request *request, struct service *service)
{
    enum error error = api_request_outcome(request);
    return error ? response_error(request, error) : respond_written(request, service);
}

static enum MHD_Result extend(struct request *request, struct service *service)
{
    struct lease_words *words = request->api->work;
    if (words->count > STREAM_LEASES_AT_ONCE)
        return handler_run_slowly(request, extend_many, respond_extended);
    enum error error = stream_extend(request->api->stream, words->worker, words->seqs, words->count,
                                     &words->number);
    if (!error)
        error = write_number(words, "expires_ms");
    return error ? response_error(request, error) : respond_written(request, service);
}

enum MHD_Result route_extend(struct request *request, struct service *service)
{
    return read_words(request, service, read_seqs, extend);
}

/* ---- POST /release ------------------------------------------------------ */

static enum error release_many(struct request *request, const _Atomic bool *stop)
{
    struct lease_words *words = request->api->work;
    (void)stop;
    enum error error = stream_release_many(request->api->stream, words->worker, &words->number);
    return error ? error : write_number(words, "released");
}

static enum MHD_Result respond_released(struct request *request, struct service *service)
{
    (void)write_number(request->api->work, "released");
    return respond_written(request, service);
}

static enum MHD_Result release(struct request *request, struct service *service)
{
    struct lease_words *words = request->api->work;
    bool waits;
    if (stream_leased_by(request->api->stream, words->worker) > STREAM_LEASES_AT_ONCE) {
        audit_expect(request, "leases released", log_text("worker", words->worker));
        return handler_run_slowly(request, release_many, finish_many);
    }
    enum error error = stream_release(request->api->stream, words->worker,
                                      api_request_waiter(request), &words->number, &waits);
    if (!error && words->number > 0)
        audit_expect(request, "leases released", log_text("worker", words->worker));
    return handler_finish(request, service, error, waits, respond_released);
}

enum MHD_Result route_release(struct request *request, struct service *service)
{
    return read_words(request, service, read_release, release);
}

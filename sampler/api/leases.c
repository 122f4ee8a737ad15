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

/* What the body says; the worker's name and the list live as long as the request. */
struct lease_words {
    char worker[WORKER_NAME_BYTES];
    int64_t *seqs; /* owned */
    size_t count;
    int64_t number; /* expires_ms or released, for the response */
};

static void release_words(struct request *request)
{
    struct lease_words *words = request->api->work;
    free(words->seqs);
    free(words);
}

static enum error read_stream(struct body *body, char ret_name[STREAM_NAME_BYTES])
{
    const char *name;
    char quoted[TEXT_QUOTE_BYTES];
    enum error error = body_text(body, "stream", STREAM_DEFAULT, &name);
    if (error)
        return error;
    if (!stream_name_is_valid(name))
        return error_set(ERROR_INPUT,
                         "\"stream\" is %s: a name is 1 to 64 characters of [A-Za-z0-9._-]",
                         text_quote(quoted, sizeof(quoted), name, strlen(name)));
    memcpy(ret_name, name, strlen(name) + 1);
    return OK;
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

static enum error read_words(struct body *body, bool with_seqs, struct lease_words *words,
                             char ret_stream[STREAM_NAME_BYTES])
{
    enum error error = read_stream(body, ret_stream);
    if (!error)
        error = read_worker(body, words->worker);
    if (!error && with_seqs)
        error = body_integers(body, "seqs", 0, SEQ_MOST, &words->seqs, &words->count);
    return error ? error : body_finish(body);
}

/* NULL: the request was refused, *ret_result says how. */
static struct lease_words *open_words(struct request *request, struct service *service,
                                      bool with_seqs, enum MHD_Result *ret_result)
{
    struct body body;
    char stream[STREAM_NAME_BYTES];
    if (!handler_open_body(request, false, &body, ret_result))
        return NULL;
    struct lease_words *words = calloc(1, sizeof(*words));
    enum error error = words ? OK : error_set_memory(sizeof(*words), "a request");
    if (words) {
        request->api->work = words;
        request->api->release = release_words;
        error = read_words(&body, with_seqs, words, stream);
    }
    body_close(&body);
    if (!error && !request_may(request, SCOPE_DRAW, stream)) {
        *ret_result = response_forbidden(request, SCOPE_DRAW, stream);
        return NULL;
    }
    if (!error)
        error = handler_take_stream(request, service, stream);
    if (!error)
        return words;
    *ret_result = response_error(request, error);
    return NULL;
}

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

static enum MHD_Result respond_acked(struct request *request, struct service *service)
{
    const struct lease_words *words = request->api->work;
    struct buffer body = BUFFER_INIT(BODY_LIMIT_BYTES);
    (void)service;
    buffer_add_text(&body, "{\"acked\":[");
    add_list(&body, words->seqs, words->count);
    enum error error = buffer_add_text(&body, "]}\n");
    return response_json(request, error, MHD_HTTP_OK, &body, NULL);
}

enum MHD_Result route_ack(struct request *request, struct service *service)
{
    enum MHD_Result refusal;
    bool waits;
    struct lease_words *words = open_words(request, service, true, &refusal);
    if (!words)
        return refusal;
    enum error error = stream_ack(request->api->stream, words->worker, words->seqs, words->count,
                                  api_request_waiter(request), &waits);
    return handler_finish(request, service, error, waits, respond_acked);
}

static enum MHD_Result respond_number(struct request *request, const char *name)
{
    const struct lease_words *words = request->api->work;
    struct buffer body = BUFFER_INIT(BODY_LIMIT_BYTES);
    enum error error = buffer_print(&body, "{\"%s\":%" PRId64 "}\n", name, words->number);
    return response_json(request, error, MHD_HTTP_OK, &body, NULL);
}

enum MHD_Result route_extend(struct request *request, struct service *service)
{
    enum MHD_Result refusal;
    struct lease_words *words = open_words(request, service, true, &refusal);
    if (!words)
        return refusal;
    enum error error = stream_extend(request->api->stream, words->worker, words->seqs, words->count,
                                     &words->number);
    return !error ? respond_number(request, "expires_ms") : response_error(request, error);
}

static enum MHD_Result respond_released(struct request *request, struct service *service)
{
    (void)service;
    return respond_number(request, "released");
}

enum MHD_Result route_release(struct request *request, struct service *service)
{
    enum MHD_Result refusal;
    bool waits;
    struct lease_words *words = open_words(request, service, false, &refusal);
    if (!words)
        return refusal;
    enum error error = stream_release(request->api->stream, words->worker,
                                      api_request_waiter(request), &words->number, &waits);
    if (!error && words->number > 0)
        audit_expect(request, "leases released", log_text("worker", words->worker));
    return handler_finish(request, service, error, waits, respond_released);
}

/*
 * GET /batch. A draw that waits for the disk suspends its connection before it is drawn, because
 * the committer may resume it at once; its answer is formatted while the disk works.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sampler/answer.h"
#include "sampler/reply.h"
#include "sampler/routes.h"
#include "sampler/unit_sort.h"

#define INTEGER_TEXT_BYTES 24

static enum error parse(struct request *request, const struct service *service)
{
    struct worker_memo *memo = &request->worker->memo;
    enum error error = batch_request_parse(request->query, service->max_size, &request->batch);
    if (error != OK)
        return error;
    request->batch_parsed = true;
    const char *query = request->query ? request->query : "";
    int length = snprintf(memo->target, sizeof(memo->target), "/batch%s%s",
                          request->query ? "?" : "", query);
    if (length < 0 || (size_t)length >= sizeof(memo->target))
        memo->target[0] = '\0';
    else
        memo->batch = request->batch;
    return OK;
}

static enum answer_format choose_format(const struct request *request)
{
    const char *accept;
    size_t length;
    if (request->batch.format_given)
        return request->batch.format;
    if (MHD_lookup_connection_value_n(request->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT,
                                      strlen(MHD_HTTP_HEADER_ACCEPT), &accept, &length) != MHD_YES)
        return ANSWER_JSON;
    return answer_format_of_accept(accept, length);
}

static struct answer answer_of(const struct request *request, const struct service *service,
                               int64_t size)
{
    const struct worker *worker = request->worker;
    return (struct answer){
        .stream = request->batch.stream,
        .epoch = request->span.first / order_epoch_positions(service->order),
        .first = request->span.first,
        .size = (size_t)size,
        .ids = worker->ids,
        .labels = worker->labels,
    };
}

/* Takes all the memory that an answer of at most `size` units can need: once a draw has moved the
 * stream, nothing may fail any more. */
static enum error prepare(struct request *request, const struct service *service, int64_t size)
{
    struct answer answer = answer_of(request, service, size);
    enum error error = worker_reserve(request->worker, (size_t)size);
    if (error != OK)
        return error;
    size_t bytes = answer_bound_bytes(&service->label_texts, &answer, request->format);
    request->output = worker_output_take(request->worker, bytes);
    return request->output ? OK : ERROR_MEMORY;
}

/* The units of request->span into request->output. */
static void format(struct request *request, const struct service *service)
{
    struct worker *worker = request->worker;
    struct answer answer = answer_of(request, service, request->span.size);
    order_units(service->order, answer.first, answer.size, worker->ids, worker->labels);
    if (request->batch.sort)
        unit_sort(worker->ids, worker->labels, answer.size, worker->scratch_ids,
                  worker->scratch_labels);
    request->output_bytes =
        answer_write(&service->label_texts, &answer, request->format, request->output->bytes);
}

static enum MHD_Result reply(struct request *request, const struct service *service)
{
    const char *content_type = answer_content_type(request->format);
    if (request->format == ANSWER_JSON)
        return reply_output(request, content_type, NULL, 0);
    int64_t epoch = request->span.first / order_epoch_positions(service->order);
    char texts[3][INTEGER_TEXT_BYTES];
    snprintf(texts[0], INTEGER_TEXT_BYTES, "%" PRId64, epoch);
    snprintf(texts[1], INTEGER_TEXT_BYTES, "%" PRId64, request->span.first);
    snprintf(texts[2], INTEGER_TEXT_BYTES, "%" PRId64, request->span.size);
    const struct reply_header headers[] = {
        {"Tombola-Stream", request->batch.stream},
        {"Tombola-Epoch", texts[0]},
        {"Tombola-First", texts[1]},
        {"Tombola-Size", texts[2]},
    };
    return reply_output(request, content_type, headers, sizeof(headers) / sizeof(headers[0]));
}

static enum MHD_Result reply_span(struct request *request, const struct service *service)
{
    if (request->span.size == 0)
        return reply_empty(request, MHD_HTTP_NO_CONTENT);
    format(request, service);
    return reply(request, service);
}

static void resume(struct stream_waiter *waiter)
{
    struct request *request = (struct request *)((char *)waiter - offsetof(struct request, waiter));
    MHD_resume_connection(request->connection);
}

/* The request comes again when its draw is kept, or was taken back. */
static enum MHD_Result reply_kept(struct request *request, const struct service *service,
                                  struct stream *stream)
{
    if (request->waiter.error != OK)
        return reply_error(request, stream_failure(stream));
    if (request->span.size == 0)
        return reply_empty(request, MHD_HTTP_NO_CONTENT);
    return reply(request, service);
}

static enum MHD_Result draw_and_wait(struct request *request, const struct service *service,
                                     struct stream *stream)
{
    bool waits;
    request->drawn = true;
    request->waiter.ready = resume;
    MHD_suspend_connection(request->connection);
    enum error error =
        stream_draw(stream, request->batch.size, &request->waiter, &request->span, &waits);
    if (error == OK && waits) {
        if (request->span.size > 0)
            format(request, service);
        return MHD_YES;
    }
    enum MHD_Result result =
        error == OK ? reply_span(request, service) : reply_error(request, error);
    MHD_resume_connection(request->connection);
    return result;
}

static enum MHD_Result draw(struct request *request, const struct service *service,
                            struct stream *stream)
{
    bool waits;
    const struct cut *cut = stream_cut(stream);
    int64_t most = request->batch.size;
    if (cut->tail != TAIL_SPAN && most > cut->epoch_positions)
        most = cut->epoch_positions;
    enum error error = prepare(request, service, most);
    if (error != OK)
        return reply_error(request, error);
    if (stream_waits(stream))
        return draw_and_wait(request, service, stream);
    error = stream_draw(stream, request->batch.size, NULL, &request->span, &waits);
    return error == OK ? reply_span(request, service) : reply_error(request, error);
}

static enum MHD_Result reply_pure(struct request *request, const struct service *service,
                                  struct stream *stream)
{
    const struct batch_request *batch = &request->batch;
    enum error error = OK;
    if (batch->index < 0)
        error = stream_peek(stream, batch->size, &request->span);
    else
        cut_at(stream_cut(stream), batch->index, batch->size, &request->span);
    if (error == OK)
        error = prepare(request, service, request->span.size);
    return error == OK ? reply_span(request, service) : reply_error(request, error);
}

enum MHD_Result route_batch(struct request *request, struct service *service)
{
    enum error error = request->batch_parsed ? OK : parse(request, service);
    if (error != OK)
        return reply_error(request, error);
    struct stream *stream = service_stream(service, request->batch.stream);
    if (!stream) {
        char detail[2 * STREAM_NAME_BYTES + 64];
        snprintf(detail, sizeof(detail), "stream=%s: there is no such stream; \"default\" exists",
                 request->batch.stream);
        return reply_problem(request, MHD_HTTP_NOT_FOUND, detail);
    }
    if (request->drawn)
        return reply_kept(request, service, stream);
    error = cut_check_size(stream_cut(stream), request->batch.size);
    if (error != OK)
        return reply_error(request, error);
    request->format = choose_format(request);
    if (request->head || request->batch.index >= 0)
        return reply_pure(request, service, stream);
    return draw(request, service, stream);
}

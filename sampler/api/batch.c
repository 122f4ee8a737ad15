/* SPDX-License-Identifier: MIT */
/*
 * GET /batch. After a draw the connection is suspended until the disk has it; its response is
 * formatted meanwhile. A thread pool acks very many leases before a draw, and searches for an
 * `index=` if the order skips positions.
 */
#include <inttypes.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/http/response.h"
#include "sampler/api/api_thread.h"
#include "sampler/api/handler.h"
#include "sampler/api/routes.h"
#include "sampler/batch/batch_format.h"
#include "sampler/batch/unit_sort.h"
#include "sampler/ledger/conflicts.h"

#define INTEGER_TEXT_BYTES 24
#define DRAW_TRIES 100
#define SEARCH_MS 5000 /* of a thread for which others wait */

/* ---- the question ------------------------------------------------------- */

/* Clients repeat the same query, but never with the same seq; and named readers request each index
 * once. */
static void remember(struct request *request)
{
    if (request->api->batch.leased || request->api->batch.named)
        return;
    request->thread->api->batch = request->api->batch;
    request_remember(request);
}

static enum error parse(struct request *request, const struct service *service)
{
    enum error error = batch_request_parse(request->query, service->max_size, &request->api->batch,
                                           &request->api->lease);
    if (error)
        return error;
    remember(request);
    return OK;
}

static enum batch_format choose_format(const struct request *request)
{
    char accepted[REQUEST_LIST_BYTES];
    if (request->api->batch.format_given)
        return request->api->batch.format;
    size_t length = request_header_list(request, MHD_HTTP_HEADER_ACCEPT, accepted);
    return batch_format_of_accept(accepted, length);
}

/* Several batches together must not be larger than the largest single one. */
static enum error check_batches(const struct request *request, const struct service *service)
{
    const struct batch_request *batch = &request->api->batch;
    if (batch->batches > 0 && request->api->format == BATCH_FORMAT_CSV)
        return error_set(ERROR_USAGE,
                         "batches=%" PRId64 ": csv has no place for whose rows are "
                         "whose; json and binary have",
                         batch->batches);
    if (batch->batches * batch->size > service->max_size)
        return error_set(ERROR_USAGE,
                         "batches=%" PRId64 " of size=%" PRId64 " are more than the %" PRId64
                         " units that --max-size lets one answer hold",
                         batch->batches, batch->size, service->max_size);
    return OK;
}

/* A design with one batch size uses that if none was given. */
static enum error choose_size(struct request *request, const struct service *service,
                              const struct sampling_plan *plan)
{
    int64_t only = order_batch_size(plan->order);
    if (service_check_batch(service, plan)) /* from a start with a higher limit */
        return error_set_kind(ERROR_CONFLICT, PROBLEM_BATCH_TOO_LARGE);
    if (only > 0 && !request->api->batch.size_given)
        request->api->batch.size = only;
    if (request->api->batch.weights && request->api->format == BATCH_FORMAT_BINARY)
        return error_set(ERROR_USAGE, "weights=1: the binary format has no place for weights; json "
                                      "and csv have");
    enum error error = check_batches(request, service);
    return error ? error : batching_check_size(&plan->batching, request->api->batch.size);
}

static struct ledger_pull pull_of(const struct request *request, int64_t room)
{
    const struct batch_lease *lease = &request->api->lease;
    bool leased = request->api->batch.leased;
    return (struct ledger_pull){
        .size = request->api->batch.size,
        .worker = leased ? lease->worker : NULL,
        .seq = leased ? lease->seq : 0,
        .acks = leased ? lease->acks : NULL,
        .ack_count = leased ? lease->ack_count : 0,
        .room = room,
    };
}

/* ---- the response's bytes ----------------------------------------------- */

/* For batch number `number` of the response. */
static struct batch_response response_of(const struct request *request,
                                         const struct stream_batch *drawn, size_t number,
                                         int64_t units)
{
    const struct api_thread *thread = request->thread->api;
    const struct sampling_plan *plan = stream_plan(request->api->stream);
    bool leased = request->api->batch.leased;
    return (struct batch_response){
        .stream = request->api->batch.stream,
        .epoch = drawn->span.first / plan->batching.epoch_positions,
        .first = drawn->span.first,
        .positions = drawn->span.positions,
        .tells_span = order_tells_span(plan->order),
        .size = (size_t)units,
        .ids = thread->ids,
        .labels = thread->labels,
        .probabilities = request->api->batch.weights ? thread->probabilities : NULL,
        .worker = leased ? request->api->lease.worker : NULL,
        .seq = leased ? request->api->lease.seq + (int64_t)number : 0,
        .expires_ms = drawn->expires_ms > 0 ? drawn->expires_ms : 0,
        .attempt = drawn->attempt,
        .redelivered = drawn->redelivered,
        .listed = request->api->batch.batches > 0,
    };
}

/* Reserves all memory that a response of `batches` of at most `units` can need: once a draw has
 * moved the stream, nothing may fail any more. */
static enum error prepare(struct request *request, int64_t units, size_t batches)
{
    struct api_thread *thread = request->thread->api;
    enum error error = api_thread_reserve(thread, (size_t)units, request->api->batch.weights);
    if (error)
        return error;
    struct batch_response response = response_of(request, &request->api->drawn, 0, units);
    size_t bytes = batch_format_bound_bytes(stream_plan(request->api->stream)->label_texts,
                                            &response, request->api->format);
    http_thread_output_put(request->output);
    request->output =
        http_thread_output_take(request->thread, batches * (bytes + BATCH_LIST_BYTES));
    return request->output ? OK : ERROR_MEMORY;
}

static void weigh(struct request *request, const struct sampling_plan *plan, size_t units)
{
    struct api_thread *thread = request->thread->api;
    if (request->api->batch.sort) {
        for (size_t i = 0; i < units; i++)
            thread->rows[i] = frame_find(plan->frame, thread->ids[i]);
    }
    order_probabilities(plan->order, thread->rows, units, thread->probabilities);
}

/* Writes the units of one batch to `out`, a binary batch in its final place; returns the length. */
static size_t format_one(struct request *request, const struct stream_batch *drawn, size_t number,
                         char *out)
{
    struct api_thread *thread = request->thread->api;
    const struct sampling_plan *plan = stream_plan(request->api->stream);
    const struct span *span = &drawn->span;
    int64_t *rows = request->api->batch.weights ? thread->rows : NULL;
    int64_t *ids = thread->ids;
    uint32_t *labels = thread->labels;
    if (request->api->format == BATCH_FORMAT_BINARY && span->positions == span->units) {
        ids = (void *)(out + sampler_batch_ids_at(request->api->batch.batches > 0));
        labels = (uint32_t *)(ids + span->units);
    }
    size_t units = order_units(plan->order, span->first, span->positions, ids, labels, rows);
    if (request->api->batch.sort)
        unit_sort(ids, labels, units, thread->scratch_ids, thread->scratch_labels);
    if (request->api->batch.weights)
        weigh(request, plan, units);
    struct batch_response response = response_of(request, drawn, number, (int64_t)units);
    response.ids = ids;
    response.labels = labels;
    request->api->drawn_units += units;
    return batch_format_write(plan->label_texts, &response, request->api->format, out);
}

static size_t format_list(struct request *request, const struct stream_batch drawn[], size_t count)
{
    enum batch_format format = request->api->format;
    char *start = request->output->bytes, *out = start;
    for (size_t i = 0; i < count; i++) {
        out += batch_list_begin(i, format, out);
        out += format_one(request, &drawn[i], i, out);
    }
    return (size_t)(out + batch_list_end(format, out) - start);
}

/* Formats the batches drawn into request->output. */
static void format(struct request *request, const struct stream_batch drawn[], size_t count)
{
    request->api->drawn_units = 0;
    request->output_bytes = request->api->batch.batches > 0
                                ? format_list(request, drawn, count)
                                : format_one(request, drawn, 0, request->output->bytes);
    request->output = http_thread_output_trim(request->output, request->output_bytes);
}

/* csv and binary have no place for the facts: these go into headers. */
struct fact_headers {
    struct response_header headers[11];
    size_t count;
    char texts[8][INTEGER_TEXT_BYTES];
    size_t text_count;
};

static void add_fact(struct fact_headers *facts, const char *name, const char *value)
{
    facts->headers[facts->count++] = (struct response_header){name, value};
}

static void add_number(struct fact_headers *facts, const char *name, int64_t value)
{
    char *text = facts->texts[facts->text_count++];
    snprintf(text, INTEGER_TEXT_BYTES, "%" PRId64, value);
    add_fact(facts, name, text);
}

/* Several batches share no more than their stream and its order. */
static void list_facts(const struct request *request, struct fact_headers *facts)
{
    const struct stream_batch *drawn = &request->api->drawn;
    struct batch_response response = response_of(request, drawn, 0, drawn->span.units);
    add_fact(facts, "Tombola-Stream", response.stream);
    add_fact(facts, "Tombola-Order", order_name(stream_plan(request->api->stream)->order));
    if (request->api->batch.batches > 0)
        return;
    add_number(facts, "Tombola-Epoch", response.epoch);
    add_number(facts, "Tombola-First", response.first);
    add_number(facts, "Tombola-Size", (int64_t)response.size);
    if (response.tells_span)
        add_number(facts, "Tombola-Span", response.positions);
    if (response.worker) {
        add_fact(facts, "Tombola-Worker", response.worker);
        add_number(facts, "Tombola-Seq", response.seq);
        add_number(facts, "Tombola-Expires-Ms", response.expires_ms);
    }
    if (response.attempt > 0)
        add_number(facts, "Tombola-Attempt", response.attempt);
    if (response.redelivered)
        add_fact(facts, "Tombola-Redelivered", "true");
}

static enum MHD_Result respond(struct request *request)
{
    const char *content_type = batch_format_content_type(request->api->format);
    struct fact_headers facts;
    request->items = request->api->drawn_units;
    if (request->api->format == BATCH_FORMAT_JSON)
        return response_output(request, content_type, NULL, 0);
    facts.count = 0;
    facts.text_count = 0;
    list_facts(request, &facts);
    return response_output(request, content_type, facts.headers, facts.count);
}

static enum MHD_Result respond_outcome(struct request *request, enum error error)
{
    if (error == ERROR_END || (!error && request->api->drawn.span.units == 0))
        return response_empty(request, MHD_HTTP_NO_CONTENT);
    return !error ? respond(request) : response_error(request, error);
}

/* ---- draws -------------------------------------------------------------- */

/* The draw is durable, or was undone. */
static enum MHD_Result respond_kept(struct request *request, struct service *service)
{
    if (request->api->waiter.error)
        return response_error(request, streams_failure(service->streams));
    return respond_outcome(request, api_request_outcome(request));
}

/* The response is sent when the disk has what it reports. */
static enum MHD_Result wait_for_disk(struct request *request, enum error error)
{
    api_request_settle(request, error);
    request_wait(request, respond_kept);
    return MHD_YES;
}

/* Draws as many as requested, into the thread's array; a larger expired batch comes alone. */
static enum error draw_some(struct request *request, const struct ledger_pull *pull,
                            bool *ret_waits)
{
    struct stream_batch *drawn = request->thread->api->drawn;
    int64_t most = request->api->batch.batches;
    bool alone = most < 1 || pull->room > request->api->batch.size;
    enum error error = stream_draw_several(request->api->stream, pull, alone ? 1 : (size_t)most,
                                           api_request_waiter(request), drawn,
                                           &request->api->drawn_count, ret_waits);
    request->api->drawn = drawn[0];
    return error;
}

/* An expired batch may be larger than `size`; once there is room for it, the next draw may get
 * another one. */
static enum MHD_Result draw(struct request *request, int64_t room, bool acked)
{
    bool waits = false;
    size_t batches = request->api->batch.batches > 0 ? (size_t)request->api->batch.batches : 1;
    enum error error = prepare(request, room, batches);
    for (int tries = 0; !error && tries < DRAW_TRIES; tries++) {
        struct ledger_pull pull = pull_of(request, room);
        pull.has_acked = acked && pull.ack_count > 0;
        if (acked)
            pull.ack_count = 0;
        error = draw_some(request, &pull, &waits);
        if (waits || error || request->api->drawn.need == 0)
            break;
        acked = true; /* acks stay applied */
        room = request->api->drawn.need;
        error = prepare(request, room, 1);
    }
    if (!error && request->api->drawn_count > 0)
        format(request, request->thread->api->drawn, request->api->drawn_count);
    if (waits)
        return wait_for_disk(request, error);
    if (!error && request->api->drawn.need > 0)
        return response_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                                "others took the expired batches; ask again");
    return respond_outcome(request, error);
}

/* No new batch is larger. */
static int64_t most_units(const struct request *request)
{
    const struct batching *batching = &stream_plan(request->api->stream)->batching;
    int64_t size = request->api->batch.size;
    return batching->tail != TAIL_SPAN && size > batching->epoch_positions
               ? batching->epoch_positions
               : size;
}

static enum MHD_Result refuse(struct request *request, enum error error)
{
    bool waits;
    error = handler_wait_as_ack(request, request->api->lease.worker, error, &waits);
    return waits ? wait_for_disk(request, error) : response_error(request, error);
}

static enum MHD_Result draw_acked(struct request *request, struct service *service)
{
    enum error error = api_request_outcome(request);
    (void)service;
    return error ? refuse(request, error) : draw(request, most_units(request), true);
}

static enum error ack_many(struct request *request, const _Atomic bool *stop)
{
    const struct batch_lease *lease = &request->api->lease;
    (void)stop;
    return stream_ack_many(request->api->stream, lease->worker, lease->acks, lease->ack_count);
}

/* Acks very many leases first, piece by piece. */
static enum MHD_Result ack_and_draw(struct request *request)
{
    if (!request->api->batch.leased || request->api->lease.ack_count <= STREAM_LEASES_AT_ONCE)
        return draw(request, most_units(request), false);
    struct ledger_pull pull = pull_of(request, 0);
    enum error error = stream_check_pair(request->api->stream, &pull);
    return error ? refuse(request, error) : handler_run_slowly(request, ack_many, draw_acked);
}

/* ---- what moves nothing ------------------------------------------------- */

/* A page of another site changes nothing, not even statistics. */
static void note_reader(struct request *request)
{
    const struct batch_request *batch = &request->api->batch;
    if (!batch->named || request->head || request->cross_site)
        return;
    readers_note(stream_readers(request->api->stream), request->api->lease.worker, batch->index,
                 &request->api->drawn.span, request->started_ns);
}

static enum MHD_Result respond_pure(struct request *request, enum error error)
{
    if (!error && request->api->drawn.span.units > 0)
        error = prepare(request, request->api->drawn.span.units, 1);
    if (!error && request->api->drawn.span.units > 0) {
        format(request, &request->api->drawn, 1);
        note_reader(request);
    }
    return respond_outcome(request, error);
}

static enum MHD_Result peek(struct request *request)
{
    struct ledger_pull pull = pull_of(request, INT64_MAX);
    return respond_pure(request, stream_peek(request->api->stream, &pull, &request->api->drawn));
}

static enum error find_batch(struct request *request)
{
    const struct batching *batching = &stream_plan(request->api->stream)->batching;
    request->api->drawn.expires_ms = -1;
    return batching_at(batching, request->api->batch.index, request->api->batch.size,
                       &request->api->drawn.span);
}

static enum MHD_Result respond_found(struct request *request, struct service *service)
{
    (void)service;
    return respond_pure(request, api_request_outcome(request));
}

/* Each call counts some more epochs, and caches the counts: until it is complete, the server shuts
 * down, the client is gone, or others have waited long enough for this thread. */
static enum error search(struct request *request, const _Atomic bool *stop)
{
    int64_t deadline_ns = clock_deadline_ns(SEARCH_MS);
    enum error error;
    do
        error = find_batch(request);
    while (error == ERROR_UNAVAILABLE && !*stop && !request_is_abandoned(request) &&
           clock_left_ms(deadline_ns) > 0);
    return error;
}

static enum MHD_Result find(struct request *request)
{
    const struct sampling_plan *plan = stream_plan(request->api->stream);
    if (!order_skips_positions(plan->order))
        return respond_pure(request, find_batch(request));
    return handler_run_slowly(request, search, respond_found);
}

/* ---- the handler -------------------------------------------------------- */

/* HEAD needs the same scope as GET. */
static bool is_let(const struct request *request, bool pure)
{
    const char *stream = request->api->batch.stream;
    return request_may(request, SCOPE_DRAW, stream) ||
           (pure && request_may(request, SCOPE_READ, stream));
}

enum MHD_Result route_batch(struct request *request, struct service *service)
{
    enum error error = OK;
    if (request->recalled)
        request->api->batch = request->thread->api->batch;
    else
        error = parse(request, service);
    bool pure = request->api->batch.index >= 0;
    if (!request_may(request, SCOPE_DRAW | SCOPE_READ, NULL))
        return response_forbidden(request, SCOPE_DRAW, NULL);
    if (error)
        return response_error(request, error);
    if (request->cross_site && !pure)
        return response_problem(request, MHD_HTTP_FORBIDDEN, RESPONSE_CROSS_SITE);
    if (!is_let(request, pure))
        return response_forbidden(request, pure ? SCOPE_READ : SCOPE_DRAW,
                                  request->api->batch.stream);
    error = handler_take_stream(request, service, request->api->batch.stream);
    if (error)
        return response_error(request, error);
    request->api->format = choose_format(request);
    error = choose_size(request, service, stream_plan(request->api->stream));
    if (error)
        return response_error(request, error);
    if (request->api->batch.index >= 0)
        return find(request);
    return request->head ? peek(request) : ack_and_draw(request);
}

/* SPDX-License-Identifier: MIT */
/*
 * GET /live.json, polled by the live page once a second: server, streams, and one of them in
 * detail. Only for the page: fields change with it. Lists at most LIVE_STREAMS streams and
 * LIVE_WORKERS workers, with their total number.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/http/response.h"
#include "common/http/server_state.h"
#include "common/json.h"
#include "common/uri.h"
#include "config.h"
#include "sampler/api/api_request.h"
#include "sampler/api/handler.h"
#include "sampler/api/live_json.h"
#include "sampler/api/routes.h"
#include "sampler/api/stream_json.h"

#define LIVE_LIMIT_BYTES ((size_t)64 << 20)
#define LIVE_STREAMS 100
#define LIVE_WORKERS 200
#define DENSITY_POSITIONS 4096
#define WORKERS_SEEN 4096 /* of which LIVE_WORKERS are chosen */

/* Units per position, near the last ones; 1 unless the design skips positions. */
static double density(const struct sampling_plan *plan, int64_t position)
{
    int64_t ids[DENSITY_POSITIONS];
    if (!order_skips_positions(plan->order))
        return 1;
    int64_t count = position < DENSITY_POSITIONS ? position : DENSITY_POSITIONS;
    if (count == 0)
        return 1;
    return (double)order_units(plan->order, position - count, count, ids, NULL, NULL) /
           (double)count;
}

/* ---- a stream in the list ----------------------------------------------- */

static void add_definition(const struct stream *stream, struct buffer *out)
{
    const struct stream_definition *definition = stream_definition(stream);
    const struct sampling_plan *plan = stream_plan(stream);
    const char *fields = order_fields(plan->order);
    buffer_print(out,
                 "{\"name\":\"%s\",\"frame\":\"%s\",\"design\":\"%s\",\"fields\":%s,"
                 "\"replacement\":%s,\"units\":%" PRId64 ",\"epochs\":%" PRId64
                 ",\"epoch_draws\":%" PRId64,
                 definition->name, definition->frame, definition->design, *fields ? fields : "null",
                 json_truth(definition->replacement), frame_units(plan->frame), definition->epochs,
                 plan->batching.epoch_positions);
}

static void add_status(const struct stream_status *status, struct buffer *out)
{
    buffer_print(out,
                 ",\"generation\":%" PRId64 ",\"position\":%" PRId64 ",\"epoch\":%" PRId64
                 ",\"leased\":%" PRId64 ",\"waiting\":%" PRId64 ",\"acked\":%" PRId64
                 ",\"redelivered\":%" PRId64 ",\"state\":\"%s\"",
                 status->generation, status->position, status->epoch, status->leased,
                 status->waiting, status->acked, status->redelivered,
                 stream_state_name(status->state));
}

static void add_left(const char *key, int64_t positions, double rate, struct buffer *out)
{
    if (rate <= 0 || positions < 0)
        buffer_print(out, ",\"%s\":null", key);
    else
        buffer_print(out, ",\"%s\":%.1f", key, (double)positions / rate);
}

/* Readers by index, with the position of the furthest. */
static void add_reading(struct stream *stream, const struct history_rates *rates,
                        struct buffer *out)
{
    const struct batching *batching = &stream_plan(stream)->batching;
    struct readers_progress readers;
    readers_progress(stream_readers(stream), &readers);
    if (readers.end == 0) {
        buffer_add_text(out, ",\"read\":null");
        return;
    }
    int64_t epoch = (readers.end - 1) / batching->epoch_positions;
    buffer_print(out,
                 ",\"read\":{\"position\":%" PRId64 ",\"epoch\":%" PRId64 ",\"batches\":%" PRId64,
                 readers.end, epoch, readers.batches);
    add_left("epoch_left_s", (epoch + 1) * batching->epoch_positions - readers.end, rates->read_end,
             out);
    buffer_add_text(out, "}");
}

/* `units`: per position. */
static void add_rates(const struct batching *batching, const struct stream_status *status,
                      const struct history_rates *rates, double units, struct buffer *out)
{
    int64_t end = batching_end(batching);
    int64_t epoch_end = (status->epoch + 1) * batching->epoch_positions;
    buffer_print(out,
                 ",\"rate\":{\"seconds\":%.1f,\"ids\":%.6g,\"batches\":%.6g,\"acks\":%.6g,"
                 "\"redeliveries\":%.6g}",
                 rates->seconds, (rates->positions + rates->read) * units,
                 rates->batches + rates->reads, rates->acks, rates->redeliveries);
    if (rates->idle_seconds < 0)
        buffer_add_text(out, ",\"idle_s\":null");
    else
        buffer_print(out, ",\"idle_s\":%.1f", rates->idle_seconds);
    buffer_print(out, ",\"stalled\":%s",
                 json_truth(rates->stalled && status->state == STREAM_RUNNING));
    add_left("epoch_left_s", epoch_end - status->position + status->gaps, rates->positions, out);
    add_left("left_s", batching->epochs > 0 ? end - status->position + status->gaps : -1,
             rates->positions, out);
}

static void add_course(struct history *history, const char *name, int64_t generation, double units,
                       struct buffer *out)
{
    float values[HISTORY_SLOTS];
    size_t count = history_course(history, name, generation, values);
    buffer_print(out, ",\"history_s\":%d,\"history\":[", HISTORY_SLOT_SECONDS);
    for (size_t i = 0; i < count; i++) {
        double value = (double)values[i] * units;
        const char *comma = i > 0 ? "," : "";
        if (value < 99.5)
            buffer_print(out, "%s%.3g", comma, value);
        else
            buffer_print(out, "%s%" PRId64, comma, (int64_t)value);
    }
    buffer_add_text(out, "]}");
}

/* The time of day at which the stream ended, if this server has seen it end. */
static void add_ended(struct history *history, const char *name, const struct stream_status *status,
                      struct buffer *out)
{
    int64_t ended_ns = history_ended_ns(history, name, status->generation);
    if (status->state != STREAM_ENDED || ended_ns == 0)
        return;
    double ago = 1e-9 * (double)(clock_now_ns() - ended_ns);
    buffer_print(out, ",\"ended\":%.0f", clock_wall_seconds() - ago);
}

static void add_stream(struct stream *stream, struct live *live, struct buffer *out)
{
    struct stream_status status;
    struct history_rates rates;
    struct history *history = live_history(live);
    const char *name = stream_definition(stream)->name;
    const struct sampling_plan *plan = stream_plan(stream);
    stream_status(stream, &status);
    double units = density(plan, status.position);
    (void)history_rates(history, name, status.generation, &rates);
    add_definition(stream, out);
    add_status(&status, out);
    add_ended(history, name, &status, out);
    add_rates(&plan->batching, &status, &rates, units, out);
    add_reading(stream, &rates, out);
    add_course(history, name, status.generation, units, out);
}

/* ---- the chosen one ----------------------------------------------------- */

static void add_chosen_definition(const struct stream *stream, struct buffer *out)
{
    const struct stream_definition *definition = stream_definition(stream);
    const struct sampling_plan *plan = stream_plan(stream);
    buffer_print(out,
                 "{\"name\":\"%s\",\"digest\":\"%s\",\"seed\":\"%" PRIu64
                 "\",\"tail\":\"%s\",\"lease_s\":%.10g",
                 definition->name, plan->binding.digest, definition->seed,
                 tail_name(definition->tail), (double)definition->lease_ms * 1e-3);
    if (definition->rows_end > 0)
        buffer_print(out, ",\"rows\":\"%" PRId64 ":%" PRId64 "\"", definition->rows_begin,
                     definition->rows_end);
    if (definition->split != SPLIT_NONE)
        buffer_print(out, ",\"split\":\"%s\"", split_name(definition->split));
}

static void add_worker(const struct stream_worker *worker, bool first, struct buffer *out)
{
    buffer_print(out,
                 "%s{\"name\":\"%s\",\"leased\":%" PRId64 ",\"oldest_ms\":%" PRId64
                 ",\"acked\":%" PRId64 ",\"redelivered\":%" PRId64
                 ",\"batches_per_s\":%.4g,\"last_seen_ms\":%" PRId64 "}",
                 first ? "" : ",", worker->name, worker->leased, worker->oldest_age_ms,
                 worker->acked, worker->redelivered, worker->batches_per_s, worker->last_seen_ms);
}

/* Workers with the oldest lease first, then the most recently seen. */
static int compare_workers(const void *a, const void *b)
{
    const struct stream_worker *one = a;
    const struct stream_worker *other = b;
    if ((one->leased > 0) != (other->leased > 0))
        return one->leased > 0 ? -1 : 1;
    if (one->leased > 0 && one->oldest_age_ms != other->oldest_age_ms)
        return one->oldest_age_ms > other->oldest_age_ms ? -1 : 1;
    return (one->last_seen_ms > other->last_seen_ms) - (one->last_seen_ms < other->last_seen_ms);
}

static enum error add_workers(struct stream *stream, const struct stream_status *status,
                              struct buffer *out)
{
    size_t count;
    size_t known;
    size_t room = (size_t)(status->workers < WORKERS_SEEN ? status->workers : WORKERS_SEEN);
    struct stream_worker *workers = array_new(room, sizeof(*workers), "the workers");
    if (!workers)
        return ERROR_MEMORY;
    enum error error = stream_workers(stream, workers, room, &count, &known);
    if (!error && count > LIVE_WORKERS) {
        qsort(workers, count, sizeof(*workers), compare_workers);
        count = LIVE_WORKERS;
    }
    if (!error)
        buffer_print(out, ",\"workers\":{\"count\":%zu,\"rows\":[", known);
    for (size_t i = 0; !error && i < count; i++)
        add_worker(&workers[i], i == 0, out);
    free(workers);
    return error ? error : buffer_add_text(out, "]}");
}

static void add_reader(const struct reader *reader, int64_t now_ns, struct buffer *out)
{
    buffer_print(out,
                 "{\"name\":\"%s\",\"batches\":%" PRId64 ",\"ids_per_s\":%.4g,\"newest\":%" PRId64
                 ",\"position\":%" PRId64 ",\"last_seen_ms\":%" PRId64 "}",
                 reader->worker, reader->batches, reader_ids_per_s(reader, now_ns), reader->newest,
                 reader->end, reader_seen_ms(reader, now_ns));
}

/* The most recently seen. */
static enum error add_readers(struct stream *stream, struct buffer *out)
{
    struct reader *list;
    size_t count;
    enum error error = readers_list(stream_readers(stream), &list, &count);
    if (error)
        return error;
    int64_t now_ns = clock_now_ns();
    buffer_print(out, ",\"readers\":{\"count\":%zu,\"rows\":[", count);
    for (size_t i = 0; i < count && i < LIVE_WORKERS; i++) {
        buffer_add_text(out, i > 0 ? "," : "");
        add_reader(&list[i], now_ns, out);
    }
    free(list);
    return buffer_add_text(out, "]}");
}

static enum error add_chosen(struct stream *stream, struct live *live, struct buffer *out)
{
    struct stream_status status;
    stream_status(stream, &status);
    add_chosen_definition(stream, out);
    buffer_add_text(out, ",\"labels\":");
    enum error error = live_add_balance(live, stream, out);
    if (!error)
        error = add_workers(stream, &status, out);
    if (!error)
        error = add_readers(stream, out);
    return error ? error : buffer_add_text(out, "}");
}

/* ---- all of it ---------------------------------------------------------- */

/* The first LIVE_STREAMS, and the chosen one wherever it is. */
static void add_list(struct stream *const *streams, size_t count, size_t chosen, struct live *live,
                     struct buffer *out)
{
    bool first = true;
    buffer_print(out, "\"streams_count\":%zu,\"streams\":[", count);
    for (size_t i = 0; i < count; i++) {
        if (i >= LIVE_STREAMS && i != chosen)
            continue;
        buffer_add_text(out, first ? "" : ",");
        add_stream(streams[i], live, out);
        first = false;
    }
    buffer_add_text(out, "],\"chosen\":");
}

static size_t find(struct stream *const *streams, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(stream_definition(streams[i])->name, name) == 0)
            return i;
    }
    return 0;
}

enum error live_json_add(struct streams *streams, struct live *live, const char *chosen,
                         struct buffer *out)
{
    struct stream **list = NULL;
    size_t count = 0;
    enum error error = streams_list(streams, &list, &count);
    if (error)
        return error;
    size_t at = find(list, count, chosen);
    add_list(list, count, at, live, out);
    error = count > 0 ? add_chosen(list[at], live, out) : buffer_add_text(out, "null");
    streams_put_all(list, count);
    return error;
}

/* ---- the server --------------------------------------------------------- */

static const char *phase_name(enum server_phase phase)
{
    if (phase == SERVER_STARTING)
        return "starting";
    return phase == SERVER_READY ? "ready" : "stopping";
}

static const char *durability_name(enum durability durability)
{
    if (durability == DURABILITY_PROCESS)
        return "process";
    return durability == DURABILITY_NONE ? "none" : "fsync";
}

static void add_failure(struct streams *streams, struct buffer *out)
{
    if (!streams_failing(streams)) {
        buffer_add_text(out, "null");
        return;
    }
    (void)streams_failure(streams);
    json_add_string(out, error_message());
}

static void add_server(struct request *request, struct service *service, const char *chosen,
                       struct buffer *out)
{
    struct server *server = request->thread->server;
    buffer_print(out,
                 "{\"server\":{\"version\":\"%s\",\"started\":%" PRId64
                 ",\"now\":%.3f,\"phase\":\"%s\",\"durability\":",
                 PACKAGE_VERSION, server->started_seconds, clock_wall_seconds(),
                 phase_name(server_phase(server)));
    if (service && service->state)
        buffer_print(out, "\"%s\"", durability_name(service->durability));
    else
        buffer_add_text(out, "null");
    buffer_print(out, ",\"guarded\":%s,\"may_change\":%s",
                 json_truth(!(guard_anonymous(server->guard) & SCOPE_READ)),
                 json_truth(request_may(request, SCOPE_ADMIN, chosen)));
    if (service)
        buffer_print(out, ",\"max_size\":%" PRId64, service->max_size);
    buffer_add_text(out, ",\"failing\":");
    if (service)
        add_failure(service->streams, out);
    else
        buffer_add_text(out, "null");
    buffer_add_text(out, "},");
}

/* The page's request, while a thread pool answers it. */
struct question {
    struct service *service;
    char chosen[STREAM_NAME_BYTES];
};

static enum error add_all(struct request *request, struct service *service, const char *chosen,
                          struct buffer *out)
{
    add_server(request, service, chosen, out);
    enum error error =
        service ? live_json_add(service->streams, service->live, chosen, out)
                : buffer_add_text(out, "\"streams_count\":0,\"streams\":[],\"chosen\":null");
    return error ? error : buffer_add_text(out, "}\n");
}

static enum error write_live(struct request *request, const _Atomic bool *stop)
{
    const struct question *question = request->api->work;
    (void)stop;
    return add_all(request, question->service, question->chosen, &request->body);
}

/* Many streams or workers would block an HTTP thread for too long. */
static bool is_long(struct service *service, const char *chosen)
{
    struct stream_status status = {.workers = 0};
    struct stream *stream = service ? streams_take(service->streams, chosen) : NULL;
    if (stream)
        stream_status(stream, &status);
    stream_put(stream);
    return status.workers > LIVE_WORKERS ||
           (service && streams_count(service->streams) > LIVE_STREAMS);
}

static enum error read_question(struct request *request, struct service *service,
                                struct question *question)
{
    struct uri_query query;
    enum error error = uri_query_init(&query, request->query);
    if (error)
        return error;
    const char *chosen = uri_query_get(&query, "stream");
    snprintf(question->chosen, sizeof(question->chosen), "%s", chosen ? chosen : STREAM_DEFAULT);
    question->service = service;
    error = uri_query_finish(&query);
    uri_query_release(&query);
    return error;
}

enum MHD_Result route_live(struct request *request, struct service *service)
{
    struct question *question = calloc(1, sizeof(*question));
    if (!question)
        return response_error(request, error_set_memory(sizeof(*question), "a question"));
    request->api->work = question;
    request->api->release = api_request_free_work;
    enum error error = read_question(request, service, question);
    if (error)
        return response_error(request, error);
    request->body = (struct buffer)BUFFER_INIT(LIVE_LIMIT_BYTES);
    return handler_respond_text(request, write_live, is_long(service, question->chosen));
}

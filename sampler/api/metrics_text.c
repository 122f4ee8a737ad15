/* SPDX-License-Identifier: MIT */
/* GET /metrics, in Prometheus' text format. Streams' names need no escapes: [A-Za-z0-9._-]. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/http/metrics.h"
#include "common/http/response.h"
#include "common/http/server_state.h"
#include "config.h"
#include "sampler/api/api_request.h"
#include "sampler/api/handler.h"
#include "sampler/api/routes.h"

#define BODY_LIMIT_BYTES ((size_t)1 << 30) /* --max-streams may be 1,000,000 */

/* ---- requests ----------------------------------------------------------- */

static const char *const path_names[METRICS_PATHS] = {
    [PATH_ROOT] = "/",           [PATH_BATCH] = "/batch",
    [PATH_ACK] = "/ack",         [PATH_EXTEND] = "/extend",
    [PATH_RELEASE] = "/release", [PATH_WHERE] = "/where",
    [PATH_LABELS] = "/labels",   [PATH_FRAMES] = "/frames",
    [PATH_STREAMS] = "/streams", [PATH_STREAM] = "/streams/NAME",
    [PATH_HEALTHZ] = "/healthz", [PATH_READYZ] = "/readyz",
    [PATH_METRICS] = "/metrics", [PATH_OPENAPI] = "/openapi.json",
    [PATH_LIVE] = "/live",       [PATH_OTHER] = "other",
};

const struct metrics_words sampler_metrics = {
    .program = "tombola_sampler",
    .paths = path_names,
    .label = "stream",
    .items = "ids",
    .requests_help = "Requests answered, by path, stream (those that belong to one) and status.",
    .items_help = "Ids handed out, with those of index=.",
    .bytes_help = "Bytes of responses' bodies; without a stream: of what belongs to none.",
};

/* ---- streams ------------------------------------------------------------ */

/* The figures of each stream, read once. */
struct reading {
    const char *name;
    int64_t units;
    int64_t epoch_draws;
    int64_t paused;
    int64_t ended;
    int64_t failing;
    int64_t readers;
    struct stream_status status;
};

static const struct {
    const char *name;
    const char *type;
    const char *help;
    size_t offset; /* of an int64_t in struct reading */
} families[] = {
    {"tombola_sampler_position", "gauge", "The next position to be drawn.",
     offsetof(struct reading, status.position)},
    {"tombola_sampler_epoch", "gauge", "The epoch of that position.",
     offsetof(struct reading, status.epoch)},
    {"tombola_sampler_units", "gauge", "Units of the stream's frame.",
     offsetof(struct reading, units)},
    {"tombola_sampler_epoch_draws", "gauge", "Positions of one epoch.",
     offsetof(struct reading, epoch_draws)},
    {"tombola_sampler_batches_total", "counter",
     "Batches handed out with this state, redelivered ones each time.",
     offsetof(struct reading, status.batches)},
    {"tombola_sampler_acked_batches_total", "counter",
     "Batches that are done: acked, or drawn without a worker.",
     offsetof(struct reading, status.acked)},
    {"tombola_sampler_redelivered_batches_total", "counter", "Batches that were redelivered.",
     offsetof(struct reading, status.redelivered)},
    {"tombola_sampler_leased_batches", "gauge", "Batches that are leased now.",
     offsetof(struct reading, status.leased)},
    {"tombola_sampler_waiting_batches", "gauge",
     "Batches that expired or were released, to be redelivered first.",
     offsetof(struct reading, status.waiting)},
    {"tombola_sampler_gap_positions", "gauge",
     "Positions before the next one that are to be drawn first.",
     offsetof(struct reading, status.gaps)},
    {"tombola_sampler_workers", "gauge", "Workers that are known.",
     offsetof(struct reading, status.workers)},
    {"tombola_sampler_readers", "gauge", "Workers that read by index and are known.",
     offsetof(struct reading, readers)},
    {"tombola_sampler_paused", "gauge", "1 while the stream is paused.",
     offsetof(struct reading, paused)},
    {"tombola_sampler_ended", "gauge", "1 when the stream has ended.",
     offsetof(struct reading, ended)},
    {"tombola_sampler_state_failing", "gauge",
     "1 while the state cannot be written and changes are refused.",
     offsetof(struct reading, failing)},
};

static void read_stream(struct stream *stream, struct reading *reading)
{
    const struct sampling_plan *plan = stream_plan(stream);
    stream_status(stream, &reading->status);
    reading->name = stream_definition(stream)->name;
    reading->units = plan->binding.units;
    reading->epoch_draws = plan->batching.epoch_positions;
    reading->paused = reading->status.state == STREAM_PAUSED;
    reading->ended = reading->status.state == STREAM_ENDED;
    reading->failing = reading->status.failing;
    reading->readers = (int64_t)readers_count(stream_readers(stream));
}

static void add_families(struct buffer *body, const struct reading *readings, size_t count)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        metrics_add_head(body, families[i].name, families[i].type, families[i].help);
        for (size_t k = 0; k < count; k++) {
            const char *at = (const char *)&readings[k] + families[i].offset;
            buffer_print(body, "%s{stream=\"%s\"} %" PRId64 "\n", families[i].name,
                         readings[k].name, *(const int64_t *)(const void *)at);
        }
    }
}

static void add_leases(struct buffer *body, const struct reading *readings, size_t count)
{
    metrics_add_head(body, "tombola_sampler_lease_seconds", "gauge",
                     "How long a lease is at the moment.");
    for (size_t i = 0; i < count; i++)
        buffer_print(body, "tombola_sampler_lease_seconds{stream=\"%s\"} %.3f\n", readings[i].name,
                     (double)readings[i].status.lease_ms / 1000);
}

static enum error add_streams(struct buffer *body, struct stream **list, size_t count)
{
    struct reading *readings = array_new(count, sizeof(*readings), "the streams' counters");
    if (!readings)
        return ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        read_stream(list[i], &readings[i]);
    add_families(body, readings, count);
    add_leases(body, readings, count);
    free(readings);
    return body->error;
}

/* ---- the journal -------------------------------------------------------- */

static void add_sync_histogram(struct buffer *body, const struct journal_counts *counts)
{
    static const int bounds_us[JOURNAL_SYNC_BUCKETS - 1] = JOURNAL_SYNC_BOUNDS_US;
    const char *name = "tombola_sampler_commit_seconds";
    uint64_t sum = 0;
    metrics_add_head(body, name, "histogram",
                     "Time that a commit took to be on the disk (fdatasync).");
    for (int i = 0; i < JOURNAL_SYNC_BUCKETS; i++) {
        sum += counts->sync_buckets[i];
        if (i < JOURNAL_SYNC_BUCKETS - 1)
            buffer_print(body, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, bounds_us[i] * 1e-6,
                         sum);
    }
    buffer_print(body, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.9f\n%s_count %" PRIu64 "\n",
                 name, sum, name, counts->sync_seconds, name, sum);
}

struct value {
    const char *name, *type, *help;
    uint64_t value;
};

static void add_values(struct buffer *body, const struct value *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        metrics_add_value(body, values[i].name, values[i].type, values[i].help, "",
                          values[i].value);
}

static void add_journal(struct buffer *body, struct service *service)
{
    struct journal_counts counts;
    streams_journal_counts(service->streams, &counts);
    const struct value values[] = {
        {"tombola_sampler_commits_total", "counter", "Writes of the state with fdatasync().",
         counts.commits},
        {"tombola_sampler_commit_failures_total", "counter", "Writes that failed.",
         counts.failures},
        {"tombola_sampler_journal_entries_total", "counter", "Entries of the journal.",
         counts.entries},
        {"tombola_sampler_journal_bytes_total", "counter", "Bytes of these entries.", counts.bytes},
        {"tombola_sampler_journal_rewrites_total", "counter", "Compactions of the journal.",
         counts.rewrites},
        {"tombola_sampler_journal_file_bytes", "gauge", "Bytes of the journal in use.",
         counts.file_bytes},
    };
    add_sync_histogram(body, &counts);
    add_values(body, values, sizeof(values) / sizeof(values[0]));
}

/* ---- the server --------------------------------------------------------- */

/* Of requests: those that belong to no stream, and those of each. */
static enum error add_requests(struct buffer *body, struct server *server, struct stream **list,
                               size_t count)
{
    struct metrics sum;
    struct metrics_source *sources =
        array_new(count + 1, sizeof(*sources), "the streams' counters");
    if (!sources)
        return ERROR_MEMORY;
    http_threads_metrics(&server->threads, &sum);
    sources[0] = (struct metrics_source){.sum = &sum};
    for (size_t i = 0; i < count; i++)
        sources[i + 1] = (struct metrics_source){.label = stream_definition(list[i])->name,
                                                 .blocks = stream_metrics(list[i])};
    enum error error = metrics_add_text(body, &sampler_metrics, sources, count + 1);
    free(sources);
    return error;
}

static void add_server(struct buffer *body, struct server *server, const struct service *service)
{
    const struct memory_budget *memory = &server->threads.responses;
    const struct memory_budget *bodies = &server->threads.bodies;
    bool is_ready =
        service && server_phase(server) == SERVER_READY && !streams_failing(service->streams);
    const struct value values[] = {
        {"tombola_sampler_start_time_seconds", "gauge",
         "When the server started, in seconds since 1970.", (uint64_t)server->started_seconds},
        {"tombola_sampler_connections", "gauge", "Connections that are open.",
         (uint64_t)connections_count(&server->connections)},
        {"tombola_sampler_connections_limit", "gauge",
         "How many are served (--max-connections, or what the limit of open files allows).",
         (uint64_t)server->connections.limit},
        {"tombola_sampler_answer_memory_bytes", "gauge",
         "Memory of responses above 64 KiB that are made or not read yet.",
         (uint64_t)atomic_load_explicit(&memory->held_bytes, memory_order_relaxed)},
        {"tombola_sampler_answer_memory_limit_bytes", "gauge",
         "How much that may be (--max-answer-memory).", (uint64_t)memory->limit_bytes},
        {"tombola_sampler_answers_refused_total", "counter",
         "Responses that were refused with 503 because they did not fit.",
         atomic_load_explicit(&memory->refused, memory_order_relaxed)},
        {"tombola_sampler_body_memory_bytes", "gauge",
         "Memory of bodies above 4 KiB of requests that are not answered yet.",
         (uint64_t)atomic_load_explicit(&bodies->held_bytes, memory_order_relaxed)},
        {"tombola_sampler_body_memory_limit_bytes", "gauge",
         "How much that may be (--max-body-memory).", (uint64_t)bodies->limit_bytes},
        {"tombola_sampler_bodies_refused_total", "counter",
         "Requests that were refused with 503 because their bodies did not fit.",
         atomic_load_explicit(&bodies->refused, memory_order_relaxed)},
        {"tombola_sampler_ready", "gauge", "1 when the server can draw, as /readyz says.",
         is_ready},
    };
    metrics_add_value(body, "tombola_sampler_build_info", "gauge",
                      "1, with the version of the program.", "version=\"" PACKAGE_VERSION "\"", 1);
    add_values(body, values, sizeof(values) / sizeof(values[0]));
}

static enum error add_all(struct buffer *body, struct server *server, struct service *service)
{
    struct stream **list = NULL;
    size_t count = 0;
    enum error error = service ? streams_list(service->streams, &list, &count) : OK;
    if (!error)
        error = add_requests(body, server, list, count);
    add_server(body, server, service);
    if (!error && service)
        error = add_streams(body, list, count);
    if (!error && service)
        add_journal(body, service);
    streams_put_all(list, count);
    return error ? error : body->error;
}

static enum error write_metrics(struct request *request, const _Atomic bool *stop)
{
    (void)stop;
    return add_all(&request->body, request->thread->server, request->api->work);
}

static enum MHD_Result respond_metrics(struct request *request, enum error error)
{
    if (error)
        return response_error(request, error);
    return response_buffer(request, METRICS_CONTENT_TYPE, &request->body);
}

static enum MHD_Result respond_written(struct request *request, struct service *service)
{
    (void)service;
    return respond_metrics(request, api_request_outcome(request));
}

enum MHD_Result route_metrics(struct request *request, struct service *service)
{
    enum error error = handler_refuse_query(request);
    request->body = (struct buffer)BUFFER_INIT(BODY_LIMIT_BYTES);
    request->api->work = service; /* borrowed */
    if (!error && service && streams_count(service->streams) > HANDLER_STREAMS_AT_ONCE)
        return handler_run_slowly(request, write_metrics, respond_written);
    return respond_metrics(request, error ? error : write_metrics(request, NULL));
}

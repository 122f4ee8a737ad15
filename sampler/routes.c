/* The table of paths, and the small ones' handlers; GET /batch is in route_batch.c. */
#include "sampler/routes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "common/uri.h"
#include "sampler/reply.h"
#include "sampler/server.h"

#define JSON_TYPE "application/json"
#define BODY_LIMIT_BYTES ((size_t)1 << 30)

/* Parses request->query; the one parameter that may be in it is `key` (NULL: none). */
static enum error read_query(const struct request *request, const char *key, char *ret_value,
                             size_t value_bytes)
{
    struct uri_query query;
    char quoted[TEXT_QUOTE_BYTES];
    enum error error = uri_query_init(&query, request->query);
    if (error != OK)
        return error;
    const char *value = key ? uri_query_get(&query, key) : NULL;
    error = uri_query_finish(&query);
    if (error == OK && value && strlen(value) >= value_bytes)
        error =
            error_set(ERROR_USAGE, "%s=%s is too long: at most %zu characters", key,
                      text_quote(quoted, sizeof(quoted), value, strlen(value)), value_bytes - 1);
    if (error == OK && value)
        memcpy(ret_value, value, strlen(value) + 1);
    uri_query_release(&query);
    return error;
}

static enum error refuse_query(const struct request *request)
{
    return request->query && *request->query ? read_query(request, NULL, NULL, 0) : OK;
}

static enum MHD_Result reply_json(struct request *request, enum error error, struct buffer *buffer)
{
    if (error == OK)
        return reply_buffer(request, JSON_TYPE, buffer);
    buffer_release(buffer);
    return reply_error(request, error);
}

static enum MHD_Result reply_text(struct request *request, const char *text)
{
    struct buffer body = BUFFER_INIT(BODY_LIMIT_BYTES);
    enum error error = refuse_query(request);
    if (error == OK)
        error = buffer_add_text(&body, text);
    if (error == OK)
        return reply_buffer(request, "text/plain; charset=utf-8", &body);
    buffer_release(&body);
    return reply_error(request, error);
}

static enum MHD_Result get_root(struct request *request, struct service *service)
{
    (void)service;
    return reply_text(request, "Tombola sampler\n\n"
                               "GET /batch?size=100       the next batch of ids and labels\n"
                               "    &index=K              batch number K; nothing moves\n"
                               "    &format=json|csv|binary   &sort=1   &stream=default\n"
                               "GET /labels               labels, their units, how many are drawn\n"
                               "GET /frames               what is sampled\n"
                               "GET /streams/default      where the stream stands\n"
                               "GET /healthz  /readyz  /metrics\n");
}

static enum MHD_Result get_healthz(struct request *request, struct service *service)
{
    (void)service;
    return reply_text(request, "ok\n");
}

static enum MHD_Result get_readyz(struct request *request, struct service *service)
{
    enum server_phase phase = server_phase(request->worker->server);
    if (phase != SERVER_READY)
        return reply_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE,
                             phase == SERVER_STARTING ? "the server is starting"
                                                      : "the server is stopping");
    struct stream_status status;
    stream_status(service->stream, &status);
    if (status.failing) {
        (void)stream_failure(service->stream);
        return reply_problem(request, MHD_HTTP_SERVICE_UNAVAILABLE, error_message());
    }
    return reply_text(request, "ok\n");
}

/* ---- /frames and /streams -------------------------------------------------------------------- */

static enum MHD_Result get_frames(struct request *request, struct service *service)
{
    struct buffer body = BUFFER_INIT(BODY_LIMIT_BYTES);
    enum error error = refuse_query(request);
    if (error == OK)
        error = buffer_print(&body,
                             "{\"frames\":[{\"name\":\"default\",\"units\":%" PRId64
                             ",\"labels\":%" PRIu32 ",\"digest\":\"%s\"}]}\n",
                             frame_units(service->frame), frame_labels(service->frame),
                             service->digest);
    return reply_json(request, error, &body);
}

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static enum error add_stream(struct buffer *body, const struct service *service)
{
    const struct cut *cut = stream_cut(service->stream);
    struct stream_status status;
    stream_status(service->stream, &status);
    return buffer_print(
        body,
        "{\"name\":\"default\",\"frame\":\"default\",\"digest\":\"%s\",\"design\":\"%s\","
        "\"replacement\":%s,\"seed\":%" PRIu64 ",\"generation\":1,\"units\":%" PRId64
        ",\"epochs\":%" PRId64 ",\"tail\":\"%s\",\"position\":%" PRId64 ",\"epoch\":%" PRId64
        ",\"epoch_draws\":%" PRId64 ",\"leased\":0,\"acked\":%" PRId64
        ",\"redelivered\":0,\"state\":\"%s\"}",
        service->digest, service->design.name, truth(service->design.replacement),
        service->design.seed, frame_units(service->frame), cut->epochs, tail_name(cut->tail),
        status.position, status.epoch, cut->epoch_positions, status.batches,
        status.ended ? "ended" : "running");
}

static enum MHD_Result get_streams(struct request *request, struct service *service)
{
    struct buffer body = BUFFER_INIT(BODY_LIMIT_BYTES);
    enum error error = refuse_query(request);
    if (error == OK)
        error = buffer_add_text(&body, "{\"streams\":[");
    if (error == OK)
        error = add_stream(&body, service);
    if (error == OK)
        error = buffer_add_text(&body, "]}\n");
    return reply_json(request, error, &body);
}

static enum error refuse_stream(const char *name)
{
    char quoted[TEXT_QUOTE_BYTES];
    return error_set(ERROR_NOT_FOUND, "there is no stream %s; \"default\" exists",
                     text_quote(quoted, sizeof(quoted), name, strlen(name)));
}

static enum MHD_Result get_stream(struct request *request, struct service *service)
{
    struct buffer body = BUFFER_INIT(BODY_LIMIT_BYTES);
    enum error error = OK;
    if (!service_stream(service, request->name))
        error = refuse_stream(request->name);
    if (error == OK)
        error = refuse_query(request);
    if (error == OK)
        error = add_stream(&body, service);
    if (error == OK)
        error = buffer_add_text(&body, "\n");
    return reply_json(request, error, &body);
}

/* ---- /labels --------------------------------------------------------------------------------- */

static enum error add_label(struct buffer *body, const struct service *service, uint32_t label,
                            int64_t drawn)
{
    const struct label_texts *texts = &service->label_texts;
    const struct label_text *text = &texts->json[label];
    int64_t units = frame_label_units(service->frame, label);
    enum error error = buffer_add_text(body, label > 0 ? ",{\"label\":" : "{\"label\":");
    if (error == OK)
        error = buffer_add(body, texts->json_long[label] ? texts->json_long[label] : text->bytes,
                           text->length); /* with its ',' */
    if (error != OK)
        return error;
    return buffer_print(body, "\"units\":%" PRId64 ",\"share\":%.10g,\"drawn\":%" PRId64 "}", units,
                        (double)units / (double)frame_units(service->frame), drawn);
}

static enum error add_labels(struct buffer *body, const struct service *service,
                             struct stream *stream)
{
    uint32_t labels = frame_labels(service->frame);
    struct stream_status status;
    stream_status(stream, &status);
    int64_t t = status.position - status.epoch * stream_cut(stream)->epoch_positions;
    int64_t *drawn = array_new(labels, sizeof(*drawn), "the counts of labels");
    if (!drawn)
        return ERROR_MEMORY;
    enum error error = tally_counts(service->tally, status.epoch, t, drawn);
    if (error == OK)
        error = buffer_add_text(body, "{\"labels\":[");
    for (uint32_t label = 0; error == OK && label < labels; label++)
        error = add_label(body, service, label, drawn[label]);
    if (error == OK)
        error = buffer_add_text(body, "]}\n");
    free(drawn);
    return error;
}

static enum MHD_Result get_labels(struct request *request, struct service *service)
{
    struct buffer body = BUFFER_INIT(BODY_LIMIT_BYTES);
    char name[STREAM_NAME_BYTES] = "default";
    enum error error = read_query(request, "stream", name, sizeof(name));
    struct stream *stream = error == OK ? service_stream(service, name) : NULL;
    if (error == OK && !stream)
        error = refuse_stream(name);
    if (error == OK)
        error = add_labels(&body, service, stream);
    return reply_json(request, error, &body);
}

/* ---- /metrics -------------------------------------------------------------------------------- */

static enum error add_gauge(struct buffer *body, const char *name, const char *help, int64_t value)
{
    return metrics_add_value(body, name, "gauge", help, "stream=\"default\"", (uint64_t)value);
}

static enum error add_service(struct buffer *body, const struct service *service)
{
    struct stream_status status;
    stream_status(service->stream, &status);
    enum error error = add_gauge(body, "tombola_sampler_position", "The next position to be drawn.",
                                 status.position);
    if (error == OK)
        error =
            add_gauge(body, "tombola_sampler_epoch", "The epoch of that position.", status.epoch);
    if (error == OK)
        error = add_gauge(body, "tombola_sampler_units", "Units of the stream's frame.",
                          frame_units(service->frame));
    if (error == OK)
        error = add_gauge(body, "tombola_sampler_epoch_draws", "Positions of one epoch.",
                          stream_cut(service->stream)->epoch_positions);
    if (error == OK)
        error = add_gauge(body, "tombola_sampler_batches", "Batches drawn with this state.",
                          status.batches);
    if (error == OK)
        error =
            add_gauge(body, "tombola_sampler_state_failing",
                      "1 while the state cannot be written and draws are refused.", status.failing);
    return error;
}

static enum MHD_Result get_metrics(struct request *request, struct service *service)
{
    struct server *server = request->worker->server;
    struct buffer body = BUFFER_INIT(BODY_LIMIT_BYTES);
    struct metrics sum;
    server_metrics(server, &sum);
    enum error error = refuse_query(request);
    if (error == OK)
        error = metrics_add_text(&body, &sum);
    if (error == OK)
        error = metrics_add_value(&body, "tombola_sampler_start_time_seconds", "gauge",
                                  "When the server started, in seconds since 1970.", "",
                                  (uint64_t)server_started_seconds(server));
    if (error == OK && service)
        error = add_service(&body, service);
    if (error == OK)
        return reply_buffer(request, "text/plain; version=0.0.4; charset=utf-8", &body);
    buffer_release(&body);
    return reply_error(request, error);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct route routes[] = {
    {.path = "/batch", .metrics = PATH_BATCH, .no_store = true, .get = route_batch},
    {.path = "/", .metrics = PATH_ROOT, .get = get_root},
    {.path = "/labels", .metrics = PATH_LABELS, .get = get_labels},
    {.path = "/frames", .metrics = PATH_FRAMES, .get = get_frames},
    {.path = "/streams", .metrics = PATH_STREAMS, .get = get_streams},
    {.path = "/streams/", .metrics = PATH_STREAM, .get = get_stream},
    {.path = "/healthz", .metrics = PATH_HEALTHZ, .always = true, .get = get_healthz},
    {.path = "/readyz", .metrics = PATH_READYZ, .always = true, .get = get_readyz},
    {.path = "/metrics", .metrics = PATH_METRICS, .always = true, .get = get_metrics},
};

const struct route *route_batch_route(void)
{
    return &routes[0];
}

const struct route *route_find(const char *path, const char **ret_name)
{
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        size_t length = strlen(routes[i].path);
        bool named = length > 1 && routes[i].path[length - 1] == '/';
        if (named && strncmp(path, routes[i].path, length) == 0 && path[length] != '\0' &&
            !strchr(path + length, '/')) {
            *ret_name = path + length;
            return &routes[i];
        }
        if (!named && strcmp(path, routes[i].path) == 0)
            return &routes[i];
    }
    return NULL;
}

#include "sampler/metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>

static const char *const paths[METRICS_PATHS] = {
    [PATH_ROOT] = "/",           [PATH_BATCH] = "/batch",
    [PATH_ACK] = "/ack",         [PATH_EXTEND] = "/extend",
    [PATH_RELEASE] = "/release", [PATH_WHERE] = "/where",
    [PATH_LABELS] = "/labels",   [PATH_FRAMES] = "/frames",
    [PATH_STREAMS] = "/streams", [PATH_STREAM] = "/streams/NAME",
    [PATH_HEALTHZ] = "/healthz", [PATH_READYZ] = "/readyz",
    [PATH_METRICS] = "/metrics", [PATH_OPENAPI] = "/openapi.json",
    [PATH_LIVE] = "/live",       [PATH_OTHER] = "other",
};

/* The last one stands for every status that is not named. */
static const int statuses[METRICS_STATUSES] = {200, 201, 204, 400, 401, 403, 404, 405, 409, 413,
                                               414, 415, 429, 431, 500, 503, 505, 507, 304, 0};

static const int64_t bounds_ns[METRICS_BUCKETS - 1] = {
    10000,     20000,      50000,      100000,     200000,     500000,    1000000,
    2000000,   5000000,    10000000,   20000000,   50000000,   100000000, 200000000,
    500000000, 1000000000, 2000000000, 5000000000, 10000000000};

/* One writer: a load and a store are enough, and cheaper than an atomic addition. */
static void add(metrics_counter *counter, uint64_t value)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + value, memory_order_relaxed);
}

static int status_index(int status)
{
    int i = 0;
    while (i < METRICS_STATUSES - 1 && statuses[i] != status)
        i++;
    return i;
}

static int bucket_index(int64_t took_ns)
{
    int i = 0;
    while (i < METRICS_BUCKETS - 1 && took_ns > bounds_ns[i])
        i++;
    return i;
}

void metrics_count(struct metrics *metrics, enum metrics_path path, int status, uint64_t body_bytes,
                   uint64_t ids)
{
    add(&metrics->requests[path][status_index(status)], 1);
    add(&metrics->body_bytes, body_bytes);
    add(&metrics->ids, ids);
}

void metrics_time(struct metrics *metrics, enum metrics_path path, int64_t took_ns)
{
    add(&metrics->seconds[path][bucket_index(took_ns)], 1);
    add(&metrics->nanoseconds[path], (uint64_t)took_ns);
}

void metrics_sum(struct metrics *sum, const struct metrics *part)
{
    /* The struct is counters and nothing else. */
    metrics_counter *to = (metrics_counter *)sum;
    const metrics_counter *from = (const metrics_counter *)part;
    for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
        add(&to[i], atomic_load_explicit(&from[i], memory_order_relaxed));
}

enum error metrics_add_head(struct buffer *buffer, const char *name, const char *type,
                            const char *help)
{
    return buffer_print(buffer, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

enum error metrics_add_value(struct buffer *buffer, const char *name, const char *type,
                             const char *help, const char *labels, uint64_t value)
{
    enum error error = metrics_add_head(buffer, name, type, help);
    if (error != OK)
        return error;
    if (*labels)
        return buffer_print(buffer, "%s{%s} %" PRIu64 "\n", name, labels, value);
    return buffer_print(buffer, "%s %" PRIu64 "\n", name, value);
}

static enum error add_requests(struct buffer *buffer, const struct metrics *sum)
{
    enum error error = metrics_add_head(buffer, "tombola_sampler_requests_total", "counter",
                                        "Requests answered, by path and status.");
    for (int path = 0; path < METRICS_PATHS; path++) {
        for (int i = 0; error == OK && i < METRICS_STATUSES; i++) {
            uint64_t count = sum->requests[path][i];
            if (count > 0)
                error = buffer_print(
                    buffer,
                    "tombola_sampler_requests_total{path=\"%s\",status=\"%d\"} %" PRIu64 "\n",
                    paths[path], statuses[i], count);
        }
    }
    return error;
}

static enum error add_histogram(struct buffer *buffer, const struct metrics *sum, int path)
{
    const char *name = "tombola_sampler_request_seconds";
    uint64_t count = 0;
    enum error error = OK;
    for (int i = 0; error == OK && i < METRICS_BUCKETS; i++) {
        count += sum->seconds[path][i];
        if (i < METRICS_BUCKETS - 1)
            error = buffer_print(buffer, "%s_bucket{path=\"%s\",le=\"%g\"} %" PRIu64 "\n", name,
                                 paths[path], (double)bounds_ns[i] * 1e-9, count);
    }
    if (error != OK)
        return error;
    return buffer_print(buffer,
                        "%s_bucket{path=\"%s\",le=\"+Inf\"} %" PRIu64 "\n"
                        "%s_sum{path=\"%s\"} %.9f\n"
                        "%s_count{path=\"%s\"} %" PRIu64 "\n",
                        name, paths[path], count, name, paths[path],
                        (double)sum->nanoseconds[path] * 1e-9, name, paths[path], count);
}

static bool was_asked(const struct metrics *sum, int path)
{
    for (int i = 0; i < METRICS_BUCKETS; i++) {
        if (sum->seconds[path][i] > 0)
            return true;
    }
    return path == PATH_BATCH;
}

enum error metrics_add_text(struct buffer *buffer, const struct metrics *sum)
{
    enum error error = add_requests(buffer, sum);
    if (error == OK)
        error = metrics_add_head(buffer, "tombola_sampler_request_seconds", "histogram",
                                 "Time from a request's first line to its answer's last byte.");
    for (int path = 0; error == OK && path < METRICS_PATHS; path++) {
        if (was_asked(sum, path))
            error = add_histogram(buffer, sum, path);
    }
    if (error == OK)
        error = metrics_add_value(buffer, "tombola_sampler_ids_total", "counter",
                                  "Ids handed out, with those of index=.", "", sum->ids);
    if (error == OK)
        error = metrics_add_value(buffer, "tombola_sampler_body_bytes_total", "counter",
                                  "Bytes of answers' bodies.", "", sum->body_bytes);
    return error;
}

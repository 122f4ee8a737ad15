/* SPDX-License-Identifier: MIT */
#include "common/http/metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METRICS_NAME_BYTES 128

/* The last one stands for every other status. */
static const int statuses[METRICS_STATUSES] = {200, 201, 204, 400, 401, 403, 404, 405, 409, 413,
                                               414, 415, 417, 429, 431, 500, 503, 505, 507, 0};

static const int64_t bounds_ns[METRICS_BUCKETS - 1] = {
    10000,     20000,      50000,      100000,     200000,     500000,    1000000,
    2000000,   5000000,    10000000,   20000000,   50000000,   100000000, 200000000,
    500000000, 1000000000, 2000000000, 5000000000, 10000000000};

/* One writer: a load and a store suffice, and are cheaper than an atomic addition. */
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

/* ---- blocks ------------------------------------------------------------- */

static _Atomic int64_t block_count;

/* A block shares no cache line with anything. */
static struct metrics *make_block(void)
{
    size_t bytes = (sizeof(struct metrics) + 63) / 64 * 64;
    if (atomic_fetch_add(&block_count, 1) < METRICS_BLOCKS_MOST) {
        struct metrics *block = aligned_alloc(64, bytes);
        if (block)
            return memset(block, 0, bytes);
    }
    atomic_fetch_sub(&block_count, 1);
    return NULL;
}

struct metrics *metrics_block(struct metrics_blocks *blocks, uint32_t thread)
{
    if (thread >= METRICS_THREADS)
        return NULL;
    struct metrics *block = atomic_load_explicit(&blocks->of_thread[thread], memory_order_relaxed);
    if (block)
        return block;
    block = make_block();
    atomic_store(&blocks->of_thread[thread], block);
    return block;
}

void metrics_blocks_release(struct metrics_blocks *blocks)
{
    for (int i = 0; i < METRICS_THREADS; i++) {
        struct metrics *block = atomic_exchange(&blocks->of_thread[i], NULL);
        if (block)
            atomic_fetch_sub(&block_count, 1);
        free(block);
    }
}

/* ---- counting ----------------------------------------------------------- */

void metrics_count(struct metrics *metrics, int path, int status, uint64_t body_bytes,
                   uint64_t items)
{
    add(&metrics->requests[path][status_index(status)], 1);
    add(&metrics->body_bytes, body_bytes);
    add(&metrics->items, items);
}

void metrics_time(struct metrics *metrics, int path, int64_t took_ns)
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

void metrics_add_head(struct buffer *buffer, const char *name, const char *type, const char *help)
{
    buffer_print(buffer, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_add_value(struct buffer *buffer, const char *name, const char *type, const char *help,
                       const char *labels, uint64_t value)
{
    metrics_add_head(buffer, name, type, help);
    if (*labels)
        buffer_print(buffer, "%s{%s} %" PRIu64 "\n", name, labels, value);
    else
        buffer_print(buffer, "%s %" PRIu64 "\n", name, value);
}

/* ---- the text ----------------------------------------------------------- */

static void read_source(const struct metrics_source *source, struct metrics *ret_sum)
{
    memset(ret_sum, 0, sizeof(*ret_sum));
    if (source->sum)
        metrics_sum(ret_sum, source->sum);
    for (int i = 0; source->blocks && i < METRICS_THREADS; i++) {
        const struct metrics *block = atomic_load(&source->blocks->of_thread[i]);
        if (block)
            metrics_sum(ret_sum, block);
    }
}

/* One family's values for a source whose counters were summed up. */
struct reading {
    struct metrics sum;
    const char *name; /* of the family */
    const struct metrics_words *words;
    const char *source; /* its label's value, or NULL */
    char label[96];     /* `,LABEL="SOURCE"`, or "" */
};

static void add_requests(struct buffer *buffer, const struct reading *reading)
{
    for (int path = 0; path < METRICS_PATHS; path++) {
        for (int i = 0; i < METRICS_STATUSES; i++) {
            uint64_t count = reading->sum.requests[path][i];
            if (count > 0)
                buffer_print(buffer, "%s{path=\"%s\"%s,status=\"%d\"} %" PRIu64 "\n", reading->name,
                             reading->words->paths[path], reading->label, statuses[i], count);
        }
    }
}

static void add_histogram(struct buffer *buffer, const struct reading *reading, int path)
{
    const char *name = reading->name, *label = reading->label;
    const char *path_name = reading->words->paths[path];
    uint64_t count = 0;
    for (int i = 0; i < METRICS_BUCKETS; i++) {
        count += reading->sum.seconds[path][i];
        if (i < METRICS_BUCKETS - 1)
            buffer_print(buffer, "%s_bucket{path=\"%s\"%s,le=\"%g\"} %" PRIu64 "\n", name,
                         path_name, label, (double)bounds_ns[i] * 1e-9, count);
    }
    buffer_print(buffer,
                 "%s_bucket{path=\"%s\"%s,le=\"+Inf\"} %" PRIu64 "\n"
                 "%s_sum{path=\"%s\"%s} %.9f\n"
                 "%s_count{path=\"%s\"%s} %" PRIu64 "\n",
                 name, path_name, label, count, name, path_name, label,
                 (double)reading->sum.nanoseconds[path] * 1e-9, name, path_name, label, count);
}

static bool was_asked(const struct metrics *sum, int path)
{
    for (int i = 0; i < METRICS_BUCKETS; i++) {
        if (sum->seconds[path][i] > 0)
            return true;
    }
    return false;
}

static void add_histograms(struct buffer *buffer, const struct reading *reading)
{
    for (int path = 0; path < METRICS_PATHS; path++) {
        if (was_asked(&reading->sum, path))
            add_histogram(buffer, reading, path);
    }
}

/* A number per source; for the one without a label only if it counted something. */
static void add_total(struct buffer *buffer, const struct reading *reading, uint64_t value)
{
    if (reading->source)
        buffer_print(buffer, "%s{%s=\"%s\"} %" PRIu64 "\n", reading->name, reading->words->label,
                     reading->source, value);
    else if (value > 0)
        buffer_print(buffer, "%s %" PRIu64 "\n", reading->name, value);
}

static void add_items(struct buffer *buffer, const struct reading *reading)
{
    add_total(buffer, reading, reading->sum.items);
}

static void add_bytes(struct buffer *buffer, const struct reading *reading)
{
    add_total(buffer, reading, reading->sum.body_bytes);
}

enum error metrics_add_text(struct buffer *buffer, const struct metrics_words *words,
                            const struct metrics_source *sources, size_t count)
{
    const struct {
        const char *name, *end, *type, *help;
        void (*add)(struct buffer *buffer, const struct reading *reading);
    } families[] = {
        {"requests", "_total", "counter", words->requests_help, add_requests},
        {"request", "_seconds", "histogram",
         "Time from a request's first line to its response's last byte.", add_histograms},
        {words->items, "_total", "counter", words->items_help, add_items},
        {"body_bytes", "_total", "counter", words->bytes_help, add_bytes},
    };
    char name[METRICS_NAME_BYTES];
    struct reading reading = {.name = name, .words = words};
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        snprintf(name, sizeof(name), "%s_%s%s", words->program, families[i].name, families[i].end);
        metrics_add_head(buffer, name, families[i].type, families[i].help);
        for (size_t k = 0; k < count; k++) {
            reading.source = sources[k].label;
            reading.label[0] = '\0';
            if (reading.source)
                snprintf(reading.label, sizeof(reading.label), ",%s=\"%s\"", words->label,
                         reading.source);
            read_source(&sources[k], &reading.sum);
            families[i].add(buffer, &reading);
        }
    }
    return buffer->error;
}

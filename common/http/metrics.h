/* SPDX-License-Identifier: MIT */
/*
 * The server's counters. Each HTTP thread has its own, which only it writes (relaxed atomics: no
 * lock, no shared cache line); GET /metrics adds them up.
 *
 * If an application also counts requests by a label, each thread has a block of counters per label
 * value (struct metrics_blocks), whose samples carry the label. Every request is in one sample of a
 * family, so the family's sum counts all. Blocks are freed with the object that they count for.
 */
#ifndef COMMON_HTTP_METRICS_H
#define COMMON_HTTP_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8" /* Prometheus' text */

/* Paths with their own counters: the application numbers them from 0; the last one stands for
 * unknown paths. */
#define METRICS_PATHS 16
#define METRICS_OTHER (METRICS_PATHS - 1)
#define METRICS_STATUSES 20
#define METRICS_BUCKETS 20 /* of seconds: 10 us, 20 us, 50 us, ... 10 s, more */

typedef _Atomic uint64_t metrics_counter;

struct metrics {
    metrics_counter requests[METRICS_PATHS][METRICS_STATUSES];
    metrics_counter seconds[METRICS_PATHS][METRICS_BUCKETS];
    metrics_counter nanoseconds[METRICS_PATHS];
    metrics_counter body_bytes;
    metrics_counter items;
};

#define METRICS_THREADS 16
/* For all labels together, 5 KiB each: further ones are counted without their label. */
#define METRICS_BLOCKS_MOST 16384

/* Counters of one label; zeroed at the start. */
struct metrics_blocks {
    _Atomic(struct metrics *) of_thread[METRICS_THREADS]; /* owned; made by their threads */
};

/* The block of thread number `thread`, for that thread alone; NULL: no room for it. */
struct metrics *metrics_block(struct metrics_blocks *blocks, uint32_t thread);
/* Call when no thread counts there any more. */
void metrics_blocks_release(struct metrics_blocks *blocks);

/* Counts a response when it is made, so that whoever receives it finds it counted. From the thread
 * that owns `metrics`. */
void metrics_count(struct metrics *metrics, int path, int status, uint64_t body_bytes,
                   uint64_t items);
/* Counts its duration when its last byte was sent, or could not be. */
void metrics_time(struct metrics *metrics, int path, int64_t took_ns);

/* sum += part; any thread. `sum` belongs to the caller alone. */
void metrics_sum(struct metrics *sum, const struct metrics *part);

/* A source of samples: `sum` or `blocks`. */
struct metrics_source {
    const char *label; /* its label's value, which needs no escapes; NULL: none */
    const struct metrics *sum;
    const struct metrics_blocks *blocks;
};

/* Names of families. */
struct metrics_words {
    const char *program;      /* prefix of each name */
    const char *const *paths; /* [METRICS_PATHS] */
    const char *label;        /* name of the sources' label */
    const char *items;        /* what responses contain */
    const char *requests_help, *items_help, *bytes_help;
};

/* Appends all sources as Prometheus text. */
enum error metrics_add_text(struct buffer *buffer, const struct metrics_words *words,
                            const struct metrics_source *sources, size_t count) MUST_CHECK;
/* Appends HELP and TYPE of a family; its samples follow. */
void metrics_add_head(struct buffer *buffer, const char *name, const char *type, const char *help);
/* Appends one gauge or counter with its HELP and TYPE; `labels` like `stream="default"`, or "". */
void metrics_add_value(struct buffer *buffer, const char *name, const char *type, const char *help,
                       const char *labels, uint64_t value);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What the server counts. Each HTTP thread has counters of its own, which only it writes (relaxed
 * atomics: no lock, no shared cache line); GET /metrics adds them up.
 *
 * Where an application counts requests apart by more than their path (by a label),
 * they are counted in a block of each thread's own for each such thing (struct metrics_blocks), and
 * their samples carry its label. So every request is in one sample of a family, and the family's
 * sum counts all. Blocks are freed with the object that they count for.
 */
#ifndef COMMON_HTTP_METRICS_H
#define COMMON_HTTP_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"

/* Paths with counters of their own: the application numbers them from 0; the last one stands for
 * those that it does not know. */
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
/* Of all labels together, 5 KiB each: later ones are counted without their label. */
#define METRICS_BLOCKS_MOST 16384

/* Counters of one label; all zeros at the start. */
struct metrics_blocks {
    _Atomic(struct metrics *) of_thread[METRICS_THREADS]; /* owned; made by their threads */
};

/* The block of thread number `thread`, from that thread alone; NULL: there is no room for it. */
struct metrics *metrics_block(struct metrics_blocks *blocks, uint32_t thread);
/* When no thread counts there any more. */
void metrics_blocks_release(struct metrics_blocks *blocks);

/* From the thread that owns `metrics`: a response was made, so that whoever has it finds it
 * counted. */
void metrics_count(struct metrics *metrics, int path, int status, uint64_t body_bytes,
                   uint64_t items);
/* And its last byte was sent, or could not be. */
void metrics_time(struct metrics *metrics, int path, int64_t took_ns);

/* sum += part; any thread. `sum` belongs to the caller alone. */
void metrics_sum(struct metrics *sum, const struct metrics *part);

/* Where samples come from: one of `sum` and `blocks`. */
struct metrics_source {
    const char *label; /* its value, which needs no escapes; NULL: none */
    const struct metrics *sum;
    const struct metrics_blocks *blocks;
};

/* What families are called. */
struct metrics_words {
    const char *program;      /* begins each name */
    const char *const *paths; /* [METRICS_PATHS] */
    const char *label;        /* the name of sources' labels */
    const char *items;        /* what responses carry */
    const char *requests_help, *items_help, *bytes_help;
};

/* Appends the Prometheus text of all of them. */
enum error metrics_add_text(struct buffer *buffer, const struct metrics_words *words,
                            const struct metrics_source *sources, size_t count) MUST_CHECK;
/* Appends HELP and TYPE of a family; its samples follow. */
void metrics_add_head(struct buffer *buffer, const char *name, const char *type, const char *help);
/* Appends one gauge or counter with its HELP and TYPE; `labels` like `stream="default"`, or "". */
void metrics_add_value(struct buffer *buffer, const char *name, const char *type, const char *help,
                       const char *labels, uint64_t value);

#endif

/*
 * What the server counts. Each HTTP thread has counters of its own, which only it writes (relaxed
 * atomics: no lock, no shared cache line); GET /metrics adds them up.
 */
#ifndef SAMPLER_METRICS_H
#define SAMPLER_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"

/* The paths that are told apart. */
enum metrics_path {
    PATH_ROOT,
    PATH_BATCH,
    PATH_ACK,
    PATH_EXTEND,
    PATH_RELEASE,
    PATH_WHERE,
    PATH_LABELS,
    PATH_FRAMES,
    PATH_STREAMS,
    PATH_STREAM,
    PATH_HEALTHZ,
    PATH_READYZ,
    PATH_METRICS,
    PATH_OPENAPI,
    PATH_LIVE,
    PATH_OTHER /* unknown ones */
};
#define METRICS_PATHS (PATH_OTHER + 1)
#define METRICS_STATUSES 20
#define METRICS_BUCKETS 20 /* of seconds: 10 us, 20 us, 50 us, ... 10 s, more */

typedef _Atomic uint64_t metrics_counter;

struct metrics {
    metrics_counter requests[METRICS_PATHS][METRICS_STATUSES];
    metrics_counter seconds[METRICS_PATHS][METRICS_BUCKETS];
    metrics_counter nanoseconds[METRICS_PATHS];
    metrics_counter body_bytes;
    metrics_counter ids;
};

/* From the thread that owns `metrics`: an answer was made, so that whoever has it finds it counted.
 */
void metrics_count(struct metrics *metrics, enum metrics_path path, int status, uint64_t body_bytes,
                   uint64_t ids);
/* And its last byte was sent, or could not be. */
void metrics_time(struct metrics *metrics, enum metrics_path path, int64_t took_ns);

/* sum += part; any thread. `sum` belongs to the caller alone. */
void metrics_sum(struct metrics *sum, const struct metrics *part);

/* Appends the Prometheus text of `sum`. */
enum error metrics_add_text(struct buffer *buffer, const struct metrics *sum) MUST_CHECK;
/* Appends HELP and TYPE of a family; its samples follow. */
enum error metrics_add_head(struct buffer *buffer, const char *name, const char *type,
                            const char *help) MUST_CHECK;
/* Appends one gauge or counter with its HELP and TYPE; `labels` like `stream="default"`, or "". */
enum error metrics_add_value(struct buffer *buffer, const char *name, const char *type,
                             const char *help, const char *labels, uint64_t value) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Recent history of the streams: rates of the last seconds, a time series of the last 15 minutes,
 * the positions drawn in the last minute, and stalls. Derived from counters sampled about once a
 * second (live.h), so that draws pay nothing for it.
 *
 * `drawn` counts positions handed out for the first time since the stream was created, sought or
 * restored: a redelivered batch does not count twice. An interval between two readings that
 * contains a seek or a restore counts as nothing drawn.
 *
 * 7 KB per stream. Threads: any; one mutex, which no draw takes. Times are clock_now_ns().
 */
#ifndef SAMPLER_SERVICE_HISTORY_H
#define SAMPLER_SERVICE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define HISTORY_MINUTE_SECONDS 60
/* A rate is averaged over this many seconds, or over more, up to a minute, if fewer batches than
 * this came in them. */
#define HISTORY_RATE_SECONDS 8
#define HISTORY_RATE_BATCHES 4
/* A stream has stalled when nothing came for this long, and for this many times its usual pause. */
#define HISTORY_STALL_SECONDS 10
#define HISTORY_STALL_PAUSES 5
#define HISTORY_SLOT_SECONDS 5
#define HISTORY_SLOTS 180 /* 15 minutes */

struct history;

/* A stream's counters at one moment. */
struct history_counts {
    int64_t generation; /* of the stream's name */
    int64_t jumps;      /* seeks and restores so far */
    int64_t position;
    int64_t gaps; /* positions below `position` that are to be drawn first */
    int64_t batches;
    int64_t acked;
    int64_t redelivered;
    int64_t reads; /* batches by index, and their positions; position of the furthest reader */
    int64_t read;
    int64_t read_end;
    bool ended; /* nothing is left to draw, and nothing is leased */
};

/* Per second, over `seconds`: the recent past, or since the stream is known. */
struct history_rates {
    double seconds; /* 0: nothing is known yet, all others are 0 */
    double positions;
    double batches;
    double acks;
    double redeliveries;
    double reads;
    double read;
    double read_end;
    double idle_seconds; /* since a draw or read; below 0: none since it is known */
    bool stalled;
};

/* Positions [first, end). */
struct history_span {
    int64_t first;
    int64_t end;
};
#define HISTORY_SPANS (HISTORY_MINUTE_SECONDS + 2)

enum error history_new(struct history **ret_history) MUST_CHECK;
/* NULL is legal. */
void history_free(struct history *history);

/* One reading of every stream: history_note() for each, then history_sweep(), which removes streams
 * not noted since the last sweep. `name` is copied (below 65 bytes). */
enum error history_note(struct history *history, const char *name,
                        const struct history_counts *counts, int64_t now_ns) MUST_CHECK;
void history_sweep(struct history *history);

/* False (and zeros): the stream is not known. */
bool history_rates(struct history *history, const char *name, int64_t generation,
                   struct history_rates *ret_rates);
/* Positions drawn or read per second in each completed slot of HISTORY_SLOT_SECONDS, oldest first;
 * returns their number (at most HISTORY_SLOTS). */
size_t history_course(struct history *history, const char *name, int64_t generation,
                      float ret_values[HISTORY_SLOTS]);
/* When the stream was first seen ended, on the clock of history_note(); 0: it has not ended, or had
 * ended at the first reading. */
int64_t history_ended_ns(struct history *history, const char *name, int64_t generation);
/* The positions drawn in the minute before the last reading, and from then until `now`, as disjoint
 * spans; returns their number. Excludes those drawn from gaps, which are not recorded. */
size_t history_spans(struct history *history, const char *name, const struct history_counts *now,
                     struct history_span ret_spans[HISTORY_SPANS]);

#endif

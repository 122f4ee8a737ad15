/* SPDX-License-Identifier: MIT */
/*
 * What the streams did lately: rates of the last seconds, the course of the last 15 minutes, which
 * positions were drawn in the last minute, and whether it stalled. Kept from counters that somebody
 * reads about once a second (live.h), so that draws pay nothing for it.
 *
 * `drawn` counts positions that were given out for the first time since the stream was created,
 * sought or restored: a redelivered batch does not count twice. What lies between two
 * readings with a seek or a restore between them counts as nothing drawn.
 *
 * 4 KB a stream. Threads: every thread; one mutex, which no draw takes. Times are clock_now_ns().
 */
#ifndef SAMPLER_SERVICE_HISTORY_H
#define SAMPLER_SERVICE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define HISTORY_MINUTE_SECONDS 60
/* A rate is over so many seconds, and over more, up to a minute, where fewer batches than this came
 * in them. */
#define HISTORY_RATE_SECONDS 8
#define HISTORY_RATE_BATCHES 4
/* A stream has stalled when nothing came for so long, and for so many times its usual pause. */
#define HISTORY_STALL_SECONDS 10
#define HISTORY_STALL_PAUSES 5
#define HISTORY_SLOT_SECONDS 5
#define HISTORY_SLOTS 180 /* 15 minutes */

struct history;

/* A stream's counters at one moment. */
struct history_counts {
    int64_t generation; /* of the name */
    int64_t jumps;      /* seeks and restores so far */
    int64_t position;
    int64_t gaps; /* positions below `position` that are to be drawn first */
    int64_t batches;
    int64_t acked;
    int64_t redelivered;
    int64_t reads; /* batches by index, and their positions; where the furthest reader is */
    int64_t read;
    int64_t read_end;
    bool ended; /* the stream has: nothing is left to draw, and nothing is leased */
};

/* Per second, over `seconds`: the last ones, or as long as the stream is known. */
struct history_rates {
    double seconds; /* 0: nothing is known yet, all others are 0 */
    double positions;
    double batches;
    double acks;
    double redeliveries;
    double reads;
    double read;
    double read_end;
    double idle_seconds; /* since something was drawn or read; below 0: not since it is known */
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

/* One reading of every stream: history_note() for each, then history_sweep(), which forgets the
 * streams that were not noted since the last one. `name` is copied (below 65 bytes). */
enum error history_note(struct history *history, const char *name,
                        const struct history_counts *counts, int64_t now_ns) MUST_CHECK;
void history_sweep(struct history *history);

/* false (and zeros): the stream is not known. */
bool history_rates(struct history *history, const char *name, int64_t generation,
                   struct history_rates *ret_rates);
/* Positions drawn or read a second in each slot of HISTORY_SLOT_SECONDS that is over, oldest first;
 * how many (at most HISTORY_SLOTS). */
size_t history_course(struct history *history, const char *name, int64_t generation,
                      float ret_values[HISTORY_SLOTS]);
/* When the stream was first read as ended, on the clock of history_note(); 0: it has not ended, or
 * had when it was first read. */
int64_t history_ended_ns(struct history *history, const char *name, int64_t generation);
/* The positions drawn in the minute before the last reading, and since then up to `now`, as spans
 * that do not touch; how many. Those that were drawn out of gaps are not among them: nobody notes
 * which they were. */
size_t history_spans(struct history *history, const char *name, const struct history_counts *now,
                     struct history_span ret_spans[HISTORY_SPANS]);

#endif

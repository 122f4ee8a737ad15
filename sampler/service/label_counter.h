/* SPDX-License-Identifier: MIT */
/*
 * How many units of each label a stream handed out in its epoch. If counting takes long (tally.h),
 * a thread continues it, so that a later request finds it done. It follows a stream for
 * LABEL_COUNTER_SECONDS after the last request, and uses at most half of one processor while it is
 * behind. Draws never wait for it.
 *
 * Threads: label_counter_new() and _free() from one thread; the rest from any.
 */
#ifndef SAMPLER_SERVICE_LABEL_COUNTER_H
#define SAMPLER_SERVICE_LABEL_COUNTER_H

#include <stdint.h>

#include "common/error.h"
#include "sampler/stream/streams.h"

#define LABEL_COUNTER_STREAMS 16 /* followed at once; the least recently requested is dropped */
#define LABEL_COUNTER_SECONDS 60

struct label_counter;

/* Starts the thread. `streams` is borrowed and must outlive it. */
enum error label_counter_new(struct streams *streams,
                             struct label_counter **ret_counter) MUST_CHECK;
/* Stops the thread, within milliseconds. NULL is legal. */
void label_counter_free(struct label_counter *counter);

struct label_counts {
    int64_t epoch;  /* the stream's current one; at its end the last */
    int64_t left;   /* positions still to be counted; over 0: `drawn` is not valid */
    int64_t *drawn; /* [L] handed out in this epoch (stream_drawn()); owned: free() */
};

/* Would label_counter_ask() take only about a millisecond? If not, do not call it on an event
 * loop. */
bool label_counter_is_quick(struct stream *stream);
/* Counts for about `limit_ns` at most, and has the thread continue. ERROR_MEMORY. */
enum error label_counter_ask(struct label_counter *counter, struct stream *stream, int64_t limit_ns,
                             struct label_counts *ret_counts) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * How many units of each label a stream handed out in its epoch, and a thread that counts on where
 * that takes long (tally.h), so that who asks again finds it done. It follows a stream for
 * LABEL_COUNTER_SECONDS after it was asked for last, and takes half of one processor at most while
 * it is behind. Draws wait for nothing of it.
 *
 * Threads: label_counter_new(), _stop() and _free() belong to one thread; the rest to any.
 */
#ifndef SAMPLER_SERVICE_LABEL_COUNTER_H
#define SAMPLER_SERVICE_LABEL_COUNTER_H

#include <stdint.h>

#include "common/error.h"
#include "sampler/stream/streams.h"

#define LABEL_COUNTER_STREAMS 16 /* that are followed at once; the longest ago goes */
#define LABEL_COUNTER_SECONDS 60

struct label_counter;

/* Starts the thread. `streams` is borrowed and must outlive it. */
enum error label_counter_new(struct streams *streams,
                             struct label_counter **ret_counter) MUST_CHECK;
/* Ends the thread, within some milliseconds; everything else may still be called. NULL is legal. */
void label_counter_stop(struct label_counter *counter);
/* The same, and frees it. NULL is legal. */
void label_counter_free(struct label_counter *counter);

struct label_counts {
    int64_t epoch;  /* the one that the stream is in; at its end the last */
    int64_t left;   /* positions that are still to be counted; over 0: `drawn` says nothing */
    int64_t *drawn; /* [L] handed out in this epoch (stream_drawn()); owned: free() */
};

/* Would label_counter_ask() take a millisecond or so? Else it is not for an event loop. */
bool label_counter_is_quick(struct stream *stream);
/* Counts for `limit_ns` at most (about), and has the thread go on. ERROR_MEMORY. */
enum error label_counter_ask(struct label_counter *counter, struct stream *stream, int64_t limit_ns,
                             struct label_counts *ret_counts) MUST_CHECK;

#endif

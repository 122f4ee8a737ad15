/* SPDX-License-Identifier: MIT */
/*
 * The thread behind the live page: it samples every stream's counters once a second into a history,
 * and computes the label balance of watched streams. Draws pay nothing for it: it takes a stream's
 * mutex once a second.
 *
 * Balances of many labels take long; one is recomputed when it is older than LIVE_BALANCE_SPARE
 * times its cost, so that watching costs at most a twentieth of one processor.
 *
 * Threads: live_new() and live_free() from one thread; the rest from any.
 */
#ifndef SAMPLER_SERVICE_LIVE_H
#define SAMPLER_SERVICE_LIVE_H

#include "common/buffer.h"
#include "common/error.h"
#include "sampler/service/history.h"
#include "sampler/service/label_counter.h"
#include "sampler/stream/streams.h"

#define LIVE_BALANCES 16 /* streams watched at once; the least recently watched is dropped */
#define LIVE_BALANCE_SPARE 20
#define LIVE_LOOK_SECONDS 10 /* a viewer that sent no request for this long is gone */

struct live;

/* Reads the streams once and starts the thread. `streams` is borrowed and must outlive it. */
enum error live_new(struct streams *streams, struct live **ret_live) MUST_CHECK;
/* Stops the thread; waits for a balance in progress. NULL is legal. */
void live_free(struct live *live);

/* Borrowed. */
struct history *live_history(struct live *live);
struct label_counter *live_counter(struct live *live);

/* Samples a stream's counters now: right after it was created, sought or restored, so that later
 * draws are recorded from the first; and right before a seek or a restore, so that earlier draws
 * are. */
void live_notice(struct live *live, struct stream *stream);

/* How many units of each label [L] were drawn in the last minute: counted from the positions handed
 * out for the first time in the 60 s up to the history's last reading (at most a second ago), and
 * since then; a redelivered batch does not count twice. ERROR_UNAVAILABLE if that cannot be counted
 * quickly (label_balance.h). */
enum error live_last_minute(struct live *live, struct stream *stream,
                            int64_t *ret_counts) MUST_CHECK;

/* Appends the JSON of label_balance.h, or `null` while it is being computed (call again), and marks
 * the stream as watched. Never waits for the counting. */
enum error live_add_balance(struct live *live, struct stream *stream,
                            struct buffer *out) MUST_CHECK;

#endif

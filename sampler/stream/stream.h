/* SPDX-License-Identifier: MIT */
/*
 * A stream: a definition, its sampling plan, and its ledger. Invariants: each position is in one
 * batch; what a response reports is as durable as promised; an unleased draw that could not be made
 * durable is undone before any response is sent.
 *
 * Calls that change a stream take a waiter (journal_waiter.h) and set *ret_wait: if true, the
 * response, whatever it says, must not be sent before waiter->ready(). It is set on every return;
 * true only with OK, with ERROR_END and ERROR_CONFLICT, since what they rest on may not be kept,
 * and with any error of a draw whose acks were accepted. With a NULL waiter nothing waits (tests).
 *
 * While the state cannot be written, every change is refused with ERROR_NO_SPACE or ERROR_IO, and
 * nothing changes.
 *
 * Threads: every function from any thread; one mutex for all streams of a server, held for less
 * than a microsecond. Streams are reference-counted: streams_take() and stream_put(). A stream that
 * is deleted while referenced returns ERROR_NOT_FOUND.
 */
#ifndef SAMPLER_STREAM_STREAM_H
#define SAMPLER_STREAM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/http/metrics.h"
#include "sampler/journal/journal_waiter.h"
#include "sampler/ledger/ledger_plan.h"
#include "sampler/stream/readers.h"
#include "sampler/stream/sampling_plan.h"
#include "sampler/stream/stream_definition.h"

struct stream;

void stream_put(struct stream *stream);

/* Call it every second: so long without a look means that the process stood still, and that no
 * lease ran meanwhile. Any thread. */
void stream_look_at_clock(void);

/* Counters of HTTP requests that belong to the stream (metrics.h). */
struct metrics_blocks *stream_metrics(struct stream *stream);
/* Its readers by index. */
struct readers *stream_readers(struct stream *stream);

/* Borrowed while the stream is held; immutable. */
const struct stream_definition *stream_definition(const struct stream *stream);
const struct sampling_plan *stream_plan(const struct stream *stream);
const struct stream_binding *stream_binding(const struct stream *stream);

struct stream_batch {
    struct span span;
    int64_t attempt;    /* 1, 2, ... of a batch that is or was leased; else 0 */
    int64_t expires_ms; /* remaining time of the lease; -1: no lease */
    bool redelivered;
    int64_t need; /* over 0: nothing was drawn, the next batch has that many units: retry with room
                   * for them (acks stay applied) */
};

/* The next batch: one that this pair already has, else an expired or released one, else positions
 * to be drawn first, else new ones. ERROR_END: the stream has ended (204). ERROR_TIMEOUT (503):
 * only leased batches are left; or the design skips so many positions that the batch is not found
 * yet, and the next call continues the search. ERROR_CONFLICT (409, its kind says which): paused
 * and not at its end, unless the pair has a batch; an ack that is not this worker's; another size
 * than this pair got; a pair that was acked, lost, released or withdrawn, or whose worker was
 * forgotten since. ERROR_USAGE: a size that the design or the tail does not allow. ERROR_MEMORY:
 * the table of workers is full and all have batches (503). */
enum error stream_draw(struct stream *stream, const struct ledger_pull *pull,
                       struct journal_waiter *waiter, struct stream_batch *ret_batch,
                       bool *ret_wait) MUST_CHECK;
/* The same for a worker's seqs from pull->seq on, at most `most`, in ret_batches[most]: stops at
 * the first error or lack of room. OK with *ret_count 0: the first one needs room; an error of the
 * first is returned. Needs a worker if `most` is above 1; at most STREAM_DRAWS_AT_ONCE. */
#define STREAM_DRAWS_AT_ONCE 64
enum error stream_draw_several(struct stream *stream, const struct ledger_pull *pull, size_t most,
                               struct journal_waiter *waiter, struct stream_batch ret_batches[],
                               size_t *ret_count, bool *ret_wait) MUST_CHECK;
/* What stream_draw() would return now; changes nothing, but passes gaps without a unit. */
enum error stream_peek(struct stream *stream, const struct ledger_pull *pull,
                       struct stream_batch *ret_batch) MUST_CHECK;

/* Would the pull's pair be refused whatever is left to draw? stream_draw() checks the same before
 * it acks; for callers that ack many before a draw. */
enum error stream_check_pair(struct stream *stream, const struct ledger_pull *pull) MUST_CHECK;

/* More leases than this are acked, extended and released by the functions _many: in pieces that let
 * other threads in between, and without waiting for the disk. An ack of no seq, or a release of
 * nothing, waits for everything done before. ERROR_CONFLICT: of an ack or extension, nothing is
 * done; after other errors some may be acked or released, and the same call again does the rest. */
#define STREAM_LEASES_AT_ONCE 256
enum error stream_ack_many(struct stream *stream, const char *worker, const int64_t *seqs,
                           size_t count) MUST_CHECK;
enum error stream_extend_many(struct stream *stream, const char *worker, const int64_t *seqs,
                              size_t count) MUST_CHECK;
enum error stream_release_many(struct stream *stream, const char *worker,
                               int64_t *ret_released) MUST_CHECK;
/* Does it have so many leases, gaps, skipped spans or workers that a checkpoint, a seek or a
 * restore would block an HTTP thread for too long? */
bool stream_has_much(struct stream *stream);
/* How many leases the worker has. */
size_t stream_leased_by(struct stream *stream, const char *worker);

/* Acks all of `seqs` or none. ERROR_CONFLICT names the first that this worker may not ack. */
enum error stream_ack(struct stream *stream, const char *worker, const int64_t *seqs, size_t count,
                      struct journal_waiter *waiter, bool *ret_wait) MUST_CHECK;
/* Gives all of `seqs` a full lease from now on, or returns ERROR_CONFLICT. Never waits for the
 * disk. */
enum error stream_extend(struct stream *stream, const char *worker, const int64_t *seqs,
                         size_t count, int64_t *ret_expires_ms) MUST_CHECK;
/* An unknown worker releases 0. */
enum error stream_release(struct stream *stream, const char *worker, struct journal_waiter *waiter,
                          int64_t *ret_released, bool *ret_wait) MUST_CHECK;

/* Idempotent: pausing a paused stream is OK. */
enum error stream_pause(struct stream *stream, struct journal_waiter *waiter,
                        bool *ret_wait) MUST_CHECK;
enum error stream_resume(struct stream *stream, struct journal_waiter *waiter,
                         bool *ret_wait) MUST_CHECK;
/* ERROR_USAGE: beyond the stream's end; without one, beyond POSITION_LIMIT (batching.h). */
enum error stream_seek(struct stream *stream, int64_t position, struct journal_waiter *waiter,
                       bool *ret_wait) MUST_CHECK;

/* A text (checkpoint_token.h); the caller frees it. It includes draws and acks whose responses are
 * pending, so it waits for the disk as they do. */
enum error stream_checkpoint(struct stream *stream, struct journal_waiter *waiter, char **ret_token,
                             bool *ret_wait) MUST_CHECK;
/* ERROR_INPUT: damaged (400). ERROR_CONFLICT: of another order, naming the difference (409). */
enum error stream_restore(struct stream *stream, const char *token, struct journal_waiter *waiter,
                          bool *ret_wait) MUST_CHECK;

/* STREAM_UNAVAILABLE: set aside (streams.h). */
enum stream_state { STREAM_RUNNING, STREAM_PAUSED, STREAM_ENDED, STREAM_UNAVAILABLE };

struct stream_status {
    int64_t generation;
    int64_t position;
    int64_t epoch;
    int64_t gaps;            /* positions below `position` that are to be drawn first */
    int64_t leased;          /* batches that workers hold */
    int64_t waiting;         /* batches that expired or were released, to be redelivered */
    int64_t acked;           /* batches that are done */
    int64_t redelivered;     /* how often batches were redelivered */
    int64_t batches;         /* how often batches were handed out */
    int64_t workers;         /* known ones */
    int64_t lease_ms;        /* current duration of a lease */
    int64_t jumps;           /* seeks and restores so far */
    enum stream_state state; /* ended: at its end, nothing leased, nothing waiting */
    bool failing;            /* the state cannot be written: changes are refused until it can */
};
void stream_status(struct stream *stream, struct stream_status *ret_status);

/* What was drawn in the stream's current epoch, or its last one at the end. Excludes skipped spans
 * (ledger_skipped.h) and gaps; includes leased batches, also those waiting to be redelivered. */
struct stream_drawn {
    int64_t epoch;
    struct interval *spans; /* [count], ascending, disjoint; owned: free() */
    size_t count;
};
/* ERROR_MEMORY. */
enum error stream_drawn(struct stream *stream, struct stream_drawn *ret_drawn) MUST_CHECK;

/* PLACE_SKIPPED: before the stream's position, never drawn, and not to come (ledger_skipped.h). */
enum stream_place_state { PLACE_AHEAD, PLACE_LEASED, PLACE_DONE, PLACE_SKIPPED };

struct stream_place {
    enum stream_place_state state;
    char worker[WORKER_NAME_BYTES]; /* "": none, or no longer known */
    int64_t seq, attempt;           /* if there is a worker */
};
/* For done positions, the worker is known if it is among the last 65,536 leased batches. */
void stream_where(struct stream *stream, int64_t position, struct stream_place *ret_place);

struct stream_worker {
    char name[WORKER_NAME_BYTES];
    int64_t leased;
    int64_t oldest_age_ms; /* of its leases; -1: none, or from before this start */
    int64_t acked;
    int64_t redelivered;
    double batches_per_s; /* acked, over the last minute */
    int64_t last_seen_ms; /* ago; -1: not since this start */
};
/* Workers with leases or seen since this start, most recently seen first, at most `room`;
 * *ret_known: how many the stream knows. ERROR_MEMORY. */
enum error stream_workers(struct stream *stream, struct stream_worker *ret_workers, size_t room,
                          size_t *ret_count, size_t *ret_known) MUST_CHECK;

#endif

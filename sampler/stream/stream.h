/* SPDX-License-Identifier: MIT */
/*
 * A stream: a definition, its sampling plan, and its ledger. What always holds: each position is
 * given to one batch; whatever a response may say is kept as the durability promises; an unleased
 * draw that could not be made durable is undone before any response is sent.
 *
 * Calls that change a stream take a waiter (journal_waiter.h) and set *ret_wait: when it is true
 * the response, whichever it is, must not leave before waiter->ready(). It is set on every return;
 * true only with OK, ERROR_END and ERROR_TIMEOUT. With a waiter of NULL nothing waits (tests).
 *
 * While the state cannot be written every change is refused: ERROR_NO_SPACE or ERROR_IO, nothing
 * moved.
 *
 * Threads: every function from every thread; one mutex for all streams of a server, held for less
 * than a microsecond. A stream is counted: streams_take() and stream_put(). One that was deleted
 * while it is held answers ERROR_NOT_FOUND.
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

/* What HTTP threads count of requests that belong to the stream (metrics.h). */
struct metrics_blocks *stream_metrics(struct stream *stream);
/* Who reads it by index. */
struct readers *stream_readers(struct stream *stream);

/* Borrowed while the stream is held; they never change. */
const struct stream_definition *stream_definition(const struct stream *stream);
const struct sampling_plan *stream_plan(const struct stream *stream);

struct stream_batch {
    struct span span;
    int64_t attempt;    /* 1, 2, ... of a batch that is leased, or was before; else 0 */
    int64_t expires_ms; /* time that is left of the lease; -1: no lease */
    bool redelivered;
    int64_t need; /* over 0: nothing was drawn, the next batch has that many units: come again
                   * with room for them (what was acked stays acked) */
};

/* The next batch: one that this pair has already, else one that expired or was released, else
 * positions that are to be drawn first, else new ones.
 * ERROR_END: the stream has ended (204). ERROR_TIMEOUT (503): only leased batches are left;
 * or the design skips so many positions that the batch is not found yet, and the next call goes on
 * searching. ERROR_CONFLICT (409, its kind says which): paused and not at its end, but for a pair
 * that has a batch; an ack that is not this worker's to give; another size than this pair got; a
 * pair that was acked, lost, released or withdrawn, or of a worker that was forgotten since.
 * ERROR_USAGE: a size that the design or the tail cannot give. ERROR_MEMORY: all workers that may
 * be known have batches (503). */
enum error stream_draw(struct stream *stream, const struct ledger_pull *pull,
                       struct journal_waiter *waiter, struct stream_batch *ret_batch,
                       bool *ret_wait) MUST_CHECK;
/* The same for a worker's seqs from pull->seq on, `most` of them, in ret_batches[most]: as many as
 * follow each other without an error or a lack of room. OK with *ret_count 0: the first one needs
 * room; its error is the answer. Needs a worker where `most` is above 1; at most
 * STREAM_DRAWS_AT_ONCE. */
#define STREAM_DRAWS_AT_ONCE 64
enum error stream_draw_several(struct stream *stream, const struct ledger_pull *pull, size_t most,
                               struct journal_waiter *waiter, struct stream_batch ret_batches[],
                               size_t *ret_count, bool *ret_wait) MUST_CHECK;
/* What stream_draw() would return now; nothing moves. */
enum error stream_peek(struct stream *stream, const struct ledger_pull *pull,
                       struct stream_batch *ret_batch) MUST_CHECK;

/* Is the pull's pair refused for good, whatever is left to draw? As stream_draw(), which asks that
 * before it acks; for who acks many before a draw. */
enum error stream_check_pair(struct stream *stream, const struct ledger_pull *pull) MUST_CHECK;

/* More leases than this are acked, extended and released in pieces, by the functions _many: they
 * take long, with moments for others in between, and wait for no disk. An ack of no seq, or a
 * release of nothing, waits for all that was done before. */
#define STREAM_LEASES_AT_ONCE 256
enum error stream_ack_many(struct stream *stream, const char *worker, const int64_t *seqs,
                           size_t count) MUST_CHECK;
enum error stream_extend_many(struct stream *stream, const char *worker, const int64_t *seqs,
                              size_t count) MUST_CHECK;
enum error stream_release_many(struct stream *stream, const char *worker,
                               int64_t *ret_released) MUST_CHECK;
/* Has it so many leases, gaps, skipped spans or workers that a checkpoint, a seek or a restore
 * takes longer than a thread should be kept that others wait for? */
bool stream_has_much(struct stream *stream);
/* How many leases the worker has. */
size_t stream_leased_by(struct stream *stream, const char *worker);

/* All of `seqs` or none. ERROR_CONFLICT names the first that is not this worker's to ack. */
enum error stream_ack(struct stream *stream, const char *worker, const int64_t *seqs, size_t count,
                      struct journal_waiter *waiter, bool *ret_wait) MUST_CHECK;
/* A whole lease from now on for all of `seqs`, or ERROR_CONFLICT. Never waits for the disk. */
enum error stream_extend(struct stream *stream, const char *worker, const int64_t *seqs,
                         size_t count, int64_t *ret_expires_ms) MUST_CHECK;
/* A worker that is not known has released 0. */
enum error stream_release(struct stream *stream, const char *worker, struct journal_waiter *waiter,
                          int64_t *ret_released, bool *ret_wait) MUST_CHECK;

/* Pausing a paused stream is OK, and so on. */
enum error stream_pause(struct stream *stream, struct journal_waiter *waiter,
                        bool *ret_wait) MUST_CHECK;
enum error stream_resume(struct stream *stream, struct journal_waiter *waiter,
                         bool *ret_wait) MUST_CHECK;
/* ERROR_USAGE: beyond the stream's end, or 2^62 without one. */
enum error stream_seek(struct stream *stream, int64_t position, struct journal_waiter *waiter,
                       bool *ret_wait) MUST_CHECK;

/* A text (checkpoint_token.h); the caller frees it. It calls done what was answered and what is
 * about to be, so it waits for the disk as those responses do. */
enum error stream_checkpoint(struct stream *stream, struct journal_waiter *waiter, char **ret_token,
                             bool *ret_wait) MUST_CHECK;
/* ERROR_INPUT: damaged (400). ERROR_CONFLICT: of another order, naming the difference (409). */
enum error stream_restore(struct stream *stream, const char *token, struct journal_waiter *waiter,
                          bool *ret_wait) MUST_CHECK;

enum stream_state { STREAM_RUNNING, STREAM_PAUSED, STREAM_ENDED };

struct stream_status {
    int64_t generation;
    int64_t position;
    int64_t epoch;
    int64_t gaps;            /* positions below `position` that are to be drawn first */
    int64_t leased;          /* batches that somebody has */
    int64_t waiting;         /* batches that expired or were released, to be redelivered */
    int64_t acked;           /* batches that are done */
    int64_t redelivered;     /* how often a batch was redelivered */
    int64_t batches;         /* how often a batch was handed out */
    int64_t workers;         /* that are known */
    int64_t lease_ms;        /* how long a lease is at the moment */
    int64_t jumps;           /* seeks and restores so far */
    enum stream_state state; /* ended: at its end, nothing leased, nothing waiting */
    bool failing;            /* the state cannot be written: changes are refused until it can */
};
void stream_status(struct stream *stream, struct stream_status *ret_status);

/* Sets this thread's message to why the state could not be written last; returns the code. */
enum error stream_failure(struct stream *stream);

/* What was handed out in the epoch that the stream is in; at a stream's end that is its last one.
 * Not what is skipped (ledger_skipped.h) or to be drawn first (gaps). What is leased counts, also
 * when it waits to be redelivered. */
struct stream_drawn {
    int64_t epoch;
    struct interval *spans; /* [count], ascending, apart from each other; owned: free() */
    size_t count;
};
/* ERROR_MEMORY. */
enum error stream_drawn(struct stream *stream, struct stream_drawn *ret_drawn) MUST_CHECK;

/* PLACE_SKIPPED: before the stream's position, never drawn, and not to come (ledger_skipped.h). */
enum stream_place_state { PLACE_AHEAD, PLACE_LEASED, PLACE_DONE, PLACE_SKIPPED };

struct stream_place {
    enum stream_place_state state;
    char worker[WORKER_NAME_BYTES]; /* "": nobody, or not known any more */
    int64_t seq, attempt;           /* when there is a worker */
};
/* Of the positions that are done, those of the last 65,536 leased batches know their worker. */
void stream_where(struct stream *stream, int64_t position, struct stream_place *ret_place);

struct stream_worker {
    char name[WORKER_NAME_BYTES];
    int64_t leased;
    int64_t oldest_age_ms; /* of its leases; -1: it has none, or they are older than this start */
    int64_t acked;
    int64_t redelivered;
    double batches_per_s; /* acked, over the last minute */
    int64_t last_seen_ms; /* ago; -1: not since this start */
};
/* Those that have leases or were seen since this start, the last seen first, at most `room`;
 * *ret_known: how many the stream knows. ERROR_MEMORY. */
enum error stream_workers(struct stream *stream, struct stream_worker *ret_workers, size_t room,
                          size_t *ret_count, size_t *ret_known) MUST_CHECK;

#endif

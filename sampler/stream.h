/*
 * A stream: one consumer group's walk through an order, cut into batches. It owns the position, and
 * keeps it in the state folder when there is one.
 *
 * What always holds: each position is given to one draw; a draw that the caller may answer is kept
 * as its durability promises; a draw that could not be kept is taken back before anybody hears of
 * it, so that its positions go to the next ones.
 *
 *   DURABILITY_FSYNC    the caller waits (struct stream_waiter) until the committer has the record
 *                       on the disk; draws that come meanwhile share the next write (group commit)
 *   DURABILITY_PROCESS  the record is handed to the kernel before the draw returns: survives
 *                       kill -9, not power loss
 *   DURABILITY_NONE     written at the orderly end only
 *
 * Threads: all functions may be called from every thread; one mutex, held for some dozen
 * nanoseconds (DURABILITY_PROCESS: for one pwrite).
 */
#ifndef SAMPLER_STREAM_H
#define SAMPLER_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/cut.h"
#include "sampler/state.h"

enum durability { DURABILITY_FSYNC, DURABILITY_PROCESS, DURABILITY_NONE };

struct stream;

/* One draw that waits for the disk. Storage of the caller's, untouched until ready() is called. */
struct stream_waiter {
    struct stream_waiter *next;
    enum error error; /* set before ready(): OK, or why the draw was taken back */
    /* Called once from the committer's thread, without the mutex. */
    void (*ready)(struct stream_waiter *waiter);
};

struct stream_status {
    int64_t position;
    int64_t epoch;
    int64_t batches; /* drawn so far, over all starts with this state */
    bool ended;
    bool failing; /* the state cannot be written: draws are refused until it can */
};

/* `state` (bound; borrowed; NULL: nothing is kept) is used by this stream alone from here on. */
enum error stream_new(const struct cut *cut, struct state *state, enum durability durability,
                      struct stream **ret_stream) MUST_CHECK;
/* Writes what is not written yet (orderly end); the committer is stopped already. */
enum error stream_finish(struct stream *stream) MUST_CHECK;
void stream_free(struct stream *stream);

const struct cut *stream_cut(const struct stream *stream);
void stream_status(struct stream *stream, struct stream_status *ret_status);
/* Does stream_draw() ever make its caller wait? */
bool stream_waits(const struct stream *stream);

/* The next `size` positions (>= 1) as the cut gives them; at the end size 0. *ret_wait: the answer
 * must not leave before waiter->ready() said OK; it may be called before this returns. ERROR_USAGE
 * for a size that this tail can never give; ERROR_NO_SPACE, ERROR_IO while the state cannot be
 * written (nothing was drawn). */
enum error stream_draw(struct stream *stream, int64_t size, struct stream_waiter *waiter,
                       struct span *ret_span, bool *ret_wait) MUST_CHECK;
/* What stream_draw() would give now, without drawing. */
enum error stream_peek(struct stream *stream, int64_t size, struct span *ret_span) MUST_CHECK;

/* Sets this thread's message to why the state could not be written last; returns the code. */
enum error stream_failure(struct stream *stream);

/* ---- for the committer (sampler/committer.h) ------------------------------------------------ */

/* Waits until there is something to write, at most until the deadline; false when there is nothing.
 * Takes all waiters; the record to write is the stream's own. */
struct stream_commit {
    int64_t position;
    int64_t batches;
    struct stream_waiter *waiters;
};
bool stream_commit_begin(struct stream *stream, int64_t deadline_ns,
                         struct stream_commit *ret_commit);
/* Writes the record; then the waiters hear the outcome. On failure everything that is not durable
 * is taken back, and draws are refused until a later commit works. */
enum error stream_commit_end(struct stream *stream, struct stream_commit *commit) MUST_CHECK;
/* Wakes stream_commit_begin(). */
void stream_commit_wake(struct stream *stream);

#endif

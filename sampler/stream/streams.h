/* SPDX-License-Identifier: MIT */
/*
 * All streams of a server, by name, and their journal. `default` always exists.
 *
 * Threads: streams_open() and streams_free() from one thread; everything between from any.
 */
#ifndef SAMPLER_STREAM_STREAMS_H
#define SAMPLER_STREAM_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/build/frame_set.h"
#include "sampler/journal/journal.h"
#include "sampler/stream/stream.h"

#define STREAM_DEFAULT "default"

struct streams;
struct state;

struct streams_options {
    struct state *state; /* the open folder, borrowed; NULL: nothing is kept */
    enum durability durability;
    int64_t max_streams;  /* at least 1; `default` counts */
    uint64_t accept_loss; /* end of a damaged journal whose loss is accepted (journal.h); 0: none */
};

/* Reads the journal. ERROR_INPUT: damaged. */
enum error streams_open(const struct streams_options *options,
                        struct streams **ret_streams) MUST_CHECK;
/* The seed of `default` in the state; false: there is none. */
bool streams_kept_seed(const struct streams *streams, uint64_t *ret_seed);
/* Are there stored streams on this frame, but not `default`? */
bool streams_can_wait_for(const struct streams *streams, const char *frame);
/* Opens the plans of all stored streams; may take long. Streams whose frame is missing are set
 * aside and logged: they stay as they are until a start that has the frame. `first` defines
 * `default`, `plan` is its plan (taken also on failure); `frames` and `shares` (or NULL) are
 * borrowed. ERROR_CONFLICT: the state belongs to another order, or a stream's frame differs, with
 * each difference named. Afterwards everything below may be called. */
enum error streams_start(struct streams *streams, const struct frame_set *frames,
                         const struct split_shares *shares, const struct stream_definition *first,
                         struct sampling_plan *plan) MUST_CHECK;
/* Orderly shutdown: writes pending entries and releases all waiters. ERROR_TIMEOUT: the disk does
 * not answer. */
enum error streams_finish(struct streams *streams) MUST_CHECK;
/* All streams must have been put. False: the disk does not respond, and a thread blocked on it uses
 * them and the state; they are not freed. NULL is legal. */
bool streams_free(struct streams *streams);

/* The caller opens `plan` where it may take long (taken also on failure). ERROR_CONFLICT: the name
 * is in use, or max_streams exist; ERROR_USAGE: the position is out of range. The stream is taken
 * for the caller. */
enum error streams_create(struct streams *streams, const struct stream_definition *definition,
                          struct sampling_plan *plan, int64_t position,
                          struct journal_waiter *waiter, struct stream **ret_stream,
                          bool *ret_wait) MUST_CHECK;
/* Deletes a stream that the caller has taken. ERROR_CONFLICT for `default`; ERROR_NOT_FOUND: it was
 * deleted. A caller that waits keeps its reference: the stream is restored if the deletion could
 * not be kept. */
enum error streams_delete(struct streams *streams, struct stream *stream,
                          struct journal_waiter *waiter, bool *ret_wait) MUST_CHECK;

/* NULL: there is none of that name (no message). The caller calls stream_put(). */
struct stream *streams_take(struct streams *streams, const char *name);
/* The same for streams that are set aside, which the other functions do not find. They have no
 * plan: only their definition, binding and status may be asked for; streams_delete() deletes
 * them. */
struct stream *streams_take_aside(struct streams *streams, const char *name);
/* In order of creation, `default` first; each is taken, a few hundred per hold of the mutex:
 * streams created or deleted meanwhile may or may not be included. ERROR_MEMORY. The caller calls
 * streams_put_all(). */
enum error streams_list(struct streams *streams, struct stream ***ret_taken,
                        size_t *ret_count) MUST_CHECK;
enum error streams_list_aside(struct streams *streams, struct stream ***ret_taken,
                              size_t *ret_count) MUST_CHECK;
void streams_put_all(struct stream **taken, size_t count);
size_t streams_count(struct streams *streams);
/* Frees the rest of large deleted streams; may take long. Call it periodically from a thread that
 * no request waits for. */
void streams_sweep(struct streams *streams);

/* Is the state currently not writable? */
bool streams_failing(struct streams *streams);
/* Sets this thread's message to the reason; returns the code. */
enum error streams_failure(struct streams *streams);
/* All zeros without a journal. */
void streams_journal_counts(struct streams *streams, struct journal_counts *ret_counts);

#endif

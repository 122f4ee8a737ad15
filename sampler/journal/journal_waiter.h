/* SPDX-License-Identifier: MIT */
/*
 * A response that waits until the change it reports is durable. Caller's storage, which must not
 * move or change until ready() is called. The waiter may be reused afterwards.
 */
#ifndef SAMPLER_JOURNAL_JOURNAL_WAITER_H
#define SAMPLER_JOURNAL_JOURNAL_WAITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct stream;

/* The change made to the stream. */
enum journal_undo { UNDO_DRAW, UNDO_CREATE, UNDO_DELETE, UNDO_PAUSE, UNDO_RESUME, UNDO_JUMP };

struct journal_waiter {
    /* Set by the caller. Called once, possibly before the call that received the waiter returns:
     * from another thread, or from this one with the owner's mutex held. */
    void (*ready)(struct journal_waiter *waiter);
    enum error error; /* set before ready(): OK, or why it was not kept (streams_failure()) */

    /* The stream's: enough to undo a change that cannot be kept. */
    struct journal_waiter *next;
    struct stream *stream; /* NULL: nothing is undone */
    enum journal_undo undo;
    int64_t jumps;  /* of the ledger at the draw; this and the following are for a draw */
    int64_t before; /* the stream's position */
    int64_t first, positions, units;
    int64_t attempt;            /* before it; over 0: it was leased before */
    int64_t worker, seq, asked; /* whose expired lease it was; worker -1: nobody's */
    bool piece;                 /* of a gap */
};

/* Nothing will be undone for it; NULL is legal, as below. */
static inline void journal_waiter_clear(struct journal_waiter *waiter)
{
    if (waiter)
        waiter->stream = NULL;
}

/* Records the change to undo if it cannot be kept. */
static inline void journal_waiter_remember(struct journal_waiter *waiter, struct stream *stream,
                                           enum journal_undo undo)
{
    if (!waiter)
        return;
    waiter->stream = stream;
    waiter->undo = undo;
}

#endif

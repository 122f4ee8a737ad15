/* SPDX-License-Identifier: MIT */
/*
 * A response that waits until what it says is on the disk. The caller's storage: it must stay, and
 * stay untouched, until ready() is called. The same waiter may be used again afterwards.
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
    /* The caller sets it. Called once, maybe before the call that was given the waiter returns:
     * from another thread, or from this one with the owner's mutex held. */
    void (*ready)(struct journal_waiter *waiter);
    enum error error; /* set before ready(): OK, or why nothing of it was kept (stream_failure()) */

    /* The stream's own: enough to undo a change that cannot be kept. */
    struct journal_waiter *next;
    struct stream *stream; /* NULL: nothing is undone */
    enum journal_undo undo;
    int64_t jumps; /* of the ledger, when it was drawn; this and below: of a draw */
    int64_t first, positions, units;
    int64_t attempt;
    bool piece; /* of a gap */
};

/* Nothing is undone for it any more; NULL is legal, as below. */
static inline void journal_waiter_clear(struct journal_waiter *waiter)
{
    if (waiter)
        waiter->stream = NULL;
}

/* The change that is undone if it cannot be kept. */
static inline void journal_waiter_remember(struct journal_waiter *waiter, struct stream *stream,
                                           enum journal_undo undo)
{
    if (!waiter)
        return;
    waiter->stream = stream;
    waiter->undo = undo;
}

#endif

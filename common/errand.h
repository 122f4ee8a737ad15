/* SPDX-License-Identifier: MIT */
/*
 * Runs work that may hang uninterruptibly (a name server or file server that does not answer) on
 * its own thread. The caller waits as long as it wants and then leaves; whoever finishes last frees
 * the shared data.
 */
#ifndef COMMON_ERRAND_H
#define COMMON_ERRAND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct errand;

/* Prepares to run `work` with `context`; `release` (NULL: nothing to free) frees the context once
 * the work is done and errand_leave() was called. On error the context stays the caller's. */
enum error errand_new(void (*work)(void *context), void (*release)(void *context), void *context,
                      struct errand **ret_errand) MUST_CHECK;
/* Once: runs it on a thread of this name (thread.h). On error nothing runs; leave it then. */
enum error errand_start(struct errand *errand, const char *name) MUST_CHECK;

/* Waits for the work or the deadline (clock.h). true: done, and its results in the context may be
 * read. */
bool errand_wait(struct errand *errand, int64_t deadline_ns);
/* Starts it and waits until it is done. ERROR_CANCELLED: the program should stop (stop.h) and the
 * work did not end soon; leave it then. Once *is_past (may be NULL) is true, the part that may hang
 * is over, and this waits for the rest however long it takes. */
enum error errand_run(struct errand *errand, const char *name,
                      const _Atomic bool *is_past) MUST_CHECK;
/* Ends the caller's use of errand and context, whether the work is done, running or never started.
 * NULL is legal. */
void errand_leave(struct errand *errand);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Work that may hang where nothing interrupts it (a name server, a file server that is away), on a
 * thread of its own. Who started it waits as long as he likes and leaves; what both share is freed
 * by the last of them.
 */
#ifndef COMMON_ERRAND_H
#define COMMON_ERRAND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct errand;

/* Will run `work` with `context`, which `release` frees (NULL: nothing to free) once the work is
 * done and errand_leave() was called. With an error the context stays the caller's. */
enum error errand_new(void (*work)(void *context), void (*release)(void *context), void *context,
                      struct errand **ret_errand) MUST_CHECK;
/* Once: runs it on a thread of this name (thread.h). With an error nothing runs; leave it then. */
enum error errand_start(struct errand *errand, const char *name) MUST_CHECK;

/* Waits until the work is done or the deadline (clock.h); true when it is done: what it left in the
 * context may be read. */
bool errand_wait(struct errand *errand, int64_t deadline_ns);
/* Starts it and waits until it is done. ERROR_CANCELLED: the program is to stop (stop.h), and the
 * work did not end by itself soon; leave it then. Once *is_past (may be NULL) is true, what may
 * hang is over, and the work is awaited however long it takes. */
enum error errand_run(struct errand *errand, const char *name,
                      const _Atomic bool *is_past) MUST_CHECK;
/* Ends the caller's use of errand and context, whether the work is done, runs or was never started.
 * NULL is legal. */
void errand_leave(struct errand *errand);

#endif

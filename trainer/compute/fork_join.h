/* SPDX-License-Identifier: MIT */
/*
 * Fork and join: splits work of some microseconds between the caller and threads that were started
 * once. They watch for the next work for FORK_JOIN_WATCH_NS, giving their processor to whoever
 * wants it, and then sleep. A part that no thread has begun is done by the caller: work never waits
 * for a thread that has no processor, and the results are the same whoever does which part.
 *
 * Threads: fork_join_run() from one at a time, not from within a part.
 */
#ifndef TRAINER_COMPUTE_FORK_JOIN_H
#define TRAINER_COMPUTE_FORK_JOIN_H

#include <stddef.h>

#include "common/error.h"

#define FORK_JOIN_THREADS 16
#define FORK_JOIN_PARTS 16
#define FORK_JOIN_WATCH_NS 100000

struct fork_join;

/* `threads`: with the caller's; 1 to FORK_JOIN_THREADS. */
enum error fork_join_new(unsigned threads, struct fork_join **ret_pool) MUST_CHECK;
/* NULL is legal. */
void fork_join_free(struct fork_join *pool);

unsigned fork_join_threads(const struct fork_join *pool);

/* Calls part(context, 0) to part(context, parts - 1), and returns when all have returned. If it
 * can, the same thread does the same part every time, so that what a part reads and writes stays in
 * one processor's cache. `parts`: at most FORK_JOIN_PARTS. Allocates nothing. */
void fork_join_run(struct fork_join *pool, unsigned parts,
                   void (*part)(void *context, unsigned part), void *context);

/* Where a part of `count` elements begins: at a multiple of `multiple`. It ends where the next one
 * begins, the last one at `count`. */
static inline size_t fork_join_begin(size_t count, unsigned parts, unsigned part, size_t multiple)
{
    return part == parts ? count : count * part / parts / multiple * multiple;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A team splits one piece of work into parts for as many threads as there are CPUs for us. The
 * caller's thread is one of them, and does everything if no other can be started; the others end
 * with the work.
 *
 * Parts begin in order, and every part that began runs to its end, so a part may wait for earlier
 * ones (section_put() does).
 */
#ifndef COMMON_TEAM_H
#define COMMON_TEAM_H

#include <stdint.h>

#include "common/error.h"

#define TEAM_LIMIT 16 /* threads */

struct team_work {
    const char *what; /* "ids are sorted", for messages: "stopped while ids are sorted" */
    uint64_t parts;
    /* `hand`, below the number of threads, identifies the thread. */
    enum error (*work)(void *context, unsigned hand, uint64_t part);
    void *context;
};

/* The number of useful threads: CPUs that this process may use, at most TEAM_LIMIT. */
unsigned team_hands(void);

/* Runs all parts on at most `hands` threads. Returns the first failure, with its message, once all
 * threads have stopped; ERROR_CANCELLED after stop_requested(). */
enum error team_run(const struct team_work *work, unsigned hands) MUST_CHECK;

/* Processes elements [begin, end); several threads call it at once, never twice for the same
 * element. */
typedef enum error team_block(void *context, int64_t begin, int64_t end);

/* Like team_run(), on all CPUs, over the elements [0, count) in blocks that begin at multiples of
 * `grain`. For work that takes at least tenths of a second; not on an event loop. */
enum error team_run_blocks(const char *what, int64_t count, int64_t grain, team_block *block,
                           void *context) MUST_CHECK;

#endif

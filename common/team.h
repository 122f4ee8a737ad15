/* SPDX-License-Identifier: MIT */
/*
 * A team: the parts of one piece of work, done by as many threads as there are CPUs for us. The
 * caller's thread is one of them, and does it all where no other can be started; the others last as
 * long as the work.
 *
 * Parts begin in their order, and every part that began runs to its end, so that a part may wait
 * for those before it (section_put() does).
 */
#ifndef COMMON_TEAM_H
#define COMMON_TEAM_H

#include <stdint.h>

#include "common/error.h"

#define TEAM_LIMIT 16 /* threads */

struct team_work {
    const char *what; /* "sorting ids", for messages */
    uint64_t parts;
    /* `hand`, below the team's number of threads, is one thread's throughout. */
    enum error (*work)(void *context, unsigned hand, uint64_t part);
    void *context;
};

/* Threads that are worth while: CPUs that this process may use, at most TEAM_LIMIT. */
unsigned team_hands(void);

/* All parts, by at most `hands` threads. The failure that came first is returned, with its message,
 * once nobody works any more; ERROR_CANCELLED after stop_requested(). */
enum error team_run(const struct team_work *work, unsigned hands) MUST_CHECK;

/* The elements [begin, end); called by several threads at once, never twice for the same. */
typedef enum error team_block(void *context, int64_t begin, int64_t end);

/* As team_run(), by all CPUs, over the elements [0, count) in blocks that begin at multiples of
 * `grain`. For work that takes tenths of a second at least; not on an event loop. */
enum error team_run_blocks(int64_t count, int64_t grain, team_block *block,
                           void *context) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Reads a spool by a team: divided into contiguous runs of rows, each read by one thread from its
 * front, with the thread's own cursor.
 */
#ifndef SAMPLER_BUILD_SPOOL_TEAM_H
#define SAMPLER_BUILD_SPOOL_TEAM_H

#include "common/error.h"
#include "common/team.h"
#include "sampler/build/spool_cursor.h"

struct spool_team {
    const struct spool *spool;
    const char *what; /* "sorting ids", for messages */
    unsigned hands;   /* threads that are worthwhile for this spool */
    struct spool_cursor cursors[TEAM_LIMIT];
};

enum error spool_team_open(struct spool_team *team, const struct spool *spool,
                           const char *what) MUST_CHECK;
/* Legal for a zeroed one. */
void spool_team_close(struct spool_team *team);

/* Takes rows with one spool_cursor_next() or spool_cursor_next32(); cursor->row is the first. */
typedef enum error spool_step(void *context, unsigned run, struct spool_cursor *cursor);

/* Calls `step` until all rows have been taken, in `runs` runs. ERROR_CANCELLED after
 * stop_requested(). */
enum error spool_team_read(struct spool_team *team, unsigned runs, spool_step *step,
                           void *context) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A spool that a team reads: cut into runs of neighbouring rows, each read by one thread from its
 * front, with a cursor of the thread's own.
 */
#ifndef SAMPLER_BUILD_SPOOL_TEAM_H
#define SAMPLER_BUILD_SPOOL_TEAM_H

#include "common/error.h"
#include "common/team.h"
#include "sampler/build/spool_cursor.h"

struct spool_team {
    const struct spool *spool;
    const char *what; /* "sorting ids", for messages */
    unsigned hands;   /* worth while for this spool */
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

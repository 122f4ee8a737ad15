/*
 * The thread that does the journal's work on the disk: commits, and writing it anew. All changes
 * that come during one commit share the next one.
 *
 * While the disk refuses, it tries again four times a second; changes are refused meanwhile.
 */
#ifndef SAMPLER_JOURNAL_COMMITTER_H
#define SAMPLER_JOURNAL_COMMITTER_H

#include "common/error.h"
#include "sampler/journal/journal.h"

struct committer;

/* Starts the thread. `journal` (borrowed) must outlive it. */
enum error committer_new(struct journal *journal, struct committer **ret_committer) MUST_CHECK;
/* Writes what waits, or fails it, and joins the thread: afterwards nobody waits. NULL is legal. */
void committer_free(struct committer *committer);

#endif

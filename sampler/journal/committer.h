/* SPDX-License-Identifier: MIT */
/*
 * The thread that does the journal's work on the disk: commits, the watermark, compaction.
 *
 * Group commit: every change that comes during one commit shares the next one, so one fdatasync()
 * serves as many clients as are waiting. Compaction runs in pieces of some 100 us, and a commit
 * that is due goes between two of them. While the disk refuses, it tries again four times a second;
 * changes are refused meanwhile.
 *
 * What the thread does is journal_work(); this file only starts and stops it.
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

/* SPDX-License-Identifier: MIT */
/*
 * The thread that does the journal's work on the disk: commits, the watermark, compaction.
 *
 * A second thread watches that it comes back from the disk in time (journal_watch()).
 *
 * Group commit: every change that comes during one commit shares the next one, so one fdatasync()
 * serves as many clients as are waiting. Compaction runs in pieces of some 100 us, and a commit
 * that is due goes between two of them. While the disk refuses, it tries again four times a second;
 * changes are refused meanwhile.
 *
 * What the threads do is journal_work() and journal_watch(); this file only starts and stops them.
 */
#ifndef SAMPLER_JOURNAL_COMMITTER_H
#define SAMPLER_JOURNAL_COMMITTER_H

#include <stdbool.h>

#include "common/error.h"
#include "sampler/journal/journal.h"

struct committer;

/* Starts the threads. `journal` (borrowed) must outlive it. */
enum error committer_new(struct journal *journal, struct committer **ret_committer) MUST_CHECK;
/* Writes what waits, or refuses it; afterwards nobody waits. Then the journal's orderly end:
 * journal_finish(), by the thread. ERROR_TIMEOUT: the disk does not answer. */
enum error committer_finish(struct committer *committer) MUST_CHECK;
/* The same without the orderly end, if that was not called; ends the threads. False: the disk does
 * not answer; a thread that sits in the system uses committer and journal, so that nothing is
 * freed. NULL is legal. */
bool committer_free(struct committer *committer) MUST_CHECK;

#endif

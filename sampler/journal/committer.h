/* SPDX-License-Identifier: MIT */
/*
 * The thread that does the journal's disk work: commits, the watermark, compaction.
 *
 * A second thread checks that it returns from the disk in time (journal_watch()).
 *
 * Group commit: all changes that arrive during one commit share the next, so one fdatasync() serves
 * every client that is waiting. Compaction runs in pieces of about 100 us, and a due commit runs
 * between two pieces. While the disk fails, it retries four times a second; changes are refused
 * meanwhile.
 *
 * journal_work() and journal_watch() hold the logic; this file only starts and stops the threads.
 */
#ifndef SAMPLER_JOURNAL_COMMITTER_H
#define SAMPLER_JOURNAL_COMMITTER_H

#include <stdbool.h>

#include "common/error.h"
#include "sampler/journal/journal.h"

struct committer;

/* Starts the threads. `journal` (borrowed) must outlive it. */
enum error committer_new(struct journal *journal, struct committer **ret_committer) MUST_CHECK;
/* Commits or refuses what is pending, so that no caller is left waiting; then calls
 * journal_finish() on the thread. ERROR_TIMEOUT: the disk does not respond. */
enum error committer_finish(struct committer *committer) MUST_CHECK;
/* The same without journal_finish(), unless that was called; stops the threads. False: the disk
 * does not respond; a thread blocked in the kernel uses committer and journal, so nothing is freed.
 * NULL is legal. */
bool committer_free(struct committer *committer) MUST_CHECK;

#endif

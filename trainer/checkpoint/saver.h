/* SPDX-License-Identifier: MIT */
/*
 * A saver: writes checkpoints on a thread of its own while training goes on, one at a time. The
 * logdir is the saver's from saver_start() until saver_finish() has returned. One thread calls.
 */
#ifndef TRAINER_CHECKPOINT_SAVER_H
#define TRAINER_CHECKPOINT_SAVER_H

#include <stdbool.h>

#include "common/error.h"
#include "trainer/checkpoint/logdir.h"

struct saver;

/* `logdir` is borrowed until saver_close(). */
enum error saver_open(struct logdir *logdir, struct saver **ret_saver) MUST_CHECK;
/* Waits for a save in progress; its failure is logged, and the caller's error message stays. NULL
 * is legal. */
void saver_close(struct saver *saver);

/* Is a save in progress, or not finished by saver_finish() yet? */
bool saver_is_busy(const struct saver *saver);
/* Would saver_finish() return at once? Says so where the save takes long, every now and then. */
bool saver_is_done(struct saver *saver);

/* Takes the snapshot over and begins to write it. The saver must not be busy. */
enum error saver_start(struct saver *saver, struct checkpoint_snapshot *snapshot) MUST_CHECK;
/* Before saver_start(): this one, which is taken over, is written right before it as the logdir's
 * best. NULL: none. */
void saver_add_best(struct saver *saver, struct checkpoint_snapshot *best);
/* After a save that failed, also to start: that one, the caller's again; else NULL. */
struct checkpoint_snapshot *saver_take_best(struct saver *saver);
/* Waits for the save in progress, however long it takes. *ret_step: of which step it was;
 * OK and -1: there was none. */
enum error saver_finish(struct saver *saver, int64_t *ret_step) MUST_CHECK;
/* When a save that failed now is tried again: a deadline. `save_ms` is between two (0: not by
 * time). */
int64_t saver_retry_ns(int64_t save_ms);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A saver: writes checkpoints on a separate thread while training continues, one at a time. The
 * logdir belongs to the saver from saver_start() until saver_finish() has returned. One thread
 * calls.
 */
#ifndef TRAINER_CHECKPOINT_SAVER_H
#define TRAINER_CHECKPOINT_SAVER_H

#include <stdbool.h>

#include "common/error.h"
#include "trainer/checkpoint/logdir.h"

#define SAVER_LAST_MS 8000 /* a training's last save, if it fails, is retried for so long */

struct saver;

/* `logdir` is borrowed until saver_close(). */
enum error saver_open(struct logdir *logdir, struct saver **ret_saver) MUST_CHECK;
/* Waits for a save in progress; logs its failure, and leaves the caller's error message. NULL is
 * legal. */
void saver_close(struct saver *saver);

/* Is a save in progress, or not yet collected by saver_finish()? */
bool saver_is_busy(const struct saver *saver);
/* Would saver_finish() return at once? Logs now and then that a save takes long. */
bool saver_is_done(struct saver *saver);

/* Takes the snapshot and begins to write it. The saver must not be busy. */
enum error saver_start(struct saver *saver, struct checkpoint_snapshot *snapshot) MUST_CHECK;
/* Before saver_start(): writes this snapshot (taken) right before the checkpoint as the logdir's
 * best. NULL: none. */
void saver_add_best(struct saver *saver, struct checkpoint_snapshot *best);
/* After a save that failed, even to start: returns the best one to the caller; else NULL. */
struct checkpoint_snapshot *saver_take_best(struct saver *saver);
/* Waits for the save in progress, however long it takes. *ret_step: its step; OK and -1: there was
 * none. */
enum error saver_finish(struct saver *saver, int64_t *ret_step) MUST_CHECK;
/* When to retry a save that failed now: a deadline. `save_ms`: interval of saves (0: not by
 * time). */
int64_t saver_retry_ns(int64_t save_ms);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A logdir: the folder of one training run.
 *
 *   model.ckpt-<step>.safetensors   the last LOGDIR_KEPT checkpoints
 *   checkpoint                      which is the newest and which are kept: text in the form of
 *                                   TensorFlow's CheckpointState
 *   model.best.safetensors          the state with the lowest test loss, where tests are made; not
 *                                   one of the above, and never removed
 *   trainer.lock                    held (flock) by the one trainer that works here
 *
 * What `checkpoint` names is whole, and stays until a newer one is: kill -9 at any time leaves the
 * state before or after a save. It names a file until that is removed, so that a removal that was
 * cut off is finished by the next run or save. A kill between the two writes of a save leaves a
 * file that it does not name: the next run removes such files if they are older than the newest
 * that it names. Newer ones are never read or removed, so a person may go back by naming an older
 * one in it (what counts is `checkpoint`: a newer file that a kill left is whole too, but training
 * comes to the same bytes again); where `checkpoint` itself is missing, the file with the largest
 * step counts. A named file that is not there any more is skipped for the newest one that is,
 * with a line in the log.
 *
 * Where the folder hangs, a signal ends the process (common/hang.h): at once while it is looked at,
 * after some seconds while a checkpoint is written.
 *
 * Threads: one at a time.
 */
#ifndef TRAINER_CHECKPOINT_LOGDIR_H
#define TRAINER_CHECKPOINT_LOGDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/checkpoint/checkpoint.h"

#define LOGDIR_KEPT 5
#define LOGDIR_BEST "model.best.safetensors"

struct logdir;

/* To train: makes the folder, takes the lock, removes what an interrupted save left. Errors as
 * logdir_lock_take(). */
enum error logdir_open(const char *path, int64_t patience_ms,
                       struct logdir **ret_logdir) MUST_CHECK;
/* To look: takes no lock, changes nothing. ERROR_NOT_FOUND: there is no such folder. */
enum error logdir_open_read(const char *path, struct logdir **ret_logdir) MUST_CHECK;
void logdir_close(struct logdir *logdir);

/* The newest checkpoint; with the lock, removals that were cut off are finished, and what saves
 * that were cut off left behind is removed. *ret_checkpoint is NULL when there is none yet.
 * ERROR_INPUT when it is damaged: the message names it, and the newest of the others that is whole.
 */
enum error logdir_newest(struct logdir *logdir, struct checkpoint **ret_checkpoint) MUST_CHECK;

/* What ends a training besides its last step; each includes those before it. */
enum logdir_end {
    LOGDIR_LAST_STEP,
    LOGDIR_STOPPED, /* an evaluator stopped it: checkpoint_was_stopped() */
    LOGDIR_ENDED    /* its stream ended */
};

/* Which end counts for who waits for server 0, which may just be starting until it `was_met`: it
 * goes on from a training whose stream had ended. `may_stop`: an evaluator may stop it. */
static inline enum logdir_end logdir_end_for(bool was_met, bool may_stop)
{
    if (was_met)
        return LOGDIR_ENDED;
    return may_stop ? LOGDIR_STOPPED : LOGDIR_LAST_STEP;
}

/* Has the newest checkpoint of the folder `path` (looked at without the lock) the last step of
 * `train_steps`, or another end of `ends`? False also where there is none, or it cannot be read.
 * For who asks again and again, with the same or more `ends`: *seen, 0 before the first time,
 * remembers one that has no end at all, which is not read again. */
bool logdir_is_trained(const char *path, int64_t train_steps, enum logdir_end ends, uint64_t *seen);

/* Writes model.ckpt-<the snapshot's step>, then `checkpoint`, then removes what is too old and its
 * name. On failure the state is as it was before; a file that cannot be removed is a warning, and
 * is tried again by the next save. */
enum error logdir_save(struct logdir *logdir,
                       const struct checkpoint_snapshot *snapshot) MUST_CHECK;

/* The best model, written aside and renamed, beside a save on another thread; and opened: NULL
 * where there is none. */
enum error logdir_save_best(const struct logdir *logdir,
                            const struct checkpoint_snapshot *snapshot) MUST_CHECK;
enum error logdir_best(const struct logdir *logdir, struct checkpoint **ret_checkpoint) MUST_CHECK;

/* The path of the newest checkpoint, and its step: -1 and "" while there is none. Borrowed. */
const char *logdir_newest_path(const struct logdir *logdir);
int64_t logdir_newest_step(const struct logdir *logdir);

#endif

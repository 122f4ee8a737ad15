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
 * A file that `checkpoint` names is complete, and stays until a newer one is: kill -9 at any time
 * leaves the state before or after a save. A file is named until it is removed, so that the next
 * run or save finishes an interrupted removal. A kill between the two writes of a save leaves an
 * unnamed file: the next run removes such files if they are older than the newest named one. Newer
 * ones are never read or removed, so a user may go back by naming an older one (`checkpoint`
 * decides: a newer file that a kill left is complete too, but training produces the same bytes
 * again); if `checkpoint` itself is missing, the file with the largest step counts, and the next
 * save lists the others too. If the newest named file is missing, the newest existing one replaces
 * it, with a line in the log.
 *
 * If the folder's file system hangs, a signal ends the process (common/hang.h): at once during a
 * look at the folder, after some seconds while a checkpoint is being written.
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

/* For training: creates the folder, takes the lock, removes leftovers of an interrupted save.
 * Errors as logdir_lock_take(). */
enum error logdir_open(const char *path, int64_t patience_ms,
                       struct logdir **ret_logdir) MUST_CHECK;
/* Read-only: takes no lock, changes nothing. ERROR_NOT_FOUND: no such folder. */
enum error logdir_open_read(const char *path, struct logdir **ret_logdir) MUST_CHECK;
void logdir_close(struct logdir *logdir);

/* The newest checkpoint; with the lock, also finishes interrupted removals and removes leftovers of
 * interrupted saves. *ret_checkpoint is NULL if there is none yet. ERROR_INPUT if it is damaged:
 * the message names it, and the newest undamaged one. */
enum error logdir_newest(struct logdir *logdir, struct checkpoint **ret_checkpoint) MUST_CHECK;

/* The ways a training can end besides its last step; each includes those before it. */
enum logdir_end {
    LOGDIR_LAST_STEP,
    LOGDIR_STOPPED, /* an evaluator stopped it: checkpoint_was_stopped() */
    LOGDIR_ENDED    /* its stream ended */
};

/* Which ends count for a process that waits for server 0. Until it `was_met`, server 0 may be
 * starting and resume a training whose stream had ended. `may_stop`: an evaluator may stop it. */
static inline enum logdir_end logdir_end_for(bool was_met, bool may_stop)
{
    if (was_met)
        return LOGDIR_ENDED;
    return may_stop ? LOGDIR_STOPPED : LOGDIR_LAST_STEP;
}

/* Has the newest checkpoint of the folder `path` (read without the lock) reached `train_steps`, or
 * another end of `ends`? Also false if there is none, or it cannot be read. For repeated calls with
 * the same or more `ends`: *seen, initially 0, remembers a checkpoint without any end, so that it
 * is not read again. */
bool logdir_is_trained(const char *path, int64_t train_steps, enum logdir_end ends, uint64_t *seen);

/* Writes model.ckpt-<the snapshot's step>, then `checkpoint`, then removes old files and their
 * names. On failure the state is as before; a file that cannot be removed is a warning, and the
 * next save retries. */
enum error logdir_save(struct logdir *logdir,
                       const struct checkpoint_snapshot *snapshot) MUST_CHECK;

/* Saves the best model, written aside and renamed, possibly during a save on another thread; opens
 * it: NULL if there is none, ERROR_INPUT with the way out if it is damaged. */
enum error logdir_save_best(const struct logdir *logdir,
                            const struct checkpoint_snapshot *snapshot) MUST_CHECK;
enum error logdir_best(const struct logdir *logdir, struct checkpoint **ret_checkpoint) MUST_CHECK;

/* The path and step of the newest checkpoint: "" and -1 if there is none. Borrowed. */
const char *logdir_newest_path(const struct logdir *logdir);
int64_t logdir_newest_step(const struct logdir *logdir);
/* Puts before this thread's last error that `step` was not saved, and from which one training can
 * go on. */
enum error logdir_say_not_saved(const struct logdir *logdir, int64_t step,
                                enum error error) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A logdir's lock: one trainer a folder. flock() on the file trainer.lock, which names the process
 * that has it; the lock ends with that process, however it ends, and the file stays.
 */
#ifndef TRAINER_CHECKPOINT_LOGDIR_LOCK_H
#define TRAINER_CHECKPOINT_LOGDIR_LOCK_H

#include <stdint.h>

#include "common/error.h"

/* The folder exists. *ret_descriptor holds the lock until it is closed. ERROR_CONFLICT naming the
 * process when another one has it: of this machine at once, of another one after `patience_ms`,
 * since it may have died and its NFS server not know yet (90 s with the defaults of Linux).
 * ERROR_CANCELLED after stop_requested(). */
enum error logdir_lock_take(const char *folder, int64_t patience_ms,
                            int *ret_descriptor) MUST_CHECK;

#endif

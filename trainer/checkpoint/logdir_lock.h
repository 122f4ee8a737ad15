/* SPDX-License-Identifier: MIT */
/*
 * A logdir's lock: one trainer a folder. flock() on the file trainer.lock, which names the process
 * that has it; the lock ends with that process, however it ends, and the file stays. On a network
 * file system it also ends with the machine's lease, while the process lives on: the file has a
 * number of the holder's own in its second line, by which that one finds out.
 */
#ifndef TRAINER_CHECKPOINT_LOGDIR_LOCK_H
#define TRAINER_CHECKPOINT_LOGDIR_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct logdir_lock {
    int descriptor; /* -1: not locked */
    uint64_t mark;  /* drawn by logdir_lock_take() */
    bool told;      /* the file says so */
};

#define LOGDIR_LOCK_INIT \
    {                    \
        .descriptor = -1 \
    }

/* The folder exists. ERROR_CONFLICT naming the process when another one has it: of this machine at
 * once, of another one after `patience_ms`, since it may have died and its NFS server not know yet
 * (90 s with the defaults of Linux). ERROR_CANCELLED after stop_requested(). */
enum error logdir_lock_take(const char *folder, int64_t patience_ms,
                            struct logdir_lock *lock) MUST_CHECK;
/* ERROR_CONFLICT: another trainer took the folder over. OK where that cannot be seen. Reads the
 * file of the lock once, from the server; from every thread. */
enum error logdir_lock_check(const struct logdir_lock *lock, const char *folder) MUST_CHECK;
/* Gives it back, if it is held. */
void logdir_lock_release(struct logdir_lock *lock);

#endif

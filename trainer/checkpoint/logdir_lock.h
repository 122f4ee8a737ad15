/* SPDX-License-Identifier: MIT */
/*
 * A logdir's lock: one trainer per folder. flock() on the file trainer.lock, which names the
 * process that holds it; the lock ends with that process, however it ends, and the file stays. On a
 * network file system it also ends with the machine's lease, while the process lives on: the second
 * line of the file contains a number unique to the holder, by which it detects that. The third line
 * names its machine, by host and boot, so that others know whether it is theirs.
 */
#ifndef TRAINER_CHECKPOINT_LOGDIR_LOCK_H
#define TRAINER_CHECKPOINT_LOGDIR_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct logdir_lock {
    int descriptor; /* -1: not locked */
    uint64_t mark;  /* drawn by logdir_lock_take() */
    bool told;      /* the file contains it */
    uint64_t disk;  /* st_dev of the folder */
};

#define LOGDIR_LOCK_INIT \
    {                    \
        .descriptor = -1 \
    }

/* The folder exists. ERROR_CONFLICT naming the process that holds it: at once if it is on this
 * machine, otherwise after `patience_ms`, since it may have died without its NFS server knowing yet
 * (90 s with the defaults of Linux). ERROR_CANCELLED after stop_requested(). */
enum error logdir_lock_take(const char *folder, int64_t patience_ms,
                            struct logdir_lock *lock) MUST_CHECK;
/* ERROR_CONFLICT: another trainer took the folder over. ERROR_IO: the folder is on another disk
 * and has no lock file of this trainer's, as where one was unmounted. OK if that cannot be
 * determined. Reads the lock file once, from the server; any thread. */
enum error logdir_lock_check(const struct logdir_lock *lock, const char *folder) MUST_CHECK;
/* Releases it, if it is held. */
void logdir_lock_release(struct logdir_lock *lock);

#endif

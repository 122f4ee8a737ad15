/* SPDX-License-Identifier: MIT */
/*
 * The folder of `--cache DIR`. KEY.rows is a row cache, KEY.lock the lock of who makes it, and
 * KEY.rows.tmp.PID.N what is being made (common/file.h); KEY is 32 hex digits. Nothing else in the
 * folder is touched. Who has a cache open holds a shared lock on it; one that nobody has open may
 * be removed, the one that was not opened for the longest time first.
 *
 * Locks are flock(2)'s, so they go with the process that held them, however it ends. Any number of
 * threads and processes at once.
 */
#ifndef LOADER_CACHE_CACHE_FOLDER_H
#define LOADER_CACHE_CACHE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/cache/cache_key.h"

struct cache_folder {
    char *path;           /* owned */
    uint64_t limit_bytes; /* of all caches in it; 0: as many as leave a twentieth of the disk */
};

/* Makes the folder if it is not there. */
enum error cache_folder_init(struct cache_folder *folder, const char *path,
                             uint64_t limit_bytes) MUST_CHECK;
/* One that is there, to look at. ERROR_NOT_FOUND: it is not. */
enum error cache_folder_open(struct cache_folder *folder, const char *path) MUST_CHECK;
/* Legal when it was zeroed. */
void cache_folder_release(struct cache_folder *folder);

/* FOLDER/KEY.rows, and the same with .lock; free() it. NULL: no memory. */
char *cache_folder_rows(const struct cache_folder *folder, const struct cache_key *key);
char *cache_folder_lock(const struct cache_folder *folder, const struct cache_key *key);

/* Removes what killed programs left, then caches that nobody has open, until `bytes` more are
 * within the limit. ERROR_NO_SPACE saying how many there are: it cannot be. */
enum error cache_folder_make_room(const struct cache_folder *folder, uint64_t bytes) MUST_CHECK;

enum cache_state {
    CACHE_WHOLE,      /* KEY.rows */
    CACHE_BEING_MADE, /* KEY.rows.tmp.PID.N of a program that runs */
    CACHE_LEFT        /* the same of one that was killed */
};

/* A cache of the folder, for lists. */
struct cache_entry {
    char *path;       /* owned */
    const char *name; /* its last part: KEY.rows...; borrowed from it */
    uint64_t bytes;
    int64_t made_ns; /* when it was written, since 1970 */
    int64_t used_ns; /* when it was opened last */
    bool is_open;    /* somebody has it open */
    enum cache_state state;
};

/* All of them, the one that was used last in front; free() the list and each path. */
enum error cache_folder_list(const struct cache_folder *folder, struct cache_entry **ret_entries,
                             size_t *ret_count) MUST_CHECK;
void cache_entries_free(struct cache_entry *entries, size_t count);

/* Removes one, or what was left of it. ERROR_CONFLICT: a program has it open, or makes it. */
enum error cache_entry_remove(const struct cache_entry *entry) MUST_CHECK;
/* Removes what killed programs left, then caches that nobody has open, the one that was not opened
 * for the longest time first, until all take no more than `bytes`. ERROR_NO_SPACE saying how much
 * is in use: it cannot be. */
enum error cache_folder_prune(const struct cache_folder *folder, uint64_t bytes) MUST_CHECK;

/* Takes the lock at `path` for this call's owner alone. ERROR_CONFLICT: another has it. */
enum error cache_lock_take(const char *path, int *ret_descriptor) MUST_CHECK;
/* Gives it back, and removes it. */
void cache_lock_put(const char *path, int descriptor);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The folder of `--cache DIR`. KEY.rows is a row cache, KEY.lock its builder's lock, and
 * KEY.rows.tmp.PID.N a cache being built (common/file.h); KEY is 32 hex digits. Other files in the
 * folder are left alone. A program that has a cache open holds a shared lock on it; caches that
 * nobody has open may be removed, least recently opened first.
 *
 * Locks are flock(2)'s, so they end with the process, however it ends. Any number of threads and
 * processes at once.
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
    uint64_t limit_bytes; /* of all its caches; 0: as much as leaves a twentieth of the disk free */
};

/* Creates the folder if necessary. */
enum error cache_folder_init(struct cache_folder *folder, const char *path,
                             uint64_t limit_bytes) MUST_CHECK;
/* Opens an existing one, to look at. ERROR_NOT_FOUND: it does not exist. */
enum error cache_folder_open(struct cache_folder *folder, const char *path) MUST_CHECK;
/* Legal on a zeroed struct. */
void cache_folder_release(struct cache_folder *folder);

/* FOLDER/KEY.rows, and the same with .lock; free() it. NULL: no memory. */
char *cache_folder_rows(const struct cache_folder *folder, const struct cache_key *key);
char *cache_folder_lock(const struct cache_folder *folder, const struct cache_key *key);

/* Removes leftovers of killed programs, then caches that nobody has open, until `bytes` more are
 * within the limit. ERROR_NO_SPACE, with the bytes available: that is not possible. */
enum error cache_folder_make_room(const struct cache_folder *folder, uint64_t bytes) MUST_CHECK;

enum cache_state {
    CACHE_WHOLE,      /* KEY.rows */
    CACHE_BEING_MADE, /* KEY.rows.tmp.PID.N of a running program */
    CACHE_LEFT        /* the same of a killed one */
};

/* A cache in the folder, for lists. */
struct cache_entry {
    char *path;       /* owned */
    const char *name; /* its last component: KEY.rows...; borrowed from path */
    uint64_t bytes;
    int64_t made_ns; /* when it was written, since 1970 */
    int64_t used_ns; /* when it was last opened */
    bool is_open;    /* a program has it open */
    enum cache_state state;
};

/* Lists all caches, most recently used first; free() the list and each path. */
enum error cache_folder_list(const struct cache_folder *folder, struct cache_entry **ret_entries,
                             size_t *ret_count) MUST_CHECK;
void cache_entries_free(struct cache_entry *entries, size_t count);

/* Removes a cache or a leftover. ERROR_CONFLICT: a program has it open, or is building it. */
enum error cache_entry_remove(const struct cache_entry *entry) MUST_CHECK;
/* Removes leftovers of killed programs, then caches that nobody has open, least recently opened
 * first, until all together use at most `bytes`. ERROR_NO_SPACE, with the bytes in use: that is not
 * possible. */
enum error cache_folder_prune(const struct cache_folder *folder, uint64_t bytes) MUST_CHECK;

/* Takes the exclusive lock at `path`. ERROR_CONFLICT: another holder has it. */
enum error cache_lock_take(const char *path, int *ret_descriptor) MUST_CHECK;
/* Releases the lock and removes its file. */
void cache_lock_put(const char *path, int descriptor);

#endif

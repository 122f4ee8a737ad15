/* SPDX-License-Identifier: MIT */
/*
 * The thread that builds a row cache: it reads the store once and writes a row file, which gets its
 * name when all rows were written, read back and synced. Of several programs, the one that holds
 * KEY.lock builds it; the others poll until it is there, and if that program ends without a cache,
 * one of them takes over.
 */
#ifndef LOADER_CACHE_CACHE_BUILDER_H
#define LOADER_CACHE_CACHE_BUILDER_H

#include <stdbool.h>

#include "loader/cache/cache_folder.h"
#include "loader/cache/cache_key.h"
#include "loader/cache/kept_rows.h"
#include "loader/store/store.h"

/* The parameters of a row cache, and its place. */
struct cache_place {
    struct cache_source source;
    struct cache_folder folder;
    struct cache_key key;
    char *rows, *lock; /* owned; paths */
};

struct cache_builder;

/* `place` and `inner` are borrowed until cache_builder_stop() releases them. A failure is a warning
 * in the log that names the file; there is then no cache. */
enum error cache_builder_start(const struct cache_place *place, struct store *inner,
                               struct cache_builder **ret_builder) MUST_CHECK;
/* Ends the thread after its current block of rows, and then calls `release`, which frees what is
 * borrowed: before this returns, or later on the thread, if that hangs in the system. */
void cache_builder_stop(struct cache_builder *builder, void (*release)(void *context),
                        void *context);

/* The cache, borrowed until the stop; NULL: not yet, or never. Any thread. */
struct kept_rows *cache_builder_kept(const struct cache_builder *builder);
/* Waits until the cache is there or has failed. ERROR_CANCELLED: the program should stop, or the
 * flag that this thread follows is set (stop.h). */
enum error cache_builder_wait(const struct cache_builder *builder) MUST_CHECK;

#endif

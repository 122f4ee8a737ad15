/* SPDX-License-Identifier: MIT */
/*
 * The thread that makes a row cache: it reads the store once and writes a row file, which gets its
 * name when all rows are in it, were read back and are on the disk. Of several programs one makes
 * it (the one that has KEY.lock); the others look until it is there, and one of them goes on when
 * that one ends without.
 */
#ifndef LOADER_CACHE_CACHE_BUILDER_H
#define LOADER_CACHE_CACHE_BUILDER_H

#include <stdbool.h>

#include "loader/cache/cache_folder.h"
#include "loader/cache/cache_key.h"
#include "loader/cache/kept_rows.h"
#include "loader/store/store.h"

/* What a row cache is made of, and where. */
struct cache_place {
    struct cache_source source;
    struct cache_folder folder;
    struct cache_key key;
    char *rows, *lock; /* owned; paths */
};

struct cache_builder;

/* `place` and `inner` are borrowed until the builder is stopped. What goes wrong is a warning of
 * the log that names the file, and there is no cache then. */
enum error cache_builder_start(const struct cache_place *place, struct store *inner,
                               struct cache_builder **ret_builder) MUST_CHECK;
/* Waits for the thread, which stops at the next block of rows. NULL is legal. */
void cache_builder_stop(struct cache_builder *builder);

/* From every thread: the cache, borrowed until the stop; NULL: there is none yet, or will be
 * none. */
struct kept_rows *cache_builder_kept(const struct cache_builder *builder);
/* Until it is there or will not be. ERROR_CANCELLED: the program, or who follows a flag (stop.h),
 * is to stop. */
enum error cache_builder_wait(const struct cache_builder *builder) MUST_CHECK;

#endif

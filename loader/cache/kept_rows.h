/* SPDX-License-Identifier: MIT */
/*
 * An open row cache: a row file (loader/rows) that has the key of its source. It is not removed to
 * make room while it is open.
 */
#ifndef LOADER_CACHE_KEPT_ROWS_H
#define LOADER_CACHE_KEPT_ROWS_H

#include "loader/cache/cache_key.h"
#include "loader/store/store.h"

struct kept_rows {
    struct store *store; /* owned */
    char *path;          /* owned */
    int descriptor;      /* holds the lock */
};

/* `uri` is the source's, for messages. ERROR_NOT_FOUND: there is none; ERROR_INPUT: it is damaged,
 * or belongs to another source. */
enum error kept_rows_open(const char *path, const struct cache_key *key, const char *uri,
                          struct kept_rows **ret_kept) MUST_CHECK;
/* NULL is legal. */
void kept_rows_close(struct kept_rows *kept);

/* Removes the file if it still has its name, so that it is not opened again. */
void kept_rows_remove(const struct kept_rows *kept);

/* Contents of a cache's header. */
struct kept_facts {
    char *source; /* owned; the URIs of the store that its rows are from, one per line */
    int64_t rows;
    size_t features;
    struct cache_key key;
};

/* ERROR_INPUT: damaged, or not a cache. */
enum error kept_facts_read(const char *path, struct kept_facts *ret_facts) MUST_CHECK;
/* Legal on a zeroed struct. */
void kept_facts_release(struct kept_facts *facts);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A store that keeps another store's rows in a file of a folder, transparently to readers. If there
 * is a cache with the store's key, the store itself is not even opened. Otherwise rows come from
 * the store while a thread builds the cache (cache_builder.h), and from the cache once it is there.
 *
 * If anything is wrong with the cache, the folder or the disk, rows come from the store, with one
 * warning in the log that names the file. A corrupt cache is removed.
 */
#ifndef LOADER_CACHE_KEPT_STORE_H
#define LOADER_CACHE_KEPT_STORE_H

#include "loader/cache/cache_key.h"
#include "loader/store/store.h"

struct kept_store_options {
    const char *folder;            /* created if necessary */
    uint64_t limit_bytes;          /* cache_folder.h */
    uint64_t cache_bytes;          /* for `open` */
    struct feature_recipe *recipe; /* likewise; kept; part of the source; or NULL */
    /* Opens the store itself, by the source's URI; perhaps much later. */
    enum error (*open)(const char *uri, uint64_t cache_bytes, struct feature_recipe *recipe,
                       struct store **ret_store) MUST_CHECK;
};

/* Takes the source over, also on failure. Errors are those of `open`. */
enum error kept_store_open(struct cache_source *source, const struct kept_store_options *options,
                           struct store **ret_store) MUST_CHECK;

#endif

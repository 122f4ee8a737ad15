/* SPDX-License-Identifier: MIT */
/*
 * A store whose rows are kept in a file of a folder, itself a store, so that readers do not notice.
 * With a cache of the store's key the store itself is not even opened. Without one, rows come from
 * the store while a thread makes the cache (cache_builder.h), and from the cache once it is there.
 *
 * Whatever is wrong with the cache, the folder or the disk, rows come from the store, with one
 * warning in the log that names the file. A cache whose bytes are not what was written is removed.
 */
#ifndef LOADER_CACHE_KEPT_STORE_H
#define LOADER_CACHE_KEPT_STORE_H

#include "loader/cache/cache_key.h"
#include "loader/store/store.h"

struct kept_store_options {
    const char *folder;            /* made if it is not there */
    uint64_t limit_bytes;          /* cache_folder.h */
    uint64_t cache_bytes;          /* for `open`, */
    struct feature_recipe *recipe; /* and so is this, which is kept; part of the source; or NULL */
    /* Opens the store itself, by the source's URI; perhaps much later. */
    enum error (*open)(const char *uri, uint64_t cache_bytes, struct feature_recipe *recipe,
                       struct store **ret_store) MUST_CHECK;
};

/* Takes the source over, also when it fails. Errors are those of `open`. */
enum error kept_store_open(struct cache_source *source, const struct kept_store_options *options,
                           struct store **ret_store) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Opens a store from a URI: of any kind, of the files of a path, of several URIs as one store, or
 * from a cache of its rows.
 */
#ifndef LOADER_STORE_OPEN_H
#define LOADER_STORE_OPEN_H

#include "loader/store/store.h"

struct cache_source;

/* Where repeatedly fetched rows are kept. */
struct store_cache {
    uint64_t bytes;              /* in memory; 0: none */
    const char *folder;          /* in a file of this folder (loader/cache); NULL or "": no file */
    uint64_t folder_limit_bytes; /* of all files there; 0: until the disk is nearly full */
};

/* What to open of a store. */
struct store_open_options {
    bool keys_only; /* see store_open() */
    /* A row cache of at most cache.bytes follows (row_cache.h): a store that has to read its rows
     * to open keeps them, if they fit, so that the cache need not read them again. The store owns
     * the memory until the cache takes it. With a folder, rows come from a file there, or from the
     * store while the file is being made. If the file exists, the store itself is opened only if
     * something is wrong with it. A store that is not in files is never kept there, with a warning.
     */
    struct store_cache cache;
    /* Only these features are read, in the store's order, so that others need not be numbers; a
     * weight with such a name needs none of them. Features in one BLOB are read with it. If one has
     * no column, all features are read and info names them. Borrowed. */
    const char *const *columns;
    size_t column_count;           /* 0: all features */
    struct feature_recipe *recipe; /* of a model: missing values and texts are encoded as in its
                                    * training, even if the URI requests nothing; NULL: what the URI
                                    * requests is learned from the store itself */
};

/* Opens and checks. Several URIs, one per line, and paths that match several files (store_files.h),
 * are one store (store_union.h). `keys_only`: only scan(SCAN_KEYS) will follow, so the store need
 * not examine anything: info.rows, features and element may then be 0, 0 and ELEMENT_U8, label_kind
 * only says whether there is a label column (LABEL_TEXT without texts), and the scan detects
 * duplicate ids and missing rows. Blocks; logs progress of long work. Errors name file, line (as in
 * a text editor, from 1) or id, and column. Rows with a bad feature are no error here:
 * info.bad_rows. */
enum error store_open(const char *uri, bool keys_only, struct store **ret_store) MUST_CHECK;
/* The same with options. If the URI has missing= or onehot=, or there is a recipe, features are
 * 32-bit floats (feature_recipe.h), and info.recipe is their recipe; a kind of store that has only
 * numbers is opened unchanged, and info.recipe is the one it was imported with, if any.
 * ERROR_CONFLICT: the URI and the recipe differ. */
enum error store_open_with(const char *uri, const struct store_open_options *options,
                           struct store **ret_store) MUST_CHECK;
/* Identifies the source of a store's rows, for a row cache's key: finds its files, reads nothing.
 * ERROR_UNAVAILABLE: they do not come from files; else as store_check_uri() (store_uri.h). */
enum error store_note_source(const char *uri, struct cache_source *source) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * From a URI to an open store: which kinds of store there are, the files behind a path, several of
 * them as one store.
 */
#ifndef LOADER_STORE_OPEN_H
#define LOADER_STORE_OPEN_H

#include "loader/store/store.h"

struct cache_source;

/* Where rows are kept that are fetched more than once. */
struct store_cache {
    uint64_t bytes;              /* in memory: as store_open_cached(); 0: none */
    const char *folder;          /* in a file of this folder (loader/cache); NULL or "": in none */
    uint64_t folder_limit_bytes; /* of all files there; 0: until the disk is full but for a part */
};

/* What of a store is wanted. */
struct store_open_options {
    bool keys_only;
    struct store_cache cache;      /* store_open_kept() */
    const char *const *columns;    /* store_open_columns(); borrowed */
    size_t column_count;           /* 0: all features */
    struct feature_recipe *recipe; /* of a model: missing values and texts become what they were in
                                     * its training, also where the URI asks for nothing; NULL:
                                     * what the URI asks for is learnt from the store itself */
};

/* Any of those below. Where the URI has missing= or onehot=, or there is a recipe, features are
 * 32-bit floats (feature_recipe.h), and info.recipe says how they are made; a kind of store that
 * has numbers alone is opened as it is, and info.recipe is the one it was imported with, if any.
 * ERROR_CONFLICT: the URI asks for something else than the recipe. */
enum error store_open_with(const char *uri, const struct store_open_options *options,
                           struct store **ret_store) MUST_CHECK;
/* Opens and checks. Several URIs, one a line, and paths that lead to several files (store_files.h),
 * are one store (store_union.h). `keys_only`: only scan(SCAN_KEYS) will follow, so that the store
 * need not look at anything: info.rows, features and element may then be 0, 0 and ELEMENT_U8, and
 * label_kind only says whether there is a label column (LABEL_TEXT without texts); ids that come
 * twice, and that there are no rows, are found by the scan. Blocks; progress of long work goes to
 * the log. Errors name file, line (as a text editor counts, from 1) or id, and column. Rows with a
 * bad feature are no error here: info.bad_rows. */
enum error store_open(const char *uri, bool keys_only, struct store **ret_store) MUST_CHECK;
/* As store_open() for all columns, when a row cache of at most `cache_bytes` follows (row_cache.h):
 * a store that has to read its rows to open keeps them, if they fit, so that the cache need not
 * read them again. The store owns the memory until the cache takes it. */
enum error store_open_cached(const char *uri, uint64_t cache_bytes,
                             struct store **ret_store) MUST_CHECK;
/* As store_open_cached(), and with a folder rows come from a file there, if they do not already
 * while it is made: then the store itself is not opened before something is wrong with the file. A
 * store that is no file is never kept, with a warning. */
enum error store_open_kept(const char *uri, const struct store_cache *cache,
                           struct store **ret_store) MUST_CHECK;
/* As store_open() for all columns, but of the features these alone are read, in the store's order,
 * so that others need not be numbers; a weight of such a name needs none of them. Features that lie
 * in one BLOB are read with it. Where one has no column, all features are there and info names
 * them. */
enum error store_open_columns(const char *uri, const char *const columns[], size_t count,
                              struct store **ret_store) MUST_CHECK;
/* What the rows of a store are read from, for the key of a row cache: nothing is read, its files
 * are found. ERROR_UNAVAILABLE: they do not come from files; else as store_check_uri(). */
enum error store_note_source(const char *uri, struct cache_source *source) MUST_CHECK;
/* Checks a URI without reading its files and without asking a server: is it well-formed, of a known
 * kind, and do its files exist? ERROR_USAGE, or as store_open(). */
enum error store_check_uri(const char *uri) MUST_CHECK;

#endif

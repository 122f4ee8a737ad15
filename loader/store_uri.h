/* SPDX-License-Identifier: MIT */
/*
 * The text that names a store: one URI, or several, one per line. Which kind of store a URI is, and
 * which files its path means.
 */
#ifndef LOADER_STORE_URI_H
#define LOADER_STORE_URI_H

#include "loader/store/store.h"
#include "loader/store/store_files.h"

struct store_uri {
    struct uri uri;
    const struct store_ops *ops; /* its kind; never NULL */
    struct store_files files;    /* of a pattern or a folder: a store each */
};

/* Resolves one URI. Fails as store_check_uri(), but for a single file that does not exist. */
enum error store_uri_init(struct store_uri *store, const char *text) MUST_CHECK;
void store_uri_release(struct store_uri *store);

/* The kind of store that a URI names; NULL: none. */
const struct store_ops *store_kind_find(const struct uri *uri);

/* Calls `visit` for each file of the URI's path, until it fails; for none if this kind of store is
 * not in files. */
enum error store_uri_visit_files(const struct store_uri *store,
                                 enum error (*visit)(void *context, const char *path),
                                 void *context) MUST_CHECK;
/* Calls `visit` for each URI of the text, until it fails; empty lines are skipped. ERROR_USAGE: all
 * of several lines are empty. */
enum error store_uris_visit(const char *text, enum error (*visit)(void *context, const char *uri),
                            void *context) MUST_CHECK;

/* Checks a store's text without reading its files or asking a server: are its URIs well-formed, of
 * a known kind, and do their files exist? ERROR_USAGE, or as store_open(). */
enum error store_check_uri(const char *text) MUST_CHECK;

#endif

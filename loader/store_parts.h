/* SPDX-License-Identifier: MIT */
/*
 * The stores that a text of URIs names, opened together: to read them as one, or to learn a recipe
 * from all of them.
 */
#ifndef LOADER_STORE_PARTS_H
#define LOADER_STORE_PARTS_H

#include "common/error.h"
#include "loader/store/duplicate_files.h"
#include "loader/store/store.h"
#include "loader/store_open.h"

struct store_parts {
    struct store_open_options options;
    struct store **stores; /* owned list of owned stores, in their order; never empty once open */
    size_t count, capacity;
    size_t empty_count;        /* stores without rows, which are not in the list */
    struct error_report empty; /* the last one's message */
    struct duplicate_files files;
};

/* Opens all of them with the options, whose recipe each uses or adds to. Release also after an
 * error. Errors are those of store_open(). */
enum error store_parts_open(struct store_parts *parts, const struct store_open_options *options,
                            const char *text) MUST_CHECK;
/* Moves the stores, also on failure, into one: the only one, or a union with that text as URI. */
enum error store_parts_unite(struct store_parts *parts, const char *text,
                             struct store **ret_store) MUST_CHECK;
void store_parts_release(struct store_parts *parts);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The destination of `tombola-loader import`, from its URI to its writer: a table of an SQLite file
 * or of a PostgreSQL server, or a row file. One thread; blocks.
 */
#ifndef LOADER_TOOL_IMPORT_DESTINATION_H
#define LOADER_TOOL_IMPORT_DESTINATION_H

#include <stdbool.h>

#include "common/error.h"
#include "common/uri.h"
#include "loader/store/store_writer.h"

struct import_destination {
    const char *text; /* the URI as it was given; borrowed */
    struct uri uri;
    const struct store_writer_ops *ops;
    const char *table;           /* borrowed from the URI; NULL: the kind has none */
    struct store_writer *writer; /* owned; NULL: not open */
};

/* Of the URI only; `text` is borrowed until the release. ERROR_USAGE: import writes no such. */
enum error import_destination_init(struct import_destination *destination,
                                   const char *text) MUST_CHECK;
/* Discards what was not committed. */
void import_destination_release(struct import_destination *destination);

/* As struct store_writer_ops: ERROR_CONFLICT where `force` is wanted. */
enum error import_destination_open(struct import_destination *destination, bool force) MUST_CHECK;
/* Once it is open. ERROR_CONFLICT: it would replace `source`, the store of this URI, or one of
 * those that it is made of, be it under another name. */
enum error import_destination_check_source(const struct import_destination *destination,
                                           const char *uri, const struct store *source) MUST_CHECK;
/* Commits. A server's table is read back once it is there; ERROR_IO: it is damaged, and says so. */
enum error import_destination_commit(struct import_destination *destination) MUST_CHECK;

#endif

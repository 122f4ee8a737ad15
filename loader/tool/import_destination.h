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
    const char *text; /* the URI as given; borrowed */
    struct uri uri;
    const struct store_writer_ops *ops;
    const char *table;           /* borrowed from the URI; NULL: the kind has none */
    struct store_writer *writer; /* owned; NULL: not open */
};

/* Parses the URI; `text` is borrowed until the release. ERROR_USAGE: import cannot write that. */
enum error import_destination_init(struct import_destination *destination,
                                   const char *text) MUST_CHECK;
/* Discards anything not committed. */
void import_destination_release(struct import_destination *destination);

/* As struct store_writer_ops: ERROR_CONFLICT if that needs `force`. */
enum error import_destination_open(struct import_destination *destination, bool force) MUST_CHECK;
/* Once open. ERROR_CONFLICT: it would replace `source`, the store of this URI, or one of its parts,
 * even under another name. */
enum error import_destination_check_source(const struct import_destination *destination,
                                           const char *uri, const struct store *source) MUST_CHECK;
/* Commits. A server's table is then read back; ERROR_IO: it is damaged, and the message says so. */
enum error import_destination_commit(struct import_destination *destination) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Where `tombola-loader import` writes: a table of an SQLite file or of a PostgreSQL server, or a
 * row file. All or nothing: what is there when commit returns is complete and on the disk; whatever
 * fails before, an earlier file or table stays as it was. One thread; blocks.
 */
#ifndef LOADER_TOOL_IMPORT_DESTINATION_H
#define LOADER_TOOL_IMPORT_DESTINATION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/uri.h"
#include "loader/store/store.h"

struct import_kind;

struct import_destination {
    struct uri uri;
    const struct import_kind *kind;
    const char *table; /* borrowed from the URI; NULL: the kind has none */
    void *writer;      /* of the kind; owned; NULL: not begun, or no server was asked yet */
};

/* What was written, for people. Borrowed until the release. */
struct import_result {
    const char *place, *digest;
    uint64_t bytes;
};

/* Of the URI only. ERROR_USAGE: nothing that import writes. */
enum error import_destination_init(struct import_destination *destination,
                                   const char *text) MUST_CHECK;
/* Discards what was not committed. */
void import_destination_release(struct import_destination *destination);
/* Has its writer deadlines of its own, which no disk can take from it? */
bool import_destination_is_server(const struct import_destination *destination);

/* Connects, and looks at what is there. ERROR_CONFLICT: that is not import's to replace, and
 * `force` is false. */
enum error import_destination_check(struct import_destination *destination, bool force) MUST_CHECK;
/* `info` describes what will come; borrowed until the release. */
enum error import_destination_begin(struct import_destination *destination,
                                    const struct store_info *info) MUST_CHECK;
/* A block of a scan with SCAN_FEATURES. */
enum error import_destination_add(struct import_destination *destination,
                                  const struct store_block *block) MUST_CHECK;
enum error import_destination_commit(struct import_destination *destination,
                                     struct import_result *ret_result) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The ids of a batch as a table of SQLite's, so that one statement finds all their rows: a virtual
 * table (https://www.sqlite.org/vtab.html) of one connection, for one statement at a time.
 *
 * One thread: the connection's.
 */
#ifndef LOADER_SQLITE_SQLITE_KEYS_H
#define LOADER_SQLITE_SQLITE_KEYS_H

#include <sqlite3.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/fetch_call.h"

/* In statements. */
#define SQLITE_KEYS_TABLE "\"tombola keys\""
#define SQLITE_KEYS_COLUMN "\"tombola key\""

struct sqlite_keys {
    sqlite3_vtab table;               /* first */
    sqlite3_vtab_cursor cursor;       /* that of the one statement */
    const struct fetch_place *places; /* borrowed; sorted; a key that comes twice is one row */
    size_t count;
    size_t at; /* of them: the row that is looked up */
};

/* Zeroed, and at its place until the connection is closed. */
enum error sqlite_keys_init(struct sqlite_keys *keys, sqlite3 *connection,
                            const char *path) MUST_CHECK;

#endif

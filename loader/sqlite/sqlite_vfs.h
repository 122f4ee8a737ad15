/* SPDX-License-Identifier: MIT */
/*
 * A VFS for read-only files: all reads go through source_file.h, which retries transient errors and
 * checks that the file is the same, below SQLite, which would report a transient EIO as a malformed
 * database. No locks, no journals, no writes (as SQLite does for mode=ro&immutable=1, for the same
 * reasons).
 *
 * A connection and the file below it belong to one thread.
 */
#ifndef LOADER_SQLITE_SQLITE_VFS_H
#define LOADER_SQLITE_SQLITE_VFS_H

#include <sqlite3.h>

#include "common/error.h"
#include "loader/sqlite/sqlite_pages.h"
#include "loader/store/source_file.h"

/* The name for sqlite3_open_v2(), registered once; NULL: that failed, and the error is set. */
const char *sqlite_vfs_name(void);

/* The file below a connection of this VFS; lives as long as the connection. NULL: another VFS. */
struct source_file *sqlite_vfs_file(sqlite3 *connection);

/* SQLite takes pages from there instead of reading them. They are borrowed until the connection is
 * closed. */
void sqlite_vfs_use_pages(sqlite3 *connection, struct sqlite_pages *pages);

/* Why the last failed read that SQLite gave up on failed; code OK: none did. NULL: another VFS. */
const struct error_report *sqlite_vfs_failure(sqlite3 *connection);

#endif

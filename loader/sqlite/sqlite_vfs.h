/* SPDX-License-Identifier: MIT */
/*
 * SQLite's view of a file that only is read: all reads go through source_file.h, so that EIO and
 * ESTALE are tried again, with a check that the file is the same, below SQLite, which would call a
 * passing EIO a malformed database. No locks, no journals, nothing is ever written (what SQLite
 * does for mode=ro&immutable=1, and for the same reasons).
 *
 * A connection belongs to one thread, and so does the file below it.
 */
#ifndef LOADER_SQLITE_SQLITE_VFS_H
#define LOADER_SQLITE_SQLITE_VFS_H

#include <sqlite3.h>

#include "common/error.h"
#include "loader/store/source_file.h"

/* The name for sqlite3_open_v2(), registered once; NULL with an error set when that fails. */
const char *sqlite_vfs_name(void);

/* The file below a connection of this VFS; lives as long as it does. NULL: of another VFS. */
struct source_file *sqlite_vfs_file(sqlite3 *connection);

/* Why the last read failed that SQLite gave up on; code OK: none did. NULL: of another VFS. */
const struct error_report *sqlite_vfs_failure(sqlite3 *connection);

#endif

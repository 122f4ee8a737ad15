/* SPDX-License-Identifier: MIT */
/*
 * A read-only SQLite file: checked first (is it SQLite, complete, closed properly?), then used as
 * with mode=ro&immutable=1, which takes no locks and does not check whether the file has changed;
 * source_file.h does. Also what reading and writing share: result codes, statements.
 */
#ifndef LOADER_SQLITE_SQLITE_FILE_H
#define LOADER_SQLITE_SQLITE_FILE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/source_file.h"
#include "loader/store/store.h"

/* ERROR_INPUT: not an SQLite file, truncated, or a journal next to it shows that a writer died or
 * is active. *ret_changes: the header's change counter. */
enum error sqlite_file_check(struct source_file *file, uint32_t *ret_changes) MUST_CHECK;

/* ERROR_INPUT if it is in WAL mode: such a file can be read, but not rewritten page by page. */
enum error sqlite_file_check_mode(struct source_file *file) MUST_CHECK;

/* ERROR_INPUT if there is a non-empty journal or log next to the file, which SQLite would apply to
 * whatever has the file's name. */
enum error sqlite_check_journals(const char *path) MUST_CHECK;

/* Calls `add` with the names of both. */
enum error sqlite_journals(const char *path, store_file_sink *add, void *context) MUST_CHECK;

/* A connection of one thread to the file at `path`; reads through sqlite_vfs.h. `expected` NULL:
 * any file, else ERROR_INPUT if it is another one. Reads nothing yet. */
enum error sqlite_connect(const char *path, const struct file_identity *expected,
                          sqlite3 **ret_connection) MUST_CHECK;

/* Converts a result code to ours: "PATH: cannot DOING: SQLite's message", or the error of the file
 * below. */
enum error sqlite_refuse(sqlite3 *connection, int result, const char *path, const char *doing);

/* ERROR_MEMORY if SQLite lacked memory for a value of the statement's current row and returned NULL
 * for it. */
enum error sqlite_check_values(sqlite3_stmt *statement) MUST_CHECK;

/* Prepares a persistent statement. */
enum error sqlite_prepare(sqlite3 *connection, const char *path, const char *sql,
                          sqlite3_stmt **ret_statement) MUST_CHECK;
/* Runs statements that return no rows. */
enum error sqlite_run(sqlite3 *connection, const char *path, const char *sql) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * An SQLite file that is only read: checked first (is it SQLite, whole, closed properly?), then
 * used like one opened with mode=ro&immutable=1, which takes no locks and does not
 * look again whether the file is still the same; source_file.h does that for us. And what reading
 * and writing have in common: result codes, statements.
 */
#ifndef LOADER_SQLITE_SQLITE_FILE_H
#define LOADER_SQLITE_SQLITE_FILE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/source_file.h"
#include "loader/store/store.h"

/* ERROR_INPUT: no SQLite file, cut off, or a journal beside it says that a writer
 * died or is at work. *ret_changes: how often it was written, as its header counts. */
enum error sqlite_file_check(struct source_file *file, uint32_t *ret_changes) MUST_CHECK;

/* ERROR_INPUT when it is in WAL mode: that can be read, but not be written anew page by page. */
enum error sqlite_file_check_mode(struct source_file *file) MUST_CHECK;

/* ERROR_INPUT when a journal or log with content lies beside the file, which SQLite would apply to
 * whatever has the file's name. */
enum error sqlite_check_journals(const char *path) MUST_CHECK;

/* Calls `add` with the names of both. */
enum error sqlite_journals(const char *path, store_file_sink *add, void *context) MUST_CHECK;

/* A connection to the file at `path`, of one thread; reads as sqlite_vfs.h says. `expected` NULL:
 * to whatever is there, else ERROR_INPUT when it is another. Nothing was read yet. */
enum error sqlite_connect(const char *path, const struct file_identity *expected,
                          sqlite3 **ret_connection) MUST_CHECK;

/* The result code as one of ours: "PATH: cannot DOING: what SQLite says", or what happened to the
 * file below. */
enum error sqlite_refuse(sqlite3 *connection, int result, const char *path, const char *doing);

/* ERROR_MEMORY when SQLite lacked memory for a value of the row that the statement is on: then it
 * answered NULL. */
enum error sqlite_check_values(sqlite3_stmt *statement) MUST_CHECK;

/* Prepares a persistent statement. */
enum error sqlite_prepare(sqlite3 *connection, const char *path, const char *sql,
                          sqlite3_stmt **ret_statement) MUST_CHECK;
/* Runs statements that answer nothing. */
enum error sqlite_run(sqlite3 *connection, const char *path, const char *sql) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The SQLite store: a table of a read-only file. Files made by `import` describe themselves and
 * open at once; other tables are read once. Private to store_sqlite*.c.
 */
#ifndef LOADER_SQLITE_STORE_SQLITE_H
#define LOADER_SQLITE_STORE_SQLITE_H

#include <sqlite3.h>

#include "loader/column/label_dictionary.h"
#include "loader/sqlite/sqlite_facts.h"
#include "loader/sqlite/sqlite_row.h"
#include "loader/sqlite/sqlite_table.h"
#include "loader/store/id_index.h"
#include "loader/store/source_file.h"
#include "loader/store/store.h"

struct sqlite_store {
    struct store store; /* first */
    char *path;         /* owned */
    struct file_identity identity;
    bool keys_only;
    struct sqlite_facts facts;
    struct sqlite_table table;
    struct sqlite_format format;
    struct label_dictionary labels;
    const char **numbers; /* owned; names of unnamed BLOB features: "0", "1", ... */
    char *length_sql;     /* owned; the length of one row's BLOB, with fetch_sql's parameter; NULL:
                           * rows are alike */
    char *fetch_sql;      /* owned; one row by id, or by row number (table.row_name) */
    char *run_sql;        /* owned; the rows of a range of ids, by id; NULL with table.row_name */
    char *scan_sql;       /* owned; all rows by id */
    char *keys_sql;       /* owned; all keys by id */
    struct id_index ids;  /* with table.row_name, unless keys_only: the ids in order */
    int64_t *row_numbers; /* owned; one per id */
    size_t row_numbers_capacity;
    char *first_bad_row; /* owned */
};

/* A statement on its own connection. One thread. */
struct sqlite_cursor {
    const char *path; /* borrowed */
    sqlite3 *connection;
    sqlite3_stmt *statement;
};

/* ERROR_INPUT if the file has changed. */
enum error sqlite_cursor_open(struct sqlite_cursor *cursor, const struct sqlite_store *store,
                              const char *sql) MUST_CHECK;
/* Legal on a zeroed cursor. */
void sqlite_cursor_close(struct sqlite_cursor *cursor);
/* ERROR_INPUT if the open file was written to. */
enum error sqlite_cursor_check(const struct sqlite_cursor *cursor) MUST_CHECK;
/* The same after reading ended with `error`: what is read while a file is written to may be of
 * several of its states, and look damaged. */
enum error sqlite_cursor_check_after(const struct sqlite_cursor *cursor,
                                     enum error error) MUST_CHECK;
/* Steps to the next row; *ret_row false: there is none. */
enum error sqlite_cursor_step(struct sqlite_cursor *cursor, bool *ret_row) MUST_CHECK;

/* Prepends "PATH, table T, id N: " to this thread's message; returns `code`. */
enum error sqlite_store_prefix(const struct sqlite_store *store, enum error code, int64_t id);

/* The pass that learns the table's recipe. */
enum error sqlite_store_learn(struct sqlite_store *store) MUST_CHECK;
/* Determines rows, element, labels and bad rows of a table without facts. */
enum error sqlite_store_inspect(struct sqlite_store *store) MUST_CHECK;

enum error sqlite_store_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                             void *context) MUST_CHECK;
enum error sqlite_reader_open(struct store *store, struct reader **ret_reader) MUST_CHECK;
bool sqlite_reader_has_run(struct reader *reader, int64_t *ret_first);
enum error sqlite_reader_measure(struct reader *reader, const int64_t *ids, size_t count,
                                 int64_t *lengths) MUST_CHECK;
void sqlite_reader_close(struct reader *reader);
enum error sqlite_reader_fetch(struct reader *reader, const int64_t *ids, size_t count,
                               void *features, size_t stride_bytes, double *labels,
                               enum row_status *status) MUST_CHECK;

#endif

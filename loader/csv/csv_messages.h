/* SPDX-License-Identifier: MIT */
/* Errors of a CSV store name file and line. Private to store_csv*.c. */
#ifndef LOADER_CSV_CSV_MESSAGES_H
#define LOADER_CSV_CSV_MESSAGES_H

#include "loader/csv/store_csv.h"

/* Prepends "PATH, line N: " to this thread's message; returns `code`. */
enum error csv_store_prefix(const struct csv_store *store, enum error code, int64_t line);
/* The line of the row that begins at `offset`; 0 if the file can no longer be read. */
int64_t csv_store_line(const struct csv_store *store, uint64_t offset);
/* ERROR_INPUT: no rows. */
enum error csv_store_refuse_empty(const struct csv_store *store) MUST_CHECK;
/* ERROR_INPUT naming both lines of a duplicate id. */
enum error csv_store_refuse_twice(const struct csv_store *store, int64_t id, int64_t line,
                                  int64_t other_line) MUST_CHECK;

/* The lines of these rows of a scan, [count]. Reads the file up to the last of them. */
enum error csv_store_find_lines(const struct csv_store *store, const int64_t *rows, size_t count,
                                int64_t *ret_lines) MUST_CHECK;

#endif

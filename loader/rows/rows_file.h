/* SPDX-License-Identifier: MIT */
/* Opens a row file for reading, with its header. */
#ifndef LOADER_ROWS_ROWS_FILE_H
#define LOADER_ROWS_ROWS_FILE_H

#include "loader/rows/rows_header.h"
#include "loader/store/source_file.h"

/* On success the caller closes and releases both. ERROR_INPUT: as rows_header_measure() and
 * rows_header_parse(). */
enum error rows_file_open(struct source_file *file, const char *path,
                          struct rows_header *ret_header) MUST_CHECK;

/* ERROR_INPUT naming file, row, id and its `bytes` at `at`; `what` says what is wrong with the
 * row. */
enum error rows_file_refuse(const char *path, int64_t row, int64_t id, uint64_t at, uint64_t bytes,
                            const char *what) MUST_CHECK;

#endif

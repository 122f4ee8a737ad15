/* SPDX-License-Identifier: MIT */
/*
 * Reads some columns of a file's rows, batch by batch. Memory holds one batch and, for each column,
 * its current page. One thread; must not move in memory while open.
 */
#ifndef LOADER_PARQUET_PARQUET_CURSOR_H
#define LOADER_PARQUET_PARQUET_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/parquet/arrow_values.h"
#include "loader/parquet/parquet_columns.h"
#include "loader/parquet/parquet_file.h"

enum parquet_part {
    PARQUET_IDS,
    PARQUET_KEYS,     /* id, label, weight, group */
    PARQUET_DOUBTFUL, /* and the features not known to be bytes */
    PARQUET_ALL
};

struct parquet_cursor {
    struct parquet_file file;
    const struct parquet_columns *columns; /* borrowed */
    struct arrow_values *values;           /* owned; [columns->read_count]; type NULL: not read */
    int *places;                           /* owned; [place_count], in the schema */
    size_t place_count;
    const struct parquet_group *groups; /* borrowed from the file; [group_count] */
    int group_count;
    struct arrow_stream stream; /* live while rows are read */
    struct arrow_array batch;   /* live if there is one */
    int64_t first_row, rows;    /* of the batch; 0 rows: none */
};

/* Reads `part` of the columns; has no position until it seeks. */
enum error parquet_cursor_open(struct parquet_cursor *cursor, const char *path,
                               const struct file_identity *identity,
                               const struct parquet_columns *columns,
                               enum parquet_part part) MUST_CHECK;
/* Legal on a zeroed cursor. */
void parquet_cursor_close(struct parquet_cursor *cursor);

/* Moves before `group`, whose first row is `first_row`; the rows end after it if `alone`, else
 * after the last group. */
enum error parquet_cursor_seek(struct parquet_cursor *cursor, int group, int64_t first_row,
                               bool alone) MUST_CHECK;
/* Moves to the next batch; cursor->rows 0: there is none. */
enum error parquet_cursor_next(struct parquet_cursor *cursor) MUST_CHECK;

#endif

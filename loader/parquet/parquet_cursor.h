/* SPDX-License-Identifier: MIT */
/*
 * A file's rows, batch after batch, of some of its columns. Memory holds one batch, and of each
 * column the page that it comes from. One thread; stays where it is while it is open.
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
    PARQUET_DOUBTFUL, /* and the features of which it is not known that they are bytes */
    PARQUET_ALL
};

struct parquet_cursor {
    struct parquet_file file;
    const struct parquet_columns *columns; /* borrowed */
    struct arrow_values *values; /* owned; [columns->read_count]; type NULL: is not read */
    int *places;                 /* owned; [place_count], in the schema */
    size_t place_count;
    const struct parquet_group *groups; /* borrowed from the file; [group_count] */
    int group_count;
    struct arrow_stream stream; /* live: rows are read */
    struct arrow_array batch;   /* live: there is one */
    int64_t first_row, rows;    /* of the batch; 0 rows: there is none */
};

/* With what `part` says of the columns; it is nowhere until it seeks. */
enum error parquet_cursor_open(struct parquet_cursor *cursor, const char *path,
                               const struct file_identity *identity,
                               const struct parquet_columns *columns,
                               enum parquet_part part) MUST_CHECK;
/* Legal for a zeroed cursor. */
void parquet_cursor_close(struct parquet_cursor *cursor);

/* In front of `group`, whose first row is `first_row`; the rows end behind it if it is `alone`,
 * else behind the last group. */
enum error parquet_cursor_seek(struct parquet_cursor *cursor, int group, int64_t first_row,
                               bool alone) MUST_CHECK;
/* To the next batch; cursor->rows 0: there is none. */
enum error parquet_cursor_next(struct parquet_cursor *cursor) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * An open Parquet file: its bytes through source_file.h, which handles network file systems, its
 * content through the module. Messages name the file. One thread; must not move in memory while
 * open.
 */
#ifndef LOADER_PARQUET_PARQUET_FILE_H
#define LOADER_PARQUET_PARQUET_FILE_H

#include <stdbool.h>

#include "loader/parquet/parquet_module.h"
#include "loader/store/source_file.h"

struct parquet_file {
    struct source_file source;
    const struct parquet_module *module;
    struct parquet_handle *handle; /* NULL: closed */
    struct error_report failure;   /* of a read by the module; code OK: none failed */
};

/* `expected` as in source_file_open(). */
enum error parquet_file_open(struct parquet_file *file, const char *path,
                             const struct file_identity *expected) MUST_CHECK;
/* Legal on a zeroed file whose source's descriptor is -1. */
void parquet_file_close(struct parquet_file *file);

/* All columns, the children of a "+s"; the caller releases it. */
enum error parquet_file_schema(struct parquet_file *file,
                               struct arrow_schema *ret_schema) MUST_CHECK;

/* Like read() of parquet_module.h; the caller releases the stream before the file is closed. */
enum error parquet_file_read(struct parquet_file *file, int first_group, int group_count,
                             const int *columns, size_t column_count, int64_t batch_rows,
                             struct arrow_stream *ret_stream) MUST_CHECK;
/* The next batch of rows, with `column_count` children; the caller releases it. Not live: no more
 * rows. */
enum error parquet_file_next(struct parquet_file *file, struct arrow_stream *stream,
                             size_t column_count, struct arrow_array *ret_batch) MUST_CHECK;

#endif

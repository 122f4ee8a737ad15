/* SPDX-License-Identifier: MIT */
/*
 * A Parquet file as a store. Opening reads all of it once, as for a CSV file: u8 if all features
 * are integers from 0 to 255, else 32-bit floats. Private to store_parquet*.c.
 */
#ifndef LOADER_PARQUET_STORE_PARQUET_H
#define LOADER_PARQUET_STORE_PARQUET_H

#include "loader/column/label_dictionary.h"
#include "loader/parquet/parquet_columns.h"
#include "loader/store/id_index.h"
#include "loader/store/source_file.h"
#include "loader/store/store.h"

struct parquet_store {
    struct store store; /* first */
    char *path;         /* owned */
    struct file_identity identity;
    bool keys_only;
    bool label_told; /* given in the URI */
    struct parquet_columns columns;
    int64_t *group_rows; /* owned; [group_count + 1]: the first row of each, then the end */
    int group_count;
    struct label_dictionary labels;
    struct id_index ids; /* rows 0: opened for keys only */
    uint32_t *lengths;   /* owned; [rows], features of each, if rows differ in length */
    size_t lengths_capacity;
    char *first_bad_row; /* owned */
    _Atomic int jumps;   /* fetches that moved back, or to another row group */
};

/* store_parquet_inspect.c: counts the features; determines what the rows are. */
enum error parquet_store_measure(struct parquet_store *store) MUST_CHECK;
enum error parquet_store_inspect(struct parquet_store *store) MUST_CHECK;
/* ERROR_INPUT naming both rows of a duplicate id. */
enum error parquet_store_check_ids(const struct parquet_store *store) MUST_CHECK;

/* store_parquet_scan.c, store_parquet_fetch.c */
enum error parquet_store_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                              void *context) MUST_CHECK;
enum error parquet_reader_open(struct store *store, struct reader **ret_reader) MUST_CHECK;
void parquet_reader_close(struct reader *reader);
enum error parquet_reader_fetch(struct reader *reader, const int64_t *ids, size_t count,
                                void *features, size_t stride_bytes, double *labels,
                                enum row_status *status) MUST_CHECK;
enum error parquet_reader_measure(struct reader *reader, const int64_t *ids, size_t count,
                                  int64_t *lengths) MUST_CHECK;

#endif

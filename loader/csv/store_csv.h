/* SPDX-License-Identifier: MIT */
/*
 * The CSV store: a file and an offset index (8 bytes per row, 8 more for ids that are not
 * consecutive); no data in memory unless a row cache is requested. Opening reads the file once, on
 * all CPUs, and determines the kinds of features and labels. Private to store_csv*.c.
 */
#ifndef LOADER_CSV_STORE_CSV_H
#define LOADER_CSV_STORE_CSV_H

#include "loader/column/label_dictionary.h"
#include "loader/csv/csv_columns.h"
#include "loader/csv/csv_pass.h"
#include "loader/csv/csv_row.h"
#include "loader/csv/store_csv_fill.h"
#include "loader/store/id_index.h"
#include "loader/store/store.h"

/* A known line number, from which lines are counted when a message needs one; one per block of the
 * file. */
struct csv_mark {
    uint64_t offset;
    int64_t line;
};

struct csv_store {
    struct store store; /* first */
    char *path;         /* owned */
    struct csv_source source;
    char delimiter;
    bool delimiter_told, label_told; /* given in the URI */
    bool keys_only;
    struct csv_columns columns;
    uint64_t *offsets; /* owned; [rows + 1]: where each row begins, and the end of the file */
    size_t offsets_capacity;
    uint32_t *lengths; /* owned; [rows]: features of each row, if they differ; else NULL */
    size_t lengths_capacity;
    struct id_index ids;
    struct label_dictionary labels;
    struct csv_mark *marks; /* owned; [mark_count] */
    size_t mark_count, marks_capacity;
    char *first_bad_row;  /* owned */
    uint64_t cache_bytes; /* rows are cached if they need no more; 0: never */
    struct csv_fill fill;
};

/* The pass that learns the plan's recipe. */
enum error csv_store_learn(struct csv_store *store) MUST_CHECK;

/* The pass that fills offsets, ids, labels, marks and store.info; if keys_only there is none. */
enum error csv_store_inspect(struct csv_store *store) MUST_CHECK;

enum error csv_store_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                          void *context) MUST_CHECK;
/* With SCAN_CODES. */
enum error csv_store_scan_keys(struct csv_store *store, store_sink *sink, void *context) MUST_CHECK;
enum error csv_reader_open(struct store *store, struct reader **ret_reader) MUST_CHECK;
enum error csv_reader_measure(struct reader *reader, const int64_t *ids, size_t count,
                              int64_t *lengths) MUST_CHECK;
void csv_reader_close(struct reader *reader);
enum error csv_reader_fetch(struct reader *reader, const int64_t *ids, size_t count, void *features,
                            size_t stride_bytes, double *labels,
                            enum row_status *status) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A row file as a store. Opening reads the header, and the ids unless they are consecutive; rows
 * are in file order, which is that of the store it was made from.
 */
#ifndef LOADER_ROWS_STORE_ROWS_H
#define LOADER_ROWS_STORE_ROWS_H

#include "loader/column/feature_recipe.h"
#include "loader/column/row_limit.h"
#include "loader/rows/rows_header.h"
#include "loader/rows/rows_record.h"
#include "loader/store/id_index.h"
#include "loader/store/source_file.h"
#include "loader/store/store.h"

struct rows_store {
    struct store store; /* first */
    char *path;         /* owned */
    struct file_identity identity;
    struct rows_header header;
    struct row_limit limit; /* the URI's, else the file's */
    struct id_index ids;    /* rows 0: opened for keys only */
    uint64_t *ends;         /* owned; rows_ends.h; NULL: all rows alike, or opened for keys only */
    char digest[CONTENT_DIGEST_TEXT_BYTES];
    bool is_copy; /* strided_reader.h; set by the opener of a row cache, before the first reader */
    struct feature_recipe *recipe; /* owned; NULL: the file has none */
};

/* store_rows_scan.c, store_rows_fetch.c */
enum error rows_store_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                           void *context) MUST_CHECK;
enum error rows_reader_open(struct store *store, struct reader **ret_reader) MUST_CHECK;
bool rows_reader_has_run(struct reader *reader, int64_t *ret_first);
enum error rows_reader_measure(struct reader *reader, const int64_t *ids, size_t count,
                               int64_t *lengths) MUST_CHECK;
bool rows_reader_knows_lengths(const struct reader *reader);

/* Offset of a row's record, from the start of the records; and its size. */
static inline uint64_t rows_store_row_at(const struct rows_store *store, int64_t row)
{
    if (!store->ends)
        return (uint64_t)row * store->header.head.row_bytes;
    return row > 0 ? store->ends[row - 1] : 0;
}
static inline size_t rows_store_row_bytes(const struct rows_store *store, int64_t row)
{
    return (size_t)(rows_store_row_at(store, row + 1) - rows_store_row_at(store, row));
}
/* Its number of features. */
static inline size_t rows_store_length(const struct rows_store *store, int64_t row)
{
    if (!store->ends)
        return (size_t)store->header.head.features;
    return (rows_store_row_bytes(store, row) - sizeof(struct rows_row)) /
           element_bytes(store->store.info.element);
}
/* store_rows_row.c: as rows_row_read(), or ERROR_INPUT naming file, row, id and bytes. */
enum error rows_store_read(const struct rows_store *store, int64_t row, int64_t id,
                           const uint8_t *record, double *ret_label, size_t *ret_length) MUST_CHECK;
/* Size of the longest record. */
size_t rows_store_longest(const struct rows_store *store);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * R records of one length, one behind the other in a source file, read a piece at a time. One
 * thread; blocks.
 */
#ifndef LOADER_STORE_STRIDED_ROWS_H
#define LOADER_STORE_STRIDED_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/source_file.h"

struct strided_rows {
    struct source_file *file; /* borrowed */
    uint64_t begin;           /* of row 0, in bytes */
    size_t row_bytes;         /* a record's */
    int64_t rows;             /* R */
    size_t piece_rows;        /* that one read may bring */
    uint8_t *piece;           /* owned; [piece_rows, row_bytes]: */
    int64_t first;            /* the record of this row, */
    size_t held;              /* and so many in all */
};

/* `row_bytes` > 0. */
enum error strided_rows_init(struct strided_rows *strided, struct source_file *file, uint64_t begin,
                             size_t row_bytes, int64_t rows) MUST_CHECK;
/* Legal when it was zeroed. */
void strided_rows_release(struct strided_rows *strided);

/* The records of rows first to last, last - first < piece_rows. Errors of source_file_read(). */
enum error strided_rows_read(struct strided_rows *strided, int64_t first, int64_t last) MUST_CHECK;
/* A row's record, which is read with those behind it: for all rows in their order. Borrowed until
 * the next read. */
enum error strided_rows_next(struct strided_rows *strided, int64_t row,
                             const uint8_t **ret_record) MUST_CHECK;

/* The record of a row that was read. */
static inline const uint8_t *strided_rows_at(const struct strided_rows *strided, int64_t row)
{
    return strided->piece + (size_t)(row - strided->first) * strided->row_bytes;
}

#endif

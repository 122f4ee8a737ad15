/* SPDX-License-Identifier: MIT */
/*
 * R records of one length, one behind the other in a source file, or in what is unpacked from one,
 * read a piece at a time; or records of which a list says where each ends. One thread; blocks.
 */
#ifndef LOADER_STORE_STRIDED_ROWS_H
#define LOADER_STORE_STRIDED_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/source_file.h"

/* Where records are that do not lie in the file as they are. Any thread. */
struct strided_text {
    /* Exactly `bytes` at `offset`. */
    enum error (*read)(const struct strided_text *text, void *out, size_t bytes,
                       uint64_t offset) MUST_CHECK;
    const uint8_t *held; /* all of it; NULL: it is not in memory */
};

struct strided_rows {
    struct source_file *file;        /* borrowed */
    const struct strided_text *text; /* borrowed, set by whoever has one; NULL: the file */
    uint64_t begin;                  /* of row 0, in bytes */
    size_t row_bytes;                /* a record's; of the longest */
    const uint64_t *ends;            /* borrowed; [R], where each ends, from `begin` on; NULL: all
                                      * have one length */
    int64_t rows;                    /* R */
    size_t piece_bytes;              /* that one read may bring: of one record at least */
    uint8_t *piece;                  /* owned; [piece_bytes]: */
    int64_t first;                   /* the record of this row, */
    size_t held;                     /* and so many in all */
};

/* Where the record of a row lies, from `begin` on; of row R: where the last one ends. */
static inline uint64_t strided_rows_offset(const struct strided_rows *strided, int64_t row)
{
    if (!strided->ends)
        return (uint64_t)row * strided->row_bytes;
    return row > 0 ? strided->ends[row - 1] : 0;
}

static inline size_t strided_rows_bytes(const struct strided_rows *strided, int64_t row)
{
    return strided->ends ? (size_t)(strided->ends[row] - strided_rows_offset(strided, row))
                         : strided->row_bytes;
}

/* `row_bytes` > 0. `ends` NULL: all records have that length. */
enum error strided_rows_init(struct strided_rows *strided, struct source_file *file, uint64_t begin,
                             size_t row_bytes, const uint64_t *ends, int64_t rows) MUST_CHECK;
/* Legal when it was zeroed. */
void strided_rows_release(struct strided_rows *strided);

/* The records of rows first to last, which take no more than piece_bytes. Errors of
 * source_file_read(). */
enum error strided_rows_read(struct strided_rows *strided, int64_t first, int64_t last) MUST_CHECK;
/* A row's record, which is read with those behind it: for all rows in their order. Borrowed until
 * the next read. */
enum error strided_rows_next(struct strided_rows *strided, int64_t row,
                             const uint8_t **ret_record) MUST_CHECK;

/* The record of a row, where all of them are in memory. */
static inline const uint8_t *strided_rows_in_memory(const struct strided_rows *strided, int64_t row)
{
    return strided->text->held + strided->begin + strided_rows_offset(strided, row);
}

/* The record of a row that was read. */
static inline const uint8_t *strided_rows_at(const struct strided_rows *strided, int64_t row)
{
    return strided->piece + (size_t)(strided_rows_offset(strided, row) -
                                     strided_rows_offset(strided, strided->first));
}

#endif

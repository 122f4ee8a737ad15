/* SPDX-License-Identifier: MIT */
/*
 * R records of one length, consecutive in a source file or in what is unpacked from one, read a
 * piece at a time; or records with a list of their ends. One thread; blocks.
 */
#ifndef LOADER_STORE_STRIDED_ROWS_H
#define LOADER_STORE_STRIDED_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/source_file.h"

/* Records that are not stored plainly in the file. Any thread. */
struct strided_text {
    /* Reads exactly `bytes` at `offset`. */
    enum error (*read)(const struct strided_text *text, void *out, size_t bytes,
                       uint64_t offset) MUST_CHECK;
    const uint8_t *held; /* all of it; NULL: not in memory */
};

struct strided_rows {
    struct source_file *file;        /* borrowed */
    const struct strided_text *text; /* borrowed, set by the owner; NULL: the file */
    uint64_t begin;                  /* of row 0, in bytes */
    size_t row_bytes;                /* of a record, or of the longest */
    const uint64_t *ends;            /* borrowed; [R], end of each, from `begin` on; NULL: all have
                                      * one length */
    int64_t rows;                    /* R */
    size_t piece_bytes;              /* the most that one read brings: at least one record */
    uint8_t *piece;                  /* owned; [piece_bytes]: */
    int64_t first;                   /* starts with this row's record, */
    size_t held;                     /* and holds this many */
};

/* Offset of a row's record from `begin`; for row R: the end of the last one. */
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
/* Legal on a zeroed struct. */
void strided_rows_release(struct strided_rows *strided);

/* Reads the records of rows first to last, at most piece_bytes. Errors of source_file_read(). */
enum error strided_rows_read(struct strided_rows *strided, int64_t first, int64_t last) MUST_CHECK;
/* A row's record, read together with those after it: for all rows in order. Borrowed until the next
 * read. */
enum error strided_rows_next(struct strided_rows *strided, int64_t row,
                             const uint8_t **ret_record) MUST_CHECK;

/* A row's record, if all are in memory. */
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

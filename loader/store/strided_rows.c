/* SPDX-License-Identifier: MIT */
#include "loader/store/strided_rows.h"

#include <stdlib.h>

#include "common/array.h"

#define PIECE_BYTES ((size_t)1 << 20) /* one read, unless a row is longer */

enum error strided_rows_init(struct strided_rows *strided, struct source_file *file, uint64_t begin,
                             size_t row_bytes, const uint64_t *ends, int64_t rows)
{
    size_t piece_rows = row_bytes < PIECE_BYTES ? PIECE_BYTES / row_bytes : 1;
    if ((int64_t)piece_rows > rows)
        piece_rows = (size_t)rows;
    *strided = (struct strided_rows){.file = file,
                                     .begin = begin,
                                     .row_bytes = row_bytes,
                                     .ends = ends,
                                     .rows = rows,
                                     .piece_bytes = piece_rows * row_bytes,
                                     .piece = array_new(piece_rows, row_bytes, "rows of a file")};
    return strided->piece ? OK : ERROR_MEMORY;
}

void strided_rows_release(struct strided_rows *strided)
{
    free(strided->piece);
}

enum error strided_rows_read(struct strided_rows *strided, int64_t first, int64_t last)
{
    const struct strided_text *text = strided->text;
    size_t rows = (size_t)(last - first) + 1;
    uint64_t at = strided_rows_offset(strided, first), offset = strided->begin + at;
    size_t bytes = (size_t)(strided_rows_offset(strided, last + 1) - at);
    strided->held = 0;
    enum error error = text ? text->read(text, strided->piece, bytes, offset)
                            : source_file_read(strided->file, strided->piece, bytes, offset);
    if (error)
        return error;
    strided->first = first;
    strided->held = rows;
    return OK;
}

/* The last row that one read brings together with `row`. */
static int64_t last_of_piece(const struct strided_rows *strided, int64_t row)
{
    uint64_t begin = strided_rows_offset(strided, row);
    int64_t last = row;
    if (!strided->ends) {
        last += (int64_t)(strided->piece_bytes / strided->row_bytes) - 1;
        return last < strided->rows ? last : strided->rows - 1;
    }
    while (last + 1 < strided->rows &&
           strided_rows_offset(strided, last + 2) - begin <= strided->piece_bytes)
        last++;
    return last;
}

enum error strided_rows_next(struct strided_rows *strided, int64_t row, const uint8_t **ret_record)
{
    enum error error = OK;
    if (strided->text && strided->text->held) {
        *ret_record = strided_rows_in_memory(strided, row);
        return OK;
    }
    if (row < strided->first || row - strided->first >= (int64_t)strided->held)
        error = strided_rows_read(strided, row, last_of_piece(strided, row));
    if (!error)
        *ret_record = strided_rows_at(strided, row);
    return error;
}

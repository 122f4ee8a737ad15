/* SPDX-License-Identifier: MIT */
#include "loader/store/strided_rows.h"

#include <stdlib.h>

#include "common/array.h"

#define PIECE_BYTES ((size_t)1 << 20) /* one read, unless a row is longer */

enum error strided_rows_init(struct strided_rows *strided, struct source_file *file, uint64_t begin,
                             size_t row_bytes, int64_t rows)
{
    size_t piece_rows = row_bytes < PIECE_BYTES ? PIECE_BYTES / row_bytes : 1;
    if ((int64_t)piece_rows > rows)
        piece_rows = (size_t)rows;
    *strided = (struct strided_rows){.file = file,
                                     .begin = begin,
                                     .row_bytes = row_bytes,
                                     .rows = rows,
                                     .piece_rows = piece_rows,
                                     .piece = array_new(piece_rows, row_bytes, "rows of a file")};
    return strided->piece ? OK : ERROR_MEMORY;
}

void strided_rows_release(struct strided_rows *strided)
{
    free(strided->piece);
}

enum error strided_rows_read(struct strided_rows *strided, int64_t first, int64_t last)
{
    size_t rows = (size_t)(last - first) + 1;
    strided->held = 0;
    enum error error = source_file_read(strided->file, strided->piece, rows * strided->row_bytes,
                                        strided->begin + (uint64_t)first * strided->row_bytes);
    if (error)
        return error;
    strided->first = first;
    strided->held = rows;
    return OK;
}

enum error strided_rows_next(struct strided_rows *strided, int64_t row, const uint8_t **ret_record)
{
    int64_t last = row + (int64_t)strided->piece_rows - 1;
    enum error error = OK;
    if (row < strided->first || row - strided->first >= (int64_t)strided->held)
        error = strided_rows_read(strided, row, last < strided->rows ? last : strided->rows - 1);
    if (!error)
        *ret_record = strided_rows_at(strided, row);
    return error;
}

/* SPDX-License-Identifier: MIT */
#include "loader/rows/rows_ends.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/crc32c.h"
#include "loader/rows/rows_record.h"

static uint64_t ends_at(const struct rows_header *header)
{
    return header->head.rows_at - sizeof(struct rows_ends_tail) -
           header->head.rows * sizeof(uint64_t);
}

static enum error refuse(const struct rows_header *header, const struct source_file *file,
                         uint64_t row, const char *what)
{
    return error_set(ERROR_INPUT, "%s: the end of row %" PRIu64 ", at byte %" PRIu64 ", %s",
                     file->path, row, ends_at(header) + row * sizeof(uint64_t), what);
}

static enum error check_checksum(const struct rows_header *header, struct source_file *file,
                                 const uint64_t *ends)
{
    struct rows_ends_tail tail;
    size_t bytes = (size_t)header->head.rows * sizeof(*ends);
    enum error error =
        source_file_read(file, &tail, sizeof(tail), header->head.rows_at - sizeof(tail));
    if (!error && (tail.checksum != crc32c_add(0, ends, bytes) || tail.zero != 0))
        error = error_set(ERROR_INPUT,
                          "%s: the ends of its rows, bytes %" PRIu64 " to %" PRIu64
                          ", are damaged: their checksum differs",
                          file->path, ends_at(header), header->head.rows_at - 1);
    return error;
}

/* The checksum has been verified. */
static enum error check_lengths(const struct rows_header *header, const struct source_file *file,
                                const uint64_t *ends, size_t *ret_longest)
{
    const struct rows_head *head = &header->head;
    size_t unit = element_bytes((enum element)head->element);
    uint64_t begin = 0, longest = 0, bytes;
    for (uint64_t row = 0; row < head->rows; begin = ends[row++]) {
        if (__builtin_sub_overflow(ends[row], begin, &bytes) || bytes < sizeof(struct rows_row))
            return refuse(header, file, row, "lies before the row begins");
        bytes -= sizeof(struct rows_row);
        if (bytes % unit != 0 || bytes / unit > head->features)
            return refuse(header, file, row, "gives it an impossible length");
        longest = bytes / unit > longest ? bytes / unit : longest;
    }
    if (begin != head->texts_at - head->rows_at)
        return refuse(header, file, head->rows - 1, "is not where the rows end");
    if (!rows_header_has(header, ROWS_LIMITED) && longest != head->features)
        return error_set(ERROR_INPUT,
                         "%s is damaged: its longest row has %" PRIu64
                         " features, its header says %" PRIu64,
                         file->path, longest, head->features);
    *ret_longest = (size_t)longest;
    return OK;
}

enum error rows_ends_read(const struct rows_header *header, struct source_file *file,
                          uint64_t **ret_ends, size_t *ret_longest)
{
    size_t rows = (size_t)header->head.rows;
    uint64_t *ends = array_new(rows, sizeof(*ends), "the ends of a file's rows");
    if (!ends)
        return ERROR_MEMORY;
    enum error error = source_file_read(file, ends, rows * sizeof(*ends), ends_at(header));
    if (!error)
        error = check_checksum(header, file, ends);
    if (!error)
        error = check_lengths(header, file, ends, ret_longest);
    if (error)
        free(ends);
    else
        *ret_ends = ends;
    return error;
}

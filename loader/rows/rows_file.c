/* SPDX-License-Identifier: MIT */
#include "loader/rows/rows_file.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"

static enum error read_header(struct source_file *file, struct rows_header *ret_header)
{
    char first[sizeof(struct rows_head)];
    uint64_t all = file->identity.size_bytes;
    size_t bytes = all < sizeof(first) ? (size_t)all : sizeof(first);
    enum error error = source_file_read(file, first, bytes, 0);
    if (!error)
        error = rows_header_measure(first, all, file->path, &bytes);
    if (error)
        return error;
    char *memory = array_new(bytes + 1, 1, "the header of a row file");
    if (!memory)
        return ERROR_MEMORY;
    error = source_file_read(file, memory, bytes, 0);
    if (error) {
        free(memory);
        return error;
    }
    return rows_header_parse(ret_header, memory, all, file->path);
}

enum error rows_file_open(struct source_file *file, const char *path,
                          struct rows_header *ret_header)
{
    enum error error = source_file_open(file, path, NULL);
    if (error)
        return error;
    error = read_header(file, ret_header);
    if (error)
        source_file_close(file);
    return error;
}

enum error rows_file_refuse(const char *path, int64_t row, int64_t id, uint64_t at, uint64_t bytes,
                            const char *what)
{
    return error_set(ERROR_INPUT,
                     "%s: row %" PRId64 " (id %" PRId64 ", bytes %" PRIu64 " to %" PRIu64 ") %s",
                     path, row, id, at, at + bytes - 1, what);
}

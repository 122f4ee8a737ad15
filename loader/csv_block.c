/* What a CSV file is cut into: blocks of whole records. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/csv_pass.h"
#include "loader/csv_row.h"

#define BLOCK_BYTES ((size_t)1 << 20)

static enum error refuse_binary(const unsigned char *head, size_t length, const char *path)
{
    if (length >= 2 && head[0] == 0x1f && head[1] == 0x8b)
        return error_set(ERROR_INPUT, "%s is compressed (gzip); unpack it first", path);
    if (length >= 4 && memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0)
        return error_set(ERROR_INPUT, "%s is compressed (zstd); unpack it first", path);
    if (length >= 2 &&
        ((head[0] == 0xff && head[1] == 0xfe) || (head[0] == 0xfe && head[1] == 0xff)))
        return error_set(ERROR_INPUT, "%s is UTF-16 text; CSV is read as UTF-8", path);
    if (length >= 15 && memcmp(head, "SQLite format 3", 15) == 0)
        return error_set(ERROR_INPUT, "%s is an SQLite file, not CSV; sqlite:%s opens it", path,
                         path);
    return OK;
}

enum error csv_source_init(struct csv_source *source, const char *path)
{
    struct source_file file;
    unsigned char head[16];
    enum error error = source_file_open(&file, path, NULL);
    if (error)
        return error;
    uint64_t size = file.identity.size_bytes;
    size_t length = size < sizeof(head) ? (size_t)size : sizeof(head);
    if (size == 0)
        error = error_set(ERROR_INPUT, "%s is empty; a CSV file with rows was expected", path);
    if (!error)
        error = source_file_read(&file, head, length, 0);
    if (!error)
        error = refuse_binary(head, length, path);
    bool mark = !error && length >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0;
    if (!error)
        *source = (struct csv_source){
            .path = path, .identity = file.identity, .begin = mark ? 3 : 0, .begin_line = 1};
    source_file_close(&file);
    return error;
}

void csv_block_release(struct csv_block *block)
{
    free(block->data);
    block->data = NULL;
    block->capacity = 0;
}

static enum error reserve(struct csv_block *block, size_t bytes)
{
    if (bytes <= block->capacity)
        return OK;
    csv_block_release(block);
    block->data = array_new(bytes + 1 + CSV_PADDING_BYTES, 1, "a block of CSV");
    if (!block->data)
        return ERROR_MEMORY;
    block->capacity = bytes;
    return OK;
}

/* Bytes up to the end of the last record that is whole; 0: none is. */
static size_t whole_records(const struct csv_block *block, size_t length)
{
    if (block->plain) {
        const char *last = memrchr(block->data, '\n', length);
        return last ? (size_t)(last - block->data) + 1 : 0;
    }
    size_t at = 0;
    for (;;) {
        size_t record = csv_record_length(block->data + at, length - at);
        if (record == 0)
            return at;
        at += record;
    }
}

static enum error refuse_long(const struct source_file *file, int64_t line)
{
    return error_set(ERROR_INPUT,
                     "%s, line %lld: the row is longer than %zu MiB; is a quote never closed?",
                     file->path, (long long)line, CSV_RECORD_LIMIT_BYTES >> 20);
}

/* Reads `bytes`, which may end the file, and cuts them behind the last whole record. */
static enum error read_part(struct csv_block *block, struct source_file *file, size_t bytes,
                            bool last)
{
    enum error error = reserve(block, bytes);
    if (!error)
        error = source_file_read(file, block->data, bytes, block->offset);
    if (error)
        return error;
    block->plain = memchr(block->data, '"', bytes) == NULL;
    if (last && block->data[bytes - 1] != '\n')
        block->data[bytes++] = '\n';
    /* At the end of the file an unclosed quote leaves a rest that no LF ends: one (bad) record. */
    block->length = last ? bytes : whole_records(block, bytes);
    memset(block->data + bytes, 0, CSV_PADDING_BYTES);
    return OK;
}

enum error csv_block_read(struct csv_block *block, struct source_file *file, uint64_t offset,
                          int64_t first_line)
{
    uint64_t left = file->identity.size_bytes - offset;
    enum error error = OK;
    block->offset = offset;
    block->first_line = first_line;
    block->length = 0;
    block->lines = 0;
    for (size_t bytes = BLOCK_BYTES; left > 0 && block->length == 0 && !error; bytes *= 2) {
        if (bytes > CSV_RECORD_LIMIT_BYTES)
            return refuse_long(file, first_line);
        bool last = left <= bytes;
        error = read_part(block, file, last ? (size_t)left : bytes, last);
    }
    if (!error)
        block->lines = (int64_t)csv_count_bytes(block->data, block->length, '\n');
    return error;
}

char *csv_block_next(const struct csv_block *block, char delimiter, size_t *at, int64_t *line,
                     size_t *ret_length, int64_t *ret_line)
{
    while (*at < block->length) {
        char *record = block->data + *at;
        size_t left = block->length - *at;
        size_t length;
        if (block->plain) {
            length = (size_t)((char *)memchr(record, '\n', left) - record) + 1;
            *ret_line = block->first_line + *line;
            *line += 1;
        } else {
            length = csv_record_length(record, left);
            length = length ? length : left;
            *ret_line = block->first_line + *line;
            *line += (int64_t)csv_count_bytes(record, length, '\n');
        }
        *at += length;
        if (length <= 2 || record[0] == ' ' || record[0] == '\t') {
            if (csv_record_is_blank(record, length, delimiter))
                continue;
        }
        *ret_length = length;
        return record;
    }
    return NULL;
}

/* SPDX-License-Identifier: MIT */
/* Cuts a CSV file into blocks of whole records. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/csv/csv_block.h"
#include "loader/csv/csv_row.h"

/* Read after each stretch: usually its last record ends there. */
#define LAST_RECORD_BYTES ((size_t)4 << 10)

static const struct {
    const char *magic, *name, *unpacker;
} compressions[] = {
    {"\x1f\x8b", "gzip", "gzip -d"},         {"PK\x03\x04", "zip", "unzip"},
    {"\x28\xb5\x2f\xfd", "zstd", "zstd -d"}, {"BZh91AY&SY", "bzip2", "bzip2 -d"},
    {"\xfd\x37zXZ", "xz", "xz -d"},
};

static enum error refuse_binary(const unsigned char *head, size_t length,
                                const struct text_source *source)
{
    const char *path = source->path;
    for (size_t i = 0; i < sizeof(compressions) / sizeof(compressions[0]); i++) {
        const char *magic = compressions[i].magic;
        if (length >= strlen(magic) && memcmp(head, magic, strlen(magic)) == 0)
            return error_set(ERROR_INPUT, "%s is compressed %s(%s); unpack it first (%s)", path,
                             source->packed ? "twice " : "", compressions[i].name,
                             compressions[i].unpacker);
    }
    if (length >= 2 &&
        ((head[0] == 0xff && head[1] == 0xfe) || (head[0] == 0xfe && head[1] == 0xff)))
        return error_set(ERROR_INPUT,
                         "%s is UTF-16 text; CSV is read as UTF-8 (iconv -f UTF-16 -t UTF-8)",
                         path);
    if (length >= 4 && memcmp(head, "PAR1", 4) == 0)
        return error_set(ERROR_INPUT, "%s is a Parquet file; parquet:PATH reads such", path);
    if (length >= 15 && memcmp(head, "SQLite format 3", 15) == 0)
        return error_set(ERROR_INPUT, "%s is an SQLite file, not CSV; sqlite:%s opens it", path,
                         path);
    return OK;
}

/* By its first bytes. */
static enum error look_at_head(struct csv_source *source)
{
    struct text_file file;
    unsigned char head[16];
    size_t length = 0;
    enum error error = text_file_open(&file, &source->text);
    if (error)
        return error;
    error = text_file_read(&file, head, sizeof(head), 0, &length);
    if (!error && length == 0)
        error =
            error_set_kind(error_set(ERROR_INPUT, "%s is empty; a CSV file with rows was expected",
                                     source->text.path),
                           STORE_WITHOUT_ROWS);
    if (!error)
        error = refuse_binary(head, length, &source->text);
    bool mark = !error && length >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0;
    source->begin = mark ? 3 : 0;
    source->begin_line = 1;
    text_file_close(&file);
    return error;
}

enum error csv_source_init(struct csv_source *source, const char *path)
{
    enum error error = text_source_init(&source->text, path);
    return error ? error : look_at_head(source);
}

void csv_source_release(struct csv_source *source)
{
    text_source_release(&source->text);
}

void csv_block_release(struct csv_block *block)
{
    free(block->memory);
    *block = (struct csv_block){.memory = NULL};
}

/* Keeps the bytes held already. */
static enum error reserve(struct csv_block *block, size_t bytes)
{
    if (block->memory && bytes <= block->capacity)
        return OK;
    char *memory = array_new(bytes + 1 + CSV_PADDING_BYTES, 1, "a block of CSV");
    if (!memory)
        return ERROR_MEMORY;
    if (block->memory)
        memcpy(memory, block->memory, block->held_bytes);
    free(block->memory);
    block->memory = memory;
    block->capacity = bytes;
    return OK;
}

/* Appends up to `bytes` more. The text's last line gets an LF if it lacks one. */
static enum error read_on(struct csv_block *block, struct text_file *file, size_t bytes)
{
    uint64_t at = block->stretch + block->held_bytes;
    uint64_t length = text_source_length(file->source);
    uint64_t left = at < length ? length - at : 0;
    size_t more = 0;
    bytes = bytes < left ? bytes : (size_t)left;
    enum error error = reserve(block, block->held_bytes + bytes);
    if (!error)
        error = text_file_read(file, block->memory + block->held_bytes, bytes, at, &more);
    if (error)
        return error;
    block->held_bytes += more;
    block->at_end = at + more >= text_source_length(file->source);
    if (block->at_end && block->held_bytes > 0 && block->memory[block->held_bytes - 1] != '\n')
        block->memory[block->held_bytes++] = '\n';
    memset(block->memory + block->held_bytes, 0, CSV_PADDING_BYTES);
    return OK;
}

enum error csv_block_read(struct csv_block *block, struct text_file *file, uint64_t offset)
{
    block->stretch = offset;
    block->held_bytes = 0;
    enum error error = read_on(block, file, CSV_BLOCK_BYTES + LAST_RECORD_BYTES);
    if (error)
        return error;
    block->stretch_bytes =
        block->held_bytes < CSV_BLOCK_BYTES ? block->held_bytes : CSV_BLOCK_BYTES;
    block->lines = (int64_t)csv_count_lines(block->memory, block->stretch_bytes, &block->plain);
    return OK;
}

static enum error refuse_long(const struct text_file *file, int64_t line)
{
    return error_set(ERROR_INPUT,
                     "%s, line %lld: the row is longer than %zu MiB; is a quote never closed?",
                     file->source->path, (long long)line, CSV_RECORD_LIMIT_BYTES >> 20);
}

/* The record at `at` does not end in the bytes held: doubles them. */
static enum error reach_on(struct csv_block *block, struct text_file *file, size_t at, int64_t line)
{
    size_t held = block->held_bytes - at;
    size_t most = CSV_RECORD_LIMIT_BYTES - held;
    size_t more = held > LAST_RECORD_BYTES ? held : LAST_RECORD_BYTES;
    if (held >= CSV_RECORD_LIMIT_BYTES)
        return refuse_long(file, line);
    return read_on(block, file, more < most ? more : most);
}

/* The end of the last record that begins in the stretch. An unclosed quote leaves a rest at the end
 * of the file: one (bad) record. */
static enum error find_end(struct csv_block *block, struct text_file *file, size_t begin,
                           int64_t first_line, size_t *ret_end)
{
    const char *last =
        block->plain ? memrchr(block->memory + begin, '\n', block->stretch_bytes - begin) : NULL;
    size_t at = last ? (size_t)(last - block->memory) + 1 : begin;
    enum error error = OK;
    while (at < block->stretch_bytes && !error) {
        size_t record = csv_count_record(block->memory + at, block->held_bytes - at, NULL);
        if (record == 0 && block->at_end)
            record = block->held_bytes - at;
        if (record == 0)
            error = reach_on(block, file, at,
                             first_line +
                                 (int64_t)csv_count_bytes(block->memory + begin, at - begin, '\n'));
        at += record;
    }
    *ret_end = at;
    return error;
}

enum error csv_block_cut(struct csv_block *block, struct text_file *file, struct csv_place *place)
{
    size_t begin = (size_t)(place->offset - block->stretch);
    size_t end = begin;
    bool plain = true;
    if (begin < block->stretch_bytes) {
        enum error error = find_end(block, file, begin, place->line, &end);
        if (error)
            return error;
        block->lines -= (int64_t)csv_count_bytes(block->memory, begin, '\n');
        block->lines += (int64_t)csv_count_lines(block->memory + block->stretch_bytes,
                                                 end - block->stretch_bytes, &plain);
        block->plain &= plain;
    } else { /* all of it belongs to a long record of another block */
        begin = end = 0;
        block->lines = 0;
    }
    block->data = block->memory + begin;
    block->length = end - begin;
    block->offset = place->offset;
    block->first_line = place->line;
    *place = (struct csv_place){.offset = place->offset + block->length,
                                .line = place->line + block->lines};
    return OK;
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
            size_t lines;
            length = csv_count_record(record, left, &lines);
            length = length ? length : left;
            *ret_line = block->first_line + *line;
            *line += (int64_t)lines;
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

/* SPDX-License-Identifier: MIT */
/*
 * Everything goes into a temporary file next to the final name, which is synced and renamed at the
 * end. Keys, rows and texts grow side by side, each from an offset known in advance. The header is
 * written last: what a killed import leaves has no magic.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/crc32c.h"
#include "common/file.h"
#include "loader/rows/rows_ends.h"
#include "loader/rows/rows_file.h"
#include "loader/rows/rows_keys.h"
#include "loader/store/store_kinds.h"
#include "loader/store/store_writer.h"

#define PENDING_BYTES ((size_t)1 << 20)       /* of a part, before they are written */
#define TEXTS_LIMIT_BYTES ((size_t)1 << 30)   /* of a row, and of pending texts */
#define HEADER_LIMIT_BYTES ((size_t)16 << 30) /* of a header's texts */

/* One part of the file. */
struct part {
    uint64_t at; /* in the file, after the bytes written so far */
    struct buffer pending;
};

struct rows_writer {
    struct store_writer writer; /* first */
    char *path;                 /* owned; what a symbolic link leads to */
    bool replace;
    struct file_writer *file;
    struct rows_header header;
    struct part keys, ends, rows, texts;
    uint64_t texts_end;
    struct rows_ends_tail ends_tail; /* ROWS_VARY: the tail of `ends` so far, */
    uint64_t rows_end;               /* whose last one is this */
    int64_t count;                   /* rows so far */
    int64_t last_id;
    bool ascending, consecutive;
};

/* ---- existing files ----------------------------------------------------- */

/* ERROR_CONFLICT unless `replace`, or there is no file, an empty one, or a valid row file. */
static enum error check_place(const char *path, bool replace)
{
    struct stat status;
    struct source_file file;
    struct rows_header header;
    if (stat(path, &status))
        return errno == ENOENT ? OK : error_set_errno(ERROR_IO, errno, "cannot look at %s", path);
    if (S_ISDIR(status.st_mode))
        return error_set(ERROR_USAGE, "%s is a folder; import writes a file", path);
    if (replace || (S_ISREG(status.st_mode) && status.st_size == 0))
        return OK;
    enum error error = rows_file_open(&file, path, &header);
    if (error)
        return error != ERROR_INPUT
                   ? error
                   : error_set(ERROR_CONFLICT,
                               "%s exists, and is not a whole row file, which import would have "
                               "made; name another one, or replace it with --force",
                               path);
    rows_header_release(&header);
    source_file_close(&file);
    return OK;
}

/* ---- opening ------------------------------------------------------------ */

static struct part part_at(uint64_t offset, size_t record_bytes)
{
    return (struct part){.at = offset, .pending = BUFFER_INIT(PENDING_BYTES + record_bytes + 1)};
}

static void rows_writer_close(struct store_writer *base)
{
    struct rows_writer *writer = (struct rows_writer *)base;
    file_writer_close(writer->file);
    buffer_release(&writer->keys.pending);
    buffer_release(&writer->ends.pending);
    buffer_release(&writer->rows.pending);
    buffer_release(&writer->texts.pending);
    rows_header_release(&writer->header);
    free(writer->path);
    free(writer);
}

static enum error rows_writer_open(struct uri *uri, const char *table, bool replace,
                                   struct store_writer **ret_writer)
{
    enum error error = check_place(uri->path, replace);
    struct rows_writer *writer = error ? NULL : array_new(1, sizeof(*writer), "writing a row file");
    (void)table;
    if (!writer)
        return error ? error : ERROR_MEMORY;
    writer->writer.place = uri->path;
    writer->replace = replace;
    writer->ascending = writer->consecutive = true;
    writer->path = file_real_path(uri->path);
    if (!writer->path) {
        rows_writer_close(&writer->writer);
        return ERROR_MEMORY;
    }
    *ret_writer = &writer->writer;
    return OK;
}

static enum error rows_writer_begin(struct store_writer *base)
{
    struct rows_writer *writer = (struct rows_writer *)base;
    const struct rows_head *head = &writer->header.head;
    enum error error = rows_header_init(&writer->header, base->info, base->key, base->source);
    if (error)
        return error;
    writer->keys = part_at(head->head_bytes, head->key_bytes);
    writer->ends = part_at(head->head_bytes + head->rows * head->key_bytes, sizeof(uint64_t));
    writer->rows = part_at(head->rows_at, (size_t)head->row_bytes);
    writer->texts = part_at(head->texts_at, TEXTS_LIMIT_BYTES);
    /* A cache replaces a link in its folder, which may lead to anything. */
    return file_writer_open(base->key ? base->place : writer->path, &writer->file);
}

/* ---- rows --------------------------------------------------------------- */

static enum error flush(struct rows_writer *writer, struct part *part)
{
    enum error error =
        file_writer_add_at(writer->file, part->pending.data, part->pending.length, part->at);
    if (error)
        return error;
    part->at += part->pending.length;
    buffer_clear(&part->pending);
    return OK;
}

/* Room for a record, of which the caller writes every byte. */
static enum error add_record(struct rows_writer *writer, struct part *part, size_t bytes,
                             uint8_t **ret_record)
{
    enum error error = part->pending.length >= PENDING_BYTES ? flush(writer, part) : OK;
    if (!error)
        error = buffer_reserve(&part->pending, bytes);
    if (error)
        return error;
    *ret_record = (uint8_t *)part->pending.data + part->pending.length;
    part->pending.length += bytes;
    return OK;
}

static enum error add_texts(struct rows_writer *writer, const struct store_block *block, size_t i,
                            struct rows_key_texts *ret_texts)
{
    static const struct text nothing = {.data = "", .length = 0};
    bool real = writer->writer.info->label_kind == LABEL_REAL;
    const struct text *label = real ? &block->labels[i] : &nothing;
    const struct text *group = block->groups ? &block->groups[i] : &nothing;
    struct part *part = &writer->texts;
    enum error error = part->pending.length >= PENDING_BYTES ? flush(writer, part) : OK;
    if (error)
        return error;
    buffer_add(&part->pending, label->data, label->length);
    error = buffer_add(&part->pending, group->data, group->length);
    if (error)
        return error;
    writer->texts_end += label->length + group->length;
    ret_texts->end = writer->texts_end;
    ret_texts->label_bytes = (uint32_t)label->length;
    ret_texts->checksum =
        crc32c_add(crc32c_add(0, label->data, label->length), group->data, group->length);
    return OK;
}

/* A store without an id column numbers its rows. */
static enum error note_id(struct rows_writer *writer, int64_t id)
{
    if (writer->count == 0)
        writer->header.head.first_id = id;
    if (writer->count > 0 && id <= writer->last_id)
        writer->ascending = false;
    if (id - writer->header.head.first_id != writer->count)
        writer->consecutive = false;
    writer->last_id = id;
    if (!writer->writer.info->id_column && id != writer->count)
        return error_set(ERROR_INPUT,
                         "%s gave the id %" PRId64 " to row %" PRId64
                         ", and has no column of ids: row numbers were expected",
                         writer->writer.info->uri, id, writer->count);
    return OK;
}

/* Records the end of a row whose record needs `bytes`. There is room for what the store
 * announced. */
static enum error add_end(struct rows_writer *writer, size_t bytes)
{
    const struct rows_head *head = &writer->header.head;
    uint8_t *record;
    writer->rows_end += bytes;
    if (writer->rows_end > head->texts_at - head->rows_at)
        return error_set(ERROR_INPUT, "%s gave longer rows than it announced",
                         writer->writer.info->uri);
    enum error error = add_record(writer, &writer->ends, sizeof(writer->rows_end), &record);
    if (error)
        return error;
    memcpy(record, &writer->rows_end, sizeof(writer->rows_end));
    writer->ends_tail.checksum =
        crc32c_add(writer->ends_tail.checksum, record, sizeof(writer->rows_end));
    return OK;
}

static enum error add_row(struct rows_writer *writer, const struct store_block *block, size_t i,
                          const void *features, size_t length)
{
    const struct rows_header *header = &writer->header;
    bool coded = header->head.label_kind == LABEL_TEXT;
    double label = header->head.label_kind == LABEL_NONE ? 0 : block->label_values[i];
    struct rows_key key = {.id = block->ids[i],
                           .code = coded ? (uint32_t)label : 0,
                           .label = coded ? 0 : label,
                           .weight = block->weights ? block->weights[i] : 1};
    uint8_t *record;
    enum error error = note_id(writer, key.id);
    if (!error && rows_header_has_texts(header))
        error = add_texts(writer, block, i, &key.texts);
    if (!error)
        error = add_record(writer, &writer->keys, header->head.key_bytes, &record);
    if (error)
        return error;
    rows_key_write(header, writer->count, &key, record);
    size_t bytes = rows_row_bytes(header, length);
    if (rows_header_has(header, ROWS_VARY))
        error = add_end(writer, bytes);
    if (!error)
        error = add_record(writer, &writer->rows, bytes, &record);
    if (error)
        return error;
    rows_row_write(header, key.id, label, features, length, record);
    writer->count++;
    return OK;
}

static enum error rows_writer_add(struct store_writer *base, const struct store_block *block)
{
    struct rows_writer *writer = (struct rows_writer *)base;
    const uint8_t *features = block->features;
    enum error error = OK;
    for (size_t i = 0; i < block->rows && !error; i++) {
        size_t bytes = store_block_row_bytes(block, i, base->info);
        error = add_row(writer, block, i, features, bytes / element_bytes(base->info->element));
        features += bytes;
    }
    return error;
}

/* ---- the end ------------------------------------------------------------ */

static enum error finish_ends(struct rows_writer *writer)
{
    const struct rows_head *head = &writer->header.head;
    if (!rows_header_has(&writer->header, ROWS_VARY))
        return OK;
    if (writer->rows_end != head->texts_at - head->rows_at)
        return error_set(ERROR_INPUT, "%s gave shorter rows than it announced",
                         writer->writer.info->uri);
    enum error error = flush(writer, &writer->ends);
    return error ? error
                 : file_writer_add_at(writer->file, &writer->ends_tail, sizeof(writer->ends_tail),
                                      writer->ends.at);
}

static enum error write_header(struct rows_writer *writer)
{
    struct rows_head *head = &writer->header.head;
    struct buffer bytes = BUFFER_INIT(HEADER_LIMIT_BYTES);
    head->file_bytes = head->texts_at + writer->texts_end;
    if (writer->consecutive)
        head->flags |= ROWS_CONSECUTIVE;
    memcpy(head->digest, writer->writer.digest_text, sizeof(head->digest));
    enum error error = rows_header_write(&writer->header, &bytes);
    if (!error)
        error = file_writer_add_at(writer->file, bytes.data, bytes.length, 0);
    buffer_release(&bytes);
    return error;
}

/* Ascending ids are distinct; others are put into an index, as when the file is opened. */
static enum error check_ids(const struct rows_writer *writer)
{
    struct source_file file;
    struct id_index index;
    if (writer->ascending)
        return OK;
    enum error error = source_file_open(&file, file_writer_temporary_path(writer->file), NULL);
    if (error)
        return error;
    error = rows_keys_index(&writer->header, &file, writer->writer.info->uri, &index);
    if (!error)
        id_index_release(&index);
    source_file_close(&file);
    return error;
}

static enum error rows_writer_finish(struct store_writer *base, const char **ret_path)
{
    struct rows_writer *writer = (struct rows_writer *)base;
    enum error error = flush(writer, &writer->keys);
    if (!error)
        error = finish_ends(writer);
    if (!error)
        error = flush(writer, &writer->rows);
    if (!error)
        error = flush(writer, &writer->texts);
    if (!error)
        error = write_header(writer);
    if (!error)
        error = check_ids(writer);
    base->bytes = writer->header.head.file_bytes;
    *ret_path = file_writer_temporary_path(writer->file);
    return error;
}

/* Another program may have made a file there meanwhile. */
static enum error rows_writer_publish(struct store_writer *base)
{
    struct rows_writer *writer = (struct rows_writer *)base;
    enum error error = file_writer_sync(writer->file);
    if (!error && !writer->replace)
        error = check_place(writer->path, false);
    return error ? error : file_writer_publish(writer->file);
}

const struct store_writer_ops store_writer_rows_ops = {.store = &store_rows_ops,
                                                       .open = rows_writer_open,
                                                       .begin = rows_writer_begin,
                                                       .add = rows_writer_add,
                                                       .finish = rows_writer_finish,
                                                       .publish = rows_writer_publish,
                                                       .close = rows_writer_close};

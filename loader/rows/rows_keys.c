/* SPDX-License-Identifier: MIT */
/* Keys are read in runs of some thousand; their texts, of whatever length, are read at once. */
#include "loader/rows/rows_keys.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/crc32c.h"

#define PIECE_ROWS 8192

enum error rows_keys_open(struct rows_keys *keys, const struct rows_header *header,
                          struct source_file *file, bool with_texts)
{
    uint64_t rows = header->head.rows;
    *keys = (struct rows_keys){.header = header,
                               .file = file,
                               .piece_rows = rows < PIECE_ROWS ? (size_t)rows : PIECE_ROWS,
                               .with_texts = with_texts};
    keys->keys = array_new(keys->piece_rows, header->head.key_bytes, "keys of a row file");
    return keys->keys ? OK : ERROR_MEMORY;
}

void rows_keys_close(struct rows_keys *keys)
{
    free(keys->keys);
    free(keys->texts);
}

/* ---- runs --------------------------------------------------------------- */

static enum error refuse_key(const struct rows_keys *keys, int64_t row, const char *what)
{
    uint64_t at = rows_header_key_at(keys->header, row);
    return error_set(ERROR_INPUT,
                     "%s: the key of row %" PRId64 ", bytes %" PRIu64 " to %" PRIu64 ", %s",
                     keys->file->path, row, at, at + keys->header->head.key_bytes - 1, what);
}

static enum error refuse_texts(const struct rows_keys *keys, int64_t row, uint64_t from,
                               const char *what)
{
    return error_set(ERROR_INPUT,
                     "%s: label and group of row %" PRId64 ", from byte %" PRIu64 " on, %s",
                     keys->file->path, row, keys->header->head.texts_at + from, what);
}

static const uint8_t *record_of(const struct rows_keys *keys, int64_t row)
{
    return keys->keys + (size_t)(row - keys->first) * keys->header->head.key_bytes;
}

/* The texts of a run of `rows` keys, whose last one says where they end. */
static enum error read_texts(struct rows_keys *keys, size_t rows)
{
    struct rows_key last;
    int64_t row = keys->first + (int64_t)rows - 1;
    const char *wrong = rows_key_read(keys->header, row, record_of(keys, row), &last);
    if (wrong)
        return refuse_key(keys, row, wrong);
    keys->texts_from = keys->texts_end;
    if (last.texts.end < keys->texts_from)
        return refuse_texts(keys, row, last.texts.end, "end before they begin");
    keys->texts_to = last.texts.end;
    size_t bytes = (size_t)(keys->texts_to - keys->texts_from);
    enum error error = array_grow((void **)&keys->texts, &keys->texts_capacity, bytes + 1, 1,
                                  "labels and groups of a row file");
    return error ? error
                 : source_file_read(keys->file, keys->texts, bytes,
                                    keys->header->head.texts_at + keys->texts_from);
}

static enum error read_piece(struct rows_keys *keys)
{
    int64_t left = (int64_t)keys->header->head.rows - keys->next;
    size_t rows = left < (int64_t)keys->piece_rows ? (size_t)left : keys->piece_rows;
    keys->first = keys->next;
    enum error error = source_file_read(keys->file, keys->keys, rows * keys->header->head.key_bytes,
                                        rows_header_key_at(keys->header, keys->first));
    if (!error && keys->with_texts && rows_header_has_texts(keys->header))
        error = read_texts(keys, rows);
    return error;
}

/* ---- rows --------------------------------------------------------------- */

static enum error take_texts(struct rows_keys *keys, int64_t row, struct rows_keys_row *taken)
{
    const struct rows_key_texts *texts = &taken->key.texts;
    bool real = keys->header->head.label_kind == LABEL_REAL;
    uint64_t from = keys->texts_end;
    if (texts->end < from || texts->end > keys->texts_to ||
        texts->label_bytes > texts->end - from ||
        (real ? texts->label_bytes == 0 : texts->label_bytes > 0))
        return refuse_texts(keys, row, from, "have impossible lengths");
    const uint8_t *at = keys->texts + (size_t)(from - keys->texts_from);
    size_t bytes = (size_t)(texts->end - from);
    if (crc32c_add(0, at, bytes) != texts->checksum)
        return refuse_texts(keys, row, from, "are damaged: their checksum differs");
    if (!text_is_utf8((const char *)at, bytes))
        return refuse_texts(keys, row, from, "are not texts in UTF-8");
    keys->texts_end = texts->end;
    if (real)
        taken->label = (struct text){.data = (const char *)at, .length = texts->label_bytes};
    taken->group = (struct text){.data = (const char *)at + texts->label_bytes,
                                 .length = bytes - texts->label_bytes};
    return OK;
}

/* For labels in the key or the header. */
static void take_label(struct rows_keys *keys, struct rows_keys_row *taken)
{
    const char **texts = keys->header->label_texts + taken->key.code;
    if (keys->header->head.label_kind == LABEL_TEXT) {
        taken->label = (struct text){.data = texts[0], .length = (size_t)(texts[1] - texts[0]) - 1};
    } else if (keys->header->head.label_kind == LABEL_INTEGER) {
        char *end = text_write_integer(keys->digits, (int64_t)taken->key.label);
        taken->label = (struct text){.data = keys->digits, .length = (size_t)(end - keys->digits)};
    }
}

enum error rows_keys_next(struct rows_keys *keys, struct rows_keys_row *ret_row)
{
    struct rows_keys_row taken = {.label = {.data = ""}, .group = {.data = ""}};
    int64_t row = keys->next;
    enum error error = row % (int64_t)keys->piece_rows == 0 ? read_piece(keys) : OK;
    if (error)
        return error;
    const char *wrong = rows_key_read(keys->header, row, record_of(keys, row), &taken.key);
    if (wrong)
        return refuse_key(keys, row, wrong);
    if (keys->with_texts && rows_header_has_texts(keys->header))
        error = take_texts(keys, row, &taken);
    if (error)
        return error;
    if (keys->with_texts)
        take_label(keys, &taken);
    keys->next++;
    *ret_row = taken;
    return OK;
}

/* ---- ids ---------------------------------------------------------------- */

static enum error collect(struct rows_keys *keys, int64_t *ids)
{
    struct rows_keys_row row;
    enum error error = OK;
    for (uint64_t i = 0; i < keys->header->head.rows && !error; i++) {
        error = rows_keys_next(keys, &row);
        if (!error)
            ids[i] = row.key.id;
    }
    return error;
}

enum error rows_keys_index(const struct rows_header *header, struct source_file *file,
                           const char *name, struct id_index *ret_index)
{
    struct rows_keys keys;
    int64_t twice[2] = {0}, rows = (int64_t)header->head.rows;
    if (rows_header_has(header, ROWS_CONSECUTIVE)) {
        *ret_index = (struct id_index){.rows = rows, .first = header->head.first_id};
        return OK;
    }
    int64_t *ids = array_new((size_t)rows, sizeof(*ids), "the ids of a row file");
    enum error error = ids ? rows_keys_open(&keys, header, file, false) : ERROR_MEMORY;
    if (!error) {
        error = collect(&keys, ids);
        rows_keys_close(&keys);
    }
    if (!error)
        error = id_index_init(ret_index, ids, rows, twice);
    if (error == ERROR_CONFLICT)
        error = error_set(ERROR_INPUT,
                          "%s: rows %" PRId64 " and %" PRId64 " have the same id, %" PRId64
                          "; each may come only once",
                          name, twice[0], twice[1], ids[twice[0]]);
    if (error)
        free(ids);
    return error;
}

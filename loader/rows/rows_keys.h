/* SPDX-License-Identifier: MIT */
/*
 * The keys of a row file in their order, checked one by one, with the texts of their rows or
 * without. One thread; blocks.
 */
#ifndef LOADER_ROWS_ROWS_KEYS_H
#define LOADER_ROWS_ROWS_KEYS_H

#include "loader/rows/rows_header.h"
#include "loader/rows/rows_record.h"
#include "loader/store/id_index.h"
#include "loader/store/source_file.h"

struct rows_keys {
    const struct rows_header *header; /* borrowed */
    struct source_file *file;         /* borrowed */
    uint8_t *keys;                    /* owned; a piece of them */
    size_t piece_rows;                /* that it holds, at most; 0: it is not open */
    int64_t first;                    /* row of the piece's first key */
    int64_t next;                     /* row that comes next */
    bool with_texts;
    uint8_t *texts; /* owned; those of the piece */
    size_t texts_capacity;
    uint64_t texts_from, texts_to; /* of them in the file, from where all texts begin */
    uint64_t texts_end;            /* behind the texts of the row before */
    char digits[TEXT_INTEGER_BYTES];
};

/* A row's key, and its texts; they are borrowed until the next one. */
struct rows_keys_row {
    struct rows_key key;
    struct text label, group; /* "" where the file has none, and without texts */
};

/* `with_texts` false: labels and groups are not wanted. */
enum error rows_keys_open(struct rows_keys *keys, const struct rows_header *header,
                          struct source_file *file, bool with_texts) MUST_CHECK;
void rows_keys_close(struct rows_keys *keys);
/* ERROR_INPUT naming file, row and byte: it is damaged. Not to be called behind the last row. */
enum error rows_keys_next(struct rows_keys *keys, struct rows_keys_row *ret_row) MUST_CHECK;

/* An index of all ids. Consecutive ones are not read. ERROR_INPUT naming both rows of `name`: an id
 * is there twice. */
enum error rows_keys_index(const struct rows_header *header, struct source_file *file,
                           const char *name, struct id_index *ret_index) MUST_CHECK;

#endif

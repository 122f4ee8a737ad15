/* SPDX-License-Identifier: MIT */
/*
 * Reads a row file's keys in order, checking each, with or without the texts of their rows. One
 * thread; blocks.
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
    uint8_t *keys;                    /* owned; a run of keys */
    size_t piece_rows;                /* its capacity; 0: not open */
    int64_t first;                    /* row of the run's first key */
    int64_t next;                     /* next row */
    bool with_texts;
    uint8_t *texts; /* owned; those of the run */
    size_t texts_capacity;
    uint64_t texts_from, texts_to; /* their range in the file, from the start of all texts */
    uint64_t texts_end;            /* after the previous row's texts */
    char digits[TEXT_INTEGER_BYTES];
};

/* A row's key and texts, borrowed until the next one. */
struct rows_keys_row {
    struct rows_key key;
    struct text label, group; /* "" if the file has none, and without texts */
};

/* `with_texts` false: skip labels and groups. */
enum error rows_keys_open(struct rows_keys *keys, const struct rows_header *header,
                          struct source_file *file, bool with_texts) MUST_CHECK;
void rows_keys_close(struct rows_keys *keys);
/* ERROR_INPUT naming file, row and byte: the file is damaged. Do not call after the last row. */
enum error rows_keys_next(struct rows_keys *keys, struct rows_keys_row *ret_row) MUST_CHECK;

/* An index of all ids. Consecutive ones are not read. ERROR_INPUT naming both rows of a duplicate
 * id in `name`. */
enum error rows_keys_index(const struct rows_header *header, struct source_file *file,
                           const char *name, struct id_index *ret_index) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Parses one CSV record into ids, labels and features. A fast path parses nearly every row (numbers
 * by csv_bytes.h and csv_floats.h, keys without a quote inside) directly from the text; other rows
 * are split first. Both give the same row.
 *
 * Two kinds of failure: broken structure (number of fields, quotes, id, label, weight, group) is
 * ERROR_INPUT; a feature that is not a number is OK with ROW_BAD, described by error_message().
 * Messages name the column, not file and line.
 */
#ifndef LOADER_CSV_CSV_ROW_H
#define LOADER_CSV_CSV_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/csv/csv_block.h"
#include "loader/csv/csv_bytes.h"
#include "loader/csv/csv_columns.h"
#include "loader/csv/csv_split.h"
#include "loader/store/store_row.h"

/* Bytes after a record that may be read (never used). */
#define CSV_PADDING_BYTES CSV_BYTES_PADDING

struct csv_decoder {
    const struct csv_columns *columns; /* borrowed */
    struct csv_splitter splitter;
    uint8_t *bytes; /* owned; [F]: integers that the fast path converts to floats */
    size_t bytes_capacity;
    size_t most;                    /* features per row, if rows differ in length: the URI's limit,
                                     * or a smaller one of a caller with less room; longer rows are
                                     * refused */
    struct recipe_learner *learner; /* borrowed; learns from the columns' plan; or NULL */
};

enum error csv_decoder_init(struct csv_decoder *decoder, const struct csv_columns *columns,
                            char delimiter) MUST_CHECK;
void csv_decoder_release(struct csv_decoder *decoder);

/* `record` (with LF, followed by CSV_PADDING_BYTES) may be overwritten. `plain`: known to hold no
 * quote. `features` NULL: keys only; else [F] of `element`; undefined if `element` is ELEMENT_U8
 * and the row is not is_u8, or if it is ROW_BAD. With a plan they are floats, whatever `element`
 * is. If rows differ in length, there are row->length of them, at most decoder->most, and at most
 * half of the record's bytes plus one. */
enum error csv_decode_row(struct csv_decoder *decoder, char *record, size_t length, bool plain,
                          enum element element, void *features,
                          struct store_row *ret_row) MUST_CHECK;

/* A reader's position in a block. Zeroed: before the first row. */
struct csv_cursor {
    size_t at;     /* in the block: the next record */
    int64_t lines; /* of the block, before it */
    size_t record; /* where the current row begins in the block */
    int64_t line;  /* the current row's line in the file */
};

/* The next row of a block, as csv_decode_row(); skips blank records. ERROR_END: there is none.
 * Other errors concern cursor->line. */
enum error csv_decode_next(struct csv_decoder *decoder, struct csv_block *block,
                           struct csv_cursor *cursor, enum element element, void *features,
                           struct store_row *ret_row) MUST_CHECK;

#endif

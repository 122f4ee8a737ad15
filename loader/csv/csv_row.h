/* SPDX-License-Identifier: MIT */
/*
 * One CSV record into ids, labels and features. A quick path decodes what nearly every row is -
 * numbers (csv_bytes.h, csv_floats.h), keys without a quote inside - straight from the text; all
 * else is split first. Both give the same row.
 *
 * Two kinds of trouble: a row whose structure is broken (number of fields, quotes, id, label,
 * weight, group) is ERROR_INPUT; a row with a feature that is no number is OK with ROW_BAD, and
 * error_message() says which. Messages name the column, not file and line.
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

/* Bytes that may be read (never used) behind a record. */
#define CSV_PADDING_BYTES CSV_BYTES_PADDING

struct csv_decoder {
    const struct csv_columns *columns; /* borrowed */
    struct csv_splitter splitter;
    uint8_t *bytes; /* owned; [F]: integers that the quick path makes floats of */
    size_t bytes_capacity;
    size_t most;                    /* features of a row, where rows differ in length: the URI's, or
                                     * set by who has room for fewer; longer ones are refused */
    struct recipe_learner *learner; /* borrowed; what learns from the columns' plan; else NULL */
};

enum error csv_decoder_init(struct csv_decoder *decoder, const struct csv_columns *columns,
                            char delimiter) MUST_CHECK;
void csv_decoder_release(struct csv_decoder *decoder);

/* `record` (with LF, CSV_PADDING_BYTES behind it) may be overwritten. `plain`: it is known to hold
 * no quote. `features` NULL: keys only; else [F] of `element`: for ELEMENT_U8 a row that is not
 * is_u8 leaves them undefined. A ROW_BAD row leaves them undefined too. Of columns with a plan they
 * are floats, whatever `element` is. Where rows differ in length, they are row->length, of at most
 * decoder->most, and of no more than half of the record's bytes and one. */
enum error csv_decode_row(struct csv_decoder *decoder, char *record, size_t length, bool plain,
                          enum element element, void *features,
                          struct store_row *ret_row) MUST_CHECK;

/* Where a reader of a block is. Zeroed: in front of the first row. */
struct csv_cursor {
    size_t at;     /* of the block: the next record */
    int64_t lines; /* of the block, in front of it */
    size_t record; /* where the row that was decoded begins in the block */
    int64_t line;  /* its line in the file */
};

/* The next row of a block, as csv_decode_row(); blank records are skipped. ERROR_END: there is
 * none. Other errors are about cursor->line. */
enum error csv_decode_next(struct csv_decoder *decoder, struct csv_block *block,
                           struct csv_cursor *cursor, enum element element, void *features,
                           struct store_row *ret_row) MUST_CHECK;

#endif

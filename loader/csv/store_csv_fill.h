/* SPDX-License-Identifier: MIT */
/*
 * The rows of a CSV file, kept in memory during the first pass, so that a row cache need not read
 * the file a second time. Private to store_csv*.c.
 *
 * Worker threads decode each row into its slot. The row number of a record is not known before all
 * in front of it is parsed, but it is never above its line number: slots go by line, and the gaps
 * of blank lines and quoted line ends are closed when the block has its turn.
 *
 * Slots have the form (elements, kind of label) of all rows so far. A row that does not fit it ends
 * the pass; it starts again with the wider form, twice at most. When the rows do
 * not fit the memory, nothing is kept, and the pass goes on.
 */
#ifndef LOADER_CSV_STORE_CSV_FILL_H
#define LOADER_CSV_STORE_CSV_FILL_H

#include <stdatomic.h>

#include "loader/csv/csv_pass.h"
#include "loader/csv/csv_row.h"
#include "loader/store/label_dictionary.h"
#include "loader/store/row_slots.h"

struct csv_fill {
    struct row_slots slots; /* memory NULL: nothing is kept */
    enum element element;
    bool texts;         /* labels are texts: slots hold their numbers in the dictionary */
    _Atomic bool ended; /* the rows do not fit */
    int64_t first_line; /* of the rows' part of the file */
};

/* A worker's share: one block. */
struct csv_fill_block {
    uint64_t first; /* slot of its first row */
    uint64_t rows;  /* slots that are its own; 0: nothing is kept of it */
};

/* Room for what `cache_bytes` hold of a text of at most `bytes` bytes and at least one byte a
 * column; none when that is not to be had. */
void csv_fill_start(struct csv_fill *fill, const struct csv_columns *columns, uint64_t bytes,
                    uint64_t cache_bytes);
void csv_fill_release(struct csv_fill *fill);

/* Worker threads: the slots of a block. */
void csv_fill_claim(struct csv_fill *fill, const struct csv_block *block,
                    struct csv_fill_block *ret_share);
/* The slot of row `index` of the block, features behind the label; NULL: it is not kept. */
uint8_t *csv_fill_slot(struct csv_fill *fill, const struct csv_fill_block *share, size_t index);
/* The row is decoded: its label (`number` is the one of its text with `texts`); a bad row is
 * zeroed.
 */
void csv_fill_label(const struct csv_fill *fill, uint8_t *slot, const struct store_row *row,
                    size_t number);

/* The caller's thread, in file order: the block's `rows` rows become those from `row` on. `numbers`
 * (NULL: they stay) is what the labels' numbers become. */
void csv_fill_take(struct csv_fill *fill, const struct csv_fill_block *share, uint64_t row,
                   size_t rows, const uint32_t *numbers);
/* All is read: `rows` rows. `ranks` (NULL: they stay): what the labels' numbers become. Lets go of
 * the memory if they did not fit. */
void csv_fill_finish(struct csv_fill *fill, uint64_t rows, const uint32_t *ranks);

#endif

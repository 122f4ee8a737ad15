/* SPDX-License-Identifier: MIT */
/*
 * Keeps a CSV file's rows in memory during the first pass, so that a row cache need not read the
 * file again. Private to store_csv*.c.
 *
 * Worker threads decode each row into its slot. A record's row number is unknown until all before
 * it is parsed, but it never exceeds its line number: slots are indexed by line, and gaps from
 * blank lines and quoted line ends are closed when the block's turn comes.
 *
 * Slots have the form (elements, kind of label) of all rows so far. A row that does not fit it ends
 * the pass, which restarts with the wider form, twice at most. If the rows do not fit in memory,
 * nothing is kept, and the pass continues.
 */
#ifndef LOADER_CSV_STORE_CSV_FILL_H
#define LOADER_CSV_STORE_CSV_FILL_H

#include <stdatomic.h>

#include "loader/column/label_dictionary.h"
#include "loader/csv/csv_pass.h"
#include "loader/csv/csv_row.h"
#include "loader/store/row_slots.h"

struct csv_fill {
    struct row_slots slots; /* memory NULL: keeps nothing */
    enum element element;
    bool texts;         /* labels are texts: slots hold their dictionary numbers */
    _Atomic bool ended; /* the rows do not fit */
    int64_t first_line; /* of the rows' part of the file */
};

/* A worker's part: one block. */
struct csv_fill_block {
    uint64_t first; /* slot of its first row */
    uint64_t rows;  /* slots that belong to it; 0: none of it is kept */
};

/* Allocates what `cache_bytes` hold of a text of at most `bytes` bytes and at least one byte per
 * column; nothing if memory is short. */
void csv_fill_start(struct csv_fill *fill, const struct csv_columns *columns, uint64_t bytes,
                    uint64_t cache_bytes);
void csv_fill_release(struct csv_fill *fill);

/* Worker threads: claims a block's slots. */
void csv_fill_claim(struct csv_fill *fill, const struct csv_block *block,
                    struct csv_fill_block *ret_share);
/* The slot of row `index` of the block, features after the label; NULL: not kept. */
uint8_t *csv_fill_slot(struct csv_fill *fill, const struct csv_fill_block *share, size_t index);
/* Stores a parsed row's label (with `texts`, `number` is its text's); a bad row is zeroed. */
void csv_fill_label(const struct csv_fill *fill, uint8_t *slot, const struct store_row *row,
                    size_t number);

/* Caller's thread, in file order: moves the block's `rows` rows to `row` and following. `numbers`
 * (NULL: unchanged) maps the labels' numbers. */
void csv_fill_take(struct csv_fill *fill, const struct csv_fill_block *share, uint64_t row,
                   size_t rows, const uint32_t *numbers);
/* All `rows` rows are read. `ranks` (NULL: unchanged) maps the labels' numbers. Frees the memory if
 * they did not fit. */
void csv_fill_finish(struct csv_fill *fill, uint64_t rows, const uint32_t *ranks);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Some rows of a cursor's batch, decoded: into the ids, label texts and features that CSV text
 * would give. Column after column, as the file has them, and few rows at a time, so that the rows
 * which the columns are dealt out to stay in the cache.
 */
#ifndef LOADER_PARQUET_PARQUET_TILE_H
#define LOADER_PARQUET_PARQUET_TILE_H

#include "loader/parquet/parquet_cursor.h"
#include "loader/store/store_row.h"

#define PARQUET_TILE_ROWS 64

struct parquet_tile {
    struct store_row rows[PARQUET_TILE_ROWS];            /* texts: of the batch, or in `texts` */
    const struct parquet_column *bad[PARQUET_TILE_ROWS]; /* ROW_BAD: the first such feature, */
    size_t bad_item[PARQUET_TILE_ROWS];                  /* and which of a list's items it is */
    size_t begins[PARQUET_TILE_ROWS];                    /* bytes of `features` before each row */
    char texts[2][PARQUET_TILE_ROWS][ARROW_TEXT_BYTES];  /* labels and groups that are numbers */
    uint8_t *features;     /* owned; [limit, F], or rows of any length; NULL: keys only */
    size_t features_bytes; /* that there is room for */
    size_t limit;          /* rows that there is room for */
    size_t row_bytes;      /* of F features */
    enum element element;
};

/* For `part` of the columns, features as `element`. NULL: ERROR_MEMORY. */
struct parquet_tile *parquet_tile_new(const struct parquet_columns *columns, enum parquet_part part,
                                      enum element element);
void parquet_tile_free(struct parquet_tile *tile);

/* The features of row i; NULL: keys only. */
static inline uint8_t *parquet_tile_row(const struct parquet_tile *tile, size_t i)
{
    return tile->features ? tile->features + tile->begins[i] : NULL;
}

/* Rows [first, first + count) of the batch, count <= limit, with features if the tile is for them
 * and the cursor reads them. As in CSV, a broken key is ERROR_INPUT naming file, row and column,
 * and a feature that is no number makes the row ROW_BAD; parquet_tile_explain() says why. A row
 * longer than the URI allows is ERROR_INPUT too. */
enum error parquet_tile_decode(struct parquet_tile *tile, const struct parquet_cursor *cursor,
                               int64_t first, size_t count) MUST_CHECK;
/* Row `first` + i of the batch is ROW_BAD: why. */
void parquet_tile_explain(const struct parquet_tile *tile, const struct parquet_cursor *cursor,
                          int64_t first, size_t i);

#endif

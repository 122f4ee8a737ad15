/* SPDX-License-Identifier: MIT */
/*
 * Some decoded rows of a cursor's batch: the same ids, label texts and features as from CSV text.
 * Decodes column by column, as the file stores them, and few rows at a time, so that the rows being
 * filled stay in the cache.
 */
#ifndef LOADER_PARQUET_PARQUET_TILE_H
#define LOADER_PARQUET_PARQUET_TILE_H

#include "loader/parquet/parquet_cursor.h"
#include "loader/store/store_row.h"

#define PARQUET_TILE_ROWS 64

struct parquet_tile {
    struct store_row rows[PARQUET_TILE_ROWS];            /* texts: in the batch, or in `texts` */
    const struct parquet_column *bad[PARQUET_TILE_ROWS]; /* ROW_BAD: the first bad feature, */
    size_t bad_item[PARQUET_TILE_ROWS];                  /* and the index of the bad item in its
                                                          * list */
    size_t begins[PARQUET_TILE_ROWS];                    /* offset of each row in `features` */
    char texts[2][PARQUET_TILE_ROWS][ARROW_TEXT_BYTES];  /* labels and groups that are numbers */
    uint8_t *features;     /* owned; [limit, F], or rows of any length; NULL: keys only */
    size_t features_bytes; /* allocated */
    size_t limit;          /* rows allocated */
    size_t row_bytes;      /* for F features */
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

/* Decodes rows [first, first + count) of the batch, count <= limit, with features if the tile has
 * them and the cursor reads them. As in CSV, a broken key is ERROR_INPUT naming file, row and
 * column, and a feature that is not a number makes the row ROW_BAD; parquet_tile_explain() says
 * why. A row longer than the URI allows is ERROR_INPUT too. */
enum error parquet_tile_decode(struct parquet_tile *tile, const struct parquet_cursor *cursor,
                               int64_t first, size_t count) MUST_CHECK;
/* Sets the message: why row `first` + i of the batch is ROW_BAD. */
void parquet_tile_explain(const struct parquet_tile *tile, const struct parquet_cursor *cursor,
                          int64_t first, size_t i);

#endif

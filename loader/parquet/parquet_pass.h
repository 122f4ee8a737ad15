/* SPDX-License-Identifier: MIT */
/*
 * All rows of a file, once and in order: to be handed out, or to find what they are. The file is
 * what it was when the store was opened, or the pass fails. Progress to the log; ends when the
 * program is to stop.
 */
#ifndef LOADER_PARQUET_PARQUET_PASS_H
#define LOADER_PARQUET_PARQUET_PASS_H

#include "loader/parquet/parquet_tile.h"
#include "loader/parquet/store_parquet.h"

/* Called for every row, borrowed; `features` NULL: keys only. Not OK ends the pass, which returns
 * it. Of a row that is ROW_BAD the thread's message says why. */
typedef enum error parquet_visitor(void *context, const struct store_row *row,
                                   const uint8_t *features);

struct parquet_pass {
    const struct parquet_store *store;
    const char *what; /* "looking at", for the log; NULL: who is called says how far it is */
    enum parquet_part part;
    enum element element; /* that features are wanted as */
    parquet_visitor *visit;
    void *context;
};

enum error parquet_pass_run(const struct parquet_pass *pass) MUST_CHECK;

#endif

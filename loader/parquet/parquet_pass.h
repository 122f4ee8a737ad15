/* SPDX-License-Identifier: MIT */
/*
 * Visits all rows of a file, once and in order, to deliver or to inspect them. Fails if the file
 * has changed since the store was opened. Logs progress; ends when the program should stop.
 */
#ifndef LOADER_PARQUET_PARQUET_PASS_H
#define LOADER_PARQUET_PARQUET_PASS_H

#include "loader/parquet/parquet_tile.h"
#include "loader/parquet/store_parquet.h"

/* Called for every row, borrowed; `features` NULL: keys only. Anything but OK ends the pass, which
 * returns it. For a ROW_BAD row the thread's message says why. */
typedef enum error parquet_visitor(void *context, const struct store_row *row,
                                   const uint8_t *features);

struct parquet_pass {
    const struct parquet_store *store;
    const char *what; /* "looking at", for the log; NULL: the visitor reports progress */
    enum parquet_part part;
    enum element element; /* requested for features */
    parquet_visitor *visit;
    void *context;
};

enum error parquet_pass_run(const struct parquet_pass *pass) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Parses only the keys of CSV records (ids, labels, weights, groups), as fast as possible, for
 * frames: numbers eight digits at a time, labels as numbers in the block's list of distinct ones;
 * the rest is skipped with memchr.
 *
 * The fast path never reports an error: a record with quotes, blanks, unusual bytes or anything
 * else unexpected is left to csv_decode_row(), which parses it or describes the error. Both give
 * the same rows and errors: tests and fuzz_keys compare them.
 */
#ifndef LOADER_CSV_CSV_KEYS_H
#define LOADER_CSV_CSV_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text_set.h"
#include "loader/csv/csv_pass.h"
#include "loader/csv/csv_row.h"

#define CSV_KEYS_SMALL 1000 /* numbers below it have a separate table */

/* The distinct texts of a column: typical labels (small numbers, a few short texts) cost one table
 * lookup per row. */
struct csv_texts {
    struct text_set set;            /* their bytes are in the block */
    uint32_t small[CSV_KEYS_SMALL]; /* number + 1 of the texts "0" ... "999" */
};

/* The keys of one block; arrays grow to the largest and stay. Zeroed: empty. */
struct csv_keys {
    struct csv_decoder decoder;
    bool is_ready;
    size_t rows, capacity;
    int64_t *ids;          /* owned; -1 without an id column */
    uint32_t *label_codes; /* owned; into labels; NULL: no such column; likewise groups */
    uint32_t *group_codes;
    double *weights;
    struct csv_texts labels, groups;
};

void csv_keys_release(struct csv_keys *keys);

/* Parses all records of a block, which may be overwritten. `quick` false: with csv_decode_row()
 * only. On ERROR_INPUT *ret_line is the message's line, from 1. */
enum error csv_keys_decode(struct csv_keys *keys, const struct csv_columns *columns, char delimiter,
                           struct csv_block *block, bool quick, int64_t *ret_line) MUST_CHECK;

#endif

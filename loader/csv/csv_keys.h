/* SPDX-License-Identifier: MIT */
/*
 * Only the keys of CSV records - ids, labels, weights, groups - as fast as they can be had, for
 * frames: numbers are read eight digits at a time, labels become numbers into the block's list of
 * different ones, and what is neither is skipped with memchr.
 *
 * The quick path never reports: a record with quotes, blanks, strange bytes or anything else that
 * it does not expect is left to csv_decode_row(), which finds the fields or the words. Both give
 * the same rows and the same errors: tests and fuzz_keys hold them against each other.
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

#define CSV_KEYS_SMALL 1000 /* numbers below it have a table of their own */

/* The different texts of a column: what labels nearly always are - small numbers, a few short texts
 * - costs a look into a table a row. */
struct csv_texts {
    struct text_set set;            /* their bytes lie in the block */
    uint32_t small[CSV_KEYS_SMALL]; /* number + 1 of the texts "0" ... "999" */
};

/* The keys of one block; arrays grow to the largest and stay. Zeroed: empty. */
struct csv_keys {
    struct csv_decoder decoder;
    bool is_ready;
    size_t rows, capacity;
    int64_t *ids;          /* owned; -1 without an id column */
    uint32_t *label_codes; /* owned; into labels; NULL: no such column; groups alike */
    uint32_t *group_codes;
    double *weights;
    struct csv_texts labels, groups;
};

void csv_keys_release(struct csv_keys *keys);

/* All records of a block, which may be overwritten. `quick` false: by csv_decode_row() only. On
 * ERROR_INPUT *ret_line is the line that the message is about, from 1. */
enum error csv_keys_decode(struct csv_keys *keys, const struct csv_columns *columns, char delimiter,
                           struct csv_block *block, bool quick, int64_t *ret_line) MUST_CHECK;

#endif

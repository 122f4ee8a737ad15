/* SPDX-License-Identifier: MIT */
/*
 * The values of one column of a batch, row by row, as numbers, texts or bytes. A row has one value,
 * or a list of them. Borrowed from Arrow's array. One thread.
 */
#ifndef LOADER_PARQUET_ARROW_VALUES_H
#define LOADER_PARQUET_ARROW_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"
#include "loader/parquet/arrow_type.h"

/* One array: its null bitmap and its buffers. */
struct arrow_part {
    const uint8_t *valid; /* NULL: no nulls */
    const void *const *buffers;
    int64_t buffer_count, first, length;
};

struct arrow_values {
    const struct arrow_type *type; /* borrowed */
    struct arrow_part rows;        /* codes, lists, or the values */
    struct arrow_part values;
};

/* For an array of `rows` rows. ERROR_INPUT, without the column's name: it is not of that type.
 * Offsets and codes are trusted: whoever made the array has checked them. */
enum error arrow_values_init(struct arrow_values *values, const struct arrow_type *type,
                             const struct arrow_array *array, int64_t rows) MUST_CHECK;

/* Rows from 0. The row's values: `*ret_count` of them from `*ret_first` on; false: null. */
bool arrow_values_of_row(const struct arrow_values *values, int64_t row, int64_t *ret_first,
                         int64_t *ret_count);

/* Values [first, first + count) as doubles; a text that is a number counts as one, infinite if too
 * large. `ret_known[i]` false: null, or not a number. */
void arrow_values_numbers(const struct arrow_values *values, int64_t first, size_t count,
                          double *ret_numbers, bool *ret_known);
/* The same values in place, if they are non-negative 8-bit integers without nulls; else NULL. */
const uint8_t *arrow_values_u8(const struct arrow_values *values, int64_t first);
/* The numbers of rows [row, row + count), which have one each. */
void arrow_values_row_numbers(const struct arrow_values *values, int64_t row, size_t count,
                              double *ret_numbers, bool *ret_known);

/* The row's only value as an integer; false: null, not an integer or over 2^63-1. */
bool arrow_values_integer(const struct arrow_values *values, int64_t row, int64_t *ret_integer);

/* The row's only value as one would write it: floats in their shortest form, booleans "true" and
 * "false". Numbers are formatted into `room`; false: null, bytes, or a non-finite float. */
#define ARROW_TEXT_BYTES 352
bool arrow_values_text(const struct arrow_values *values, int64_t row, char room[ARROW_TEXT_BYTES],
                       struct text *ret_text);
/* The row's bytes; false: null, or not bytes. */
bool arrow_values_bytes(const struct arrow_values *values, int64_t row, struct text *ret_bytes);

#endif

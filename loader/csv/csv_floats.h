/* SPDX-License-Identifier: MIT */
/*
 * Fields of numbers, straight from the text: `0.25,-1.5e-3,7,` into 32-bit floats.
 *
 * Two ways to do it: csv_floats_plain() field by field is the oracle; with AVX2, fields of up to 15
 * bytes without an exponent go first, each in one vector. Both round to a double, then to a float,
 * as strtod() and a cast do.
 */
#ifndef LOADER_CSV_CSV_FLOATS_H
#define LOADER_CSV_CSV_FLOATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Up to `count` fields at *at, each with `delimiter` behind it, in front of the record's LF: float
 * i of `out` (at any address) is the value of field i; *is_u8 becomes false when one of them is no
 * integer 0..255. Returns how many are done, and moves *at behind them: all in front of the first
 * that is no number, or too large for a float. CSV_BYTES_PADDING bytes behind LF may be read. */
size_t csv_floats_decode(const char **at, size_t count, char delimiter, void *out, bool *is_u8);
size_t csv_floats_plain(const char **at, size_t count, char delimiter, void *out, bool *is_u8);

/* Fields from the front, like csv_floats_plain(), that stop in front of what the way does not know;
 * NULL where the processor lacks it. */
typedef size_t csv_floats_way(const char **at, size_t count, char delimiter, void *out,
                              bool *is_u8);
csv_floats_way *csv_floats_vectors(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Parses fields of numbers directly from the text: `0.25,-1.5e-3,7,` into 32-bit floats.
 *
 * Two implementations: csv_floats_plain(), field by field, is the oracle; with AVX2, fields of up
 * to 15 bytes without an exponent are parsed first, each in one vector. Both round to a double,
 * then to a float, as strtod() and a cast do.
 */
#ifndef LOADER_CSV_CSV_FLOATS_H
#define LOADER_CSV_CSV_FLOATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parses up to `count` fields at *at, each followed by `delimiter`, before the record's LF: float i
 * of `out` (any alignment) is the value of field i; *is_u8 becomes false if one of them is not an
 * integer 0..255. Stops before the first field that is not a number, or too large for a float;
 * returns the number parsed and moves *at after them. CSV_BYTES_PADDING bytes after LF may be
 * read. */
size_t csv_floats_decode(const char **at, size_t count, char delimiter, void *out, bool *is_u8);
size_t csv_floats_plain(const char **at, size_t count, char delimiter, void *out, bool *is_u8);

/* Parses leading fields like csv_floats_plain(), and stops before what it does not handle; NULL if
 * the processor does not support it. */
typedef size_t csv_floats_way(const char **at, size_t count, char delimiter, void *out,
                              bool *is_u8);
csv_floats_way *csv_floats_vectors(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * How many bytes of a kind there are in a text, and where a record with quotes ends. AVX2 where the
 * processor has it; the same everywhere.
 */
#ifndef LOADER_CSV_CSV_COUNT_H
#define LOADER_CSV_CSV_COUNT_H

#include <stdbool.h>
#include <stddef.h>

/* How many of `length` bytes are `byte`. */
size_t csv_count_bytes(const char *data, size_t length, char byte);

/* How many are LF; *ret_plain: none is a quote. One look at each byte for both. */
size_t csv_count_lines(const char *data, size_t length, bool *ret_plain);

/* Bytes up to the first LF that an even number of quotes stands in front of, with it; 0: there is
 * none. *ret_lines, if that is not NULL: how many LFs are among them. */
size_t csv_count_record(const char *data, size_t length, size_t *ret_lines);

#endif

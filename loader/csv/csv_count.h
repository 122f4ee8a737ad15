/* SPDX-License-Identifier: MIT */
/*
 * Counts bytes of a kind in a text, and finds the end of a record with quotes. With AVX2 if the
 * processor has it; same results everywhere.
 */
#ifndef LOADER_CSV_CSV_COUNT_H
#define LOADER_CSV_CSV_COUNT_H

#include <stdbool.h>
#include <stddef.h>

/* How many of `length` bytes equal `byte`. */
size_t csv_count_bytes(const char *data, size_t length, char byte);

/* Counts LFs; *ret_plain: there is no quote. One pass for both. */
size_t csv_count_lines(const char *data, size_t length, bool *ret_plain);

/* Bytes up to and including the first LF preceded by an even number of quotes; 0: there is none.
 * *ret_lines (may be NULL): the LFs among them. */
size_t csv_count_record(const char *data, size_t length, size_t *ret_lines);

#endif

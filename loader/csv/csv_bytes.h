/* SPDX-License-Identifier: MIT */
/*
 * Fields of small integers, straight from the text: `0,0,17,255,` into 0 0 17 255. Nearly all that
 * a file of pixels holds, and nearly all of the time that reading one takes.
 *
 * Several ways to do it: csv_bytes_plain() field by field is the oracle; with AVX2 and AVX-512, 64
 * bytes at a time go first, as far as every field has one to three digits. csv_bytes_decode() takes
 * the best that the processor has. All stop in front of the first field that is no integer from 0
 * to 255 in digits.
 */
#ifndef LOADER_CSV_CSV_BYTES_H
#define LOADER_CSV_CSV_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that may be read (never used) behind the record's LF. */
#define CSV_BYTES_PADDING 64

/* Up to `count` fields at *at, each with `delimiter` behind it, in front of the record's LF: out[i]
 * is the value of field i. Returns how many are done, and moves *at behind them: all in front of
 * the first that is something else. */
size_t csv_bytes_decode(const char **at, size_t count, char delimiter, uint8_t *out);
size_t csv_bytes_plain(const char **at, size_t count, char delimiter, uint8_t *out);

/* The same, but stops in front of what the way does not know, too. */
struct csv_bytes_way {
    const char *name;
    bool (*is_supported)(void);
    size_t (*decode)(const char **at, size_t count, char delimiter, uint8_t *out);
};

/* Fastest first; NULL behind the last. */
extern const struct csv_bytes_way *const csv_bytes_ways[];

/* As csv_bytes_decode(), in this way as far as it goes. */
size_t csv_bytes_decode_by(const struct csv_bytes_way *way, const char **at, size_t count,
                           char delimiter, uint8_t *out);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Parses fields of small integers directly from the text: `0,0,17,255,` into 0 0 17 255. Files of
 * pixels hold little else, and most of the time to read one is spent here.
 *
 * Several implementations: csv_bytes_plain(), field by field, is the oracle; with AVX2 and AVX-512,
 * 64 bytes at a time are parsed first, while every field has one to three digits.
 * csv_bytes_decode() uses the best one that the processor supports. All stop before the first field
 * that is not an integer from 0 to 255 in digits.
 */
#ifndef LOADER_CSV_CSV_BYTES_H
#define LOADER_CSV_CSV_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes after the record's LF that may be read (never used). */
#define CSV_BYTES_PADDING 64

/* Parses up to `count` fields at *at, each followed by `delimiter`, before the record's LF: out[i]
 * is the value of field i. Stops before the first field of another kind; returns the number parsed
 * and moves *at after them. */
size_t csv_bytes_decode(const char **at, size_t count, char delimiter, uint8_t *out);
size_t csv_bytes_plain(const char **at, size_t count, char delimiter, uint8_t *out);

/* The same, but also stops before what this implementation does not handle. */
struct csv_bytes_way {
    const char *name;
    bool (*is_supported)(void);
    size_t (*decode)(const char **at, size_t count, char delimiter, uint8_t *out);
};

/* Fastest first; NULL after the last. */
extern const struct csv_bytes_way *const csv_bytes_ways[];

/* csv_bytes_decode() with this implementation, as far as it goes. */
size_t csv_bytes_decode_by(const struct csv_bytes_way *way, const char **at, size_t count,
                           char delimiter, uint8_t *out);

#endif

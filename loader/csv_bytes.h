/*
 * Fields of small integers, straight from the text: `0,0,17,255,` into 0 0 17 255. Nearly all that
 * a file of pixels holds, and nearly all of the time that reading one takes.
 *
 * Two ways to do it: csv_bytes_plain() field by field is the oracle; with AVX2, 64 bytes at a time
 * go first, as far as every field has one to three digits. csv_bytes_decode() takes what the
 * processor has. Both stop at the first field that is no integer from 0 to 255 in digits.
 */
#ifndef LOADER_CSV_BYTES_H
#define LOADER_CSV_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that may be read behind `end`, and written behind out[count - 1]. */
#define CSV_BYTES_PADDING 64

/* `count` fields at `at`, each with `delimiter` behind it, in front of `end` (the record's LF lies
 * there or before it): out[i] is the value of field i. Returns what follows the last delimiter, or
 * NULL when one of the fields is something else. */
const char *csv_bytes_decode(const char *at, const char *end, size_t count, char delimiter,
                             uint8_t *out);
const char *csv_bytes_plain(const char *at, const char *end, size_t count, char delimiter,
                            uint8_t *out);

#endif

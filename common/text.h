/* SPDX-License-Identifier: MIT */
/*
 * Numbers out of text, strictly, and into text, fast.
 *
 * The parsers take exactly what they name: no leading space, no sign where none is allowed, no
 * trailing byte, no overflow, independent of the locale. They set no error message: the caller
 * knows what the number was for. Safe from every thread.
 */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of someone else's, not NUL-terminated unless it is said. */
struct text {
    const char *data;
    size_t length;
};

/* Decimal integer, optional '-', digits only; true and *ret_value when minimum <= it <= maximum. */
bool text_parse_integer(const char *text, size_t length, int64_t minimum, int64_t maximum,
                        int64_t *ret_value);

/* Whole numbers from -TEXT_EXACT to TEXT_EXACT are the same as a double; beyond, two have one. */
#define TEXT_EXACT (INT64_C(1) << 53)
static inline bool text_real_is_integer(double value)
{
    return fabs(value) <= (double)TEXT_EXACT && value == floor(value);
}

/* Decimal integer as JSON may write it, 1.0 and 1e3 as well, exactly; not "" and nothing but a JSON
 * number. true and *ret_value when it is one, and fits. */
bool text_parse_json_integer(const char *text, size_t length, int64_t *ret_value);

/* Bytes: an integer, or one with K, M, G or T behind it (2^10, 2^20, ...). */
bool text_parse_bytes(const char *text, int64_t minimum, int64_t *ret_bytes);

/* Decimal real as JSON and C write it (1, -2.5, +4, .5, 1e-3), finite, at most 1024 bytes. Rounds
 * as strtod in the C locale. */
bool text_parse_real(const char *text, size_t length, double *ret_value);
/* Is it written like one? Then what text_parse_real() refuses is out of a double's range: 1e400. */
bool text_is_real(const char *text, size_t length);
/* That range, for messages. */
#define TEXT_REAL_RANGE "from -1.8e308 to 1.8e308"
/* The shortest text of 15 to 17 digits that reads back as the same double; returns `out`. */
#define TEXT_REAL_BYTES 25 /* "-1.2345678901234567e-308" and a NUL */
const char *text_of_real(double value, char out[TEXT_REAL_BYTES]);

/* Of 6 to 9 digits, the same float. */
const char *text_of_float(float value, char out[TEXT_REAL_BYTES]);

/* true for yes/no, true/false, on/off, 1/0 (lower case). */
bool text_parse_boolean(const char *text, size_t length, bool *ret_value);

/* Writes `value` in decimal at `out` (no NUL; at most 20 bytes); returns the end. */
#define TEXT_INTEGER_BYTES 20
char *text_write_integer(char *out, int64_t value);

/* `one` for 1, else `many`: "%zu %s", count, text_plural(count, "batch", "batches"). */
static inline const char *text_plural(int64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

/* Is `text` valid UTF-8 without NUL? */
bool text_is_utf8(const char *text, size_t length);

/* A printable, cut copy of bytes from outside for an error message, at most 60 characters, quoted;
 * control bytes and broken UTF-8 shown as '?', "..." where it was cut. Writes at most `bytes` with
 * NUL, returns `out`; TEXT_QUOTE_BYTES hold every result. */
#define TEXT_QUOTE_BYTES 256
const char *text_quote(char *out, size_t bytes, const char *text, size_t length);

/* The candidate nearest to `word` in edit distance (neighbours that changed places are half an
 * edit; at most 3 edits, and half of the longer of the two), or NULL: "did you mean". */
const char *text_nearest(const char *word, const char *const candidates[], size_t count);

#endif

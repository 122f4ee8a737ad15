/* SPDX-License-Identifier: MIT */
/*
 * Parses numbers strictly and formats them fast.
 *
 * The parsers accept exactly what they name: no leading space, no sign unless allowed, no trailing
 * byte, no overflow, independent of the locale. They set no error message: the caller knows what
 * the number was for. Any thread.
 */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Borrowed bytes, not NUL-terminated unless stated. */
struct text {
    const char *data;
    size_t length;
};

/* Decimal integer, optional '-', digits only; true and *ret_value if it is within [minimum,
 * maximum]. */
bool text_parse_integer(const char *text, size_t length, int64_t minimum, int64_t maximum,
                        int64_t *ret_value);

/* Integers from -TEXT_EXACT to TEXT_EXACT are exact as doubles; beyond that, two share one. */
#define TEXT_EXACT (INT64_C(1) << 53)
static inline bool text_real_is_integer(double value)
{
    return fabs(value) <= (double)TEXT_EXACT && value == floor(value);
}

/* Decimal integer in any form that JSON allows, 1.0 and 1e3 too, exactly; "" and other texts are
 * not. true and *ret_value if it is one, and fits. */
bool text_parse_json_integer(const char *text, size_t length, int64_t *ret_value);

/* A number of bytes: an integer, optionally followed by K, M, G or T (2^10, 2^20, ...). */
bool text_parse_bytes(const char *text, int64_t minimum, int64_t *ret_bytes);

/* Decimal real as JSON and C write it (1, -2.5, +4, .5, 1e-3), finite, at most 1024 bytes. Rounds
 * as strtod in the C locale. */
bool text_parse_real(const char *text, size_t length, double *ret_value);
/* Is it written as a real? Then if text_parse_real() refuses it, it is out of a double's range:
 * 1e400. */
bool text_is_real(const char *text, size_t length);
/* That range, for messages. */
#define TEXT_REAL_RANGE "from -1.8e308 to 1.8e308"
/* The shortest text of 15 to 17 digits that reads back as the same double, in the C locale; returns
 * `out`. */
#define TEXT_REAL_BYTES 25 /* "-1.2345678901234567e-308" and a NUL */
const char *text_of_real(double value, char out[TEXT_REAL_BYTES]);

/* The same for floats, with 6 to 9 digits. */
const char *text_of_float(float value, char out[TEXT_REAL_BYTES]);

/* How every kind of store writes a label or group that is a number: whole ones as integers, others
 * as text_of_float() or text_of_real(). */
const char *text_of_number(double value, bool is_float, char out[TEXT_REAL_BYTES]);

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

/* Quotes bytes from outside for an error message: at most 60 characters; control bytes and broken
 * UTF-8 become '?', "..." marks a cut. Writes at most `bytes` including NUL, returns `out`;
 * TEXT_QUOTE_BYTES hold every result. */
#define TEXT_QUOTE_BYTES 256
const char *text_quote(char *out, size_t bytes, const char *text, size_t length);

/* Of `length` bytes, how many are the control character that they begin with: a C0 one or DEL, or a
 * C1 one in UTF-8, as act on a terminal; 0: none. */
size_t text_control_bytes(const char *text, size_t length);

/* Makes one harmless line of a message: line ends and tabs become ' ', other control characters
 * '?', in place. */
void text_mask_controls(char *text);

/* The candidate nearest to `word` in edit distance (swapped neighbours count half an edit; at most
 * 3 edits, and half of the longer of the two), or NULL: for "did you mean". */
const char *text_nearest(const char *word, const char *const candidates[], size_t count);

/* The number of the text in a list that is sorted by bytes; `count`: it is not there. */
size_t text_find(const char *text, size_t length, const char *const sorted[], size_t count);

#endif

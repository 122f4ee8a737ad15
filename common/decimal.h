/* SPDX-License-Identifier: MIT */
/*
 * Parses decimal numbers and converts them to the nearest double, ties to even: same results as
 * strtod in the C locale, several times as fast. Cases it cannot decide are left to strtod.
 *
 * Any thread.
 */
#ifndef COMMON_DECIMAL_H
#define COMMON_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* mantissa * 10^exponent, negated if `negative`. */
struct decimal {
    uint64_t mantissa;
    int exponent;
    bool negative;
    bool exact; /* false: more digits than the mantissa holds; it has the first of them */
};

/* Reads [+-]?(digits[.digits*] | .digits)([eE][+-]?digits)? at the start of the text. Returns the
 * end of the number; NULL: there is none, or its exponent has no digits. */
const char *decimal_read(const char *text, size_t length, struct decimal *ret_decimal);
/* Is the whole text one number? */
static inline bool decimal_scan(const char *text, size_t length, struct decimal *ret_decimal)
{
    return decimal_read(text, length, ret_decimal) == text + length;
}

/* The nearest double; false: too many digits, an exponent beyond the table of powers, or too close
 * to halfway between two doubles. */
bool decimal_to_double(const struct decimal *decimal, double *ret_value);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Converts one feature from a database's number to its place in memory.
 */
#ifndef LOADER_COLUMN_FEATURE_H
#define LOADER_COLUMN_FEATURE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "loader/column/element.h"

/* Is it finite when rounded to 32 bits? For ELEMENT_I32: is it a 32-bit integer? */
static inline bool feature_fits(double value, enum element element)
{
    if (element == ELEMENT_I32)
        return value >= INT32_MIN && value <= INT32_MAX && value == (double)(int32_t)value;
    return isfinite((float)value);
}

/* Do these bytes look like 32-bit floats? Each is 0 or of a plausible magnitude, and not all are 0:
 * other bytes hardly ever are, row after row. */
static inline bool feature_looks_f32(const void *bytes, size_t length)
{
    float value, sum = 0;
    for (size_t i = 0; i + sizeof(value) <= length; i += sizeof(value)) {
        memcpy(&value, (const uint8_t *)bytes + i, sizeof(value));
        if (!(value == 0 || (fabsf(value) >= 1e-6f && fabsf(value) <= 1e9f)))
            return false;
        sum += fabsf(value);
    }
    return length % sizeof(value) == 0 && sum > 0;
}
/* Like 32-bit integers, such as token numbers? None is negative or above 2^24, and at least half of
 * them need more than a byte. */
static inline bool feature_looks_i32(const void *bytes, size_t length)
{
    size_t count = length / sizeof(uint32_t), large = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t value;
        memcpy(&value, (const uint8_t *)bytes + i * sizeof(value), sizeof(value));
        if (value >> 24)
            return false;
        large += value > UINT8_MAX;
    }
    return length % sizeof(uint32_t) == 0 && count > 0 && 2 * large >= count;
}
/* What they look like: any bytes are ELEMENT_U8. */
static inline enum element feature_looks(const void *bytes, size_t length)
{
    if (feature_looks_f32(bytes, length))
        return ELEMENT_F32;
    return feature_looks_i32(bytes, length) ? ELEMENT_I32 : ELEMENT_U8;
}
#define FEATURE_LOOKS_ROWS 16 /* rows that look alike, enough to decide */
#define FEATURE_READINGS                                                      \
    "look like %zu %s, and may be %zu integers from 0 to 255: element=%s or " \
    "element=u8 in the URI says which"

/* What is expected for a value that does not fit, for messages. */
static inline const char *feature_wanted(bool is_number, enum element element)
{
    if (element == ELEMENT_I32)
        return "an integer from -2147483648 to 2147483647 (element=i32)";
    return is_number ? "a number that fits 32-bit float, -3.4e38 to 3.4e38," : "a number";
}
#define WEIGHT_WANTED "a weight, a number of at least 0 and at most 1.8e308,"

/* Stores a value that fits; *is_u8 becomes false if it is not an integer 0..255, and as u8 nothing
 * is written from then on; unused for i32. Rows may be unaligned. */
static inline void feature_store(double value, enum element element, void *features, size_t feature,
                                 bool *is_u8)
{
    float rounded = (float)value;
    if (element == ELEMENT_I32) {
        int32_t whole = (int32_t)value;
        memcpy((uint8_t *)features + feature * sizeof(whole), &whole, sizeof(whole));
        return;
    }
    if (!(value >= 0 && value <= 255 && value == (double)(int)value))
        *is_u8 = false;
    if (element == ELEMENT_F32)
        memcpy((uint8_t *)features + feature * sizeof(rounded), &rounded, sizeof(rounded));
    else if (*is_u8)
        ((uint8_t *)features)[feature] = (uint8_t)value;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * One feature of a row on its way from a database's number to the caller's memory.
 */
#ifndef LOADER_STORE_FEATURE_H
#define LOADER_STORE_FEATURE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "loader/store/store.h"

/* Is it finite once it is rounded to 32 bits? As ELEMENT_I32: is it one of these integers? */
static inline bool feature_fits(double value, enum element element)
{
    if (element == ELEMENT_I32)
        return value >= INT32_MIN && value <= INT32_MAX && value == (double)(int32_t)value;
    return isfinite((float)value);
}

/* Would one take these bytes for 32-bit floats? Each is 0 or of a size that data has, and not all
 * are 0: bytes of something else hardly ever are, row after row. */
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
/* For 32-bit integers, such as numbers of words? None is negative or above 2^24, and half of them
 * at least need more than a byte. */
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
/* What they look like: ELEMENT_U8 is any bytes. */
static inline enum element feature_looks(const void *bytes, size_t length)
{
    if (feature_looks_f32(bytes, length))
        return ELEMENT_F32;
    return feature_looks_i32(bytes, length) ? ELEMENT_I32 : ELEMENT_U8;
}
#define FEATURE_LOOKS_ROWS 16 /* that look alike are enough to tell */
#define FEATURE_READINGS                                                      \
    "look like %zu %s, and may be %zu integers from 0 to 255: element=%s or " \
    "element=u8 in the URI says which"

/* What belongs where something does not fit, for messages. */
static inline const char *feature_wanted(bool is_number, enum element element)
{
    if (element == ELEMENT_I32)
        return "an integer from -2147483648 to 2147483647 (element=i32)";
    return is_number ? "a number that fits 32-bit float, -3.4e38 to 3.4e38," : "a number";
}
#define WEIGHT_WANTED "a weight, a number of at least 0 and at most 1.8e308,"

/* Puts a value that fits to its place; *is_u8 becomes false when it is no integer 0..255, and as u8
 * nothing is written from then on; as i32 it stays what it is. Rows may begin at any byte. */
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

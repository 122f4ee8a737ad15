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

/* Is it finite once it is rounded to 32 bits? */
static inline bool feature_fits(double value)
{
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
#define FEATURE_LOOKS_ROWS 16 /* are enough to tell */
#define FEATURE_READINGS                                                                  \
    "look like %zu 32-bit floats, and may be %zu integers from 0 to 255: element=f32 or " \
    "element=u8 in the URI says which"

/* What belongs where something does not fit, for messages. */
static inline const char *feature_wanted(bool is_number)
{
    return is_number ? "a number that fits 32-bit float, -3.4e38 to 3.4e38," : "a number";
}
#define WEIGHT_WANTED "a weight, a number of at least 0 and at most 1.8e308,"

/* Puts a value that fits to its place; *is_u8 becomes false when it is no integer 0..255, and as u8
 * nothing is written from then on. Rows may begin at any byte. */
static inline void feature_store(double value, enum element element, void *features, size_t feature,
                                 bool *is_u8)
{
    float rounded = (float)value;
    if (!(value >= 0 && value <= 255 && value == (double)(int)value))
        *is_u8 = false;
    if (element == ELEMENT_F32)
        memcpy((uint8_t *)features + feature * sizeof(rounded), &rounded, sizeof(rounded));
    else if (*is_u8)
        ((uint8_t *)features)[feature] = (uint8_t)value;
}

#endif

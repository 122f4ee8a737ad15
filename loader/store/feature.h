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

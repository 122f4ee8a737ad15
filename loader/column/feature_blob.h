/* SPDX-License-Identifier: MIT */
/*
 * A row's features as one database value: F bytes, or F 32-bit floats or integers (little-endian).
 */
#ifndef LOADER_COLUMN_FEATURE_BLOB_H
#define LOADER_COLUMN_FEATURE_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/column/element.h"

#define FEATURE_BLOB_NONE SIZE_MAX /* the length of an invalid value */
#define FEATURE_BLOB_TEXT_BYTES 80

/* Copies `features` of `element` from `bytes` (NULL: copies nothing) to `out` if `length` matches
 * and floats are finite. false: ret_wanted says what is expected, such as "a BLOB of 784 bytes" for
 * `kind` "BLOB". */
bool feature_blob_copy(const void *bytes, size_t length, size_t features, enum element element,
                       void *out, const char *kind, char ret_wanted[FEATURE_BLOB_TEXT_BYTES]);

/* Index of the first of `features` 32-bit floats (any alignment) that is NaN or infinite;
 * `features`: none. */
size_t feature_not_finite(const void *floats, size_t features);

#endif

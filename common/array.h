/* SPDX-License-Identifier: MIT */
/* Allocation of arrays: the product is checked, and the error names what the memory was for. */
#ifndef COMMON_ARRAY_H
#define COMMON_ARRAY_H

#include <stddef.h>

#include "common/error.h"

/* `count` zeroed elements of `element_bytes`; count 0 gives one. free() it. NULL: error is set. */
void *array_new(size_t count, size_t element_bytes, const char *what);

/* Doubles *array (which has room for *capacity elements) until `wanted` fit; new room is not
 * zeroed. On failure nothing changed. */
enum error array_grow(void **array, size_t *capacity, size_t wanted, size_t element_bytes,
                      const char *what) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/* Array allocation: the product is overflow-checked, and an error names what the memory was for. */
#ifndef COMMON_ARRAY_H
#define COMMON_ARRAY_H

#include <stddef.h>

#include "common/error.h"

/* Allocates `count` zeroed elements (one if count is 0); free() it. NULL: the error is set. */
void *array_new(size_t count, size_t element_bytes, const char *what);

/* Doubles *array (room for *capacity elements) until `wanted` fit; new room is not zeroed. On
 * failure nothing changes. */
enum error array_grow(void **array, size_t *capacity, size_t wanted, size_t element_bytes,
                      const char *what) MUST_CHECK;

#endif

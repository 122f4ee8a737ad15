/* SPDX-License-Identifier: MIT */
#include "common/array.h"

#include <stdint.h>
#include <stdlib.h>

void *array_new(size_t count, size_t element_bytes, const char *what)
{
    size_t bytes;
    if (__builtin_mul_overflow(count ? count : 1, element_bytes, &bytes) || bytes > PTRDIFF_MAX) {
        error_set(ERROR_MEMORY, "%zu times %zu bytes for %s are more than this machine can address",
                  count, element_bytes, what);
        return NULL;
    }
    void *array = calloc(1, bytes);
    if (!array)
        error_set_memory(bytes, what);
    return array;
}

enum error array_grow(void **array, size_t *capacity, size_t wanted, size_t element_bytes,
                      const char *what)
{
    if (wanted <= *capacity)
        return OK;
    size_t count = *capacity ? *capacity : 16;
    while (count < wanted) {
        if (__builtin_mul_overflow(count, (size_t)2, &count))
            count = wanted;
    }
    size_t bytes;
    if (__builtin_mul_overflow(count, element_bytes, &bytes) || bytes > PTRDIFF_MAX)
        return error_set(ERROR_MEMORY,
                         "%zu times %zu bytes for %s are more than this machine can address",
                         wanted, element_bytes, what);
    void *grown = realloc(*array, bytes);
    if (!grown)
        return error_set_memory(bytes, what);
    *array = grown;
    *capacity = count;
    return OK;
}

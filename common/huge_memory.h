/* SPDX-License-Identifier: MIT */
/*
 * Memory in megabytes, in huge pages where the system gives them: random writes then cause about
 * 1/100 of the TLB misses and page faults.
 */
#ifndef COMMON_HUGE_MEMORY_H
#define COMMON_HUGE_MEMORY_H

#include <stddef.h>

#include "common/error.h"

/* `bytes` zeroed bytes (0 gives some), for huge_memory_free() with the same number. NULL: error is
 * set. */
void *huge_memory_new(size_t bytes, const char *what);
/* NULL is legal. */
void huge_memory_free(void *memory, size_t bytes);

#endif

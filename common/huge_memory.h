/* SPDX-License-Identifier: MIT */
/*
 * Allocates megabytes of memory, in huge pages if the system has them: random writes then cause
 * about 1/100 of the TLB misses and page faults.
 */
#ifndef COMMON_HUGE_MEMORY_H
#define COMMON_HUGE_MEMORY_H

#include <stddef.h>

#include "common/error.h"

/* `bytes` zeroed bytes (0 is legal); free with huge_memory_free() and the same number. NULL: the
 * error is set. */
void *huge_memory_new(size_t bytes, const char *what);
/* NULL is legal. */
void huge_memory_free(void *memory, size_t bytes);

#endif

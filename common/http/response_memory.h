/* SPDX-License-Identifier: MIT */
/*
 * The memory of large responses that are being prepared or sent, of all connections together: a
 * client that requests much and reads nothing cannot exhaust memory. A response that does not fit
 * is refused before it is made. One response alone always fits.
 *
 * Responses of up to RESPONSE_SMALL_BYTES are not counted: a connection has one at a time, so that
 * --max-connections bounds them. They cost nothing here.
 *
 * Threads: any.
 */
#ifndef COMMON_HTTP_RESPONSE_MEMORY_H
#define COMMON_HTTP_RESPONSE_MEMORY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define RESPONSE_SMALL_BYTES ((size_t)64 << 10)
#define RESPONSE_MEMORY_DEFAULT_BYTES (INT64_C(1) << 30)
#define RESPONSE_MEMORY_LEAST_BYTES (INT64_C(1) << 20)

struct response_memory {
    int64_t limit_bytes;
    _Atomic int64_t held_bytes;
    _Atomic uint64_t refused; /* responses */
};

void response_memory_init(struct response_memory *memory, int64_t limit_bytes);
/* ERROR_MEMORY (503): the responses that are there leave no room for it. */
enum error response_memory_take(struct response_memory *memory, size_t bytes) MUST_CHECK;
/* Gives all or a part of what was taken back. */
void response_memory_put(struct response_memory *memory, size_t bytes);

#endif

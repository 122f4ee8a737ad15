/* SPDX-License-Identifier: MIT */
/*
 * Limits the memory that all connections together use for one purpose: large responses being made
 * or sent, so that a client that requests much and reads nothing cannot exhaust memory, or incoming
 * request bodies. What does not fit is refused. One alone always fits.
 *
 * Responses of up to RESPONSE_SMALL_BYTES and bodies of up to BODY_SMALL_BYTES are not counted: a
 * connection has one at a time, so --max-connections bounds them. They cost nothing here, and an
 * /ack of a few batches is accepted while large bodies are refused.
 *
 * Any thread.
 */
#ifndef COMMON_HTTP_MEMORY_BUDGET_H
#define COMMON_HTTP_MEMORY_BUDGET_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define RESPONSE_SMALL_BYTES ((size_t)64 << 10)
#define BODY_SMALL_BYTES ((size_t)4 << 10)
#define RESPONSE_MEMORY_DEFAULT_BYTES (INT64_C(1) << 30)
#define MEMORY_BUDGET_LEAST_BYTES (INT64_C(1) << 20)

struct memory_budget {
    const char *what;   /* "responses" */
    const char *option; /* that sets the limit */
    int64_t limit_bytes;
    _Atomic int64_t held_bytes;
    _Atomic uint64_t refused; /* number of responses or bodies */
};

/* The texts are borrowed. */
void memory_budget_init(struct memory_budget *memory, int64_t limit_bytes, const char *what,
                        const char *option);
/* ERROR_MEMORY (503): those in use leave no room for it. */
enum error memory_budget_take(struct memory_budget *memory, size_t bytes) MUST_CHECK;
/* Returns all or a part of the bytes taken. */
void memory_budget_put(struct memory_budget *memory, size_t bytes);

#endif

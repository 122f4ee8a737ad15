/* SPDX-License-Identifier: MIT */
#include "common/http/response_memory.h"

#include <inttypes.h>

void response_memory_init(struct response_memory *memory, int64_t limit_bytes)
{
    memory->limit_bytes = limit_bytes;
    atomic_init(&memory->held_bytes, 0);
    atomic_init(&memory->refused, 0);
}

static enum error refuse(struct response_memory *memory, size_t bytes, int64_t held_bytes)
{
    atomic_fetch_add_explicit(&memory->refused, 1, memory_order_relaxed);
    return error_set(ERROR_MEMORY,
                     "responses that are being read hold %" PRId64 " bytes, and this one of up to "
                     "%zu would pass --max-answer-memory %" PRId64 "; ask again",
                     held_bytes, bytes, memory->limit_bytes);
}

enum error response_memory_take(struct response_memory *memory, size_t bytes)
{
    int64_t held = atomic_load_explicit(&memory->held_bytes, memory_order_relaxed);
    do {
        if (held > 0 && (int64_t)bytes > memory->limit_bytes - held)
            return refuse(memory, bytes, held);
    } while (!atomic_compare_exchange_weak_explicit(&memory->held_bytes, &held,
                                                    held + (int64_t)bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return OK;
}

void response_memory_put(struct response_memory *memory, size_t bytes)
{
    atomic_fetch_sub_explicit(&memory->held_bytes, (int64_t)bytes, memory_order_relaxed);
}

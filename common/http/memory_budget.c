/* SPDX-License-Identifier: MIT */
#include "common/http/memory_budget.h"

#include <inttypes.h>

void memory_budget_init(struct memory_budget *memory, int64_t limit_bytes, const char *what,
                        const char *option)
{
    memory->what = what;
    memory->option = option;
    memory->limit_bytes = limit_bytes;
    atomic_init(&memory->held_bytes, 0);
    atomic_init(&memory->refused, 0);
}

static enum error refuse(struct memory_budget *memory, size_t bytes, int64_t held_bytes)
{
    atomic_fetch_add_explicit(&memory->refused, 1, memory_order_relaxed);
    return error_set(ERROR_MEMORY,
                     "%s that are being read hold %" PRId64 " bytes, and this one of up to "
                     "%zu would pass --%s %" PRId64 "; ask again",
                     memory->what, held_bytes, bytes, memory->option, memory->limit_bytes);
}

enum error memory_budget_take(struct memory_budget *memory, size_t bytes)
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

void memory_budget_put(struct memory_budget *memory, size_t bytes)
{
    atomic_fetch_sub_explicit(&memory->held_bytes, (int64_t)bytes, memory_order_relaxed);
}

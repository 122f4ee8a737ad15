/* SPDX-License-Identifier: MIT */
#include "sampler/build/sort_arena.h"

#include <string.h>

#include "common/huge_memory.h"

void sort_arena_init(struct sort_arena *arena, uint64_t limit_bytes)
{
    *arena = (struct sort_arena){.limit_bytes = limit_bytes > SORT_ARENA_LEAST ? limit_bytes
                                                                               : SORT_ARENA_LEAST};
}

void sort_arena_release(struct sort_arena *arena)
{
    huge_memory_free(arena->memory, arena->bytes);
    arena->memory = NULL;
    arena->bytes = 0;
}

enum error sort_arena_take(struct sort_arena *arena, size_t bytes, bool zeroed, void **ret_memory)
{
    if (arena->bytes >= bytes && arena->memory) {
        if (zeroed)
            memset(arena->memory, 0, bytes);
    } else {
        sort_arena_release(arena);
        arena->memory = huge_memory_new(bytes, "sorting");
        if (!arena->memory)
            return ERROR_MEMORY;
        arena->bytes = bytes;
    }
    *ret_memory = arena->memory;
    return OK;
}

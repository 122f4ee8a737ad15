/* SPDX-License-Identifier: MIT */
/*
 * Memory for sorting, reused by one sort after another, so that the system allocates and clears it
 * only once.
 */
#ifndef SAMPLER_BUILD_SORT_ARENA_H
#define SAMPLER_BUILD_SORT_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct sort_arena {
    uint64_t limit_bytes; /* how much a sort should use at most, as the caller says */
    void *memory;         /* owned */
    size_t bytes;
};

/* No memory yet; the limit is at least SORT_ARENA_LEAST. */
#define SORT_ARENA_LEAST ((uint64_t)1 << 20)
void sort_arena_init(struct sort_arena *arena, uint64_t limit_bytes);
void sort_arena_release(struct sort_arena *arena);

/* `bytes`, valid until the next call; in huge pages. */
enum error sort_arena_take(struct sort_arena *arena, size_t bytes, bool zeroed,
                           void **ret_memory) MUST_CHECK;

#endif

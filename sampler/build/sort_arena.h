/*
 * Memory to sort in: one sort after the other takes what it needs, so that the system has to find
 * and clear it once.
 */
#ifndef SAMPLER_BUILD_SORT_ARENA_H
#define SAMPLER_BUILD_SORT_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct sort_room {
    uint64_t limit_bytes; /* how much a sort should take at most: the caller's word */
    void *memory;         /* owned */
    size_t bytes;
};

/* No memory yet; the limit is SORT_ROOM_LEAST at least. */
#define SORT_ROOM_LEAST ((uint64_t)1 << 20)
void sort_room_init(struct sort_room *room, uint64_t limit_bytes);
void sort_room_release(struct sort_room *room);

/* `bytes`, lent until the next call; in huge pages. */
enum error sort_room_take(struct sort_room *room, size_t bytes, bool zeroed,
                          void **ret_memory) MUST_CHECK;

#endif

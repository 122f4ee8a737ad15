#include "sampler/build/sort_arena.h"

#include <string.h>

#include "common/huge_memory.h"

void sort_room_init(struct sort_room *room, uint64_t limit_bytes)
{
    *room = (struct sort_room){.limit_bytes =
                                   limit_bytes > SORT_ROOM_LEAST ? limit_bytes : SORT_ROOM_LEAST};
}

void sort_room_release(struct sort_room *room)
{
    large_free(room->memory, room->bytes);
    room->memory = NULL;
    room->bytes = 0;
}

enum error sort_room_take(struct sort_room *room, size_t bytes, bool zeroed, void **ret_memory)
{
    if (room->bytes >= bytes && room->memory) {
        if (zeroed)
            memset(room->memory, 0, bytes);
    } else {
        sort_room_release(room);
        room->memory = large_new(bytes, "sorting");
        if (!room->memory)
            return ERROR_MEMORY;
        room->bytes = bytes;
    }
    *ret_memory = room->memory;
    return OK;
}

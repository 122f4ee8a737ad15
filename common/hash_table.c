/* SPDX-License-Identifier: MIT */
#include "common/hash_table.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#define SLOTS_AT_LEAST 64
#define SLOTS_MOVED_AT_ONCE 1024 /* a table that was not larger */
/* Twice as many as are there before the next growth, where each number has a reserve of its own. */
#define MOVED_AT_ONCE 16

/* Looks at that many slots of before, or empties them. */
static void move_some(struct hash_table *table, size_t most, hash_table_hash *hash_of,
                      const void *keys)
{
    uint32_t *before = table->before;
    size_t mask = table->before_mask;
    size_t moved = table->moved;
    if (!before)
        return;
    for (; most > 0 && moved <= mask; most--) {
        if (before[moved] == 0) {
            moved++;
            continue;
        }
        uint32_t number = hash_slot_number(mask, before[moved]);
        hash_slots_close(before, mask, moved, hash_of, keys);
        hash_table_put(table, hash_of(keys, number), number);
    }
    table->moved = moved;
    if (moved <= mask)
        return;
    free(before);
    table->before = NULL;
}

enum error hash_table_reserve(struct hash_table *table, size_t count, hash_table_hash *hash_of,
                              const void *keys, const char *what)
{
    size_t had = table->slots ? table->slot_mask + 1 : 0;
    size_t slots = SLOTS_AT_LEAST;
    bool fits = 2 * count <= had;
    if (had > 0)
        move_some(table, fits ? MOVED_AT_ONCE : SIZE_MAX, hash_of, keys);
    if (fits)
        return OK;
    while (slots < 2 * count)
        slots *= 2;
    uint32_t *grown = array_new(slots, sizeof(*grown), what);
    if (!grown)
        return ERROR_MEMORY;
    table->before = table->slots;
    table->before_mask = table->slot_mask;
    table->moved = 0;
    table->slots = grown;
    table->slot_mask = slots - 1;
    move_some(table, had <= SLOTS_MOVED_AT_ONCE ? SIZE_MAX : MOVED_AT_ONCE, hash_of, keys);
    return OK;
}

void hash_table_clear(struct hash_table *table)
{
    free(table->before);
    table->before = NULL;
    if (table->slots)
        memset(table->slots, 0, (table->slot_mask + 1) * sizeof(*table->slots));
}

void hash_table_release(struct hash_table *table)
{
    free(table->before);
    free(table->slots);
    *table = (struct hash_table){.slots = NULL};
}

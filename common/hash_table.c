/* SPDX-License-Identifier: MIT */
#include "common/hash_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/array.h"

#define SLOTS_AT_LEAST 64
#define SLOTS_MOVED_AT_ONCE 1024 /* a table that was not larger */
/* Twice as many as exist before the next growth, if each number is reserved separately. */
#define MOVED_AT_ONCE 16

/* Fresh mappings are zero without being written: a caller that reserves, perhaps under a lock, need
 * not write them all. */
#define MAPPED_BYTES ((size_t)128 << 10)

static uint32_t *new_slots(size_t count, const char *what)
{
    size_t bytes = count * sizeof(uint32_t);
    if (bytes < MAPPED_BYTES)
        return array_new(count, sizeof(uint32_t), what);
    void *slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slots != MAP_FAILED)
        return slots;
    error_set_memory(bytes, what);
    return NULL;
}

static void free_slots(uint32_t *slots, size_t mask)
{
    size_t bytes = (mask + 1) * sizeof(uint32_t);
    if (!slots || bytes < MAPPED_BYTES)
        free(slots);
    else
        (void)munmap(slots, bytes);
}

/* Visits that many old slots, or empties them. */
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
    free_slots(before, mask);
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
    uint32_t *grown = new_slots(slots, what);
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
    free_slots(table->before, table->before_mask);
    table->before = NULL;
    if (table->slots)
        memset(table->slots, 0, (table->slot_mask + 1) * sizeof(*table->slots));
}

void hash_table_release(struct hash_table *table)
{
    free_slots(table->before, table->before_mask);
    free_slots(table->slots, table->slot_mask);
    *table = (struct hash_table){.slots = NULL};
}

/* SPDX-License-Identifier: MIT */
#include "common/hash_table.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#define SLOTS_AT_LEAST 64

enum error hash_table_reserve(struct hash_table *table, size_t count, hash_table_hash *hash_of,
                              const void *keys, const char *what)
{
    size_t had = table->slots ? table->slot_mask + 1 : 0;
    size_t slots = SLOTS_AT_LEAST;
    if (2 * count <= had)
        return OK;
    while (slots < 2 * count)
        slots *= 2;
    struct hash_table grown = {.slot_mask = slots - 1};
    grown.slots = array_new(slots, sizeof(*grown.slots), what);
    if (!grown.slots)
        return ERROR_MEMORY;
    for (size_t slot = 0; slot < had; slot++) {
        uint32_t number = hash_table_at(table, slot);
        if (number != HASH_TABLE_NONE)
            hash_table_put(&grown, hash_of(keys, number), number);
    }
    free(table->slots);
    *table = grown;
    return OK;
}

void hash_table_clear(struct hash_table *table)
{
    if (table->slots)
        memset(table->slots, 0, (table->slot_mask + 1) * sizeof(*table->slots));
}

void hash_table_release(struct hash_table *table)
{
    free(table->slots);
    *table = (struct hash_table){.slots = NULL};
}

/* SPDX-License-Identifier: MIT */
/*
 * The one hash table: key to number. The keys lie in the caller's own list, one for each number;
 * the table holds the numbers only, 4 bytes a slot, and asks the caller whether a number has
 * the key.
 *
 * Open addressing, linear probing, a power of two of slots of which at most half are taken for the
 * count that was reserved. A slot is number + 1 in its low bits, as many as a slot's index has (so
 * a number is below the count that was reserved), and in the bits above them a tag: bits of the
 * hash. 0 is a free slot. The tag spares nearly all looks at keys that are others, which are misses
 * of the cache: with 2^k slots one of 2^(32 - k) slots of other keys has the same tag.
 *
 * A removal leaves no mark: what stands behind the hole moves up, so that a search may end at the
 * first free slot.
 *
 * Only hash_table_reserve() may fail. Keys that a client chooses need a hash that it cannot make
 * collide: keyed_hash.h.
 *
 * Any number of threads may search; who changes the table is alone.
 */
#ifndef COMMON_HASH_TABLE_H
#define COMMON_HASH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define HASH_TABLE_NONE UINT32_MAX

/* All zeros is empty. */
struct hash_table {
    uint32_t *slots;  /* owned; [slot_mask + 1], or NULL */
    size_t slot_mask; /* slots - 1 */
};

/* Has `number` the key that is searched? `key` also leads to the list of keys. */
typedef bool hash_table_match(const void *key, uint32_t number);
/* The hash of a number's key: `keys` is the list of them. */
typedef uint64_t hash_table_hash(const void *keys, uint32_t number);

/* Room for `count` numbers, all below `count`. ERROR_MEMORY, nothing changed. `hash_of` is asked
 * for those that are in the table, slot by slot; NULL where there are none yet. */
enum error hash_table_reserve(struct hash_table *table, size_t count, hash_table_hash *hash_of,
                              const void *keys, const char *what) MUST_CHECK;
/* Forgets all; keeps the memory. */
void hash_table_clear(struct hash_table *table);
void hash_table_release(struct hash_table *table);

/* The functions below are inlined into their callers, and the functions given to them with them:
 * the loop of a search is as if it were written for its keys. */
#define HASH_TABLE_INLINE static inline __attribute__((always_inline))

HASH_TABLE_INLINE uint32_t hash_table_slot(const struct hash_table *table, uint64_t hash,
                                           uint32_t number)
{
    uint32_t number_mask = (uint32_t)table->slot_mask;
    return ((uint32_t)(hash >> 32) & ~number_mask) | (number + 1);
}

/* The number in a slot, or HASH_TABLE_NONE. */
HASH_TABLE_INLINE uint32_t hash_table_at(const struct hash_table *table, size_t slot)
{
    return (table->slots[slot] & (uint32_t)table->slot_mask) - 1;
}

/* The number that has the key, or HASH_TABLE_NONE. */
HASH_TABLE_INLINE uint32_t hash_table_find(const struct hash_table *table, uint64_t hash,
                                           hash_table_match *match, const void *key)
{
    size_t slot_mask = table->slot_mask;
    if (!table->slots)
        return HASH_TABLE_NONE;
    for (size_t slot = (size_t)hash & slot_mask; table->slots[slot] != 0;
         slot = (slot + 1) & slot_mask) {
        uint32_t number = hash_table_at(table, slot);
        if (table->slots[slot] == hash_table_slot(table, hash, number) && match(key, number))
            return number;
    }
    return HASH_TABLE_NONE;
}

/* A number whose key is not in the table. Room is reserved. */
HASH_TABLE_INLINE void hash_table_put(struct hash_table *table, uint64_t hash, uint32_t number)
{
    size_t slot = (size_t)hash & table->slot_mask;
    while (table->slots[slot] != 0)
        slot = (slot + 1) & table->slot_mask;
    table->slots[slot] = hash_table_slot(table, hash, number);
}

/* A number that is in the table, whose key is still as it was. */
HASH_TABLE_INLINE void hash_table_remove(struct hash_table *table, uint32_t number,
                                         hash_table_hash *hash_of, const void *keys)
{
    size_t mask = table->slot_mask;
    size_t hole = (size_t)hash_of(keys, number) & mask;
    while (hash_table_at(table, hole) != number)
        hole = (hole + 1) & mask;
    for (size_t next = (hole + 1) & mask; table->slots[next] != 0; next = (next + 1) & mask) {
        /* How far it was pushed from its home: it may move up unless the hole is before that. */
        size_t pushed = (next - (size_t)hash_of(keys, hash_table_at(table, next))) & mask;
        if (pushed < ((next - hole) & mask))
            continue;
        table->slots[hole] = table->slots[next];
        hole = next;
    }
    table->slots[hole] = 0;
}

/* Asks the memory for the slots where a search or a put begins, to hide its latency. */
HASH_TABLE_INLINE void hash_table_prefetch(const struct hash_table *table, uint64_t hash)
{
    __builtin_prefetch(&table->slots[(size_t)hash & table->slot_mask], 1);
}

#endif

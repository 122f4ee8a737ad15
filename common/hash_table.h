/* SPDX-License-Identifier: MIT */
/*
 * The one hash table: key to number. The keys are in the caller's list, one per number; the table
 * holds only the numbers, 4 bytes per slot, and asks the caller whether a number has the key.
 *
 * Open addressing, linear probing; a power of two of slots, at most half of them used at the
 * reserved count. The low bits of a slot, as many as in a slot index, hold number + 1 (so numbers
 * are below the reserved count); the bits above hold a tag, bits of the hash. 0 is a free slot. The
 * tag avoids nearly all comparisons with other keys, each a cache miss: with 2^k slots, one in
 * 2^(32 - k) slots of other keys has the same tag.
 *
 * Removal leaves no tombstone: later entries move up into the hole, so a search may end at the
 * first free slot.
 *
 * A large table grows incrementally: the old slots stay, and each later hash_table_reserve() moves
 * some of them, so that no single call pays for all. Until then a search that finds nothing also
 * looks there.
 *
 * Large slot arrays are fresh mappings: zero without being written.
 *
 * Only hash_table_reserve() may fail. Keys chosen by a client need a hash whose collisions it
 * cannot predict: keyed_hash.h.
 *
 * Any number of threads may search; changes need exclusive access.
 */
#ifndef COMMON_HASH_TABLE_H
#define COMMON_HASH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define HASH_TABLE_NONE UINT32_MAX

/* Empty when zeroed. */
struct hash_table {
    uint32_t *slots;  /* owned; [slot_mask + 1], or NULL */
    size_t slot_mask; /* slots - 1 */
    uint32_t *before; /* owned; [before_mask + 1] old slots, not all moved yet, or NULL */
    size_t before_mask;
    size_t moved; /* old slots below it have been moved and are free */
};

/* Does `number` have the key searched for? `key` also leads to the list of keys. */
typedef bool hash_table_match(const void *key, uint32_t number);
/* Hash of a number's key in the list `keys`. */
typedef uint64_t hash_table_hash(const void *keys, uint32_t number);

/* Makes room for `count` numbers, all below `count`. ERROR_MEMORY: nothing changed. `hash_of` is
 * called for the numbers in the table, slot by slot; NULL if there are none yet. */
enum error hash_table_reserve(struct hash_table *table, size_t count, hash_table_hash *hash_of,
                              const void *keys, const char *what) MUST_CHECK;
/* Empties the table; keeps the memory. */
void hash_table_clear(struct hash_table *table);
void hash_table_release(struct hash_table *table);

/* The functions below are inlined into their callers together with the functions passed to them, so
 * that a search compiles to a loop for its type of key. */
#define HASH_TABLE_INLINE static inline __attribute__((always_inline))

HASH_TABLE_INLINE uint32_t hash_slot_of(size_t mask, uint64_t hash, uint32_t number)
{
    return ((uint32_t)(hash >> 32) & ~(uint32_t)mask) | (number + 1);
}

/* Hash of a number that no client chooses: Fibonacci hashing. */
HASH_TABLE_INLINE uint64_t hash_table_mix(int64_t number)
{
    uint64_t mixed = (uint64_t)number * UINT64_C(0x9e3779b97f4a7c15);
    return mixed ^ (mixed >> 32);
}

/* The number in a slot, or HASH_TABLE_NONE. */
HASH_TABLE_INLINE uint32_t hash_slot_number(size_t mask, uint32_t slot)
{
    return (slot & (uint32_t)mask) - 1;
}

HASH_TABLE_INLINE uint32_t hash_slots_find(const uint32_t *slots, size_t mask, uint64_t hash,
                                           hash_table_match *match, const void *key)
{
    for (size_t at = (size_t)hash & mask; slots[at] != 0; at = (at + 1) & mask) {
        uint32_t number = hash_slot_number(mask, slots[at]);
        if (slots[at] == hash_slot_of(mask, hash, number) && match(key, number))
            return number;
    }
    return HASH_TABLE_NONE;
}

/* The number that has the key, or HASH_TABLE_NONE. */
HASH_TABLE_INLINE uint32_t hash_table_find(const struct hash_table *table, uint64_t hash,
                                           hash_table_match *match, const void *key)
{
    if (!table->slots)
        return HASH_TABLE_NONE;
    uint32_t number = hash_slots_find(table->slots, table->slot_mask, hash, match, key);
    if (__builtin_expect(table->before && number == HASH_TABLE_NONE, 0))
        number = hash_slots_find(table->before, table->before_mask, hash, match, key);
    return number;
}

struct hash_table_id {
    const int64_t *ids;
    int64_t id;
};

HASH_TABLE_INLINE bool hash_table_has_id(const void *key, uint32_t number)
{
    const struct hash_table_id *wanted = key;
    return wanted->ids[number] == wanted->id;
}

/* The number of an id, if the keys are a list of ids with the hash hash_table_mix(). */
HASH_TABLE_INLINE uint32_t hash_table_find_id(const struct hash_table *table, const int64_t *ids,
                                              int64_t id)
{
    struct hash_table_id key = {.ids = ids, .id = id};
    return hash_table_find(table, hash_table_mix(id), hash_table_has_id, &key);
}

/* Adds a number whose key is not in the table. Room must be reserved. */
HASH_TABLE_INLINE void hash_table_put(struct hash_table *table, uint64_t hash, uint32_t number)
{
    size_t slot = (size_t)hash & table->slot_mask;
    while (table->slots[slot] != 0)
        slot = (slot + 1) & table->slot_mask;
    table->slots[slot] = hash_slot_of(table->slot_mask, hash, number);
}

/* Moves later entries up into the hole. */
HASH_TABLE_INLINE void hash_slots_close(uint32_t *slots, size_t mask, size_t hole,
                                        hash_table_hash *hash_of, const void *keys)
{
    for (size_t next = (hole + 1) & mask; slots[next] != 0; next = (next + 1) & mask) {
        /* Distance from its home slot: it may move up unless the hole lies before that slot. */
        size_t home = (size_t)hash_of(keys, hash_slot_number(mask, slots[next]));
        if (((next - home) & mask) < ((next - hole) & mask))
            continue;
        slots[hole] = slots[next];
        hole = next;
    }
    slots[hole] = 0;
}

/* false: not found. */
HASH_TABLE_INLINE bool hash_slots_remove(uint32_t *slots, size_t mask, uint32_t number,
                                         hash_table_hash *hash_of, const void *keys)
{
    size_t hole = (size_t)hash_of(keys, number) & mask;
    while (slots[hole] != 0 && hash_slot_number(mask, slots[hole]) != number)
        hole = (hole + 1) & mask;
    if (slots[hole] == 0)
        return false;
    hash_slots_close(slots, mask, hole, hash_of, keys);
    return true;
}

/* Removes a number that is in the table and whose key has not changed. */
HASH_TABLE_INLINE void hash_table_remove(struct hash_table *table, uint32_t number,
                                         hash_table_hash *hash_of, const void *keys)
{
    if (!hash_slots_remove(table->slots, table->slot_mask, number, hash_of, keys))
        (void)hash_slots_remove(table->before, table->before_mask, number, hash_of, keys);
}

/* Prefetches the slots where a search or a put begins. */
HASH_TABLE_INLINE void hash_table_prefetch(const struct hash_table *table, uint64_t hash)
{
    __builtin_prefetch(&table->slots[(size_t)hash & table->slot_mask], 1);
}

#endif

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
 * A large table grows a little at a time: the slots of before stay, and each later
 * hash_table_reserve() moves some of them, so that nobody pays for all at once. Until they are
 * through, a search that finds nothing looks there, too.
 *
 * Large slots are pages of their own: zero without being written, whatever was freed before.
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
    uint32_t *before; /* owned; [before_mask + 1] that are not all moved yet, or NULL */
    size_t before_mask;
    size_t moved; /* of them: those below are free */
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

HASH_TABLE_INLINE uint32_t hash_slot_of(size_t mask, uint64_t hash, uint32_t number)
{
    return ((uint32_t)(hash >> 32) & ~(uint32_t)mask) | (number + 1);
}

/* The hash of a number that no client chooses: Fibonacci hashing. */
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

/* A number whose key is not in the table. Room is reserved. */
HASH_TABLE_INLINE void hash_table_put(struct hash_table *table, uint64_t hash, uint32_t number)
{
    size_t slot = (size_t)hash & table->slot_mask;
    while (table->slots[slot] != 0)
        slot = (slot + 1) & table->slot_mask;
    table->slots[slot] = hash_slot_of(table->slot_mask, hash, number);
}

/* What stands behind the hole moves up. */
HASH_TABLE_INLINE void hash_slots_close(uint32_t *slots, size_t mask, size_t hole,
                                        hash_table_hash *hash_of, const void *keys)
{
    for (size_t next = (hole + 1) & mask; slots[next] != 0; next = (next + 1) & mask) {
        /* How far it was pushed from its home: it may move up unless the hole is before that. */
        size_t home = (size_t)hash_of(keys, hash_slot_number(mask, slots[next]));
        if (((next - home) & mask) < ((next - hole) & mask))
            continue;
        slots[hole] = slots[next];
        hole = next;
    }
    slots[hole] = 0;
}

/* False: it is not there. */
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

/* A number that is in the table, whose key is still as it was. */
HASH_TABLE_INLINE void hash_table_remove(struct hash_table *table, uint32_t number,
                                         hash_table_hash *hash_of, const void *keys)
{
    if (!hash_slots_remove(table->slots, table->slot_mask, number, hash_of, keys))
        (void)hash_slots_remove(table->before, table->before_mask, number, hash_of, keys);
}

/* Asks the memory for the slots where a search or a put begins, to hide its latency. */
HASH_TABLE_INLINE void hash_table_prefetch(const struct hash_table *table, uint64_t hash)
{
    __builtin_prefetch(&table->slots[(size_t)hash & table->slot_mask], 1);
}

#endif

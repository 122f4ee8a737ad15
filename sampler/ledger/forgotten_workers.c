/* SPDX-License-Identifier: MIT */
#include "sampler/ledger/forgotten_workers.h"

#include <stdlib.h>
#include <xxhash.h>

#include "common/array.h"
#include "common/keyed_hash.h"

static const char forgotten_memory[] = "the workers that a stream forgot";

static void set_release(struct forgotten_set *set)
{
    free(set->workers);
    hash_table_release(&set->names);
}

void forgotten_workers_release(struct forgotten_workers *forgotten)
{
    set_release(&forgotten->newer);
    set_release(&forgotten->older);
    *forgotten = (struct forgotten_workers){0};
}

int64_t forgotten_workers_hash(const char *name, size_t length)
{
    return (int64_t)(XXH3_64bits(name, length) >> 2) + 1;
}

/* `name` is stored, so it contains no secret; its slot in the table does. */
static inline uint64_t slot_hash(int64_t name)
{
    return keyed_hash_numbers((uint64_t)name, 0);
}

static inline uint64_t hash_of(const void *keys, uint32_t number)
{
    return slot_hash(((const struct forgotten_set *)keys)->workers[number].name);
}

struct name_key {
    const struct forgotten_set *set;
    int64_t name;
};

static inline bool has_name(const void *key, uint32_t number)
{
    const struct name_key *wanted = key;
    return wanted->set->workers[number].name == wanted->name;
}

static uint32_t find_number(const struct forgotten_set *set, int64_t name)
{
    struct name_key key = {.set = set, .name = name};
    return hash_table_find(&set->names, slot_hash(name), has_name, &key);
}

static int64_t find(const struct forgotten_set *set, int64_t name)
{
    uint32_t number = find_number(set, name);
    return number == HASH_TABLE_NONE ? 0 : set->workers[number].below;
}

int64_t forgotten_workers_find(const struct forgotten_workers *forgotten, int64_t name)
{
    int64_t newer = find(&forgotten->newer, name);
    int64_t older = find(&forgotten->older, name);
    return newer > older ? newer : older;
}

void forgotten_workers_turn(struct forgotten_workers *forgotten)
{
    struct forgotten_set empty = forgotten->older; /* its memory is reused */
    hash_table_clear(&empty.names);
    empty.count = 0;
    forgotten->older = forgotten->newer;
    forgotten->newer = empty;
}

enum error forgotten_workers_reserve(struct forgotten_workers *forgotten, size_t more)
{
    struct forgotten_set *set = &forgotten->newer;
    if (set->count + more > FORGOTTEN_WORKERS_LIMIT)
        forgotten_workers_turn(forgotten);
    enum error error = array_grow((void **)&set->workers, &set->capacity, set->count + more,
                                  sizeof(*set->workers), forgotten_memory);
    if (!error)
        error = hash_table_reserve(&set->names, set->count + more, hash_of, set, forgotten_memory);
    return error;
}

void forgotten_workers_add(struct forgotten_workers *forgotten, int64_t name, int64_t below)
{
    struct forgotten_set *set = &forgotten->newer;
    uint32_t number = find_number(set, name);
    if (number == HASH_TABLE_NONE) {
        number = (uint32_t)set->count++;
        set->workers[number] = (struct forgotten_worker){.name = name};
        hash_table_put(&set->names, slot_hash(name), number);
    }
    if (below > set->workers[number].below)
        set->workers[number].below = below;
}

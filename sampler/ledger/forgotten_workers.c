#include "sampler/ledger/forgotten_workers.h"

#include <stdlib.h>
#include <xxhash.h>

#include "common/array.h"

#define SLOTS_AT_LEAST 64

void forgotten_workers_release(struct forgotten_workers *forgotten)
{
    free(forgotten->newer.slots);
    free(forgotten->older.slots);
    *forgotten = (struct forgotten_workers){0};
}

int64_t forgotten_workers_hash(const char *name, size_t length)
{
    return (int64_t)(XXH3_64bits(name, length) >> 2) + 1;
}

/* The slot that holds the name, or the free one where it belongs. */
static struct forgotten_worker *find_slot(const struct forgotten_set *set, int64_t name)
{
    size_t at = (size_t)name & (set->slot_count - 1);
    while (set->slots[at].name != 0 && set->slots[at].name != name)
        at = (at + 1) & (set->slot_count - 1);
    return &set->slots[at];
}

static int64_t find(const struct forgotten_set *set, int64_t name)
{
    return set->count > 0 ? find_slot(set, name)->below : 0;
}

int64_t forgotten_workers_find(const struct forgotten_workers *forgotten, int64_t name)
{
    int64_t newer = find(&forgotten->newer, name);
    int64_t older = find(&forgotten->older, name);
    return newer > older ? newer : older;
}

static size_t slots_for(size_t count)
{
    size_t slots = SLOTS_AT_LEAST;
    while (slots < 2 * count)
        slots *= 2;
    return slots;
}

void forgotten_workers_turn(struct forgotten_workers *forgotten)
{
    struct forgotten_set empty = forgotten->older; /* its memory is used again */
    for (size_t i = 0; i < empty.slot_count; i++)
        empty.slots[i] = (struct forgotten_worker){0};
    empty.count = 0;
    forgotten->older = forgotten->newer;
    forgotten->newer = empty;
}

enum error forgotten_workers_reserve(struct forgotten_workers *forgotten, size_t more)
{
    struct forgotten_set *set = &forgotten->newer;
    if (set->count + more > FORGOTTEN_WORKERS_LIMIT)
        forgotten_workers_turn(forgotten);
    size_t count = slots_for(set->count + more);
    if (count <= set->slot_count)
        return OK;
    struct forgotten_set grown = {.slot_count = count, .count = set->count};
    grown.slots = array_new(count, sizeof(*grown.slots), "the workers that a stream forgot");
    if (!grown.slots)
        return ERROR_MEMORY;
    for (size_t i = 0; i < set->slot_count; i++) {
        if (set->slots[i].name != 0)
            *find_slot(&grown, set->slots[i].name) = set->slots[i];
    }
    free(set->slots);
    *set = grown;
    return OK;
}

void forgotten_workers_add(struct forgotten_workers *forgotten, int64_t name, int64_t below)
{
    struct forgotten_worker *slot = find_slot(&forgotten->newer, name);
    if (slot->name == 0)
        forgotten->newer.count++;
    slot->name = name;
    if (below > slot->below)
        slot->below = below;
}

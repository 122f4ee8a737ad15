/* SPDX-License-Identifier: MIT */
#include "loader/feed/lease_list.h"

#include <stdlib.h>

#include "common/array.h"

static const char what[] = "leases";

struct lease_key {
    const struct lease *leases;
    int64_t seq;
};

static uint64_t hash_of(const void *leases, uint32_t number)
{
    return hash_table_mix(((const struct lease *)leases)[number].seq);
}

static bool has_seq(const void *key, uint32_t number)
{
    const struct lease_key *wanted = key;
    return wanted->leases[number].seq == wanted->seq;
}

void lease_list_release(struct lease_list *list)
{
    free(list->leases);
    hash_table_release(&list->numbers);
    *list = (struct lease_list){.count = 0};
}

enum error lease_list_add(struct lease_list *list, const struct lease *lease)
{
    enum error error = OK;
    if (list->count == list->capacity)
        error = array_grow((void **)&list->leases, &list->capacity, list->count + 1,
                           sizeof(*list->leases), what);
    if (!error)
        error = hash_table_reserve(&list->numbers, list->count + 1, hash_of, list->leases, what);
    if (error)
        return error;
    list->leases[list->count] = *lease;
    hash_table_put(&list->numbers, hash_table_mix(lease->seq), (uint32_t)list->count++);
    return OK;
}

struct lease *lease_list_find(struct lease_list *list, int64_t seq)
{
    struct lease_key key = {.leases = list->leases, .seq = seq};
    uint32_t number = hash_table_find(&list->numbers, hash_table_mix(seq), has_seq, &key);
    return number == HASH_TABLE_NONE ? NULL : &list->leases[number];
}

void lease_list_remove(struct lease_list *list, struct lease *lease)
{
    uint32_t number = (uint32_t)(lease - list->leases), last = (uint32_t)list->count - 1;
    hash_table_remove(&list->numbers, number, hash_of, list->leases);
    if (number != last) {
        hash_table_remove(&list->numbers, last, hash_of, list->leases);
        *lease = list->leases[last];
        hash_table_put(&list->numbers, hash_table_mix(lease->seq), number);
    }
    list->count--;
}

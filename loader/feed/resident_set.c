/* SPDX-License-Identifier: MIT */
#include "loader/feed/resident_set.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/hash_table.h"

#define NO_PLACE UINT32_MAX

/* The facts about each place with a row; 25 bytes in addition to its table. */
struct resident_set {
    struct device *device;
    void *memory; /* owned; [limit + K * B, row_bytes] */
    size_t batch_rows;
    uint32_t limit; /* places for resident rows */
    pthread_mutex_t lock;
    uint32_t count;    /* places that have a row */
    uint32_t *by_row;  /* owned; [row_limit]: 1 + the place of the row with this number; NULL if */
    int64_t row_limit; /* ids are a column; then */
    struct hash_table table; /* finds places by id */
    int64_t *ids;            /* owned; [limit] */
    int64_t *sequences;      /* owned; [limit]: the number of the batch that brings the row */
    double *labels;          /* owned; [limit] */
    uint8_t *status;         /* owned; [limit]: enum row_status, or PENDING */
    _Atomic int64_t resident, copied;
};
#define PENDING 255 /* a fetcher is fetching it */

/* ---- places by ids ------------------------------------------------------ */

static inline uint32_t place_of(const struct resident_set *set, int64_t id)
{
    if (!set->by_row)
        return hash_table_find_id(&set->table, set->ids, id);
    return id < set->row_limit ? set->by_row[id] - 1 : NO_PLACE;
}
_Static_assert(HASH_TABLE_NONE == NO_PLACE, "what is not found");

/* NO_PLACE: there is no room, or no such row. */
static inline uint32_t add(struct resident_set *set, int64_t id, int64_t sequence)
{
    if (set->count == set->limit || (set->by_row && id >= set->row_limit))
        return NO_PLACE;
    uint32_t place = set->count++;
    set->ids[place] = id;
    set->sequences[place] = sequence;
    set->status[place] = PENDING;
    if (set->by_row)
        set->by_row[id] = place + 1;
    else
        hash_table_put(&set->table, hash_table_mix(id), place);
    return place;
}

/* ---- rows of a batch ---------------------------------------------------- */

enum error resident_rows_init(struct resident_rows *rows, size_t batch_rows)
{
    static const char what[] = "rows on their way to a device";
    *rows = (struct resident_rows){.at = array_new(batch_rows, sizeof(*rows->at), what),
                                   .ids = array_new(batch_rows, sizeof(*rows->ids), what),
                                   .labels = array_new(batch_rows, sizeof(*rows->labels), what),
                                   .status = array_new(batch_rows, sizeof(*rows->status), what)};
    return rows->at && rows->ids && rows->labels && rows->status ? OK : ERROR_MEMORY;
}

void resident_rows_release(struct resident_rows *rows)
{
    free(rows->at);
    free(rows->ids);
    free(rows->labels);
    free(rows->status);
}

/* Those that stay come first; the others are collected from the end of the list. */
struct missing {
    size_t batch_rows;
    size_t kept, own;
    struct resident_rows *rows;
};

static uint32_t miss(struct resident_set *set, struct missing *missing, int64_t id,
                     int64_t sequence, bool may_stay, size_t at)
{
    uint32_t place = may_stay ? add(set, id, sequence) : NO_PLACE;
    if (place != NO_PLACE)
        missing->rows->at[missing->kept++] = at;
    else
        missing->rows->at[missing->batch_rows - ++missing->own] = at;
    return place;
}

/* The slot's own places follow the order of the list. */
static void finish(const struct resident_set *set, const struct missing *missing,
                   const int64_t *ids, size_t slot, uint32_t *places)
{
    struct resident_rows *rows = missing->rows;
    size_t own_at = missing->batch_rows - missing->own;
    rows->kept = missing->kept;
    rows->count = missing->kept + missing->own;
    for (size_t i = 0; i < missing->own; i++) {
        size_t at = rows->at[own_at + i]; /* not overwritten yet: kept + own <= B */
        rows->at[missing->kept + i] = at;
        places[at] = resident_set_own(set, slot) + (uint32_t)i;
    }
    for (size_t i = 0; i < rows->count; i++)
        rows->ids[i] = ids[rows->at[i]];
}

void resident_set_find(struct resident_set *set, const int64_t *ids, size_t count, int64_t sequence,
                       size_t slot, uint32_t *ret_places, double *labels, enum row_status *status,
                       struct resident_rows *ret_missing)
{
    struct missing missing = {.batch_rows = set->batch_rows, .rows = ret_missing};
    pthread_mutex_lock(&set->lock);
    ret_missing->first = set->count;
    for (size_t i = 0; i < count; i++) {
        uint32_t place = place_of(set, ids[i]);
        bool is_there = place != NO_PLACE;
        if (is_there && set->status[place] != PENDING && set->sequences[place] < sequence) {
            labels[i] = set->labels[place];
            status[i] = (enum row_status)set->status[place];
        } else if (!is_there || set->sequences[place] != sequence) {
            place = miss(set, &missing, ids[i], sequence, !is_there, i);
        }
        ret_places[i] = place;
    }
    pthread_mutex_unlock(&set->lock);
    finish(set, &missing, ids, slot, ret_places);
}

void resident_set_fetched(struct resident_set *set, const struct resident_rows *missing,
                          const uint32_t *places, size_t count, double *labels,
                          enum row_status *status)
{
    for (size_t i = missing->kept; i < missing->count; i++) {
        labels[missing->at[i]] = missing->labels[i];
        status[missing->at[i]] = missing->status[i];
    }
    atomic_fetch_add(&set->copied, (int64_t)missing->count);
    if (missing->kept == 0)
        return;
    for (size_t i = 0; i < count; i++) { /* a repeated id has one place */
        size_t kept = places[i] - (size_t)missing->first;
        if (places[i] < missing->first || kept >= missing->kept)
            continue;
        labels[i] = missing->labels[kept];
        status[i] = missing->status[kept];
    }
    pthread_mutex_lock(&set->lock);
    for (size_t i = 0; i < missing->kept; i++) {
        set->labels[missing->first + i] = missing->labels[i];
        set->status[missing->first + i] = (uint8_t)missing->status[i];
    }
    pthread_mutex_unlock(&set->lock);
    atomic_fetch_add(&set->resident, (int64_t)missing->kept);
}

/* ---- a set -------------------------------------------------------------- */

uint64_t resident_set_bytes(const struct store_info *store, int64_t rows, size_t batch_rows,
                            size_t slots)
{
    uint64_t bytes, own;
    uint64_t row_bytes = store->features * element_bytes(store->element);
    if (__builtin_mul_overflow((uint64_t)batch_rows, slots, &own) ||
        __builtin_add_overflow((uint64_t)rows, own, &bytes) || bytes > RESIDENT_ROWS_LIMIT ||
        __builtin_mul_overflow(bytes, row_bytes, &bytes))
        return UINT64_MAX;
    return bytes;
}

static enum error make_lists(struct resident_set *set, const struct store_info *store)
{
    static const char what[] = "the places of rows on a device";
    set->ids = array_new(set->limit, sizeof(*set->ids), what);
    set->sequences = array_new(set->limit, sizeof(*set->sequences), what);
    set->labels = array_new(set->limit, sizeof(*set->labels), what);
    set->status = array_new(set->limit, sizeof(*set->status), what);
    if (!set->ids || !set->sequences || !set->labels || !set->status)
        return ERROR_MEMORY;
    if (store->id_column)
        return hash_table_reserve(&set->table, set->limit, NULL, NULL, what);
    set->row_limit = store->rows;
    set->by_row = array_new((size_t)store->rows, sizeof(*set->by_row), what);
    return set->by_row ? OK : ERROR_MEMORY;
}

enum error resident_set_new(const struct store_info *store, struct device *device, int64_t rows,
                            size_t batch_rows, size_t slots, struct resident_set **ret_set)
{
    uint64_t bytes = resident_set_bytes(store, rows, batch_rows, slots);
    if (bytes > SIZE_MAX / 2)
        return error_set(ERROR_MEMORY, "%lld rows are more than a device holds", (long long)rows);
    struct resident_set *set = array_new(1, sizeof(*set), "the rows on a device");
    if (!set)
        return ERROR_MEMORY;
    pthread_mutex_init(&set->lock, NULL);
    set->device = device;
    set->batch_rows = batch_rows;
    set->limit = (uint32_t)rows;
    enum error error = make_lists(set, store);
    if (!error)
        error = device_memory_new(device, (size_t)bytes, &set->memory);
    if (error)
        resident_set_free(set);
    else
        *ret_set = set;
    return error;
}

void resident_set_free(struct resident_set *set)
{
    if (!set)
        return;
    device_memory_free(set->device, set->memory);
    hash_table_release(&set->table);
    free(set->by_row);
    free(set->ids);
    free(set->sequences);
    free(set->labels);
    free(set->status);
    pthread_mutex_destroy(&set->lock);
    free(set);
}

void *resident_set_memory(const struct resident_set *set)
{
    return set->memory;
}

uint32_t resident_set_own(const struct resident_set *set, size_t slot)
{
    return set->limit + (uint32_t)(slot * set->batch_rows);
}

int64_t resident_set_count(const struct resident_set *set)
{
    return set ? atomic_load(&((struct resident_set *)set)->resident) : 0;
}

int64_t resident_set_copied(const struct resident_set *set)
{
    return set ? atomic_load(&((struct resident_set *)set)->copied) : 0;
}

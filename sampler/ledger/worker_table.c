/* SPDX-License-Identifier: MIT */
#include "sampler/ledger/worker_table.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/keyed_hash.h"

#define SLICE_MS (WORKER_RATE_SECONDS * 1000 / WORKER_RATE_SLOTS)

static void record_free(struct worker_record *record)
{
    intervals_release(&record->used);
    intervals_release(&record->acked);
    free(record->name);
    free(record);
}

void worker_table_release(struct worker_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        record_free(table->records[i]);
    free(table->records);
    hash_table_release(&table->names);
    forgotten_workers_release(&table->forgotten);
    *table = (struct worker_table){0};
}

bool worker_name_is_valid(const char *name)
{
    size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                 "._:-");
    return length > 0 && length < WORKER_NAME_BYTES && name[length] == '\0';
}

struct worker_record *worker_table_get(const struct worker_table *table, uint32_t worker)
{
    struct worker_record *record = table->records[worker];
    if (record->withdrawals != table->withdrawals) {
        record->withdrawals = table->withdrawals;
        record->leased = 0;
        record->leases = LEASE_LIST_EMPTY;
    }
    return record;
}

static inline uint64_t hash_of(const void *keys, uint32_t worker)
{
    return keyed_hash_name(((const struct worker_table *)keys)->records[worker]->name);
}

struct name_key {
    const struct worker_table *table;
    const char *name;
};

static inline bool has_name(const void *key, uint32_t worker)
{
    const struct name_key *wanted = key;
    return strcmp(wanted->table->records[worker]->name, wanted->name) == 0;
}

uint32_t worker_table_find(const struct worker_table *table, const char *name)
{
    struct name_key key = {.table = table, .name = name};
    return hash_table_find(&table->names, keyed_hash_name(name), has_name, &key);
}

/* ---- who is idle and who is busy ----------------------------------------------- */

static void leave(struct worker_list *list, struct worker_record *record)
{
    *(record->before ? &record->before->after : &list->first) = record->after;
    *(record->after ? &record->after->before : &list->last) = record->before;
}

static void join(struct worker_list *list, struct worker_record *record)
{
    record->before = list->last;
    record->after = NULL;
    *(list->last ? &list->last->after : &list->first) = record;
    list->last = record;
}

void worker_table_rank_last(struct worker_table *table, uint32_t worker)
{
    struct worker_record *record = worker_table_get(table, worker);
    if (record->leased > 0 || record == table->idle.last)
        return;
    leave(&table->idle, record);
    join(&table->idle, record);
}

void worker_table_see(struct worker_table *table, uint32_t worker, int64_t now_ms)
{
    table->records[worker]->seen_ms = now_ms;
    worker_table_rank_last(table, worker);
}

void worker_table_lease(struct worker_table *table, uint32_t worker)
{
    struct worker_record *record = worker_table_get(table, worker);
    if (record->leased++ > 0)
        return;
    leave(&table->idle, record);
    join(&table->busy, record);
}

void worker_table_disown(struct worker_table *table, uint32_t worker)
{
    struct worker_record *record = worker_table_get(table, worker);
    if (--record->leased > 0)
        return;
    leave(&table->busy, record);
    join(&table->idle, record);
}

void worker_table_withdraw(struct worker_table *table)
{
    struct worker_list *idle = &table->idle, *busy = &table->busy;
    table->withdrawals++;
    if (!busy->first)
        return;
    busy->first->before = idle->last;
    *(idle->last ? &idle->last->after : &idle->first) = busy->first;
    idle->last = busy->last;
    *busy = (struct worker_list){.first = NULL};
}

/* ---- new ones ----------------------------------------------------------- */

enum error worker_table_room(const struct worker_table *table, const char *name,
                             uint32_t *ret_number)
{
    if (table->count >= WORKER_TABLE_LIMIT && !table->idle.first)
        return error_set(
            ERROR_MEMORY,
            "worker=%s: this stream has %d workers with leased batches, the most that it "
            "keeps; it accepts another once one of them has acked or released its batches",
            name, WORKER_TABLE_LIMIT);
    *ret_number =
        table->count < WORKER_TABLE_LIMIT ? (uint32_t)table->count : table->idle.first->number;
    return OK;
}

int64_t worker_table_forgotten_below(const struct worker_table *table, const char *name)
{
    return forgotten_workers_find(&table->forgotten, forgotten_workers_hash(name, strlen(name)));
}

static enum error make_record(const char *name, size_t length, int64_t forgotten_below,
                              struct worker_record **ret_record)
{
    struct worker_record *record = array_new(1, sizeof(*record), "a worker of a stream");
    if (!record)
        return ERROR_MEMORY;
    enum error error = OK;
    if (!(record->name = strndup(name, length)))
        error = error_set_memory(length, "the name of a worker");
    if (!error && forgotten_below > 0)
        error = intervals_reserve(&record->used, 1);
    if (error) {
        record_free(record);
        return error;
    }
    if (forgotten_below > 0)
        intervals_add(&record->used, 0, forgotten_below);
    record->forgotten_below = forgotten_below;
    record->leases = LEASE_LIST_EMPTY;
    record->seen_ms = -1;
    *ret_record = record;
    return OK;
}

static enum error reserve(struct worker_table *table, uint32_t number)
{
    void *records = table->records;
    if (number < table->count)
        return forgotten_workers_reserve(&table->forgotten, 1);
    if (table->count >= WORKER_TABLE_LIMIT)
        return error_set(ERROR_MEMORY, "a stream knows at most %d workers", WORKER_TABLE_LIMIT);
    enum error error = hash_table_reserve(&table->names, table->count + 1, hash_of, table,
                                          "the workers of a stream");
    if (!error)
        error = array_grow(&records, &table->capacity, table->count + 1,
                           sizeof(struct worker_record *), "the workers of a stream");
    table->records = records;
    return error;
}

static void forget(struct worker_table *table, struct worker_record *record)
{
    size_t used = record->used.count;
    if (used > 0)
        forgotten_workers_add(&table->forgotten,
                              forgotten_workers_hash(record->name, strlen(record->name)),
                              intervals_at(&record->used, used - 1)->end);
    hash_table_remove(&table->names, record->number, hash_of, table);
    leave(&table->idle, record);
    record_free(record);
}

enum error worker_table_add(struct worker_table *table, uint32_t number, const char *name,
                            size_t length, int64_t forgotten_below, uint64_t done_since)
{
    struct worker_record *record;
    enum error error = reserve(table, number);
    if (!error)
        error = make_record(name, length, forgotten_below, &record);
    if (error)
        return error;
    if (number < table->count)
        forget(table, table->records[number]);
    else
        table->count++;
    record->number = number;
    record->done_since = done_since;
    record->withdrawals = table->withdrawals;
    table->records[number] = record;
    hash_table_put(&table->names, hash_of(table, number), number);
    join(&table->idle, record);
    return OK;
}

/* ---- rates -------------------------------------------------------------- */

void worker_record_count(struct worker_record *record, int64_t now_ms)
{
    int64_t slice = now_ms / SLICE_MS;
    int64_t skipped = slice - record->rate_slice;
    if (skipped < 0)
        return; /* an ack that waited for the lock for more than a slice */
    if (skipped > WORKER_RATE_SLOTS)
        skipped = WORKER_RATE_SLOTS;
    for (int64_t i = 0; i < skipped; i++)
        record->rate_counts[(slice - i) % WORKER_RATE_SLOTS] = 0;
    record->rate_slice = slice;
    record->rate_counts[slice % WORKER_RATE_SLOTS]++;
}

double worker_record_rate(const struct worker_record *record, int64_t now_ms)
{
    int64_t slice = now_ms / SLICE_MS;
    int64_t sum = 0;
    for (int64_t i = 0; i < WORKER_RATE_SLOTS; i++) {
        int64_t number = record->rate_slice - i;
        if (number >= 0 && number > slice - WORKER_RATE_SLOTS)
            sum += record->rate_counts[number % WORKER_RATE_SLOTS];
    }
    return (double)sum / WORKER_RATE_SECONDS;
}

/* SPDX-License-Identifier: MIT */
#include "loader/store/row_cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/store/fetch_call.h"
#include "loader/store/id_index.h"
#include "loader/store/row_filler.h"
#include "loader/store/row_slots.h"

#define INDEX_BYTES 19 /* per row, unless ids are consecutive: id_index.h */
#define AHEAD 8        /* rows that are prefetched */
#define LINE_BYTES 64

/* Rows are the filler's, or those that the store kept when opened. */
struct row_cache {
    struct store store;  /* first */
    struct store *inner; /* borrowed */
    struct row_filler *filler;
    struct row_slots kept;
    const struct id_index *kept_ids; /* NULL: there is a filler */
};

/* Rows to fetch from the inner store, in one call. */
struct misses {
    size_t *at;     /* [capacity], where they belong */
    int64_t *ids;   /* [capacity] */
    double *labels; /* [capacity] */
    enum row_status *status;
    int64_t *lengths;
    uint8_t *features; /* [capacity, row_bytes] */
    size_t count, capacity;
    bool are_wanted; /* else a missing id is in no store */
};

struct cache_reader {
    struct reader reader; /* first */
    struct reader *inner; /* owned; for missing rows, and for messages about bad ones; NULL: not
                           * needed yet */
    struct misses misses;
};

uint64_t row_cache_row_bytes(size_t features, enum element element, bool ids)
{
    return row_slots_stride(features, element) + (ids ? INDEX_BYTES : 0);
}

/* Overhead of a row that may differ in length, without its features. */
static uint64_t varying_row_bytes(const struct store_info *info)
{
    return ROW_SLOTS_VARYING_BYTES + (info->id_column ? INDEX_BYTES : 0);
}

/* ---- life --------------------------------------------------------------- */

static void row_cache_close(struct store *store)
{
    struct row_cache *cache = (struct row_cache *)store;
    row_filler_stop(cache->filler);
    row_slots_release(&cache->kept);
    free(cache);
}

/* A store that kept its rows when opened hands them over. */
static bool take_rows(struct row_cache *cache)
{
    const struct store_ops *ops = cache->inner->ops;
    return ops->take_rows && ops->take_rows(cache->inner, &cache->kept, &cache->kept_ids);
}

static const struct store_ops row_cache_ops;

/* The part of the limit for rows that differ in length: the indexes cover all rows. */
static uint64_t varying_bytes(const struct store_info *info, uint64_t limit_bytes)
{
    uint64_t rows = (uint64_t)info->rows;
    uint64_t all = info->elements * element_bytes(info->element) + rows * sizeof(double);
    uint64_t index = rows * (varying_row_bytes(info) - sizeof(double));
    uint64_t left = limit_bytes > index ? limit_bytes - index : 1;
    return left < all ? left : all;
}

static enum error start_filler(struct row_cache *cache, uint64_t limit_bytes,
                               uint64_t reserve_bytes)
{
    const struct store_info *info = store_info(cache->inner);
    if (info->lengths != LENGTHS_ALIKE)
        return row_filler_start(cache->inner, info->rows, varying_bytes(info, limit_bytes),
                                reserve_bytes, &cache->filler);
    uint64_t each = row_cache_row_bytes(info->features, info->element, info->id_column != NULL);
    int64_t room =
        limit_bytes / each < (uint64_t)info->rows ? (int64_t)(limit_bytes / each) : info->rows;
    return row_filler_start(cache->inner, room > 0 ? room : 1, 0, reserve_bytes, &cache->filler);
}

enum error row_cache_open(struct store *inner, uint64_t limit_bytes, uint64_t reserve_bytes,
                          struct store **ret_cache)
{
    const struct store_info *info = store_info(inner);
    struct row_cache *cache = array_new(1, sizeof(*cache), "a row cache");
    char *uri = strdup(info->uri);
    if (!cache || !uri) {
        free(cache);
        free(uri);
        return error_set_memory(sizeof(*cache), "a row cache");
    }
    cache->store = (struct store){.ops = &row_cache_ops, .info = *info};
    cache->store.info.uri = uri;
    cache->inner = inner;
    enum error error = OK;
    if (!take_rows(cache))
        error = start_filler(cache, limit_bytes, reserve_bytes);
    if (error)
        store_close(&cache->store);
    else
        *ret_cache = &cache->store;
    return error;
}

enum error row_cache_wait(struct store *store)
{
    const struct row_cache *cache = (const struct row_cache *)store;
    return cache->filler ? row_filler_wait(cache->filler) : OK;
}

/* ---- use ---------------------------------------------------------------- */

static enum error row_cache_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                                 void *context)
{
    return store_scan(((struct row_cache *)store)->inner, columns, sink, context);
}

/* ---- lookup ------------------------------------------------------------- */

static int64_t find(const struct row_cache *cache, int64_t id)
{
    return cache->filler ? row_filler_find(cache->filler, id) : id_index_row(cache->kept_ids, id);
}

static bool has_all(const struct row_cache *cache)
{
    return !cache->filler || row_filler_has_all(cache->filler);
}

static const struct row_slots *slots_of(const struct row_cache *cache)
{
    return cache->filler ? row_filler_slots(cache->filler) : &cache->kept;
}

static bool is_bad(const struct row_cache *cache, int64_t row)
{
    return cache->filler ? row_filler_is_bad(cache->filler, row)
                         : row_slots_is_bad(&cache->kept, (uint64_t)row);
}

/* ---- readers ------------------------------------------------------------ */

static void cache_reader_close(struct reader *base)
{
    struct cache_reader *reader = (struct cache_reader *)base;
    reader_close(reader->inner);
    free(reader->misses.at);
    free(reader->misses.ids);
    free(reader->misses.labels);
    free(reader->misses.status);
    free(reader->misses.lengths);
    free(reader->misses.features);
    free(reader);
}

static enum error cache_reader_open(struct store *store, struct reader **ret_reader)
{
    struct cache_reader *reader = array_new(1, sizeof(*reader), "a reader of a row cache");
    (void)store;
    if (!reader)
        return ERROR_MEMORY;
    *ret_reader = &reader->reader;
    return OK;
}

static enum error fetch_inner(struct cache_reader *reader, const int64_t *ids, size_t count,
                              void *features, size_t stride_bytes, double *labels,
                              enum row_status *status, int64_t *lengths)
{
    const struct row_cache *cache = (const struct row_cache *)reader->reader.store;
    enum error error = reader->inner ? OK : reader_open(cache->inner, &reader->inner);
    return error ? error
                 : reader_fetch_lengths(reader->inner, ids, count, features, stride_bytes, labels,
                                        status, lengths);
}

/* ---- misses ------------------------------------------------------------- */

static enum error misses_reserve(struct misses *misses, size_t count, size_t row_bytes)
{
    static const char what[] = "rows on their way to a row cache's reader";
    struct misses old = *misses;
    if (count <= old.capacity)
        return OK;
    *misses = (struct misses){.are_wanted = old.are_wanted,
                              .at = array_new(count, sizeof(*misses->at), what),
                              .ids = array_new(count, sizeof(*misses->ids), what),
                              .labels = array_new(count, sizeof(*misses->labels), what),
                              .status = array_new(count, sizeof(*misses->status), what),
                              .lengths = array_new(count, sizeof(*misses->lengths), what),
                              .features = array_new(count, row_bytes, what),
                              .capacity = count};
    free(old.at);
    free(old.ids);
    free(old.labels);
    free(old.status);
    free(old.lengths);
    free(old.features);
    bool is_there = misses->at && misses->ids && misses->labels && misses->status &&
                    misses->lengths && misses->features;
    misses->capacity = is_there ? count : 0;
    return is_there ? OK : ERROR_MEMORY;
}

/* From the store to their destination; its message about the first bad one counts. */
static enum error fetch_misses(struct cache_reader *reader, struct fetch_call *call)
{
    const struct misses *misses = &reader->misses;
    enum error error =
        fetch_inner(reader, misses->ids, misses->count, misses->features, call->row_bytes,
                    misses->labels, misses->status, misses->lengths);
    for (size_t i = 0; i < misses->count && !error; i++) {
        size_t length = (size_t)misses->lengths[i], bytes = length * call->unit_bytes;
        if (bytes > 0)
            memcpy(fetch_call_slot(call, misses->at[i]), misses->features + i * call->row_bytes,
                   bytes);
        fetch_call_length(call, misses->at[i], length);
        fetch_call_set(call, misses->at[i], misses->status[i], misses->labels[i]);
    }
    return error;
}

/* ---- hits --------------------------------------------------------------- */

static void prefetch(const struct row_cache *cache, int64_t id)
{
    int64_t row = find(cache, id);
    if (row < 0)
        return;
    const struct row_slots *slots = slots_of(cache);
    const uint8_t *slot = row_slots_at(slots, (uint64_t)row);
    size_t bytes = sizeof(double) + row_slots_bytes(slots, (uint64_t)row);
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        __builtin_prefetch(slot + at, 0, 2); /* into L2, which takes more lines at once */
}

/* Fetched again from the store itself, for the message, after the missing rows. */
static enum error refuse_bad(struct cache_reader *reader, struct fetch_call *call, size_t index)
{
    struct misses *misses = &reader->misses;
    double label;
    int64_t length;
    enum row_status status;
    enum error error = misses_reserve(misses, 1, call->row_bytes);
    if (!error)
        error = fetch_inner(reader, &call->ids[index], 1,
                            misses->features + misses->count * call->row_bytes, call->row_bytes,
                            &label, &status, &length);
    if (!error && status == ROW_OK)
        error_set(ERROR_INPUT, "%s: the row with the id %lld was bad when it was cached",
                  reader->reader.store->info.uri, (long long)call->ids[index]);
    if (!error)
        fetch_call_set(call, index, ROW_BAD, 0);
    return error;
}

static enum error take_row(struct cache_reader *reader, struct fetch_call *call, size_t index,
                           int64_t row)
{
    const struct row_cache *cache = (const struct row_cache *)reader->reader.store;
    const struct row_slots *slots = slots_of(cache);
    if (is_bad(cache, row))
        return refuse_bad(reader, call, index);
    const uint8_t *slot = row_slots_at(slots, (uint64_t)row);
    double label;
    memcpy(&label, slot, sizeof(label));
    size_t bytes = row_slots_bytes(slots, (uint64_t)row);
    if (bytes > 0)
        memcpy(fetch_call_slot(call, index), slot + sizeof(label), bytes);
    if (slots->ends)
        fetch_call_length(call, index, bytes / call->unit_bytes);
    fetch_call_set(call, index, ROW_OK, label);
    return OK;
}

static void miss(struct cache_reader *reader, struct fetch_call *call, size_t index)
{
    const struct row_cache *cache = (const struct row_cache *)reader->reader.store;
    struct misses *misses = &reader->misses;
    if (misses->are_wanted) {
        misses->at[misses->count] = index;
        misses->ids[misses->count++] = call->ids[index];
        return;
    }
    fetch_call_miss(call, index, cache->store.info.uri);
}

static enum error prepare_misses(struct cache_reader *reader, size_t count, size_t row_bytes)
{
    const struct row_cache *cache = (const struct row_cache *)reader->reader.store;
    enum error error = cache->filler ? row_filler_check(cache->filler) : OK;
    reader->misses.count = 0;
    reader->misses.are_wanted = !has_all(cache);
    return !error && reader->misses.are_wanted ? misses_reserve(&reader->misses, count, row_bytes)
                                               : error;
}

static enum error cache_reader_fetch(struct reader *base, const int64_t *ids, size_t count,
                                     void *features, size_t stride_bytes, double *labels,
                                     enum row_status *status)
{
    struct cache_reader *reader = (struct cache_reader *)base;
    const struct row_cache *cache = (const struct row_cache *)base->store;
    struct fetch_call call;
    fetch_call_init(&call, base, ids, features, stride_bytes, labels, status);
    enum error error = prepare_misses(reader, count, call.row_bytes);
    if (!error && reader->misses.are_wanted)
        row_filler_await(cache->filler, ids, count);
    for (size_t i = 0; i < count && !error; i++) {
        if (i + AHEAD < count)
            prefetch(cache, ids[i + AHEAD]);
        int64_t row = find(cache, ids[i]);
        if (row < 0)
            miss(reader, &call, i);
        else
            error = take_row(reader, &call, i, row);
    }
    if (!error && reader->misses.count > 0)
        error = fetch_misses(reader, &call);
    return error ? error : fetch_call_finish(&call);
}

/* Labels precede the rows; prefetches all of them at once. */
static bool cache_reader_find(struct reader *base, const int64_t *ids, size_t count,
                              uint32_t *places, double *labels, struct store_memory *ret_memory)
{
    const struct row_cache *cache = (const struct row_cache *)base->store;
    const struct row_slots *slots = slots_of(cache);
    if (slots->ends || (cache->filler && row_filler_check(cache->filler)))
        return false;
    for (size_t i = 0; i < count; i++) {
        int64_t row = find(cache, ids[i]);
        if (row < 0 || row > UINT32_MAX || is_bad(cache, row))
            return false;
        places[i] = (uint32_t)row;
        __builtin_prefetch(row_slots_at(slots, (uint64_t)row), 0, 2);
    }
    for (size_t i = 0; i < count; i++)
        memcpy(&labels[i], row_slots_at(slots, places[i]), sizeof(labels[i]));
    *ret_memory = (struct store_memory){.rows = slots->memory + sizeof(double),
                                        .stride_bytes = slots->stride};
    return true;
}

static bool cache_reader_knows_lengths(const struct reader *base)
{
    const struct row_cache *cache = (const struct row_cache *)base->store;
    return has_all(cache) && slots_of(cache)->ends;
}

static void measure_slots(const struct row_cache *cache, const int64_t *ids, size_t count,
                          int64_t *lengths)
{
    const struct row_slots *slots = slots_of(cache);
    size_t unit = element_bytes(cache->store.info.element);
    for (size_t i = 0; i < count; i++) {
        int64_t row = find(cache, ids[i]);
        lengths[i] = row < 0 ? 0 : (int64_t)(row_slots_bytes(slots, (uint64_t)row) / unit);
    }
}

/* If not all rows are cached, the store measures them without reading, or they are fetched. */
static enum error cache_reader_measure(struct reader *base, const int64_t *ids, size_t count,
                                       int64_t *lengths)
{
    struct cache_reader *reader = (struct cache_reader *)base;
    const struct row_cache *cache = (const struct row_cache *)base->store;
    if (cache_reader_knows_lengths(base)) {
        measure_slots(cache, ids, count, lengths);
        return OK;
    }
    enum error error = reader->inner ? OK : reader_open(cache->inner, &reader->inner);
    return error ? error : reader_lengths(reader->inner, ids, count, lengths);
}

static const struct store_ops row_cache_ops = {
    .scheme = "cache",
    .close = row_cache_close,
    .scan = row_cache_scan,
    .reader_open = cache_reader_open,
    .reader_close = cache_reader_close,
    .fetch = cache_reader_fetch,
    .measure = cache_reader_measure,
    .knows_lengths = cache_reader_knows_lengths,
    .find = cache_reader_find,
};

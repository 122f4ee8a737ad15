/* SPDX-License-Identifier: MIT */
#include "loader/store/row_cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "loader/store/fetch_call.h"
#include "loader/store/id_index.h"
#include "loader/store/row_slots.h"

#define INDEX_BYTES 19 /* a row, where ids are not consecutive: id_index.h */
#define AHEAD 8        /* rows that are prefetched */
#define LINE_BYTES 64

struct row_cache {
    struct store store;  /* first */
    struct store *inner; /* borrowed */
    struct row_slots slots;
    struct id_index own_ids;
    const struct id_index *ids; /* own_ids, or the inner store's */
};

struct cache_reader {
    struct reader reader; /* first */
    struct reader *inner; /* owned; asked for the words about bad rows; NULL without bad rows */
};

uint64_t row_cache_row_bytes(size_t features, enum element element, bool ids)
{
    return row_slots_stride(features, element) + (ids ? INDEX_BYTES : 0);
}

uint64_t row_cache_bytes(const struct store_info *info)
{
    uint64_t rows = (uint64_t)info->rows;
    uint64_t bytes;
    uint64_t each = row_cache_row_bytes(info->features, info->element, info->id_column != NULL);
    return __builtin_mul_overflow(rows, each, &bytes) ? UINT64_MAX : bytes;
}

/* ---- filling ------------------------------------------------------------ */

struct filling {
    struct row_cache *cache;
    int64_t *ids; /* owned; NULL: row numbers */
    int64_t rows;
};

static enum error fill(void *context, const struct store_block *block)
{
    struct filling *filling = context;
    struct row_cache *cache = filling->cache;
    enum error error = OK;
    if ((int64_t)block->rows > cache->store.info.rows - filling->rows)
        return error_set(ERROR_INPUT, "%s has more than the %lld %s it had when it was opened",
                         cache->store.info.uri, (long long)cache->store.info.rows,
                         text_plural(cache->store.info.rows, "row", "rows"));
    for (size_t i = 0; i < block->rows && !error; i++) {
        int64_t row = filling->rows++;
        uint8_t *slot = row_slots_at(&cache->slots, (uint64_t)row);
        size_t row_bytes = cache->slots.row_bytes;
        memcpy(slot, &block->label_values[i], sizeof(double));
        if (row_bytes > 0)
            memcpy(slot + sizeof(double), (const uint8_t *)block->features + i * row_bytes,
                   row_bytes);
        if (filling->ids)
            filling->ids[row] = block->ids[i];
        if (block->status && block->status[i] != ROW_OK)
            error = row_slots_mark_bad(&cache->slots, (uint64_t)row);
    }
    return error;
}

static enum error index_ids(struct row_cache *cache, struct filling *filling)
{
    int64_t twice[2];
    enum error error = id_index_init(&cache->own_ids, filling->ids, filling->rows, twice);
    if (error == ERROR_CONFLICT)
        return error_set(ERROR_INPUT, "%s: rows %lld and %lld both have the id %lld",
                         cache->store.info.uri, (long long)twice[0], (long long)twice[1],
                         (long long)filling->ids[twice[0]]);
    if (error)
        return error;
    filling->ids = NULL; /* the index has them */
    cache->ids = &cache->own_ids;
    return OK;
}

static enum error fill_all(struct row_cache *cache)
{
    const struct store_info *info = &cache->store.info;
    struct filling filling = {.cache = cache};
    enum error error =
        row_slots_map(&cache->slots, info->features, info->element, (uint64_t)info->rows);
    if (error)
        return error;
    if (info->id_column) {
        filling.ids = array_new((size_t)info->rows, sizeof(int64_t), "the ids of a row cache");
        if (!filling.ids)
            return ERROR_MEMORY;
    }
    error = store_scan(cache->inner, SCAN_FEATURES | SCAN_BAD_ROWS, fill, &filling);
    if (!error && filling.rows != info->rows)
        error =
            error_set(ERROR_INPUT, "%s gave %lld %s of %lld", info->uri, (long long)filling.rows,
                      text_plural(filling.rows, "row", "rows"), (long long)info->rows);
    if (!error)
        error = index_ids(cache, &filling);
    free(filling.ids);
    return error;
}

/* ---- life --------------------------------------------------------------- */

static void row_cache_close(struct store *store)
{
    struct row_cache *cache = (struct row_cache *)store;
    row_slots_release(&cache->slots);
    id_index_release(&cache->own_ids);
    free(cache);
}

/* A store that kept its rows when it was opened gives them away. */
static bool take_rows(struct row_cache *cache)
{
    const struct store_ops *ops = cache->inner->ops;
    return ops->take_rows && ops->take_rows(cache->inner, &cache->slots, &cache->ids);
}

static const struct store_ops row_cache_ops;

static enum error check_limit(const struct store_info *info, uint64_t limit_bytes)
{
    uint64_t bytes = row_cache_bytes(info);
    if (bytes <= limit_bytes && bytes <= PTRDIFF_MAX)
        return OK;
    return error_set(ERROR_MEMORY, "a cache of %s needs %.1f MB, the limit is %.1f MB", info->uri,
                     (double)bytes / 1e6, (double)limit_bytes / 1e6);
}

enum error row_cache_open(struct store *inner, uint64_t limit_bytes, struct store **ret_cache)
{
    enum error error = check_limit(store_info(inner), limit_bytes);
    if (error)
        return error;
    struct row_cache *cache = array_new(1, sizeof(*cache), "a row cache");
    char *uri = strdup(store_info(inner)->uri);
    if (!cache || !uri) {
        free(cache);
        free(uri);
        return error_set_memory(sizeof(*cache), "a row cache");
    }
    cache->store = (struct store){.ops = &row_cache_ops, .info = *store_info(inner)};
    cache->store.info.uri = uri;
    cache->inner = inner;
    if (!take_rows(cache))
        error = fill_all(cache);
    if (error)
        store_close(&cache->store);
    else
        *ret_cache = &cache->store;
    return error;
}

/* ---- use ---------------------------------------------------------------- */

static enum error row_cache_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                                 void *context)
{
    return store_scan(((struct row_cache *)store)->inner, columns, sink, context);
}

static enum error cache_reader_open(struct store *store, struct reader **ret_reader)
{
    const struct row_cache *cache = (const struct row_cache *)store;
    struct cache_reader *reader = array_new(1, sizeof(*reader), "a reader of a row cache");
    if (!reader)
        return ERROR_MEMORY;
    enum error error = cache->slots.bad ? reader_open(cache->inner, &reader->inner) : OK;
    if (error) {
        free(reader);
        return error;
    }
    *ret_reader = &reader->reader;
    return OK;
}

static void cache_reader_close(struct reader *base)
{
    struct cache_reader *reader = (struct cache_reader *)base;
    reader_close(reader->inner);
    free(reader);
}

static void prefetch(const struct row_cache *cache, int64_t id)
{
    int64_t row = id_index_row(cache->ids, id);
    if (row < 0)
        return;
    const uint8_t *slot = row_slots_at(&cache->slots, (uint64_t)row);
    for (size_t at = 0; at < cache->slots.stride; at += LINE_BYTES)
        __builtin_prefetch(slot + at, 0, 2); /* into the second cache: it takes more at once */
}

/* Fetched again from the store itself, for the message. */
static enum error refuse_bad(struct cache_reader *reader, struct fetch_call *call, size_t index)
{
    double label;
    enum row_status status;
    enum error error =
        reader_fetch(reader->inner, &call->ids[index], 1, fetch_call_slot(call, index),
                     call->stride_bytes, &label, &status);
    if (!error)
        fetch_call_set(call, index, ROW_BAD, 0);
    return error;
}

static enum error take_row(struct cache_reader *reader, struct fetch_call *call, size_t index)
{
    const struct row_cache *cache = (const struct row_cache *)reader->reader.store;
    int64_t row = id_index_row(cache->ids, call->ids[index]);
    if (row < 0) {
        error_set(ERROR_INPUT, "%s has no row with the id %lld", cache->store.info.uri,
                  (long long)call->ids[index]);
        fetch_call_set(call, index, ROW_MISSING, 0);
        return OK;
    }
    if (row_slots_is_bad(&cache->slots, (uint64_t)row))
        return refuse_bad(reader, call, index);
    const uint8_t *slot = row_slots_at(&cache->slots, (uint64_t)row);
    double label;
    memcpy(&label, slot, sizeof(label));
    if (cache->slots.row_bytes > 0)
        memcpy(fetch_call_slot(call, index), slot + sizeof(label), cache->slots.row_bytes);
    fetch_call_set(call, index, ROW_OK, label);
    return OK;
}

static enum error cache_reader_fetch(struct reader *base, const int64_t *ids, size_t count,
                                     void *features, size_t stride_bytes, double *labels,
                                     enum row_status *status)
{
    struct cache_reader *reader = (struct cache_reader *)base;
    const struct row_cache *cache = (const struct row_cache *)base->store;
    struct fetch_call call;
    enum error error = OK;
    fetch_call_init(&call, &base->store->info, ids, features, stride_bytes, labels, status);
    for (size_t i = 0; i < count && !error; i++) {
        if (i + AHEAD < count)
            prefetch(cache, ids[i + AHEAD]);
        error = take_row(reader, &call, i);
    }
    return error ? error : fetch_call_finish(&call);
}

static const struct store_ops row_cache_ops = {
    .scheme = "cache",
    .close = row_cache_close,
    .scan = row_cache_scan,
    .reader_open = cache_reader_open,
    .reader_close = cache_reader_close,
    .fetch = cache_reader_fetch,
};

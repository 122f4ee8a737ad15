/* SPDX-License-Identifier: MIT */
#include "loader/cache/kept_store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/log.h"
#include "loader/cache/cache_builder.h"
#include "loader/column/feature_recipe.h"
#include "loader/store/row_slots.h"

struct kept_store {
    struct store store; /* first */
    struct cache_place place;
    enum error (*open)(const char *uri, uint64_t cache_bytes, struct feature_recipe *recipe,
                       struct store **ret_store);
    struct feature_recipe *recipe; /* for `open`; a reference; NULL: none */
    struct kept_rows *found;       /* owned; found when the store was opened; NULL: none */
    struct cache_builder *builder; /* owned; NULL: none */
    pthread_mutex_t lock;          /* held while `inner` is opened */
    _Atomic(struct store *) inner; /* owned; NULL: not opened yet */
    _Atomic bool is_retired;       /* the cache is damaged, or cannot be read */
};

struct kept_reader {
    struct reader reader;        /* first */
    struct reader *kept, *inner; /* owned; NULL: not opened yet */
};

/* ---- the cache, while it is valid --------------------------------------- */

/* NULL: none. */
static struct kept_rows *kept_of(const struct kept_store *store)
{
    if (atomic_load_explicit(&store->is_retired, memory_order_acquire))
        return NULL;
    return store->found || !store->builder ? store->found : cache_builder_kept(store->builder);
}

/* This thread's message says what is wrong with the cache; only the first is logged. */
static void retire(struct kept_store *store, const struct kept_rows *kept, enum error why)
{
    bool is_damaged = why == ERROR_INPUT; /* others may still read it where we get EMFILE or EIO */
    if (atomic_exchange(&store->is_retired, true))
        return;
    if (is_damaged)
        kept_rows_remove(kept);
    log_warning("%s; %srows come from %s itself", error_message(),
                is_damaged ? "it was removed, " : "", store->store.info.uri);
}

/* May the store itself still have the rows? */
static bool is_of_cache(enum error error)
{
    return error && error != ERROR_MEMORY && error != ERROR_CANCELLED;
}

/* ---- the store itself --------------------------------------------------- */

static bool same_texts(const char *const *a, size_t a_count, const char *const *b, size_t b_count)
{
    bool same = a_count == b_count;
    for (size_t i = 0; i < a_count && same; i++)
        same = strcmp(a[i], b[i]) == 0;
    return same;
}

/* Is the opened store the one that the cache was made from? */
static enum error check_inner(const struct kept_store *store, const struct store *inner)
{
    const struct store_info *then = &store->store.info, *now = store_info(inner);
    struct cache_key key;
    enum error error = cache_key_make(&store->place.source, &key);
    if (error)
        return error;
    if (cache_key_equal(&key, &store->place.key) && now->rows == then->rows &&
        now->features == then->features && now->lengths == then->lengths &&
        now->elements == then->elements && now->element == then->element &&
        now->label_kind == then->label_kind &&
        same_texts(now->label_texts, now->label_text_count, then->label_texts,
                   then->label_text_count))
        return OK;
    return error_set(ERROR_INPUT, "%s is not what it was when its rows were kept", then->uri);
}

static enum error open_inner(struct kept_store *store)
{
    struct store *inner = NULL;
    enum error error = store->open(store->place.source.uri, 0, store->recipe, &inner);
    if (!error)
        error = check_inner(store, inner);
    if (error) {
        struct error_report report;
        error_report_take(error, &report);
        store_close(inner);
        return error_restore(&report);
    }
    atomic_store_explicit(&store->inner, inner, memory_order_release);
    return OK;
}

static enum error borrow_inner(struct kept_store *store, struct store **ret_inner)
{
    enum error error = OK;
    *ret_inner = atomic_load_explicit(&store->inner, memory_order_acquire);
    if (*ret_inner)
        return OK;
    pthread_mutex_lock(&store->lock);
    if (!atomic_load(&store->inner))
        error = open_inner(store);
    pthread_mutex_unlock(&store->lock);
    *ret_inner = atomic_load(&store->inner);
    return error;
}

/* ---- rows by id --------------------------------------------------------- */

static enum error kept_reader_open(struct store *base, struct reader **ret_reader)
{
    struct kept_reader *reader = array_new(1, sizeof(*reader), "a reader of a row cache");
    (void)base;
    if (!reader)
        return ERROR_MEMORY;
    *ret_reader = &reader->reader;
    return OK;
}

static void kept_reader_close(struct reader *base)
{
    struct kept_reader *reader = (struct kept_reader *)base;
    reader_close(reader->kept);
    reader_close(reader->inner);
    free(reader);
}

static enum error reader_of_inner(struct kept_reader *reader)
{
    struct store *inner = NULL;
    if (reader->inner)
        return OK;
    enum error error = borrow_inner((struct kept_store *)reader->reader.store, &inner);
    return error ? error : reader_open(inner, &reader->inner);
}

static enum error kept_reader_fetch(struct reader *base, const int64_t *ids, size_t count,
                                    void *features, size_t stride_bytes, double *labels,
                                    enum row_status *status)
{
    struct kept_reader *reader = (struct kept_reader *)base;
    struct kept_store *store = (struct kept_store *)base->store;
    struct kept_rows *kept = kept_of(store);
    enum error error = ERROR_NOT_FOUND;
    if (kept) {
        error = reader->kept ? OK : reader_open(kept->store, &reader->kept);
        if (!error)
            error = reader_fetch_as(reader->kept, base, 0, ids, count, features, stride_bytes,
                                    labels, status);
        if (is_of_cache(error))
            retire(store, kept, error);
    }
    if (!is_of_cache(error))
        return error;
    error = reader_of_inner(reader);
    return error ? error
                 : reader_fetch_as(reader->inner, base, 0, ids, count, features, stride_bytes,
                                   labels, status);
}

/* From the cache, if it can be opened: it has them in memory. */
static enum error kept_reader_measure(struct reader *base, const int64_t *ids, size_t count,
                                      int64_t *lengths)
{
    struct kept_reader *reader = (struct kept_reader *)base;
    struct kept_rows *kept = kept_of((struct kept_store *)base->store);
    enum error error = ERROR_NOT_FOUND;
    if (kept)
        error = reader->kept ? OK : reader_open(kept->store, &reader->kept);
    if (!error)
        return reader_lengths(reader->kept, ids, count, lengths);
    error = reader_of_inner(reader);
    return error ? error : reader_lengths(reader->inner, ids, count, lengths);
}

static bool kept_reader_knows_lengths(const struct reader *base)
{
    return kept_of((const struct kept_store *)base->store) != NULL;
}

/* ---- all rows ----------------------------------------------------------- */

/* Skips rows that were already delivered. */
struct passing {
    store_sink *sink;
    void *context;
    const struct store_info *info;
    size_t done, skip; /* rows handed out; rows to skip first */
    bool has_failed;   /* the sink failed: the cache is not damaged */
};

static void skip_codes(struct store_codes *codes, size_t rows)
{
    if (codes->codes)
        codes->codes += rows;
}

static void skip_rows(struct store_block *block, size_t rows, const struct store_info *info)
{
    size_t bytes = 0;
    for (size_t i = 0; i < rows; i++)
        bytes += store_block_row_bytes(block, i, info);
    block->rows -= rows;
    block->first_row += (int64_t)rows;
    block->ids += rows;
    block->labels = block->labels ? block->labels + rows : NULL;
    block->weights = block->weights ? block->weights + rows : NULL;
    block->groups = block->groups ? block->groups + rows : NULL;
    skip_codes(&block->label_codes, rows);
    skip_codes(&block->group_codes, rows);
    block->label_values = block->label_values ? block->label_values + rows : NULL;
    if (block->features)
        block->features = (const uint8_t *)block->features + bytes;
    block->lengths = block->lengths ? block->lengths + rows : NULL;
    block->status = block->status ? block->status + rows : NULL;
}

static enum error pass(void *context, const struct store_block *given)
{
    struct passing *passing = context;
    struct store_block block = *given;
    size_t skip = passing->skip < block.rows ? passing->skip : block.rows;
    passing->skip -= skip;
    if (skip == block.rows)
        return OK;
    skip_rows(&block, skip, passing->info);
    enum error error = passing->sink(passing->context, &block);
    passing->has_failed = error != OK;
    passing->done += block.rows;
    return error;
}

/* From the cache if there is one, or will be: no store is read twice at a time. */
static enum error kept_store_scan(struct store *base, enum scan_columns columns, store_sink *sink,
                                  void *context)
{
    struct kept_store *store = (struct kept_store *)base;
    struct store *inner = NULL;
    struct passing passing = {.sink = sink, .context = context, .info = &base->info};
    enum error error = store->builder ? cache_builder_wait(store->builder) : OK;
    struct kept_rows *kept = error ? NULL : kept_of(store);
    if (kept) {
        error = store_scan(kept->store, columns, pass, &passing);
        if (passing.has_failed || !is_of_cache(error))
            return error;
        retire(store, kept, error);
        error = OK;
    }
    if (!error)
        error = borrow_inner(store, &inner);
    passing.skip = passing.done;
    return error ? error : store_scan(inner, columns, pass, &passing);
}

/* ---- life --------------------------------------------------------------- */

static bool kept_store_take_rows(struct store *base, struct row_slots *ret_slots,
                                 const struct id_index **ret_ids)
{
    struct store *inner = atomic_load(&((struct kept_store *)base)->inner);
    return inner && inner->ops->take_rows && inner->ops->take_rows(inner, ret_slots, ret_ids);
}

static enum error kept_store_locate(struct store *base, int64_t row, char out[STORE_PLACE_BYTES])
{
    struct store *inner = NULL;
    enum error error = borrow_inner((struct kept_store *)base, &inner);
    if (!error)
        store_locate(inner, row, out);
    return error;
}

static void release(void *context)
{
    struct kept_store *store = context;
    kept_rows_close(store->found);
    store_close(atomic_load(&store->inner));
    free(store->place.rows);
    free(store->place.lock);
    cache_folder_release(&store->place.folder);
    cache_source_release(&store->place.source);
    feature_recipe_free(store->recipe);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static void kept_store_close(struct store *base)
{
    struct kept_store *store = (struct kept_store *)base;
    if (store->builder)
        cache_builder_stop(store->builder, release, store);
    else
        release(store);
}

static const struct store_ops kept_store_ops = {
    .scheme = "kept",
    .take_rows = kept_store_take_rows,
    .close = kept_store_close,
    .scan = kept_store_scan,
    .reader_open = kept_reader_open,
    .reader_close = kept_reader_close,
    .fetch = kept_reader_fetch,
    .measure = kept_reader_measure,
    .knows_lengths = kept_reader_knows_lengths,
    .locate = kept_store_locate,
};

/* ---- opening ------------------------------------------------------------ */

static enum error find_place(struct cache_place *place, const struct kept_store_options *options)
{
    enum error error = cache_folder_init(&place->folder, options->folder, options->limit_bytes);
    if (!error)
        error = cache_key_make(&place->source, &place->key);
    if (error)
        return error;
    place->rows = cache_folder_rows(&place->folder, &place->key);
    place->lock = cache_folder_lock(&place->folder, &place->key);
    return place->rows && place->lock ? OK : ERROR_MEMORY;
}

/* ERROR_NOT_FOUND: there is none, and one may be made. */
static enum error find_cache(struct kept_store *store)
{
    const struct cache_place *place = &store->place;
    enum error error = kept_rows_open(place->rows, &place->key, place->source.uri, &store->found);
    if (error != ERROR_INPUT)
        return error;
    log_warning("%s; it is made again", error_message());
    return ERROR_NOT_FOUND;
}

/* Can its rows be kept? */
static bool is_worth_it(const struct store *inner)
{
    const struct store_info *info = store_info(inner);
    if (info->bad_rows > 0)
        log_warning("%s; rows of a store with bad ones are not kept in files", info->first_bad_row);
    return info->features > 0 && info->bad_rows == 0;
}

static enum error describe(struct kept_store *store, const struct store *from)
{
    store->store.info = *store_info(from);
    store->store.info.uri = strdup(store_info(from)->uri);
    return store->store.info.uri ? OK : error_set_memory(1, "a store's URI");
}

/* Rows come from the store while a cache is made from them. */
static enum error begin_cache(struct kept_store *store, struct store *inner)
{
    atomic_store(&store->inner, inner);
    enum error error = describe(store, inner);
    if (!error && cache_builder_start(&store->place, inner, &store->builder))
        log_warning("%s: %s; rows are not kept there", store->place.rows, error_message());
    return error;
}

/* Opens the store itself; *ret_plain: nothing else is needed. `cause`: why there is no cache. */
static enum error open_uncached(struct kept_store *store, const struct kept_store_options *options,
                                enum error cause, struct store **ret_plain)
{
    struct store *inner = NULL;
    struct error_report why;
    error_report_take(cause, &why);
    enum error error =
        options->open(store->place.source.uri, options->cache_bytes, options->recipe, &inner);
    if (error)
        return error;
    if (cause == ERROR_NOT_FOUND && is_worth_it(inner))
        return begin_cache(store, inner);
    if (cause != ERROR_NOT_FOUND)
        log_warning("%s: %s; rows are not kept there", options->folder, why.message);
    *ret_plain = inner;
    return OK;
}

/* Discards what is not needed, keeping this thread's message. */
static enum error discard(struct kept_store *store, enum error error)
{
    struct error_report report;
    error_report_take(error, &report);
    store_close(&store->store);
    return error_restore(&report);
}

enum error kept_store_open(struct cache_source *source, const struct kept_store_options *options,
                           struct store **ret_store)
{
    struct store *plain = NULL;
    struct kept_store *store = array_new(1, sizeof(*store), "a store whose rows are kept");
    if (!store) {
        cache_source_release(source);
        return ERROR_MEMORY;
    }
    pthread_mutex_init(&store->lock, NULL);
    store->store.ops = &kept_store_ops;
    store->open = options->open;
    store->recipe = options->recipe;
    feature_recipe_keep(store->recipe);
    store->place.source = *source;
    enum error error = find_place(&store->place, options);
    if (error == ERROR_NOT_FOUND) /* the folder is missing, not the cache */
        error = ERROR_IO;
    if (!error)
        error = find_cache(store);
    error =
        error ? open_uncached(store, options, error, &plain) : describe(store, store->found->store);
    if (error || plain)
        error = discard(store, error);
    if (!error)
        *ret_store = plain ? plain : &store->store;
    return error;
}

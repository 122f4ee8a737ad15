/* SPDX-License-Identifier: MIT */
#include "loader/cache/cache_builder.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/errand.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/text.h"
#include "common/uri.h"
#include "loader/rows/rows_header.h"
#include "loader/store/store_writer.h"

#define LOOK_MS 200 /* between two checks for a cache that another program makes */
#define WAIT_MS 50
#define STOP_MS 500 /* a thread that goes on for longer after its end was requested is left */

struct cache_builder {
    const struct cache_place *place; /* borrowed */
    struct store *inner;             /* borrowed */
    struct errand *errand;           /* its thread, which uses all of this */
    _Atomic bool cancelled, is_over;
    _Atomic(struct kept_rows *) kept; /* owned */
    void (*release)(void *context);   /* frees what is borrowed; NULL: it is not stopped */
    void *context;
};

/* ---- one cache ---------------------------------------------------------- */

static enum error cancelled(const struct cache_place *place)
{
    return error_set(ERROR_CANCELLED, "%s is not made: the program stops", place->rows);
}

/* Waits until a change of the source's files would get them another time. */
static enum error wait_for_times(const struct cache_place *place)
{
    int64_t now_ns = (int64_t)(clock_wall_seconds() * 1e9);
    int64_t left_ms = (place->key.settled_ns - now_ns) / 1000000 + 1;
    const int64_t most_ms = 3000; /* for a file dated in the future, by another machine's clock */
    if (left_ms <= 0)
        return OK;
    return stop_wait(clock_deadline_ns(left_ms < most_ms ? left_ms : most_ms)) ? cancelled(place)
                                                                               : OK;
}

static enum error make_room(const struct cache_place *place, const struct store_info *info)
{
    struct rows_header header;
    enum error error = rows_header_init(&header, info, place->key.bytes, place->source.uri);
    if (!error)
        error = cache_folder_make_room(&place->folder, header.head.texts_at);
    rows_header_release(&header);
    return error;
}

/* Are the files still those of the key? If so, they were while they were read. */
static enum error check_source(const struct cache_place *place)
{
    struct cache_key now;
    enum error error = cache_key_make(&place->source, &now);
    if (!error && !cache_key_equal(&now, &place->key))
        error = error_set(ERROR_INPUT, "%s changed while its rows were read", place->source.uri);
    return error;
}

static enum error write_rows(const struct cache_place *place, struct store *inner,
                             struct store_writer *writer)
{
    writer->key = place->key.bytes;
    writer->source = place->source.uri;
    enum error error = store_writer_begin(writer, store_info(inner));
    if (!error)
        error = store_scan(inner, SCAN_FEATURES, store_writer_add, writer);
    if (!error)
        error = check_source(place);
    return error ? error : store_writer_commit(writer);
}

static enum error make_file(const struct cache_place *place, struct store *inner)
{
    struct store_writer *writer = NULL;
    struct uri uri = {.path = strdup(place->rows)};
    enum error error = uri.path ? OK : error_set_memory(strlen(place->rows), "a file's name");
    if (!error)
        error = store_writer_open(&store_writer_rows_ops, &uri, NULL, true, &writer);
    if (!error)
        error = write_rows(place, inner, writer);
    store_writer_close(writer);
    uri_release(&uri);
    return error;
}

static enum error make_cache(const struct cache_place *place, struct store *inner)
{
    const struct store_info *info = store_info(inner);
    int64_t begin_ns = clock_now_ns();
    enum error error = wait_for_times(place);
    if (!error)
        error = make_room(place, info);
    if (!error)
        error = make_file(place, inner);
    if (error)
        return error;
    log_info("%s: %" PRId64 " %s kept in %s, in %.1f s", info->uri, info->rows,
             text_plural(info->rows, "row is", "rows are"), place->rows,
             (double)(clock_now_ns() - begin_ns) * 1e-9);
    if (cache_folder_make_room(&place->folder, 0)) /* others may have added caches meanwhile */
        log_debug("%s", error_message());
    return OK;
}

/* ---- among several programs --------------------------------------------- */

static enum error open_it(const struct cache_place *place, struct kept_rows **ret_kept)
{
    return kept_rows_open(place->rows, &place->key, place->source.uri, ret_kept);
}

/* Under the lock: a cache that another program finished before will do. */
static enum error make_locked(struct cache_builder *builder, struct kept_rows **ret_kept)
{
    const struct cache_place *place = builder->place;
    enum error error = open_it(place, ret_kept);
    if (error != ERROR_NOT_FOUND && error != ERROR_INPUT)
        return error;
    error = make_cache(place, builder->inner);
    return error ? error : open_it(place, ret_kept);
}

static enum error await_other(const struct cache_place *place, bool *is_told)
{
    if (!*is_told)
        log_info("%s is being made by another program; until it is there rows come from %s",
                 place->rows, place->source.uri);
    *is_told = true;
    return stop_wait(clock_deadline_ns(LOOK_MS)) ? cancelled(place) : OK;
}

static enum error make(struct cache_builder *builder, struct kept_rows **ret_kept)
{
    const struct cache_place *place = builder->place;
    bool is_told = false;
    enum error error;
    do {
        int lock = -1;
        error = cache_lock_take(place->lock, &lock);
        if (!error) {
            error = make_locked(builder, ret_kept);
            cache_lock_put(place->lock, lock);
            return error;
        }
        if (error != ERROR_CONFLICT)
            return error; /* the folder is gone, or something else has the lock's name */
        error = await_other(place, &is_told);
        if (!error)
            error = open_it(place, ret_kept);
    } while (error == ERROR_NOT_FOUND || error == ERROR_INPUT);
    return error;
}

/* ---- the thread --------------------------------------------------------- */

static void run(void *context)
{
    struct cache_builder *builder = context;
    struct kept_rows *kept = NULL;
    stop_follow(&builder->cancelled);
    enum error error = make(builder, &kept);
    if (!error)
        atomic_store_explicit(&builder->kept, kept, memory_order_release);
    else if (error != ERROR_CANCELLED)
        log_warning("%s: %s; rows come from %s itself", builder->place->rows, error_message(),
                    store_info(builder->inner)->uri);
    atomic_store_explicit(&builder->is_over, true, memory_order_release);
}

static void free_builder(void *context)
{
    struct cache_builder *builder = context;
    kept_rows_close(atomic_load(&builder->kept));
    if (builder->release)
        builder->release(builder->context);
    free(builder);
}

enum error cache_builder_start(const struct cache_place *place, struct store *inner,
                               struct cache_builder **ret_builder)
{
    struct cache_builder *builder = array_new(1, sizeof(*builder), "making a row cache");
    if (!builder)
        return ERROR_MEMORY;
    builder->place = place;
    builder->inner = inner;
    enum error error = errand_new(run, free_builder, builder, &builder->errand);
    if (error) {
        free(builder);
        return error;
    }
    error = errand_start(builder->errand, "tombola-keep");
    if (error)
        errand_leave(builder->errand);
    else
        *ret_builder = builder;
    return error;
}

void cache_builder_stop(struct cache_builder *builder, void (*release)(void *context),
                        void *context)
{
    struct errand *errand = builder->errand;
    builder->release = release;
    builder->context = context;
    atomic_store(&builder->cancelled, true);
    if (!errand_wait(errand, clock_deadline_ns(STOP_MS)))
        log_warning("%s is closed while the thread that makes %s hangs: the thread is left behind "
                    "with the memory it uses, until it returns",
                    store_info(builder->inner)->uri, builder->place->rows);
    errand_leave(errand);
}

struct kept_rows *cache_builder_kept(const struct cache_builder *builder)
{
    return atomic_load_explicit(&builder->kept, memory_order_acquire);
}

enum error cache_builder_wait(const struct cache_builder *builder)
{
    while (!atomic_load_explicit(&builder->is_over, memory_order_acquire)) {
        if (stop_wait(clock_deadline_ns(WAIT_MS)))
            return error_set(ERROR_CANCELLED, "stopped while %s was being made",
                             builder->place->rows);
    }
    return OK;
}

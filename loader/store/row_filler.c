/* SPDX-License-Identifier: MIT */
/*
 * The thread writes slots and then publishes their number (`rows`, released); readers of it
 * (acquired) see the slots, which no longer change. Ids from a column are indexed when the scan is
 * over; until then no row can be found by id.
 */
#include "loader/store/row_filler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/machine.h"
#include "common/stop.h"
#include "common/text.h"
#include "common/thread.h"
#include "loader/store/id_index.h"
#include "loader/store/progress.h"
#include "loader/store/run_fill.h"

#define LOOK_BYTES ((uint64_t)64 << 20) /* between two checks of the free memory */
#define LOOK_MS 1                       /* between two checks for awaited rows */

struct row_filler {
    struct store *inner; /* borrowed */
    struct row_slots slots;
    int64_t room;   /* rows that have slots */
    uint64_t bytes; /* for rows that differ in length */
    uint64_t reserve_bytes;
    _Atomic bool cancelled;
    pthread_t thread;
    bool started;
    int64_t started_ns; /* the scan */
    /* The thread's: */
    int64_t written;         /* rows in their slots */
    uint64_t filled, looked; /* their bytes; `filled` when memory was last checked */
    int64_t *ids;            /* owned; [room]; NULL: row numbers */
    struct id_index index;
    /* Published: */
    _Atomic int64_t rows, moved_ns;         /* the second: when there were last more */
    _Atomic(const struct id_index *) known; /* index of the published rows' ids; NULL: none yet */
    _Atomic bool has_bad, has_all, is_broken;
    enum error error; /* why it failed; read after the thread's end, or is_broken */
    struct error_report report;
    pthread_mutex_t lock; /* for row_filler_wait(), row_filler_await() */
    pthread_cond_t ended;
    bool is_over;
};

/* ---- rows --------------------------------------------------------------- */

/* After the last row that fits. Not a failure: how the scan is told to end. */
static enum error enough(void)
{
    return error_set(ERROR_END, "there is no room for more rows");
}

static bool is_memory_scarce(struct row_filler *filler)
{
    struct machine machine;
    if (filler->reserve_bytes == 0 || filler->filled - filler->looked < LOOK_BYTES)
        return false;
    filler->looked = filler->filled;
    machine_look(&machine);
    return machine.free_bytes > 0 && machine.free_bytes < filler->reserve_bytes;
}

static enum error take_row(struct row_filler *filler, const struct store_block *block, size_t i,
                           const uint8_t *features, size_t row_bytes)
{
    int64_t row = filler->written;
    struct row_slots *slots = &filler->slots;
    uint8_t *slot = slots->ends ? row_slots_add(slots, (uint64_t)row, row_bytes)
                                : row_slots_at(slots, (uint64_t)row);
    if (!slot)
        return enough();
    filler->written++;
    filler->filled += sizeof(double) + row_bytes;
    memcpy(slot, &block->label_values[i], sizeof(double));
    if (features && row_bytes > 0)
        memcpy(slot + sizeof(double), features, row_bytes);
    if (filler->ids)
        filler->ids[row] = block->ids[i];
    if (!block->status || block->status[i] == ROW_OK)
        return OK;
    atomic_store_explicit(&filler->has_bad, true, memory_order_relaxed);
    return row_slots_mark_bad(&filler->slots, (uint64_t)row);
}

static void publish(struct row_filler *filler, int64_t rows)
{
    atomic_store_explicit(&filler->moved_ns, clock_now_ns(), memory_order_relaxed);
    atomic_store_explicit(&filler->rows, rows, memory_order_release);
}

/* OK: there is none. Asked after each block. */
static enum error reason_to_end(struct row_filler *filler)
{
    if (atomic_load(&filler->cancelled))
        return error_set(ERROR_CANCELLED, "a cache that is being filled is closed");
    return is_memory_scarce(filler) ? enough() : OK;
}

static enum error take_block(void *context, const struct store_block *block)
{
    struct row_filler *filler = context;
    int64_t rows = filler->inner->info.rows;
    enum error error = OK;
    if ((int64_t)block->rows > rows - filler->written)
        return error_set(ERROR_INPUT, "%s has more than the %lld %s it had when it was opened",
                         filler->inner->info.uri, (long long)rows,
                         text_plural(rows, "row", "rows"));
    const uint8_t *features = block->features;
    for (size_t i = 0; i < block->rows && !error; i++) {
        size_t bytes = store_block_row_bytes(block, i, &filler->inner->info);
        error =
            filler->written < filler->room ? take_row(filler, block, i, features, bytes) : enough();
        features += features ? bytes : 0;
    }
    if (!error)
        error = reason_to_end(filler);
    publish(filler, filler->written / ROW_SLOTS_A_BYTE * ROW_SLOTS_A_BYTE);
    return error;
}

static enum error index_ids(struct row_filler *filler)
{
    int64_t twice[2];
    enum error error = id_index_init(&filler->index, filler->ids, filler->written, twice);
    if (error == ERROR_CONFLICT)
        return error_set(ERROR_INPUT, "%s: rows %lld and %lld both have the id %lld",
                         filler->inner->info.uri, (long long)twice[0], (long long)twice[1],
                         (long long)filler->ids[twice[0]]);
    if (!error)
        filler->ids = NULL; /* the index has them */
    return error;
}

static enum error finish(struct row_filler *filler, enum error error)
{
    int64_t rows = filler->inner->info.rows;
    if (!error && filler->written != rows)
        error = error_set(ERROR_INPUT, "%s gave %lld %s of %lld", filler->inner->info.uri,
                          (long long)filler->written, text_plural(filler->written, "row", "rows"),
                          (long long)rows);
    if (error && error != ERROR_END)
        return error;
    error = filler->ids ? index_ids(filler) : OK;
    if (error)
        return error;
    publish(filler, filler->written);
    atomic_store_explicit(&filler->known, &filler->index, memory_order_release);
    atomic_store_explicit(&filler->has_all, filler->written == rows, memory_order_release);
    if (filler->written < rows)
        log_info("%s: %lld of %lld rows are kept in memory, the others are fetched each time",
                 filler->inner->info.uri, (long long)filler->written, (long long)rows);
    return OK;
}

/* A store that has changed must not be read at all; if a file server is away, or memory is short,
 * rows are still fetched from the store itself. */
static void report(struct row_filler *filler, enum error error)
{
    filler->error = error;
    if (!error)
        return;
    error_report_take(error, &filler->report);
    if (error == ERROR_INPUT)
        atomic_store_explicit(&filler->is_broken, true, memory_order_release);
    else if (error != ERROR_CANCELLED)
        log_warning("%s; rows that are not kept in memory yet are fetched each time",
                    error_message());
}

/* ---- consecutive ids ---------------------------------------------------- */

struct run {
    struct row_filler *filler;
    struct progress progress;
};

static enum error take_run(void *context, int64_t rows, bool has_bad)
{
    struct run *run = context;
    struct row_filler *filler = run->filler;
    filler->written = rows;
    filler->filled = (uint64_t)rows * filler->slots.stride;
    if (has_bad)
        atomic_store_explicit(&filler->has_bad, true, memory_order_relaxed);
    publish(filler, rows);
    progress_show(&run->progress, (uint64_t)rows, (uint64_t)filler->inner->info.rows);
    return reason_to_end(filler);
}

/* Rows are found from the first one on. */
static enum error fill_run(struct row_filler *filler, struct reader *reader, int64_t first_id)
{
    struct run run = {filler, progress_of_rows("reading", filler->inner->info.uri)};
    const struct run_fill fill = {.reader = reader,
                                  .first_id = first_id,
                                  .slots = &filler->slots,
                                  .rows = filler->room,
                                  .cancelled = &filler->cancelled,
                                  .sink = take_run,
                                  .context = &run};
    if (filler->ids) { /* else the index is in use already */
        free(filler->ids);
        filler->ids = NULL;
        filler->index = (struct id_index){.rows = filler->room, .first = first_id};
        atomic_store_explicit(&filler->known, &filler->index, memory_order_release);
    }
    enum error error = run_fill(&fill);
    return !error && filler->room < filler->inner->info.rows ? enough() : error;
}

static enum error fill_rows(struct row_filler *filler)
{
    struct reader *reader = NULL;
    int64_t first_id;
    enum error error;
    if (!filler->slots.ends && filler->inner->ops->has_run && filler->inner->info.rows > 0 &&
        !reader_open(filler->inner, &reader) && reader_has_run(reader, &first_id))
        error = fill_run(filler, reader, first_id);
    else
        error = store_scan(filler->inner, SCAN_FEATURES | SCAN_BAD_ROWS, take_block, filler);
    reader_close(reader);
    return error;
}

/* ---- the thread --------------------------------------------------------- */

static void *fill(void *context)
{
    struct row_filler *filler = context;
    stop_follow(&filler->cancelled);
    report(filler, finish(filler, fill_rows(filler)));
    pthread_mutex_lock(&filler->lock);
    filler->is_over = true;
    pthread_cond_broadcast(&filler->ended);
    pthread_mutex_unlock(&filler->lock);
    return NULL;
}

/* ---- life --------------------------------------------------------------- */

static enum error filler_init(struct row_filler *filler)
{
    const struct store_info *info = store_info(filler->inner);
    enum error error =
        info->lengths == LENGTHS_ALIKE
            ? row_slots_map(&filler->slots, info->features, info->element, (uint64_t)filler->room)
            : row_slots_map_varying(&filler->slots, filler->bytes, (uint64_t)filler->room);
    if (!error && filler->room > 0) /* so that the map does not move while it is read */
        error = row_slots_reserve_bad(&filler->slots);
    if (!error && info->id_column) {
        filler->ids = array_new((size_t)filler->room, sizeof(int64_t), "the ids of a row cache");
        error = filler->ids ? OK : ERROR_MEMORY;
    }
    if (!error && !info->id_column) {
        error = id_index_init(&filler->index, NULL, filler->room, NULL);
        atomic_store(&filler->known, &filler->index);
    }
    if (!error)
        error = thread_start("tombola-cache", fill, filler, &filler->thread);
    filler->started = !error;
    return error;
}

enum error row_filler_start(struct store *inner, int64_t rows, uint64_t bytes,
                            uint64_t reserve_bytes, struct row_filler **ret_filler)
{
    struct row_filler *filler = array_new(1, sizeof(*filler), "a row cache");
    if (!filler)
        return ERROR_MEMORY;
    filler->inner = inner;
    filler->room = rows;
    filler->bytes = bytes;
    filler->reserve_bytes = reserve_bytes;
    filler->started_ns = clock_now_ns();
    pthread_mutex_init(&filler->lock, NULL);
    pthread_cond_init(&filler->ended, NULL);
    enum error error = filler_init(filler);
    if (error)
        row_filler_stop(filler);
    else
        *ret_filler = filler;
    return error;
}

void row_filler_stop(struct row_filler *filler)
{
    if (!filler)
        return;
    atomic_store(&filler->cancelled, true);
    if (filler->started)
        pthread_join(filler->thread, NULL);
    row_slots_release(&filler->slots);
    id_index_release(&filler->index);
    free(filler->ids);
    pthread_cond_destroy(&filler->ended);
    pthread_mutex_destroy(&filler->lock);
    free(filler);
}

enum error row_filler_wait(struct row_filler *filler)
{
    pthread_mutex_lock(&filler->lock);
    while (!filler->is_over)
        pthread_cond_wait(&filler->ended, &filler->lock);
    pthread_mutex_unlock(&filler->lock);
    return filler->error ? error_restore(&filler->report) : OK;
}

/* ---- use ---------------------------------------------------------------- */

static bool ends_soon(const struct row_filler *filler)
{
    struct fill_pace pace = {.started_ns = filler->started_ns,
                             .moved_ns =
                                 atomic_load_explicit(&filler->moved_ns, memory_order_relaxed),
                             .rows = atomic_load_explicit(&filler->rows, memory_order_relaxed),
                             .room = filler->room};
    return !filler->is_over && fill_pace_ends_soon(&pace, clock_now_ns());
}

static bool has(const struct row_filler *filler, const int64_t ids[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (row_filler_find(filler, ids[i]) < 0)
            return false;
    }
    return true;
}

void row_filler_await(struct row_filler *filler, const int64_t ids[], size_t count)
{
    pthread_mutex_lock(&filler->lock);
    while (ends_soon(filler) && !stop_requested() && !has(filler, ids, count)) {
        struct timespec until = clock_timespec(clock_deadline_ns(LOOK_MS));
        pthread_cond_clockwait(&filler->ended, &filler->lock, CLOCK_MONOTONIC, &until);
    }
    pthread_mutex_unlock(&filler->lock);
}

int64_t row_filler_find(const struct row_filler *filler, int64_t id)
{
    const struct id_index *known = atomic_load_explicit(&filler->known, memory_order_acquire);
    int64_t row = known ? id_index_row(known, id) : -1;
    return row < atomic_load_explicit(&filler->rows, memory_order_acquire) ? row : -1;
}

bool row_filler_has_all(const struct row_filler *filler)
{
    return atomic_load_explicit(&filler->has_all, memory_order_acquire);
}

bool row_filler_is_bad(const struct row_filler *filler, int64_t row)
{
    return atomic_load_explicit(&filler->has_bad, memory_order_relaxed) &&
           row_slots_is_bad(&filler->slots, (uint64_t)row);
}

const struct row_slots *row_filler_slots(const struct row_filler *filler)
{
    return &filler->slots;
}

enum error row_filler_check(const struct row_filler *filler)
{
    return atomic_load_explicit(&filler->is_broken, memory_order_acquire)
               ? error_restore(&filler->report)
               : OK;
}

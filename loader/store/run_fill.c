/* SPDX-License-Identifier: MIT */
#include "loader/store/run_fill.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/machine.h"
#include "common/stop.h"
#include "common/thread.h"

#define THREADS_LIMIT 8
#define PART_BYTES ((size_t)512 << 10) /* of rows that are fetched at once */
#define PART_ROWS 1024                 /* at most */

/* One thread's. */
struct part {
    struct run *run;
    struct reader *reader;
    int64_t begin, end; /* rows that are being fetched */
    bool has_bad;
    pthread_t thread;
    int64_t ids[PART_ROWS];
    double labels[PART_ROWS];
    enum row_status status[PART_ROWS];
};

struct run {
    const struct run_fill *fill;
    int64_t step; /* rows of a part */
    size_t threads;
    struct part *parts;   /* [threads] */
    pthread_mutex_t lock; /* all below, and the parts' rows */
    int64_t claimed;
    struct error_report report; /* of the first failure */
};

/* Each byte of the map of bad rows has one writer. */
static int64_t part_rows(const struct row_slots *slots)
{
    size_t rows = PART_BYTES / slots->stride / ROW_SLOTS_A_BYTE * ROW_SLOTS_A_BYTE;
    return rows < ROW_SLOTS_A_BYTE ? ROW_SLOTS_A_BYTE
           : rows > PART_ROWS      ? PART_ROWS
                                   : (int64_t)rows;
}

/* ---- one part ----------------------------------------------------------- */

static enum error refuse_missing(const struct run_fill *fill, int64_t id)
{
    const struct store_info *info = store_info(fill->reader->store);
    return error_set(ERROR_INPUT, "%s lacks the id %lld of its %lld rows", info->uri, (long long)id,
                     (long long)info->rows);
}

/* Labels precede the rows. */
static enum error keep_row(struct part *part, int64_t row, size_t i)
{
    const struct run_fill *fill = part->run->fill;
    memcpy(row_slots_at(fill->slots, (uint64_t)row), &part->labels[i], sizeof(double));
    if (part->status[i] == ROW_OK)
        return OK;
    if (part->status[i] == ROW_MISSING)
        return refuse_missing(fill, part->ids[i]);
    part->has_bad = true;
    return row_slots_mark_bad(fill->slots, (uint64_t)row);
}

static enum error fetch_part(struct part *part)
{
    const struct run_fill *fill = part->run->fill;
    size_t count = (size_t)(part->end - part->begin);
    uint8_t *slot = row_slots_at(fill->slots, (uint64_t)part->begin);
    for (size_t i = 0; i < count; i++)
        part->ids[i] = fill->first_id + part->begin + (int64_t)i;
    part->has_bad = false;
    enum error error = reader_fetch(part->reader, part->ids, count, slot + sizeof(double),
                                    fill->slots->stride, part->labels, part->status);
    for (size_t i = 0; i < count && !error; i++)
        error = keep_row(part, part->begin + (int64_t)i, i);
    return error;
}

/* ---- parts in turn ------------------------------------------------------ */

/* Rows before all that are still being fetched. Under the lock. */
static int64_t count_done(const struct run *run)
{
    int64_t done = run->claimed;
    for (size_t i = 0; i < run->threads; i++) {
        const struct part *part = &run->parts[i];
        if (part->begin < part->end && part->begin < done)
            done = part->begin;
    }
    return done;
}

/* Hands in what was fetched, if anything, and takes the next part; false: there is none. */
static bool take_turn(struct part *part, enum error error)
{
    struct run *run = part->run;
    const struct run_fill *fill = run->fill;
    pthread_mutex_lock(&run->lock);
    bool fetched = part->begin < part->end;
    if (!error)
        part->begin = part->end;
    if (!error && fetched)
        error = fill->sink(fill->context, count_done(run), part->has_bad);
    if (error && !run->report.code)
        error_report_take(error, &run->report);
    bool goes_on = !run->report.code && run->claimed < fill->rows;
    if (goes_on) {
        part->begin = run->claimed;
        run->claimed += run->step;
        run->claimed = run->claimed < fill->rows ? run->claimed : fill->rows;
        part->end = run->claimed;
    }
    pthread_mutex_unlock(&run->lock);
    return goes_on;
}

static void work(struct part *part)
{
    enum error error = OK;
    while (take_turn(part, error))
        error = fetch_part(part);
}

/* Another thread needs its own reader; without one, the others fetch all. */
static void *help(void *context)
{
    struct part *part = context;
    stop_follow(part->run->fill->cancelled);
    if (reader_open(part->run->fill->reader->store, &part->reader))
        return NULL;
    work(part);
    reader_close(part->reader);
    return NULL;
}

static size_t count_threads(const struct run *run)
{
    struct machine machine;
    machine_look(&machine);
    int64_t parts = (run->fill->rows + run->step - 1) / run->step;
    size_t threads = machine.processors < THREADS_LIMIT ? machine.processors : THREADS_LIMIT;
    return parts < (int64_t)threads ? (size_t)parts : threads;
}

/* With as many threads as the system gives. */
static void work_together(struct run *run)
{
    size_t helpers = 0;
    for (size_t i = 1; i < run->threads; i++) {
        struct part *part = &run->parts[i];
        part->run = run;
        if (thread_start("tombola-cache", help, part, &part->thread))
            break;
        helpers++;
    }
    run->parts[0].run = run;
    run->parts[0].reader = run->fill->reader;
    work(&run->parts[0]);
    for (size_t i = 1; i <= helpers; i++)
        pthread_join(run->parts[i].thread, NULL);
}

enum error run_fill(const struct run_fill *fill)
{
    struct run run = {.fill = fill, .step = part_rows(fill->slots)};
    run.threads = count_threads(&run);
    run.parts = array_new(run.threads, sizeof(*run.parts), "rows on their way to a row cache");
    if (!run.parts)
        return ERROR_MEMORY;
    pthread_mutex_init(&run.lock, NULL);
    work_together(&run);
    pthread_mutex_destroy(&run.lock);
    free(run.parts);
    return run.report.code ? error_restore(&run.report) : OK;
}

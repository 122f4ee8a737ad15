#include "loader/csv_pass.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"

#define WORKERS_LIMIT 8
#define SLOTS_LIMIT (WORKERS_LIMIT + 2)
#define BYTES_PER_WORKER ((uint64_t)4 << 20) /* less is not worth a thread */
#define PROGRESS_NS INT64_C(2000000000)
#define STOP_CHECK_MS 200

enum slot_state { SLOT_FREE, SLOT_WORKING, SLOT_READY };

struct slot {
    enum slot_state state;
    bool last;                  /* nothing comes behind this block (or it failed) */
    struct error_report report; /* code OK: worked on */
    struct csv_block block;
    void *result;
};

struct run {
    const struct csv_pass *pass;
    const struct csv_source *source;
    struct source_file file; /* under `reading` */
    pthread_mutex_t reading; /* one block at a time, in file order; taken before `lock` */
    pthread_mutex_t lock;    /* all below */
    pthread_cond_t changed;
    struct slot slots[SLOTS_LIMIT];
    size_t slot_count;
    uint64_t next_block;  /* the number that is read next */
    uint64_t next_offset; /* under `reading` */
    int64_t next_line;    /* under `reading` */
    bool ended;           /* everything was read, or the caller gave up */
};

static void finish_slot(struct run *run, struct slot *slot, enum error error)
{
    pthread_mutex_lock(&run->lock);
    slot->report.code = OK;
    if (error)
        error_report_take(error, &slot->report);
    slot->state = SLOT_READY;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

/* The slot of the next block once it is free; NULL when there is nothing more to do. */
static struct slot *claim_slot(struct run *run)
{
    struct slot *slot = NULL;
    pthread_mutex_lock(&run->lock);
    while (!run->ended) {
        slot = &run->slots[run->next_block % run->slot_count];
        if (slot->state == SLOT_FREE)
            break;
        pthread_cond_wait(&run->changed, &run->lock);
    }
    if (run->ended) {
        slot = NULL;
    } else {
        slot->state = SLOT_WORKING;
        run->next_block++;
    }
    pthread_mutex_unlock(&run->lock);
    return slot;
}

/* Reads the next block into its slot; *ret_slot NULL when there is none. */
static enum error read_next(struct run *run, struct slot **ret_slot)
{
    pthread_mutex_lock(&run->reading);
    struct slot *slot = claim_slot(run);
    enum error error = OK;
    *ret_slot = slot;
    if (slot) {
        error = csv_block_read(&slot->block, &run->file, run->next_offset, run->next_line);
        run->next_offset += slot->block.length;
        run->next_line += slot->block.lines;
        slot->last = error || run->next_offset >= run->source->identity.size_bytes;
        if (slot->last) {
            pthread_mutex_lock(&run->lock);
            run->ended = true;
            pthread_cond_broadcast(&run->changed);
            pthread_mutex_unlock(&run->lock);
        }
    }
    pthread_mutex_unlock(&run->reading);
    return error;
}

static void *worker(void *argument)
{
    struct run *run = argument;
    for (;;) {
        struct slot *slot;
        enum error error = read_next(run, &slot);
        if (!slot)
            return NULL;
        if (!error)
            error = run->pass->work(run->pass->context, slot->result, &slot->block);
        finish_slot(run, slot, error);
    }
}

static void show_progress(const struct run *run, const struct csv_block *block, int64_t *next_ns)
{
    if (run->pass->quiet || clock_now_ns() < *next_ns)
        return;
    *next_ns = clock_now_ns() + PROGRESS_NS;
    double size = (double)run->source->identity.size_bytes;
    double done = (double)(block->offset + block->length);
    log_info("%s %s: %.0f of %.0f MB (%.0f %%)", run->pass->what, run->source->path, done / 1e6,
             size / 1e6, 100 * done / size);
}

/* Waits for block `number`; ERROR_CANCELLED when the program is to stop meanwhile. */
static enum error await_slot(struct run *run, struct slot *slot)
{
    enum error error = OK;
    pthread_mutex_lock(&run->lock);
    while (slot->state != SLOT_READY && !error) {
        struct timespec until = clock_timespec(clock_deadline_ns(STOP_CHECK_MS));
        pthread_cond_clockwait(&run->changed, &run->lock, CLOCK_MONOTONIC, &until);
        if (stop_requested())
            error = error_set(ERROR_CANCELLED, "stopped while %s %s", run->pass->what,
                              run->source->path);
    }
    pthread_mutex_unlock(&run->lock);
    return error;
}

static void free_slot(struct run *run, struct slot *slot)
{
    pthread_mutex_lock(&run->lock);
    slot->state = SLOT_FREE;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static enum error take_in_order(struct run *run)
{
    int64_t progress_ns = clock_now_ns() + PROGRESS_NS;
    for (uint64_t number = 0;; number++) {
        struct slot *slot = &run->slots[number % run->slot_count];
        enum error error = await_slot(run, slot);
        if (!error && slot->report.code)
            error = error_restore(&slot->report);
        if (!error)
            error = run->pass->take(run->pass->context, slot->result, &slot->block);
        if (error || slot->last)
            return error;
        show_progress(run, &slot->block, &progress_ns);
        free_slot(run, slot);
    }
}

static enum error run_threads(struct run *run, size_t workers)
{
    pthread_t threads[WORKERS_LIMIT];
    size_t started = 0;
    while (started < workers && pthread_create(&threads[started], NULL, worker, run) == 0)
        started++;
    enum error error = started > 0 ? take_in_order(run)
                                   : error_set(ERROR_MEMORY, "cannot start a thread to read %s",
                                               run->source->path);
    pthread_mutex_lock(&run->lock);
    run->ended = true;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return error;
}

static enum error run_alone(struct run *run)
{
    int64_t progress_ns = clock_now_ns() + PROGRESS_NS;
    const struct csv_pass *pass = run->pass;
    for (;;) {
        struct slot *slot;
        enum error error = read_next(run, &slot);
        if (!error && stop_requested())
            error =
                error_set(ERROR_CANCELLED, "stopped while %s %s", pass->what, run->source->path);
        if (!error)
            error = pass->work(pass->context, slot->result, &slot->block);
        if (!error)
            error = pass->take(pass->context, slot->result, &slot->block);
        if (error || slot->last)
            return error;
        show_progress(run, &slot->block, &progress_ns);
        free_slot(run, slot);
    }
}

static size_t count_workers(const struct csv_source *source)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t worth = source->identity.size_bytes / BYTES_PER_WORKER;
    size_t workers = processors > 1 ? (size_t)processors : 0;
    workers = workers < WORKERS_LIMIT ? workers : WORKERS_LIMIT;
    return workers < worth ? workers : (size_t)worth;
}

static void release_slots(struct run *run)
{
    for (size_t i = 0; i < run->slot_count; i++) {
        if (run->slots[i].result && run->pass->release)
            run->pass->release(run->pass->context, run->slots[i].result);
        free(run->slots[i].result);
        csv_block_release(&run->slots[i].block);
    }
}

enum error csv_pass_run(const struct csv_pass *pass, const struct csv_source *source)
{
    size_t workers = count_workers(source);
    struct run run = {.pass = pass,
                      .source = source,
                      .reading = PTHREAD_MUTEX_INITIALIZER,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .changed = PTHREAD_COND_INITIALIZER,
                      .slot_count = workers > 1 ? workers + 2 : 1,
                      .next_offset = source->begin,
                      .next_line = source->begin_line};
    enum error error = source_file_open(&run.file, source->path, &source->identity);
    if (error)
        return error;
    for (size_t i = 0; i < run.slot_count && !error; i++) {
        run.slots[i].result = array_new(1, pass->result_bytes, "reading a CSV file");
        error = run.slots[i].result ? OK : ERROR_MEMORY;
    }
    if (!error)
        error = workers > 1 ? run_threads(&run, workers) : run_alone(&run);
    if (!error)
        error = source_file_check(&run.file);
    release_slots(&run);
    source_file_close(&run.file);
    return error;
}

/* SPDX-License-Identifier: MIT */
#include "loader/csv/csv_pass.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/machine.h"
#include "common/stop.h"
#include "common/thread.h"
#include "loader/store/progress.h"

#define THREADS_LIMIT 8
#define SLOTS_LIMIT (THREADS_LIMIT + 2)
#define BYTES_PER_THREAD ((uint64_t)4 << 20) /* less does not justify a thread */
#define STOP_CHECK_MS 200

enum slot_state { SLOT_FREE, SLOT_WORKING, SLOT_READY };

struct slot {
    enum slot_state state;
    uint64_t number;            /* of its block */
    struct error_report report; /* code OK: processed */
    struct csv_block block;
    void *result;
};

struct run {
    const struct csv_pass *pass;
    const struct csv_source *source;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    struct slot slots[SLOTS_LIMIT];
    struct slot *free_slots[SLOTS_LIMIT]; /* the most recently used one is the last */
    size_t free_count;
    uint64_t block_count;   /* UINT64_MAX: the text's end is not found yet */
    uint64_t claimed, cut;  /* numbers of blocks */
    struct csv_place place; /* where the next block begins; only for the thread whose turn it is */
    bool ended;             /* a block failed before it was cut, or the caller gave up */
};

/* ---- working ------------------------------------------------------------ */

/* The next block's slot; NULL: none is free, or all blocks are claimed. Under the lock. */
static struct slot *claim(struct run *run)
{
    if (run->ended || run->free_count == 0 || run->claimed >= run->block_count)
        return NULL;
    struct slot *slot = run->free_slots[--run->free_count];
    slot->state = SLOT_WORKING;
    slot->number = run->claimed++;
    return slot;
}

/* In file order: a block begins where the previous one ends. False: there is no further block. */
static bool await_turn(struct run *run, const struct slot *slot)
{
    pthread_mutex_lock(&run->lock);
    while (run->cut != slot->number && !run->ended)
        pthread_cond_wait(&run->changed, &run->lock);
    bool ended = run->ended;
    pthread_mutex_unlock(&run->lock);
    return !ended;
}

static void end_turn(struct run *run, enum error error)
{
    pthread_mutex_lock(&run->lock);
    run->cut++;
    run->ended |= error;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static uint64_t count_blocks(const struct csv_source *source)
{
    uint64_t length = text_source_length(&source->text);
    return length == TEXT_LENGTH_UNKNOWN
               ? UINT64_MAX
               : (length - source->begin + CSV_BLOCK_BYTES - 1) / CSV_BLOCK_BYTES;
}

/* For a packed file, blocks are claimed until one of them reaches the end of the text. */
static void note_end(struct run *run)
{
    uint64_t count = count_blocks(run->source);
    pthread_mutex_lock(&run->lock);
    run->block_count = count;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static enum error make_block(struct run *run, struct slot *slot, struct text_file *file)
{
    uint64_t offset = run->source->begin + slot->number * CSV_BLOCK_BYTES;
    enum error error = csv_block_read(&slot->block, file, offset);
    if (!error && slot->block.at_end)
        note_end(run);
    struct error_report report = {.code = OK};
    if (error)
        error_report_take(error, &report);
    if (!await_turn(run, slot))
        return ERROR_CANCELLED; /* the pass has ended meanwhile */
    if (error)
        error = error_restore(&report);
    else
        error = csv_block_cut(&slot->block, file, &run->place);
    end_turn(run, error);
    return error;
}

static void work_on(struct run *run, struct slot *slot, struct text_file *file)
{
    const struct csv_pass *pass = run->pass;
    enum error error = make_block(run, slot, file);
    if (!error)
        error = pass->work(pass->context, slot->result, &slot->block);
    slot->report.code = OK;
    if (error)
        error_report_take(error, &slot->report);
    pthread_mutex_lock(&run->lock);
    slot->state = SLOT_READY;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static struct slot *await_work(struct run *run)
{
    struct slot *slot;
    pthread_mutex_lock(&run->lock);
    while (!(slot = claim(run)) && !run->ended && run->claimed < run->block_count)
        pthread_cond_wait(&run->changed, &run->lock);
    pthread_mutex_unlock(&run->lock);
    return slot;
}

static void *worker(void *argument)
{
    struct run *run = argument;
    struct text_file file;
    struct slot *slot;
    if (text_file_open(&file, &run->source->text))
        return NULL; /* the caller gets the same error */
    while ((slot = await_work(run)))
        work_on(run, slot, &file);
    text_file_close(&file);
    return NULL;
}

/* ---- taking ------------------------------------------------------------- */

static void show_progress(const struct run *run, const struct csv_block *block,
                          struct progress *progress)
{
    const struct text_source *text = &run->source->text;
    if (!run->pass->quiet)
        progress_show(progress, text_source_done(text, block->offset + block->length),
                      text->identity.size_bytes);
}

static struct slot *find_ready(struct run *run, uint64_t number)
{
    for (size_t i = 0; i < SLOTS_LIMIT; i++) {
        if (run->slots[i].state == SLOT_READY && run->slots[i].number == number)
            return &run->slots[i];
    }
    return NULL;
}

/* Block `number` if it is READY, else one that this thread has claimed to process; NULL: neither
 * came within STOP_CHECK_MS, ask again. */
static struct slot *await_either(struct run *run, uint64_t number)
{
    struct slot *slot;
    pthread_mutex_lock(&run->lock);
    if (!(slot = find_ready(run, number)) && !(slot = claim(run))) {
        struct timespec until = clock_timespec(clock_deadline_ns(STOP_CHECK_MS));
        pthread_cond_clockwait(&run->changed, &run->lock, CLOCK_MONOTONIC, &until);
    }
    pthread_mutex_unlock(&run->lock);
    return slot;
}

static bool is_behind_end(struct run *run, uint64_t number)
{
    pthread_mutex_lock(&run->lock);
    bool behind = number >= run->block_count;
    pthread_mutex_unlock(&run->lock);
    return behind;
}

/* Waits for block `number`, and processes others meanwhile. *ret_slot NULL: there is none. */
static enum error await_block(struct run *run, uint64_t number, struct text_file *file,
                              struct slot **ret_slot)
{
    struct slot *slot;
    while (!(slot = await_either(run, number)) || slot->state != SLOT_READY) {
        if (stop_requested())
            return error_set(ERROR_CANCELLED, "stopped while %s %s", run->pass->what,
                             run->source->text.path);
        if (slot)
            work_on(run, slot, file);
        else if (is_behind_end(run, number))
            return OK;
    }
    *ret_slot = slot;
    return slot->report.code ? error_restore(&slot->report) : OK;
}

static void free_slot(struct run *run, struct slot *slot)
{
    pthread_mutex_lock(&run->lock);
    slot->state = SLOT_FREE;
    run->free_slots[run->free_count++] = slot;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static enum error take_in_order(struct run *run, struct text_file *file)
{
    struct progress progress = progress_of_bytes(run->pass->what, run->source->text.path);
    const struct csv_pass *pass = run->pass;
    enum error error = OK;
    for (uint64_t number = 0; !error && !is_behind_end(run, number); number++) {
        struct slot *slot = NULL;
        error = await_block(run, number, file, &slot);
        if (!error && slot)
            error = pass->take(pass->context, slot->result, &slot->block);
        if (!error && slot)
            show_progress(run, &slot->block, &progress);
        if (slot)
            free_slot(run, slot);
    }
    return error;
}

/* ---- all of it ---------------------------------------------------------- */

static size_t count_threads(const struct csv_source *source)
{
    struct machine machine;
    machine_look(&machine);
    uint64_t worth = text_source_guess(&source->text) / BYTES_PER_THREAD;
    size_t threads = machine.processors;
    threads = threads < THREADS_LIMIT ? threads : THREADS_LIMIT;
    threads = threads < worth ? threads : (size_t)worth;
    return threads > 1 ? threads : 1;
}

/* The caller's thread does the work of threads that cannot be started. */
static enum error run_threads(struct run *run, size_t threads, struct text_file *file)
{
    pthread_t workers[THREADS_LIMIT];
    size_t started = 0;
    while (started + 1 < threads && !thread_start("csv", worker, run, &workers[started]))
        started++;
    enum error error = take_in_order(run, file);
    pthread_mutex_lock(&run->lock);
    run->ended = true;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
    for (size_t i = 0; i < started; i++)
        pthread_join(workers[i], NULL);
    return error;
}

static enum error make_slots(struct run *run, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct slot *slot = &run->slots[i];
        slot->result = array_new(1, run->pass->result_bytes, "reading a CSV file");
        if (!slot->result)
            return ERROR_MEMORY;
        run->free_slots[run->free_count++] = slot;
    }
    return OK;
}

static void release_slots(struct run *run)
{
    for (size_t i = 0; i < SLOTS_LIMIT; i++) {
        if (run->slots[i].result && run->pass->release)
            run->pass->release(run->pass->context, run->slots[i].result);
        free(run->slots[i].result);
        csv_block_release(&run->slots[i].block);
    }
}

enum error csv_pass_run(const struct csv_pass *pass, const struct csv_source *source)
{
    size_t threads = count_threads(source);
    struct run run = {.pass = pass,
                      .source = source,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .changed = PTHREAD_COND_INITIALIZER,
                      .block_count = count_blocks(source),
                      .place = {.offset = source->begin, .line = source->begin_line}};
    struct text_file file;
    enum error error = text_file_open(&file, &source->text);
    if (error)
        return error;
    error = make_slots(&run, threads > 1 ? threads + 2 : 1);
    if (!error)
        error = run_threads(&run, threads, &file);
    if (!error)
        error = text_file_check(&file);
    release_slots(&run);
    text_file_close(&file);
    return error;
}

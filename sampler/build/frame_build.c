/* SPDX-License-Identifier: MIT */
/* After the scan everything about a frame except the list itself is known, so that all sections
 * have their place before the first is written. */
#include "sampler/build/frame_build_private.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/errand.h"
#include "common/log.h"
#include "common/machine.h"
#include "common/thread.h"
#include "common/uri.h"
#include "loader/store/scan_apart.h"
#include "loader/store/store_range.h"

#define READING_BYTES ((uint64_t)32 << 20) /* blocks of the store, buffers */
#define WAIT_MS 200
#define MEMORY_MOST ((uint64_t)2 << 30)
#define MEMORY_SHARE 4 /* one part of this many */

/* ---- the plan ----------------------------------------------------------- */

static unsigned id_width(const struct spool *ids)
{
    return ids->largest > UINT32_MAX ? 8 : 4;
}

static void plan_categories(struct frame_output *output, uint32_t to_kind,
                            const struct class_column *column)
{
    const struct dictionary *dictionary = &column->dictionary;
    uint64_t units = column->codes.rows;
    frame_output_plan(output, FRAME_LABEL_NAMES + to_kind, dictionary->text_bytes, 1,
                      dictionary->are_integers);
    frame_output_plan(output, FRAME_LABEL_OFFSETS + to_kind, dictionary->offsets.count,
                      dictionary->offsets.width, 0);
    if (column->is_cyclic) {
        frame_output_plan(output, FRAME_LABEL_CODES + to_kind, 0, 1, column->shift);
        return;
    }
    frame_output_plan(output, FRAME_LABEL_CODES + to_kind, units,
                      packed_width(dictionary->count - 1), 0);
    frame_output_plan(output, FRAME_LABEL_ROWS + to_kind, units, packed_width(units - 1), 0);
    frame_output_plan(output, FRAME_LABEL_STARTS + to_kind, (uint64_t)dictionary->count + 1,
                      packed_width(units), 0);
}

static enum error plan(struct frame_build *build)
{
    const struct frame_ingest *ingest = &build->ingest;
    struct frame_output *output = build->output;
    uint64_t units = ingest->ids.rows;
    if (spool_is_ruled(&ingest->ids))
        frame_output_plan(output, FRAME_IDS, 0, 8, ingest->ids.rule_first);
    else
        frame_output_plan(output, FRAME_IDS, units, id_width(&ingest->ids), 0);
    if (!ingest->is_ascending)
        frame_output_plan(output, FRAME_IDS_BY_ID, units, packed_width(units - 1), 0);
    if (ingest->has_labels)
        plan_categories(output, 0, &ingest->labels);
    if (ingest->has_weights)
        frame_output_plan(output, FRAME_WEIGHTS, units, sizeof(double), 0);
    if (ingest->has_groups)
        plan_categories(output, FRAME_KINDS_OF_GROUPS, &ingest->groups);
    return frame_output_reserve(output);
}

/* ---- two threads -------------------------------------------------------- */

static void finish_thread(struct frame_build *build, enum error error, struct error_report *report)
{
    if (error) {
        error_report_take(error, report);
        frame_output_cancel(build->output);
    }
    pthread_mutex_lock(&build->lock);
    build->running--;
    pthread_cond_signal(&build->changed);
    pthread_mutex_unlock(&build->lock);
}

static void *columns_thread(void *context)
{
    struct frame_build *build = context;
    finish_thread(build, frame_build_columns(build), &build->columns_report);
    return NULL;
}

static void *rows_thread(void *context)
{
    struct frame_build *build = context;
    finish_thread(build, frame_build_rows(build), &build->rows_report);
    return NULL;
}

static void tell_written(struct frame_build *build)
{
    struct frame_ingest *ingest = &build->ingest;
    if (!frame_ingest_is_due(ingest))
        return;
    double all = (double)frame_output_bytes(build->output);
    double done = (double)frame_output_written(build->output);
    log_info("frame: sorting and writing %" PRIu64 " units, %.0f of %.0f MB (%.0f %%)",
             ingest->ids.rows, done / 1e6, all / 1e6, 100 * done / all);
}

/* Of two failures, the first one stopped the other thread. */
static enum error first_failure(const struct frame_build *build)
{
    const struct error_report *columns = &build->columns_report, *rows = &build->rows_report;
    if (columns->code && (!rows->code || rows->code == ERROR_CANCELLED))
        return error_restore(columns);
    return rows->code ? error_restore(rows) : OK;
}

static enum error write_sections(struct frame_build *build)
{
    pthread_t columns, rows;
    build->running = 2;
    enum error error = thread_start("frame columns", columns_thread, build, &columns);
    if (error)
        return error;
    error = thread_start("frame rows", rows_thread, build, &rows);
    if (error)
        finish_thread(build, error, &build->rows_report);
    bool is_alone = error;
    pthread_mutex_lock(&build->lock);
    while (build->running > 0) {
        struct timespec until = clock_timespec(clock_deadline_ns(WAIT_MS));
        pthread_cond_clockwait(&build->changed, &build->lock, CLOCK_MONOTONIC, &until);
        tell_written(build);
    }
    pthread_mutex_unlock(&build->lock);
    pthread_join(columns, NULL);
    if (!is_alone)
        pthread_join(rows, NULL);
    return first_failure(build);
}

/* ---- memory ------------------------------------------------------------- */

/* A quarter of the usable memory, at most 2 GiB. */
static uint64_t default_memory(void)
{
    struct machine machine;
    machine_look(&machine);
    uint64_t bytes =
        machine.memory_bytes ? machine.memory_bytes / MEMORY_SHARE : FRAME_MEMORY_LEAST;
    return bytes < MEMORY_MOST ? bytes : MEMORY_MOST;
}

static uint64_t memory_for(uint64_t memory_bytes)
{
    if (memory_bytes == 0)
        memory_bytes = default_memory();
    return memory_bytes > FRAME_MEMORY_LEAST ? memory_bytes : FRAME_MEMORY_LEAST;
}

/* ---- one build ---------------------------------------------------------- */

/* The rest of `memory_bytes` is shared between spooled columns and sorting. *is_read: the store is
 * no longer needed. */
static enum error run(struct frame_build *build, const char *uri, const char *path,
                      uint64_t memory_bytes, _Atomic bool *is_read)
{
    uint64_t half = (memory_bytes - READING_BYTES) / 2;
    sort_arena_init(&build->arena, half);
    enum error error = frame_output_new(path, &build->output);
    if (!error)
        error = frame_ingest_open(&build->ingest, uri, path, path ? half : UINT64_MAX);
    atomic_store(is_read, true);
    if (!error)
        error = plan(build);
    return error ? error : write_sections(build);
}

static struct frame_build *new_build(void)
{
    struct frame_build *build = array_new(1, sizeof(*build), "a frame");
    if (!build)
        return NULL;
    pthread_mutex_init(&build->lock, NULL);
    pthread_cond_init(&build->changed, NULL);
    return build;
}

static void release(struct frame_build *build)
{
    pthread_mutex_destroy(&build->lock);
    pthread_cond_destroy(&build->changed);
    frame_ingest_close(&build->ingest);
    sort_arena_release(&build->arena);
    frame_output_free(build->output);
    free(build);
}

static enum error build_file_by_scan(const char *uri, const char *path, uint64_t memory_bytes,
                                     _Atomic bool *is_read)
{
    struct frame_build *build = new_build();
    if (!build)
        return ERROR_MEMORY;
    enum error error = run(build, uri, path, memory_for(memory_bytes), is_read);
    if (!error)
        error = frame_output_commit(build->output, (int64_t)build->ingest.ids.rows, &build->digest);
    release(build);
    return error;
}

static enum error build_by_scan(const char *uri, _Atomic bool *is_read, struct frame **ret_frame)
{
    struct mapped_file file = {.path = NULL};
    struct frame_build *build = new_build();
    if (!build)
        return ERROR_MEMORY;
    enum error error = run(build, uri, NULL, UINT64_MAX, is_read);
    if (!error)
        error =
            frame_output_map(build->output, (int64_t)build->ingest.ids.rows, &build->digest, &file);
    release(build);
    return error ? error : frame_of_file(&file, ret_frame);
}

enum error frame_build_by_scan(const char *uri, struct frame **ret_frame)
{
    _Atomic bool is_read = false;
    return build_by_scan(uri, &is_read, ret_frame);
}

/* ---- a range ------------------------------------------------------------ */

/* Zero units: it is another kind of store. */
static enum error read_range(const char *uri_text, struct range *ret_range)
{
    struct uri uri;
    *ret_range = (struct range){.units = 0};
    if (strncmp(uri_text, "range:", 6) != 0 || strchr(uri_text, '\n'))
        return OK;
    enum error error = uri_init(&uri, uri_text);
    if (error)
        return error;
    error = range_parse(&uri, ret_range);
    uri_release(&uri);
    return error;
}

/* ---- a thread that may be left behind where the store hangs -------------- */

struct building {
    char *uri, *path; /* owned; path NULL: in memory */
    uint64_t memory_bytes;
    _Atomic bool is_read;
    struct frame *frame; /* owned */
    struct error_report report;
};

static void build_it(void *context)
{
    struct building *building = context;
    _Atomic bool *is_read = &building->is_read;
    enum error error = building->path ? build_file_by_scan(building->uri, building->path,
                                                           building->memory_bytes, is_read)
                                      : build_by_scan(building->uri, is_read, &building->frame);
    error_report_take(error, &building->report);
}

static void release_building(void *context)
{
    struct building *building = context;
    frame_free(building->frame);
    free(building->path);
    free(building->uri);
    free(building);
}

static enum error new_building(const char *uri, const char *path, uint64_t memory_bytes,
                               struct errand **ret_errand, struct building **ret_building)
{
    struct building *building = array_new(1, sizeof(*building), "a frame");
    if (!building)
        return ERROR_MEMORY;
    building->memory_bytes = memory_bytes;
    building->uri = strdup(uri);
    building->path = path ? strdup(path) : NULL;
    enum error error = building->uri && (building->path || !path)
                           ? errand_new(build_it, release_building, building, ret_errand)
                           : error_set_memory(strlen(uri), "a frame's source");
    if (error)
        release_building(building);
    else
        *ret_building = building;
    return error;
}

/* `ret_frame` NULL: makes a file. */
static enum error build_apart(const char *uri, const char *path, uint64_t memory_bytes,
                              struct frame **ret_frame)
{
    struct building *building;
    struct errand *errand;
    enum error error = new_building(uri, path, memory_bytes, &errand, &building);
    if (error)
        return error;
    error = store_name_left(errand_run(errand, "tombola-frame", &building->is_read), uri);
    if (!error)
        error = error_restore(&building->report);
    if (!error && ret_frame) {
        *ret_frame = building->frame;
        building->frame = NULL;
    }
    errand_leave(errand);
    return error;
}

enum error frame_build(const char *uri, struct frame **ret_frame)
{
    struct range range;
    enum error error = read_range(uri, &range);
    if (error)
        return error;
    return range.units > 0 ? frame_of_range(range.units, (uint32_t)range.labels, ret_frame)
                           : build_apart(uri, NULL, 0, ret_frame);
}

enum error frame_build_file(const char *uri, const char *path, uint64_t memory_bytes)
{
    struct range range;
    struct frame *frame = NULL;
    enum error error = read_range(uri, &range);
    if (error)
        return error;
    if (range.units == 0)
        return build_apart(uri, path, memory_bytes, NULL);
    error = frame_of_range(range.units, (uint32_t)range.labels, &frame);
    if (!error)
        error = frame_write(frame, path);
    frame_free(frame);
    return error;
}

#include "sampler/build/frame_ingest.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "sampler/frame/frame.h"

#define PROGRESS_NS INT64_C(1000000000)

/* ---- progress ----------------------------------------------------------- */
bool frame_intake_is_due(struct frame_intake *intake)
{
    int64_t now = clock_now_ns();
    bool is_due = now - intake->told_ns >= PROGRESS_NS;
    if (is_due)
        intake->told_ns = now;
    return is_due;
}

static void tell_rows(struct frame_intake *intake, const struct store_block *block)
{
    if (!frame_intake_is_due(intake))
        return;
    double seconds = 1e-9 * (double)(intake->told_ns - intake->start_ns);
    double rows = (double)intake->ids.rows;
    double share = 0;
    char left[64] = "";
    if (block->bytes_total > 0)
        share = (double)block->bytes_done / (double)block->bytes_total;
    else if (intake->info->rows > 0)
        share = rows / (double)intake->info->rows;
    if (share > 0)
        snprintf(left, sizeof(left), ", %.0f %% of the %s, %.0f s left", 100 * share,
                 block->bytes_total > 0 ? "bytes" : "rows", seconds / share - seconds);
    log_info("frame: %.0f rows, %.0f rows/s%s", rows, rows / seconds, left);
}

/* ---- rows come in ------------------------------------------------------- */
static enum error in_row(enum error error, struct frame_intake *intake, int64_t row)
{
    struct error_report report;
    char place[STORE_PLACE_BYTES];
    error_report_take(error, &report);
    store_locate(intake->store, row, place);
    return error_prefix(error_restore(&report), "%s: ", place);
}

static enum error refuse_id(struct frame_intake *intake, const struct store_block *block)
{
    size_t i = 0;
    while (block->ids[i] >= 0)
        i++;
    return in_row(
        error_set(ERROR_INPUT, "id %" PRId64 " is out of range, 0 to 2^63-1", block->ids[i]),
        intake, block->first_row + (int64_t)i);
}

static enum error add_ids(struct frame_intake *intake, const struct store_block *block)
{
    int64_t last = intake->last_id;
    uint64_t smallest = intake->smallest_id, all = 0;
    bool ascending = true;
    for (size_t i = 0; i < block->rows; i++) {
        uint64_t id = (uint64_t)block->ids[i];
        all |= id;
        smallest = id < smallest ? id : smallest;
        ascending &= block->ids[i] > last;
        last = block->ids[i];
    }
    if (all > INT64_MAX)
        return refuse_id(intake, block);
    intake->is_ascending &= ascending;
    intake->last_id = last;
    intake->smallest_id = smallest;
    return spool_add(&intake->ids, (const uint64_t *)block->ids, block->rows);
}

static enum error add_classes(struct frame_intake *intake, struct class_column *column,
                              const struct store_text *texts, const struct store_codes *codes,
                              const struct store_block *block)
{
    size_t row;
    enum error error = class_column_add(column, texts, codes, block->rows, &row);
    return error == ERROR_INPUT ? in_row(error, intake, block->first_row + (int64_t)row) : error;
}

static enum error add_weights(struct frame_intake *intake, const struct store_block *block)
{
    enum error error = array_grow((void **)&intake->block, &intake->block_capacity, block->rows,
                                  sizeof(*intake->block), "a block of rows");
    if (error)
        return error;
    for (size_t i = 0; i < block->rows; i++) {
        double weight = block->weights[i];
        if (!isfinite(weight) || weight < 0)
            return in_row(error_set(ERROR_INPUT,
                                    "column %s: the weight %g is not a finite number >= 0",
                                    intake->info->weight_column, weight),
                          intake, block->first_row + (int64_t)i);
        memcpy(&intake->block[i], &weight, sizeof(weight));
    }
    return spool_add(&intake->weights, intake->block, block->rows);
}

static enum error take_block(void *context, const struct store_block *block)
{
    struct frame_intake *intake = context;
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped while the frame was built");
    if (block->rows == 0)
        return OK;
    if (block->rows > (uint64_t)FRAME_UNITS_LIMIT - intake->ids.rows)
        return error_set(ERROR_INPUT, "%s holds more than %" PRId64 " units", intake->info->uri,
                         FRAME_UNITS_LIMIT);
    enum error error = add_ids(intake, block);
    if (!error && intake->has_labels)
        error = add_classes(intake, &intake->labels, block->labels, &block->label_codes, block);
    if (!error && intake->has_groups)
        error = add_classes(intake, &intake->groups, block->groups, &block->group_codes, block);
    if (!error && intake->has_weights)
        error = add_weights(intake, block);
    tell_rows(intake, block);
    return error;
}

/* ---- all of it ---------------------------------------------------------- */
static enum error prepare(struct frame_intake *intake)
{
    intake->has_labels = intake->info->label_column != NULL;
    intake->has_groups = intake->info->group_column != NULL;
    intake->has_weights = intake->info->weight_column != NULL;
    enum error error = spool_init(&intake->ids, &intake->aside, false, "the units' ids");
    if (!error && intake->has_labels)
        error = class_column_init(&intake->labels, &intake->aside, "label");
    if (!error && intake->has_groups)
        error = class_column_init(&intake->groups, &intake->aside, "group");
    if (!error && intake->has_weights)
        error = spool_init(&intake->weights, &intake->aside, true, "the units' weights");
    return error;
}

static enum error finish(struct frame_intake *intake)
{
    if (intake->ids.rows == 0)
        return error_set(ERROR_INPUT, "%s holds no units", intake->info->uri);
    enum error error = spool_finish(&intake->ids);
    if (!error && intake->has_labels)
        error = class_column_finish(&intake->labels);
    if (!error && intake->has_groups)
        error = class_column_finish(&intake->groups);
    if (!error && intake->has_weights)
        error = spool_finish(&intake->weights);
    return error;
}

enum error frame_intake_open(struct frame_intake *intake, const char *uri, const char *path,
                             uint64_t memory_bytes)
{
    *intake = (struct frame_intake){.is_ascending = true, .last_id = -1, .smallest_id = UINT64_MAX};
    spool_store_init(&intake->aside, path, memory_bytes);
    intake->start_ns = intake->told_ns = clock_now_ns();
    enum error error = store_open(uri, true, &intake->store);
    if (error)
        return error;
    intake->info = store_info(intake->store);
    store_warn_of_labels(intake->info);
    error = prepare(intake);
    if (!error)
        error = store_scan(intake->store, SCAN_CODES, take_block, intake);
    if (!error)
        error = finish(intake);
    free(intake->block);
    intake->block = NULL;
    if (error)
        frame_intake_close(intake);
    return error;
}

void frame_intake_close(struct frame_intake *intake)
{
    spool_release(&intake->ids);
    class_column_release(&intake->labels);
    class_column_release(&intake->groups);
    spool_release(&intake->weights);
    spool_store_release(&intake->aside);
    free(intake->block);
    intake->block = NULL;
    store_close(intake->store);
    intake->store = NULL;
}

enum error frame_intake_refuse_twice(struct frame_intake *intake, const struct id_twice *twice)
{
    char places[2][STORE_PLACE_BYTES];
    for (int i = 0; i < 2; i++)
        store_locate(intake->store, (int64_t)twice->rows[i], places[i]);
    return error_set(ERROR_INPUT, "id %" PRIu64 " comes twice: in %s and in %s", twice->id,
                     places[0], places[1]);
}

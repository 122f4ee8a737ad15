/* SPDX-License-Identifier: MIT */
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
#include "loader/store_open.h"
#include "sampler/frame/frame.h"

#define PROGRESS_NS INT64_C(1000000000)

/* ---- progress ----------------------------------------------------------- */

bool frame_ingest_is_due(struct frame_ingest *ingest)
{
    int64_t now = clock_now_ns();
    bool is_due = now - ingest->told_ns >= PROGRESS_NS;
    if (is_due)
        ingest->told_ns = now;
    return is_due;
}

static void tell_rows(struct frame_ingest *ingest, const struct store_block *block)
{
    if (!frame_ingest_is_due(ingest))
        return;
    double seconds = 1e-9 * (double)(ingest->told_ns - ingest->start_ns);
    double rows = (double)ingest->ids.rows;
    double share = 0;
    char left[64] = "";
    if (block->bytes_total > 0)
        share = (double)block->bytes_done / (double)block->bytes_total;
    else if (ingest->info->rows > 0)
        share = rows / (double)ingest->info->rows;
    if (share > 0)
        snprintf(left, sizeof(left), ", %.0f %% of the %s, %.0f s left", 100 * share,
                 block->bytes_total > 0 ? "bytes" : "rows", seconds / share - seconds);
    log_info("frame: %.0f rows, %.0f rows/s%s", rows, rows / seconds, left);
}

/* ---- rows come in ------------------------------------------------------- */

static enum error in_row(enum error error, struct frame_ingest *ingest, int64_t row)
{
    struct error_report report;
    char place[STORE_PLACE_BYTES];
    error_report_take(error, &report);
    store_locate(ingest->store, row, place);
    return error_prefix(error_restore(&report), "%s: ", place);
}

static enum error refuse_id(struct frame_ingest *ingest, const struct store_block *block)
{
    size_t i = 0;
    while (block->ids[i] >= 0)
        i++;
    return in_row(
        error_set(ERROR_INPUT, "id %" PRId64 " is out of range, 0 to 2^63-1", block->ids[i]),
        ingest, block->first_row + (int64_t)i);
}

static enum error add_ids(struct frame_ingest *ingest, const struct store_block *block)
{
    int64_t last = ingest->last_id;
    uint64_t smallest = ingest->smallest_id, all = 0;
    bool ascending = true;
    for (size_t i = 0; i < block->rows; i++) {
        uint64_t id = (uint64_t)block->ids[i];
        all |= id;
        smallest = id < smallest ? id : smallest;
        ascending &= block->ids[i] > last;
        last = block->ids[i];
    }
    if (all > INT64_MAX)
        return refuse_id(ingest, block);
    ingest->is_ascending &= ascending;
    ingest->last_id = last;
    ingest->smallest_id = smallest;
    return spool_add(&ingest->ids, (const uint64_t *)block->ids, block->rows);
}

static enum error add_categories(struct frame_ingest *ingest, struct class_column *column,
                                 const struct text *texts, const struct store_codes *codes,
                                 const struct store_block *block)
{
    size_t row;
    enum error error = class_column_add(column, texts, codes, block->rows, &row);
    return error == ERROR_INPUT ? in_row(error, ingest, block->first_row + (int64_t)row) : error;
}

static enum error add_weights(struct frame_ingest *ingest, const struct store_block *block)
{
    enum error error = array_grow((void **)&ingest->block, &ingest->block_capacity, block->rows,
                                  sizeof(*ingest->block), "a block of rows");
    if (error)
        return error;
    for (size_t i = 0; i < block->rows; i++) {
        double weight = block->weights[i];
        if (!isfinite(weight) || weight < 0)
            return in_row(error_set(ERROR_INPUT,
                                    "column %s: the weight %g is not a finite number >= 0",
                                    ingest->info->weight_column, weight),
                          ingest, block->first_row + (int64_t)i);
        memcpy(&ingest->block[i], &weight, sizeof(weight));
    }
    return spool_add(&ingest->weights, ingest->block, block->rows);
}

static enum error take_block(void *context, const struct store_block *block)
{
    struct frame_ingest *ingest = context;
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped while the frame was built");
    if (block->rows == 0)
        return OK;
    if (block->rows > (uint64_t)FRAME_UNITS_LIMIT - ingest->ids.rows)
        return error_set(ERROR_INPUT, "%s holds more than %" PRId64 " units", ingest->info->uri,
                         FRAME_UNITS_LIMIT);
    enum error error = add_ids(ingest, block);
    if (!error && ingest->has_labels)
        error = add_categories(ingest, &ingest->labels, block->labels, &block->label_codes, block);
    if (!error && ingest->has_groups)
        error = add_categories(ingest, &ingest->groups, block->groups, &block->group_codes, block);
    if (!error && ingest->has_weights)
        error = add_weights(ingest, block);
    tell_rows(ingest, block);
    return error;
}

/* ---- all of it ---------------------------------------------------------- */

static enum error prepare(struct frame_ingest *ingest)
{
    ingest->has_labels = ingest->info->label_column != NULL;
    ingest->has_groups = ingest->info->group_column != NULL;
    ingest->has_weights = ingest->info->weight_column != NULL;
    enum error error = spool_init(&ingest->ids, &ingest->aside, false, "the units' ids");
    if (!error && ingest->has_labels)
        error = class_column_init(&ingest->labels, &ingest->aside, "label");
    if (!error && ingest->has_groups)
        error = class_column_init(&ingest->groups, &ingest->aside, "group");
    if (!error && ingest->has_weights)
        error = spool_init(&ingest->weights, &ingest->aside, true, "the units' weights");
    return error;
}

static enum error finish(struct frame_ingest *ingest)
{
    if (ingest->ids.rows == 0)
        return error_set(ERROR_INPUT, "%s holds no units", ingest->info->uri);
    enum error error = spool_finish(&ingest->ids);
    if (!error && ingest->has_labels)
        error = class_column_finish(&ingest->labels);
    if (!error && ingest->has_groups)
        error = class_column_finish(&ingest->groups);
    if (!error && ingest->has_weights)
        error = spool_finish(&ingest->weights);
    return error;
}

enum error frame_ingest_open(struct frame_ingest *ingest, const char *uri, const char *path,
                             uint64_t memory_bytes)
{
    *ingest = (struct frame_ingest){.is_ascending = true, .last_id = -1, .smallest_id = UINT64_MAX};
    spool_store_init(&ingest->aside, path, memory_bytes);
    ingest->start_ns = ingest->told_ns = clock_now_ns();
    enum error error = store_open(uri, true, &ingest->store);
    if (error)
        return error;
    ingest->info = store_info(ingest->store);
    store_warn_of_labels(ingest->info);
    error = prepare(ingest);
    if (!error)
        error = store_scan(ingest->store, SCAN_CODES, take_block, ingest);
    if (!error)
        error = finish(ingest);
    free(ingest->block);
    ingest->block = NULL;
    if (error)
        frame_ingest_close(ingest);
    return error;
}

void frame_ingest_close(struct frame_ingest *ingest)
{
    if (!ingest->store) /* a zeroed one: its descriptor is not ours */
        return;
    spool_release(&ingest->ids);
    class_column_release(&ingest->labels);
    class_column_release(&ingest->groups);
    spool_release(&ingest->weights);
    spool_store_release(&ingest->aside);
    free(ingest->block);
    store_close(ingest->store);
    ingest->store = NULL;
}

enum error frame_ingest_refuse_twice(struct frame_ingest *ingest, const struct id_twice *twice)
{
    char places[2][STORE_PLACE_BYTES];
    for (int i = 0; i < 2; i++)
        store_locate(ingest->store, (int64_t)twice->rows[i], places[i]);
    return error_set(ERROR_INPUT, "id %" PRIu64 " comes twice: in %s and in %s", twice->id,
                     places[0], places[1]);
}

/* frame_build(): a frame in memory from a store's scan, or in closed form for `range:`. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/uri.h"
#include "loader/store_range.h"
#include "sampler/frame_private.h"

#define PROGRESS_NS INT64_C(1000000000)

/* A column of texts while rows come in. */
struct text_column {
    struct names_builder *names; /* owned; NULL: there is no such column */
    struct packed codes;         /* by appearance */
};

struct build {
    struct frame *frame; /* owned until it is done */
    const struct store_info *info;
    struct text_column labels, groups;
    size_t weights_count, weights_capacity;
    int64_t told_ns; /* when progress was last shown */
};

static const char *column_name(const char *name)
{
    return name ? name : "?";
}

/* At most once a second. */
static bool is_progress_due(struct build *build)
{
    int64_t now = clock_now_ns();
    bool is_due = now - build->told_ns >= PROGRESS_NS;
    if (is_due)
        build->told_ns = now;
    return is_due;
}

static void tell_rows(struct build *build)
{
    int64_t done = build->frame->ids.count;
    int64_t rows = build->info->rows;
    if (!is_progress_due(build))
        return;
    if (rows > 0)
        log_info("frame: read %" PRId64 " of %" PRId64 " rows (%.0f %%)", done, rows,
                 100.0 * (double)done / (double)rows);
    else
        log_info("frame: read %" PRId64 " rows", done);
}

static void tell_step(struct build *build, const char *doing)
{
    if (is_progress_due(build))
        log_info("frame: %s of %" PRId64 " units", doing, build->frame->units);
}

/* ---- rows come in -----------------------------------------------------------------------------
 */
static enum error in_row(enum error error, const struct build *build, int64_t row)
{
    return error_prefix(
        error, "%s, row %" PRId64 " (from 1, a header not counted): ", build->info->uri, row + 1);
}

static enum error in_store(enum error error, const struct build *build)
{
    return error_prefix(error, "%s: ", build->info->uri);
}

static enum error check_ids(const struct build *build, const struct store_block *block)
{
    for (size_t i = 0; i < block->rows; i++) {
        if (block->ids[i] < 0)
            return in_row(error_set(ERROR_INPUT, "id %" PRId64 " is out of range, 0 to 2^63-1",
                                    block->ids[i]),
                          build, block->first_row + (int64_t)i);
    }
    return OK;
}

static enum error add_texts(const struct build *build, struct text_column *column,
                            const struct store_block *block, const struct store_text *texts)
{
    for (size_t i = 0; i < block->rows; i++) {
        uint32_t code;
        enum error error = names_builder_add(column->names, texts[i].data, texts[i].length, &code);
        if (error)
            return in_row(error, build, block->first_row + (int64_t)i);
        error = packed_add(&column->codes, code, "the units' labels");
        if (error)
            return error;
    }
    return OK;
}

static enum error add_weights(struct build *build, const struct store_block *block)
{
    enum error error =
        array_grow((void **)&build->frame->weights, &build->weights_capacity,
                   build->weights_count + block->rows, sizeof(double), "the units' weights");
    for (size_t i = 0; i < block->rows && !error; i++) {
        double weight = block->weights[i];
        if (!isfinite(weight) || weight < 0)
            error = in_row(error_set(ERROR_INPUT,
                                     "column %s: the weight %g is not a finite number >= 0",
                                     column_name(build->info->weight_column), weight),
                           build, block->first_row + (int64_t)i);
        build->frame->weights[build->weights_count++] = weight;
    }
    return error;
}

static enum error take_block(void *context, const struct store_block *block)
{
    struct build *build = context;
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped while the frame was built");
    enum error error = check_ids(build, block);
    if (!error)
        error = id_column_add(&build->frame->ids, block->ids, block->rows);
    if (!error && build->labels.names)
        error = add_texts(build, &build->labels, block, block->labels);
    if (!error && build->groups.names)
        error = add_texts(build, &build->groups, block, block->groups);
    if (!error && build->info->weight_column)
        error = add_weights(build, block);
    tell_rows(build);
    return error;
}

/* ---- rows are there ---------------------------------------------------------------------------
 */
static enum error finish_columns(struct build *build)
{
    struct frame *frame = build->frame;
    tell_step(build, "sorting the ids");
    enum error error = id_column_finish(&frame->ids);
    if (error)
        return in_store(error, build);
    tell_step(build, "sorting the labels");
    error = build->labels.names
                ? partition_init(&frame->labels, build->labels.names, &build->labels.codes)
                : partition_of_nothing(&frame->labels, frame->units);
    if (!error && build->groups.names)
        error = partition_init(&frame->groups, build->groups.names, &build->groups.codes);
    tell_step(build, "taking the digest");
    return error ? error : frame_digest_compute(frame);
}

static enum error scan(struct build *build, struct store *store)
{
    struct frame *frame = build->frame;
    enum error error = OK;
    id_column_init(&frame->ids);
    frame->has_labels = build->info->label_column != NULL;
    frame->has_groups = build->info->group_column != NULL;
    if (frame->has_labels)
        error = names_builder_new("label", &build->labels.names);
    if (!error && frame->has_groups)
        error = names_builder_new("group", &build->groups.names);
    if (!error)
        error = store_scan(store, SCAN_KEYS, take_block, build);
    if (error)
        return error;
    frame->units = frame->ids.count;
    if (frame->units == 0)
        return error_set(ERROR_INPUT, "%s holds no units", build->info->uri);
    if (frame->units > FRAME_UNITS_LIMIT)
        return error_set(ERROR_INPUT, "%s holds more than %" PRId64 " units", build->info->uri,
                         FRAME_UNITS_LIMIT);
    return finish_columns(build);
}

enum error frame_build_by_scan(const char *uri, struct frame **ret_frame)
{
    struct build build = {
        .labels.codes.width = 1, .groups.codes.width = 1, .told_ns = clock_now_ns()};
    struct store *store = NULL;
    enum error error = store_open(uri, true, &store);
    if (error)
        return error;
    build.info = store_info(store);
    build.frame = array_new(1, sizeof(*build.frame), "a frame");
    error = build.frame ? scan(&build, store) : ERROR_MEMORY;
    names_builder_free(build.labels.names);
    names_builder_free(build.groups.names);
    packed_release(&build.labels.codes);
    packed_release(&build.groups.codes);
    store_close(store);
    if (error) {
        frame_free(build.frame);
        return error;
    }
    *ret_frame = build.frame;
    return OK;
}

/* ---- a range ----------------------------------------------------------------------------------
 */
static enum error build_range(const struct range *range, struct frame **ret_frame)
{
    struct frame *frame = array_new(1, sizeof(*frame), "a frame");
    if (!frame)
        return ERROR_MEMORY;
    frame->units = range->units;
    frame->has_labels = range->labels > 0;
    id_column_init(&frame->ids);
    frame->ids.count = range->units;
    frame->ids.last = range->units - 1;
    enum error error = frame->has_labels ? partition_of_range(&frame->labels, range->units,
                                                              (uint32_t)range->labels)
                                         : partition_of_nothing(&frame->labels, range->units);
    if (!error)
        error = frame_digest_compute(frame);
    if (error) {
        frame_free(frame);
        return error;
    }
    *ret_frame = frame;
    return OK;
}

enum error frame_build(const char *uri_text, struct frame **ret_frame)
{
    struct uri uri;
    struct range range;
    enum error error = uri_init(&uri, uri_text);
    if (error)
        return error;
    bool is_range = strcmp(uri.scheme, "range") == 0;
    if (is_range)
        error = range_parse(&uri, &range);
    uri_release(&uri);
    if (error)
        return error;
    return is_range ? build_range(&range, ret_frame) : frame_build_by_scan(uri_text, ret_frame);
}

/* SPDX-License-Identifier: MIT */
#include "sampler/frame/frame_view.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/stop.h"
#include "common/team.h"
#include "common/text.h"
#include "sampler/frame/frame_private.h"
#include "sampler/frame/partition_view.h"

#define CHOOSING "the units of a split were chosen"
#define STEP 4096                                     /* rows processed together */
#define BLOCK (INT64_C(4096) * RANK_BITMAP_LINE_BITS) /* rows per thread and step */

static enum error check_rows(const struct frame *whole, int64_t begin, int64_t end)
{
    if (begin >= 0 && begin < end && end <= whole->units)
        return OK;
    return error_set(ERROR_USAGE,
                     "rows %" PRId64 ":%" PRId64 " are not within the frame, which has %" PRId64
                     " %s: A:B needs 0 <= A < B <= %" PRId64,
                     begin, end, whole->units, text_plural(whole->units, "unit", "units"),
                     whole->units);
}

static struct frame *new_view(const struct frame *whole, int64_t units)
{
    struct frame *view = array_new(1, sizeof(*view), "a part of the frame");
    if (!view)
        return NULL;
    view->whole = whole;
    view->units = units;
    view->has_labels = whole->has_labels;
    view->has_groups = whole->has_groups;
    return view;
}

/* ---- plain rows --------------------------------------------------------- */

/* Without the digest, which only frames for streams need. */
static enum error view_rows(const struct frame *whole, int64_t begin, int64_t end,
                            struct frame **ret_view)
{
    struct frame *view = new_view(whole, end - begin);
    if (!view)
        return ERROR_MEMORY;
    id_column_of_rows(&view->ids, &whole->ids, begin, end);
    enum error error = partition_of_rows(&view->labels, &whole->labels, begin, end);
    if (!error && whole->has_groups)
        error = partition_of_rows(&view->groups, &whole->groups, begin, end);
    if (whole->weights)
        view->weights = whole->weights + begin;
    if (error) {
        frame_free(view);
        return error;
    }
    *ret_view = view;
    return OK;
}

/* ---- one side of a split ------------------------------------------------ */

static enum error check_stop(void)
{
    if (!stop_requested())
        return OK;
    return error_set(ERROR_CANCELLED, "stopped while " CHOOSING);
}

/* Shared by the threads that choose. */
struct choice {
    struct rank_bitmap *chosen;
    const struct frame *rows;
    const struct split_span *span;
};

/* `row` is a multiple of 32. */
static void put_ids(const struct choice *choice, int64_t row, const int64_t *ids, size_t count)
{
    for (size_t begin = 0; begin < count; begin += 32) {
        size_t end = count - begin < 32 ? count : begin + 32;
        uint32_t bits = 0;
        for (size_t i = begin; i < end; i++)
            bits |= (uint32_t)split_span_has_id(choice->span, ids[i]) << (i - begin);
        rank_bitmap_put_bits(choice->chosen, row + (int64_t)begin, bits);
    }
}

static enum error choose_rows(void *context, int64_t begin, int64_t end)
{
    const struct choice *choice = context;
    int64_t ids[STEP];
    enum error error = OK;
    for (int64_t row = begin; row < end && !error;) {
        size_t count = end - row < STEP ? (size_t)(end - row) : STEP;
        id_column_read(&choice->rows->ids, row, count, ids);
        put_ids(choice, row, ids, count);
        row += (int64_t)count;
        error = check_stop();
    }
    return error;
}

static enum error choose_by_id(struct rank_bitmap *chosen, const struct frame *rows,
                               const struct split_span *span)
{
    struct choice choice = {chosen, rows, span};
    return team_run_blocks(CHOOSING, rows->units, BLOCK, choose_rows, &choice);
}

static enum error choose_by_group(struct rank_bitmap *chosen, const struct frame *rows,
                                  const struct split_span *span)
{
    const struct partition *groups = &rows->groups;
    uint32_t categories[STEP];
    bool *is_chosen = array_new(groups->count, sizeof(*is_chosen), "the groups of a split");
    enum error error = is_chosen ? OK : ERROR_MEMORY;
    for (uint32_t group = 0; group < groups->count && !error; group++)
        is_chosen[group] = split_span_has_text(span, dictionary_text(&groups->dictionary, group));
    for (int64_t row = 0; row < rows->units && !error;) {
        size_t count = rows->units - row < STEP ? (size_t)(rows->units - row) : STEP;
        partition_read_categories(groups, row, count, categories);
        for (size_t i = 0; i < count; i++)
            rank_bitmap_put(chosen, row + (int64_t)i, is_chosen[categories[i]]);
        row += (int64_t)count;
        error = check_stop();
    }
    free(is_chosen);
    return error;
}

static enum error refuse_empty(const struct frame *rows, const struct split_shares *shares,
                               enum split split)
{
    char groups[64] = "";
    if (rows->has_groups)
        snprintf(groups, sizeof(groups), " in %" PRIu32 " %s not cut", rows->groups.count,
                 text_plural(rows->groups.count, "group, which is", "groups, which are"));
    return error_set(ERROR_USAGE,
                     "split %s (a share of %g) holds none of the %" PRId64 " %s of %" PRIu32
                     " %s%s: give it a larger share in --splits, or more rows",
                     split_name(split), split_share(shares, split), rows->units,
                     text_plural(rows->units, "unit", "units"), rows->labels.count,
                     text_plural(rows->labels.count, "label", "labels"), groups);
}

static enum error copy_weights(struct frame *view)
{
    int64_t rows[STEP];
    view->weights = array_new((size_t)view->units, sizeof(double), "the units' weights");
    if (!view->weights)
        return ERROR_MEMORY;
    for (int64_t row = 0; row < view->units;) {
        size_t count = view->units - row < STEP ? (size_t)(view->units - row) : STEP;
        rank_bitmap_read(view->chosen, row, count, rows);
        for (size_t i = 0; i < count; i++)
            view->weights[row + (int64_t)i] = view->rows->weights[rows[i]];
        row += (int64_t)count;
    }
    return OK;
}

static enum error choose(struct frame *view, const struct split_shares *shares, enum split split)
{
    const struct frame *rows = view->rows;
    struct split_span span;
    split_span_init(&span, shares, split);
    enum error error = rank_bitmap_new(rows->units, &view->chosen);
    if (!error)
        error = rows->has_groups ? choose_by_group(view->chosen, rows, &span)
                                 : choose_by_id(view->chosen, rows, &span);
    if (!error)
        error = rank_bitmap_finish(view->chosen);
    if (!error && view->chosen->ones == 0)
        error = refuse_empty(rows, shares, split);
    return error;
}

static enum error fill_side(struct frame *view, const struct split_shares *shares, enum split split)
{
    const struct frame *rows = view->rows;
    enum error error = choose(view, shares, split);
    if (error)
        return error;
    view->units = view->chosen->ones;
    id_column_of_bitmap(&view->ids, &rows->ids, view->chosen);
    error = partition_of_bitmap(&view->labels, &rows->labels, view->chosen, false);
    if (!error && rows->has_groups)
        error = partition_of_bitmap(&view->groups, &rows->groups, view->chosen, true);
    if (!error && rows->weights)
        error = copy_weights(view);
    return error;
}

/* Takes `rows`. */
static enum error view_side(struct frame *rows, const struct split_shares *shares, enum split split,
                            struct frame **ret_view)
{
    struct frame *view = new_view(rows->whole, 0);
    if (!view) {
        frame_free(rows);
        return ERROR_MEMORY;
    }
    view->rows = rows;
    enum error error = fill_side(view, shares, split);
    if (error) {
        frame_free(view);
        return error;
    }
    *ret_view = view;
    return OK;
}

/* ---- both --------------------------------------------------------------- */

enum error frame_view(const struct frame *whole, int64_t rows_begin, int64_t rows_end,
                      const struct split_shares *shares, enum split split, struct frame **ret_view)
{
    struct frame *view = NULL;
    bool is_all = rows_begin == 0 && rows_end == 0;
    assert(!whole->whole);
    if (split != SPLIT_NONE && !shares)
        return error_set(ERROR_USAGE,
                         "split %s: the server has no shares; start it with "
                         "--splits 0.8,0.1,0.1 (train, validation, test)",
                         split_name(split));
    enum error error = is_all ? OK : check_rows(whole, rows_begin, rows_end);
    if (!error)
        error = view_rows(whole, rows_begin, is_all ? whole->units : rows_end, &view);
    if (!error && split != SPLIT_NONE)
        error = view_side(view, shares, split, &view);
    if (error)
        return error;
    if (frame_view_is_whole(whole, rows_begin, rows_end, split))
        view->digest = whole->digest;
    else
        error = frame_digest_compute(view);
    if (error) {
        frame_free(view);
        return error;
    }
    *ret_view = view;
    return OK;
}

bool frame_view_keeps_labels(const struct frame *view, const struct frame *whole)
{
    return view->labels.dictionary.texts == whole->labels.dictionary.texts &&
           view->labels.count == whole->labels.count;
}

bool frame_view_drops_label(const struct frame *view, const char *text)
{
    return view->whole && frame_find_label(view->whole, text) >= 0 &&
           frame_find_label(view, text) < 0;
}

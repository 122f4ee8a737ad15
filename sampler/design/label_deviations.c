/* SPDX-License-Identifier: MIT */
#include "sampler/design/label_deviations.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/buffer.h"
#include "common/stop.h"
#include "common/text.h"
#include "loader/store/scan_apart.h"
#include "loader/store/store.h"
#include "loader/store_apart.h"

#define NAMES_SHOWN 8

/* Welford's recurrence for one label. The square of a double may be too large or too small for
 * one. */
struct spread {
    int64_t count;
    long double mean;
    long double squares; /* sum of squared differences from the mean */
};

struct survey {
    const struct frame *frame;
    struct store *store;
    const char *column;
    bool is_weight; /* the column is the store's weight, else a feature */
    size_t feature;
    struct spread *spreads; /* [L] */
    int64_t found;          /* units of the frame found so far */
};

/* ---- one value after the other ------------------------------------------ */

static void add_value(struct spread *spread, double value)
{
    long double before = value - spread->mean;
    spread->count++;
    spread->mean += before / (long double)spread->count;
    spread->squares += before * (value - spread->mean);
}

static double value_at(const struct survey *survey, const struct store_block *block, size_t row)
{
    const struct store_info *info = store_info(survey->store);
    if (survey->is_weight)
        return block->weights[row];
    size_t place = row * info->features + survey->feature;
    switch (info->element) {
    case ELEMENT_F32:
        return (double)((const float *)block->features)[place];
    case ELEMENT_I32:
        return ((const int32_t *)block->features)[place];
    case ELEMENT_U8:
        break;
    }
    return ((const uint8_t *)block->features)[place];
}

static enum error add_block(void *context, const struct store_block *block)
{
    struct survey *survey = context;
    char place[STORE_PLACE_BYTES];
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped while column %s was read", survey->column);
    for (size_t i = 0; i < block->rows; i++) {
        int64_t row = frame_find(survey->frame, block->ids[i]);
        if (row < 0)
            continue; /* the frame is a part of the store: --rows, a split */
        double value = value_at(survey, block, i);
        if (!isfinite(value))
            return error_set(ERROR_INPUT, "%s: column %s is not a finite number there",
                             store_locate(survey->store, block->first_row + (int64_t)i, place),
                             survey->column);
        add_value(&survey->spreads[frame_label(survey->frame, row)], value);
        survey->found++;
    }
    return OK;
}

/* ---- the column --------------------------------------------------------- */

static enum error refuse_column(const struct store_info *info, const char *column)
{
    char shown[TEXT_QUOTE_BYTES];
    struct buffer names = BUFFER_INIT(1 << 16);
    enum error error = OK;
    size_t named = info->feature_names ? info->features : 0;
    for (size_t i = 0; !error && i < named && i < NAMES_SHOWN; i++)
        error = buffer_print(&names, "%s%s", i > 0 ? ", " : "", info->feature_names[i]);
    error =
        error_set(ERROR_USAGE,
                  "column %s is neither a feature nor the weight of %s; it has %zu features%s%s%s",
                  text_quote(shown, sizeof(shown), column, strlen(column)), info->uri,
                  info->features, info->features > 0 ? ": " : "", names.data ? names.data : "",
                  info->features > NAMES_SHOWN ? ", ..." : "");
    buffer_release(&names);
    return error;
}

static enum error find_column(struct survey *survey, const char *column)
{
    const struct store_info *info = store_info(survey->store);
    survey->column = column;
    survey->is_weight = info->weight_column && strcmp(info->weight_column, column) == 0;
    if (survey->is_weight)
        return OK;
    for (size_t i = 0; info->feature_names && i < info->features; i++) {
        if (strcmp(info->feature_names[i], column) == 0) {
            survey->feature = i;
            return OK;
        }
    }
    return refuse_column(info, column);
}

static enum error measure(struct survey *survey, const char *column)
{
    enum error error = find_column(survey, column);
    if (!error)
        error = store_scan_apart(survey->store, survey->is_weight ? SCAN_KEYS : SCAN_FEATURES,
                                 add_block, survey);
    if (!error && survey->found != frame_units(survey->frame))
        error =
            error_set(ERROR_CONFLICT,
                      "%s has %" PRId64 " of the frame's %" PRId64
                      " units: it is not the store that the frame was made from",
                      store_info(survey->store)->uri, survey->found, frame_units(survey->frame));
    return error;
}

enum error label_deviations(const struct frame *frame, const char *store_uri, const char *column,
                            double **ret_deviations)
{
    struct survey survey = {.frame = frame};
    uint32_t labels = frame_labels(frame);
    double *deviations = array_new(labels, sizeof(*deviations), "the labels' deviations");
    survey.spreads = array_new(labels, sizeof(*survey.spreads), "the labels' deviations");
    enum error error = deviations && survey.spreads ? OK : ERROR_MEMORY;
    if (!error)
        error = store_open_apart(
            store_uri, &(struct store_open_options){.columns = &column, .column_count = 1},
            &survey.store);
    if (!error)
        error = measure(&survey, column);
    for (uint32_t label = 0; !error && label < labels; label++) {
        const struct spread *spread = &survey.spreads[label];
        if (spread->count > 1)
            deviations[label] = (double)sqrtl(spread->squares / (long double)(spread->count - 1));
    }
    store_close(survey.store);
    free(survey.spreads);
    if (error) {
        free(deviations);
        return error;
    }
    *ret_deviations = deviations;
    return OK;
}

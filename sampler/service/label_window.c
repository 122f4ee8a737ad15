#include "sampler/service/label_window.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"

#define BLOCK 4096

static enum error refuse(int64_t amount, const char *what)
{
    return error_set(ERROR_UNAVAILABLE,
                     "the last minute holds %" PRId64 " %s: more than %" PRId64 " are not counted",
                     amount, what, LABEL_WINDOW_LIMIT);
}

/* Units of the label below absolute position `end` of the span's epochs, from `first` on. */
static enum error count_span(const struct sampling_plan *plan, const struct history_span *span,
                             uint32_t label, int64_t *ret_count)
{
    int64_t epoch_positions = plan->batching.epoch_positions;
    int64_t sum = 0;
    for (int64_t first = span->first; first < span->end;) {
        int64_t epoch = first / epoch_positions;
        int64_t start = epoch * epoch_positions;
        int64_t end = span->end < start + epoch_positions ? span->end : start + epoch_positions;
        int64_t before = 0;
        int64_t after;
        enum error error = order_label_count(plan->order, label, epoch, end - start, &after);
        if (!error && first > start)
            error = order_label_count(plan->order, label, epoch, first - start, &before);
        if (error)
            return error;
        sum += after - before;
        first = end;
    }
    *ret_count += sum;
    return OK;
}

static enum error count_closed(const struct sampling_plan *plan, const struct history_span *spans,
                               size_t span_count, const uint32_t *labels, size_t label_count,
                               int64_t *ret_counts)
{
    int64_t epochs = 0;
    for (size_t i = 0; i < span_count; i++)
        epochs += spans[i].end / plan->batching.epoch_positions -
                  spans[i].first / plan->batching.epoch_positions + 1;
    if (label_count > 0 && epochs > LABEL_WINDOW_LIMIT / (int64_t)label_count)
        return refuse(epochs, "epochs of these labels");
    enum error error = OK;
    for (size_t i = 0; !error && i < label_count; i++) {
        ret_counts[i] = 0;
        for (size_t j = 0; !error && j < span_count; j++)
            error = count_span(plan, &spans[j], labels ? labels[i] : (uint32_t)i, &ret_counts[i]);
    }
    return error;
}

static void count_units(const struct sampling_plan *plan, const struct history_span *span,
                        int64_t *counts)
{
    int64_t ids[BLOCK];
    uint32_t labels[BLOCK];
    for (int64_t first = span->first; first < span->end; first += BLOCK) {
        int64_t left = span->end - first;
        size_t units =
            order_units(plan->order, first, left < BLOCK ? left : BLOCK, ids, labels, NULL);
        for (size_t i = 0; i < units; i++)
            counts[labels[i]]++;
    }
}

static enum error count_one_by_one(const struct sampling_plan *plan,
                                   const struct history_span *spans, size_t span_count,
                                   const uint32_t *labels, size_t label_count, int64_t *ret_counts)
{
    int64_t positions = 0;
    for (size_t i = 0; i < span_count; i++)
        positions += spans[i].end - spans[i].first;
    if (positions > LABEL_WINDOW_LIMIT)
        return refuse(positions, "positions");
    int64_t *counts =
        array_new(frame_labels(plan->frame), sizeof(*counts), "the counts of the last minute");
    if (!counts)
        return ERROR_MEMORY;
    for (size_t i = 0; i < span_count; i++)
        count_units(plan, &spans[i], counts);
    for (size_t i = 0; i < label_count; i++)
        ret_counts[i] = counts[labels ? labels[i] : i];
    free(counts);
    return OK;
}

enum error label_window_counts(const struct sampling_plan *plan, const struct history_span *spans,
                               size_t span_count, const uint32_t *labels, size_t label_count,
                               int64_t *ret_counts)
{
    enum error error = count_closed(plan, spans, span_count, labels, label_count, ret_counts);
    if (error != ERROR_UNAVAILABLE)
        return error;
    return count_one_by_one(plan, spans, span_count, labels, label_count, ret_counts);
}

/* SPDX-License-Identifier: MIT */
#include "sampler/service/label_balance.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "common/array.h"

#define COUNT_AT_ONCE 4096

/* ---- the last minute ---------------------------------------------------- */

static enum error refuse_window(int64_t amount, const char *what)
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
        return refuse_window(epochs, "epochs of these labels");
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
    int64_t ids[COUNT_AT_ONCE];
    uint32_t labels[COUNT_AT_ONCE];
    for (int64_t first = span->first; first < span->end; first += COUNT_AT_ONCE) {
        int64_t left = span->end - first;
        size_t units = order_units(plan->order, first, left < COUNT_AT_ONCE ? left : COUNT_AT_ONCE,
                                   ids, labels, NULL);
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
        return refuse_window(positions, "positions");
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

/* ---- drawn and wanted --------------------------------------------------- */

/* The labels with the highest scores, highest first. */
struct best {
    uint32_t labels[BALANCE_ALL];
    double scores[BALANCE_ALL];
    size_t count;
    size_t room;
};

static void best_offer(struct best *best, uint32_t label, double score)
{
    size_t at = best->count;
    if (at == best->room) {
        if (score <= best->scores[at - 1])
            return;
        at--;
    } else {
        best->count++;
    }
    for (; at > 0 && best->scores[at - 1] < score; at--) {
        best->labels[at] = best->labels[at - 1];
        best->scores[at] = best->scores[at - 1];
    }
    best->labels[at] = label;
    best->scores[at] = score;
}

struct balance {
    const struct sampling_plan *plan;
    int64_t epoch;
    int64_t units;        /* drawn in the epoch */
    const int64_t *drawn; /* [L] */
    struct best shown;    /* all, or the largest */
    struct best worst;    /* empty: all are shown */
    const struct history_span *spans;
    size_t span_count;
};

static void choose(struct balance *balance)
{
    const struct sampling_plan *plan = balance->plan;
    uint32_t labels = frame_labels(plan->frame);
    balance->shown.room = labels <= BALANCE_ALL ? BALANCE_ALL : BALANCE_LARGEST;
    balance->worst.room = labels <= BALANCE_ALL ? 0 : BALANCE_WORST;
    for (uint32_t label = 0; label < labels; label++) {
        double share = order_label_share(plan->order, label);
        double off = fabs((double)balance->drawn[label] - share * (double)balance->units);
        if (labels <= BALANCE_ALL) {
            best_offer(&balance->shown, label, -(double)label); /* in label order */
            continue;
        }
        best_offer(&balance->shown, label, share);
        best_offer(&balance->worst, label, off);
    }
}

static void add_row(const struct balance *balance, uint32_t label, bool first,
                    const int64_t *minute, struct buffer *out)
{
    const struct sampling_plan *plan = balance->plan;
    buffer_add_text(out, first ? "[" : ",[");
    label_texts_add_json(plan->label_texts, label, out); /* with its ',' */
    buffer_print(out, "%" PRId64 ",%" PRId64 ",%.10g,", frame_label_units(plan->frame, label),
                 balance->drawn[label], order_label_share(plan->order, label));
    if (minute)
        buffer_print(out, "%" PRId64 "]", *minute);
    else
        buffer_add_text(out, "null]");
}

static enum error add_rows(const struct balance *balance, const char *key, const struct best *best,
                           struct buffer *out)
{
    int64_t minute[BALANCE_ALL];
    enum error error = label_window_counts(balance->plan, balance->spans, balance->span_count,
                                           best->labels, best->count, minute);
    if (error && error != ERROR_UNAVAILABLE)
        return error;
    buffer_print(out, ",\"%s\":[", key);
    for (size_t i = 0; i < best->count; i++)
        add_row(balance, best->labels[i], i == 0, error ? NULL : &minute[i], out);
    return buffer_add_text(out, "]");
}

static enum error write(struct balance *balance, struct buffer *out)
{
    uint32_t labels = frame_labels(balance->plan->frame);
    for (uint32_t label = 0; label < labels; label++)
        balance->units += balance->drawn[label];
    choose(balance);
    enum error error =
        buffer_print(out, "{\"count\":%" PRIu32 ",\"epoch\":%" PRId64 ",\"drawn\":%" PRId64, labels,
                     balance->epoch, balance->units);
    if (!error)
        error = add_rows(balance, "rows", &balance->shown, out);
    if (!error && balance->worst.count > 0)
        error = add_rows(balance, "worst", &balance->worst, out);
    return error ? error : buffer_add_text(out, "}");
}

enum error label_balance_write(const struct sampling_plan *plan, const struct label_counts *counts,
                               const struct history_span *spans, size_t span_count,
                               struct buffer *out)
{
    struct balance balance = {.plan = plan,
                              .epoch = counts->epoch,
                              .drawn = counts->drawn,
                              .spans = spans,
                              .span_count = span_count};
    if (counts->left > 0)
        return buffer_print(out, "{\"count\":%" PRIu32 "}", frame_labels(plan->frame));
    return write(&balance, out);
}

/* SPDX-License-Identifier: MIT */
#include "trainer/model/targets.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"

/* The class of a label value; the table is sorted by value. */
struct entry {
    double value;
    int32_t number;
};

struct targets {
    const struct classes *classes; /* NULL: a regression */
    const struct store_info *info;
    struct entry *entries;
    size_t count;
};

static int compare_entries(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;
    return (left->value > right->value) - (left->value < right->value);
}

/* Stores number their label texts: the value is the index. */
static enum error map_texts(struct targets *targets)
{
    const struct store_info *info = targets->info;
    targets->entries = array_new(info->label_text_count, sizeof(*targets->entries), "labels");
    if (!targets->entries)
        return ERROR_MEMORY;
    for (size_t i = 0; i < info->label_text_count; i++) {
        int32_t number = classes_find(targets->classes, info->label_texts[i]);
        if (number >= 0)
            targets->entries[targets->count++] = (struct entry){(double)i, number};
    }
    return OK;
}

/* Stores return integers beyond 2^53, which a double does not distinguish, as texts. */
static bool is_inexact_integer(const char *text)
{
    int64_t integer;
    return text_parse_integer(text, strlen(text), INT64_MIN, INT64_MAX, &integer) &&
           !text_parse_integer(text, strlen(text), -TEXT_EXACT, TEXT_EXACT, &integer);
}

/* Classes that are not numbers cannot occur among a store's numbers, and are omitted. */
static enum error map_numbers(struct targets *targets)
{
    const struct classes *classes = targets->classes;
    targets->entries = array_new(classes->count, sizeof(*targets->entries), "labels");
    if (!targets->entries)
        return ERROR_MEMORY;
    for (size_t i = 0; i < classes->count; i++) {
        const char *text = classes->texts[i];
        double value;
        if (!is_inexact_integer(text) && text_parse_real(text, strlen(text), &value))
            targets->entries[targets->count++] = (struct entry){value, (int32_t)i};
    }
    qsort(targets->entries, targets->count, sizeof(*targets->entries), compare_entries);
    for (size_t i = 1; i < targets->count; i++) {
        if (targets->entries[i - 1].value == targets->entries[i].value)
            return error_set(ERROR_INPUT,
                             "the classes '%s' and '%s' are the same number in %s, whose column %s "
                             "holds numbers; write it one way in what the sampler serves",
                             classes->texts[targets->entries[i - 1].number],
                             classes->texts[targets->entries[i].number], targets->info->uri,
                             targets->info->label_column);
    }
    return OK;
}

/* Explains labels that are texts only because of their form, such as 007 or an integer above
 * 2^53. */
static enum error refuse_texts(const struct store_info *info)
{
    double value;
    size_t i = 0, inexact = 0;
    for (; i < info->label_text_count; i++) {
        const char *text = info->label_texts[i];
        if (!text_parse_real(text, strlen(text), &value))
            break;
        if (is_inexact_integer(text))
            inexact = i;
    }
    if (i == info->label_text_count)
        return error_set(ERROR_INPUT,
                         "%s: column %s is taken as texts, since it holds integers above 2^53 or "
                         "with zeros in front, such as '%s'; a regression (linear) needs numbers",
                         info->uri, info->label_column, info->label_texts[inexact]);
    return error_set(ERROR_INPUT,
                     "%s: column %s holds texts such as '%s'; a regression (linear) needs numbers",
                     info->uri, info->label_column, info->label_texts[i]);
}

static enum error map_labels(struct targets *targets)
{
    const struct store_info *info = targets->info;
    if (info->label_kind == LABEL_NONE)
        return error_set(ERROR_INPUT, "%s has no label column; name it in the URI (?label=COLUMN)",
                         info->uri);
    if (!targets->classes)
        return info->label_kind == LABEL_TEXT ? refuse_texts(info) : OK;
    return info->label_kind == LABEL_TEXT ? map_texts(targets) : map_numbers(targets);
}

enum error targets_new(const struct classes *classes, const struct store *store,
                       struct targets **ret_targets)
{
    struct targets *targets = array_new(1, sizeof(*targets), "labels");
    if (!targets)
        return ERROR_MEMORY;
    targets->classes = classes;
    targets->info = store_info(store);
    enum error error = map_labels(targets);
    if (error) {
        targets_free(targets);
        return error;
    }
    *ret_targets = targets;
    return OK;
}

void targets_free(struct targets *targets)
{
    if (!targets)
        return;
    free(targets->entries);
    free(targets);
}

static enum error unknown_label(const struct targets *targets, int64_t id, double label)
{
    const struct store_info *info = targets->info;
    char text[TEXT_QUOTE_BYTES], known[300];
    if (info->label_kind == LABEL_TEXT && label >= 0 && label < (double)info->label_text_count) {
        const char *stored = info->label_texts[(size_t)label];
        text_quote(text, sizeof(text), stored, strlen(stored));
    } else {
        snprintf(text, sizeof(text), "%.17g", label);
    }
    return error_set(ERROR_INPUT,
                     "%s: the row with id %" PRId64 " has label %s, which is not one of the %zu "
                     "classes of the model (%s)%s",
                     info->uri, id, text, targets->classes->count,
                     classes_describe(targets->classes, known, sizeof(known)),
                     info->label_kind == LABEL_REAL ? "; a regression is --model linear" : "");
}

int32_t targets_find(const struct targets *targets, double label)
{
    size_t low = 0, high = targets->count;
    /* Labels 0..L-1 are the common case: the table's index is the value. */
    if (label >= 0 && label < (double)high && targets->entries[(size_t)label].value == label)
        return targets->entries[(size_t)label].number;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (targets->entries[middle].value < label)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < targets->count && targets->entries[low].value == label)
        return targets->entries[low].number;
    return -1;
}

enum error targets_convert(const struct targets *targets, const int64_t *ids, const double *labels,
                           const enum row_status *status, size_t rows, int32_t *ret_classes,
                           float *ret_numbers)
{
    for (size_t i = 0; i < rows; i++) {
        if (!targets->classes) {
            ret_numbers[i] = (float)labels[i];
            if (!isfinite(ret_numbers[i]))
                return error_set(ERROR_INPUT,
                                 "%s: the row with id %" PRId64
                                 " has label %g, which is not a finite 32-bit float",
                                 targets->info->uri, ids[i], labels[i]);
            continue;
        }
        ret_classes[i] = targets_find(targets, labels[i]);
        if (ret_classes[i] < 0 && status && status[i] != ROW_OK)
            ret_classes[i] = 0;
        if (ret_classes[i] < 0)
            return unknown_label(targets, ids[i], labels[i]);
    }
    return OK;
}

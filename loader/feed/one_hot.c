/* SPDX-License-Identifier: MIT */
#include "loader/feed/one_hot.h"

#include <inttypes.h>

#include "common/text.h"
#include "loader/store/scan_apart.h"

struct range {
    const char *uri;
    int64_t least, most;
};

/* Keys only: labels in their written form. */
static enum error take_block(void *context, const struct store_block *block)
{
    struct range *range = context;
    for (size_t i = 0; i < block->rows; i++) {
        const struct text *text = &block->labels[i];
        int64_t label;
        if (!text_parse_integer(text->data, text->length, INT64_MIN, INT64_MAX, &label))
            return error_set(ERROR_INPUT, "%s, id %" PRId64 ": the label is no longer an integer",
                             range->uri, block->ids[i]);
        range->least = label < range->least ? label : range->least;
        range->most = label > range->most ? label : range->most;
    }
    return OK;
}

/* Integers, each its own code. */
static enum error count_integers(struct store *store, size_t *ret_classes)
{
    const char *uri = store_info(store)->uri;
    struct range range = {.uri = uri};
    enum error error = store_scan_apart(store, SCAN_KEYS, take_block, &range);
    if (error)
        return error;
    if (range.least < 0)
        return error_set(ERROR_USAGE,
                         "one-hot labels of %s: a label is %" PRId64
                         "; integers from 0 on are codes, and so are texts",
                         uri, range.least);
    if (range.most >= (int64_t)ONE_HOT_CLASSES_LIMIT)
        return error_set(ERROR_USAGE,
                         "one-hot labels of %s: a label is %" PRId64
                         "; integers from 0 to %zu are codes, and so are texts",
                         uri, range.most, ONE_HOT_CLASSES_LIMIT - 1);
    *ret_classes = (size_t)range.most + 1;
    return OK;
}

static enum error check_kind(const struct store_info *info)
{
    if (info->label_kind == LABEL_NONE)
        return error_set(ERROR_USAGE, "one-hot labels of %s, which has no labels", info->uri);
    if (info->label_kind == LABEL_REAL)
        return error_set(ERROR_USAGE,
                         "one-hot labels of %s, whose labels are real numbers; integers from 0 on "
                         "and texts are codes",
                         info->uri);
    return OK;
}

enum error one_hot_classes(struct store *store, size_t wanted, size_t *ret_classes)
{
    const struct store_info *info = store_info(store);
    bool has_texts = info->label_kind == LABEL_TEXT;
    size_t classes = wanted;
    enum error error = check_kind(info);
    if (!error && wanted == 0 && !has_texts)
        error = count_integers(store, &classes);
    if (error)
        return error;
    if (has_texts && wanted == 0)
        classes = info->label_text_count;
    if (has_texts && info->label_text_count > classes)
        return error_set(ERROR_USAGE, "%zu classes, but %s has %zu labels", classes, info->uri,
                         info->label_text_count);
    if (classes > ONE_HOT_CLASSES_LIMIT)
        return error_set(ERROR_USAGE, "one-hot labels of %zu classes; at most %zu are possible",
                         classes, ONE_HOT_CLASSES_LIMIT);
    *ret_classes = classes;
    return OK;
}

enum error one_hot_codes(const struct store_info *info, const int64_t *ids, const double *labels,
                         size_t rows, size_t classes, uint32_t *codes)
{
    for (size_t i = 0; i < rows; i++) {
        if (!(labels[i] >= 0 && labels[i] < (double)classes))
            return error_set(ERROR_INPUT,
                             "id %" PRId64
                             " of %s has the label %.17g, which is not one of the codes of "
                             "%zu classes, 0 to %zu",
                             ids[i], info->uri, labels[i], classes, classes - 1);
        codes[i] = (uint32_t)labels[i];
    }
    return OK;
}

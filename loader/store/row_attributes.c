/* SPDX-License-Identifier: MIT */
#include "loader/store/row_attributes.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "loader/column/label_dictionary.h"
#include "loader/store/id_index.h"
#include "loader/store/scan_apart.h"

struct row_attributes {
    struct id_index ids;
    double *weights;                /* owned; [rows]; NULL: not wanted */
    uint32_t *groups;               /* owned; [rows]: numbers into `values`; NULL: not wanted */
    int64_t *values;                /* owned: the values handed to the caller */
    struct label_dictionary sorted; /* groups that are texts; LABEL_NONE: integers */
};

/* During the scan of the store. */
struct reading {
    struct row_attributes *attributes;
    const struct store_info *info;
    int64_t *ids; /* owned until the index takes them; NULL: row numbers */
    struct text_set groups;
    int64_t rows; /* so far */
};

/* ---- reading ------------------------------------------------------------ */

static enum error refuse_count(const struct reading *reading)
{
    return error_set(ERROR_INPUT, "%s has another number of rows than the %lld when it was opened",
                     reading->info->uri, (long long)reading->info->rows);
}

static enum error take_block(void *context, const struct store_block *block)
{
    struct reading *reading = context;
    struct row_attributes *attributes = reading->attributes;
    size_t at = (size_t)reading->rows;
    enum error error = OK;
    if ((int64_t)block->rows > reading->info->rows - reading->rows)
        return refuse_count(reading);
    if (reading->ids)
        memcpy(reading->ids + at, block->ids, block->rows * sizeof(*block->ids));
    if (attributes->weights)
        memcpy(attributes->weights + at, block->weights, block->rows * sizeof(*block->weights));
    for (size_t i = 0; i < block->rows && attributes->groups && !error; i++)
        error = text_set_add(&reading->groups, block->groups[i].data, block->groups[i].length,
                             &attributes->groups[at + i]);
    reading->rows += (int64_t)block->rows;
    return error;
}

static bool are_integers(const struct text_set *groups)
{
    size_t i = 0;
    while (i < groups->count && labels_are_integers(&groups->texts[i].data, 1))
        i++;
    return i == groups->count;
}

/* Each text's place in the sorted list. */
static enum error sort_groups(struct row_attributes *attributes, struct text_set *groups)
{
    struct label_dictionary *sorted = &attributes->sorted;
    size_t count = groups->count;
    struct text *texts = array_new(count, sizeof(*texts), "groups");
    if (!texts)
        return ERROR_MEMORY;
    if (count > 0)
        memcpy(texts, groups->texts, count * sizeof(*texts));
    *sorted = (struct label_dictionary){.kind = LABEL_TEXT, .found = *groups};
    *groups = (struct text_set){.texts = NULL}; /* now owned by the dictionary */
    label_dictionary_finish(sorted);
    for (size_t i = 0; i < count; i++) {
        double rank = 0;
        label_value(sorted, texts[i].data, texts[i].length, &rank);
        attributes->values[i] = (int64_t)rank;
    }
    free(texts);
    return OK;
}

static enum error number_groups(struct row_attributes *attributes, struct text_set *groups)
{
    attributes->values = array_new(groups->count, sizeof(*attributes->values), "groups");
    if (!attributes->values)
        return ERROR_MEMORY;
    if (!are_integers(groups))
        return sort_groups(attributes, groups);
    for (size_t i = 0; i < groups->count; i++)
        text_parse_integer(groups->texts[i].data, groups->texts[i].length, INT64_MIN, INT64_MAX,
                           &attributes->values[i]);
    return OK;
}

static enum error finish(struct reading *reading)
{
    struct row_attributes *attributes = reading->attributes;
    int64_t twice[2];
    if (reading->rows != reading->info->rows)
        return refuse_count(reading);
    enum error error = id_index_init(&attributes->ids, reading->ids, reading->rows, twice);
    if (error == ERROR_CONFLICT)
        return error_set(ERROR_INPUT, "%s: rows %lld and %lld both have the id %lld",
                         reading->info->uri, (long long)twice[0], (long long)twice[1],
                         (long long)reading->ids[twice[0]]);
    if (!error)
        reading->ids = NULL; /* the index has them */
    return error || !attributes->groups ? error : number_groups(attributes, &reading->groups);
}

static enum error reserve(struct reading *reading, bool weights, bool groups)
{
    static const char what[] = "the weights and groups of a store's rows";
    struct row_attributes *attributes = reading->attributes;
    size_t rows = (size_t)reading->info->rows;
    bool ids = reading->info->id_column != NULL;
    if (ids)
        reading->ids = array_new(rows, sizeof(*reading->ids), what);
    if (weights)
        attributes->weights = array_new(rows, sizeof(*attributes->weights), what);
    if (groups)
        attributes->groups = array_new(rows, sizeof(*attributes->groups), what);
    bool there = (!ids || reading->ids) && (!weights || attributes->weights) &&
                 (!groups || attributes->groups);
    return there ? OK : ERROR_MEMORY;
}

static enum error check_columns(const struct store_info *info, bool weights, bool groups)
{
    bool has_weights = !weights || info->weight_column;
    if (has_weights && (!groups || info->group_column))
        return OK;
    return error_set(ERROR_USAGE, "%s has no column of %s: %s=NAME in the URI says which it is",
                     info->uri, has_weights ? "groups" : "weights",
                     has_weights ? "group" : "weight");
}

enum error row_attributes_read(struct store *store, bool weights, bool groups,
                               struct row_attributes **ret_attributes)
{
    struct reading reading = {.info = store_info(store)};
    enum error error = check_columns(reading.info, weights, groups);
    if (error)
        return error;
    reading.attributes = array_new(1, sizeof(*reading.attributes), "weights and groups");
    if (!reading.attributes)
        return ERROR_MEMORY;
    error = reserve(&reading, weights, groups);
    if (!error)
        error = store_scan_apart(store, SCAN_KEYS, take_block, &reading);
    if (!error)
        error = finish(&reading);
    free(reading.ids);
    text_set_release(&reading.groups);
    if (error)
        row_attributes_free(reading.attributes);
    else
        *ret_attributes = reading.attributes;
    return error;
}

void row_attributes_free(struct row_attributes *attributes)
{
    if (!attributes)
        return;
    id_index_release(&attributes->ids);
    label_dictionary_release(&attributes->sorted);
    free(attributes->weights);
    free(attributes->groups);
    free(attributes->values);
    free(attributes);
}

/* ---- lookup ------------------------------------------------------------- */

/* -1: none, or not ROW_OK. */
static int64_t find(const struct row_attributes *attributes, int64_t id, enum row_status status)
{
    return status == ROW_OK ? id_index_row(&attributes->ids, id) : -1;
}

void row_attributes_weights(const struct row_attributes *attributes, const int64_t *ids,
                            const enum row_status *status, size_t rows, bool as_f32, void *weights)
{
    for (size_t i = 0; i < rows; i++) {
        int64_t row = find(attributes, ids[i], status[i]);
        double weight = row >= 0 ? attributes->weights[row] : 0;
        if (as_f32)
            ((float *)weights)[i] = (float)weight;
        else
            ((double *)weights)[i] = weight;
    }
}

void row_attributes_groups(const struct row_attributes *attributes, const int64_t *ids,
                           const enum row_status *status, size_t rows, int64_t *groups)
{
    for (size_t i = 0; i < rows; i++) {
        int64_t row = find(attributes, ids[i], status[i]);
        groups[i] = row >= 0 ? attributes->values[attributes->groups[row]] : 0;
    }
}

const char *const *row_attributes_group_texts(const struct row_attributes *attributes,
                                              size_t *ret_count)
{
    *ret_count = attributes ? attributes->sorted.count : 0;
    return attributes && attributes->sorted.kind == LABEL_TEXT ? attributes->sorted.texts : NULL;
}

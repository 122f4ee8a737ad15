/* SPDX-License-Identifier: MIT */
#include "loader/store/store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/log.h"
#include "loader/column/column_role.h"

bool store_is_without_rows(enum error error)
{
    return error == ERROR_INPUT && error_kind() && strcmp(error_kind(), STORE_WITHOUT_ROWS) == 0;
}

enum error store_add_bad_row(struct store_info *info, char **first)
{
    if (info->bad_rows++ > 0)
        return OK;
    *first = strdup(error_message());
    return *first ? OK : error_set_memory(ERROR_MESSAGE_BYTES, "a message");
}

void store_close(struct store *store)
{
    if (!store || atomic_fetch_sub(&store->keepers, 1) > 0)
        return;
    char *uri = (char *)store->info.uri;
    store->ops->close(store);
    free(uri);
}

void store_keep(struct store *store)
{
    atomic_fetch_add(&store->keepers, 1);
}

const struct store_info *store_info(const struct store *store)
{
    return &store->info;
}

const struct store *store_part(const struct store *store, size_t number)
{
    if (store->ops->part)
        return store->ops->part(store, number);
    return number == 0 ? store : NULL;
}

const char *store_label_hint(const struct store_info *info, char out[STORE_HINT_BYTES])
{
    char names[NAME_LIST_BYTES];
    out[0] = '\0';
    if (!info->label_column && info->label_choices)
        snprintf(out, STORE_HINT_BYTES, "%clabel=NAME in the URI says which column holds them: %s",
                 strchr(info->uri, '?') ? '&' : '?',
                 name_list(info->label_choices, info->label_choice_count, names));
    return out;
}

void store_warn_of_labels(const struct store_info *info)
{
    char hint[STORE_HINT_BYTES];
    if (store_label_hint(info, hint)[0])
        log_warning(
            "%s: no labels: no column is called \"label\"; %s (label= alone: there are none)",
            info->uri, hint);
}

enum error store_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                      void *context)
{
    return store->ops->scan(store, columns, sink, context);
}

const char *store_locate(struct store *store, int64_t row, char out[STORE_PLACE_BYTES])
{
    if (!store->ops->locate || store->ops->locate(store, row, out))
        snprintf(out, STORE_PLACE_BYTES, "%.400s, row %lld (from 1)", store->info.uri,
                 (long long)row + 1);
    return out;
}

enum error reader_open(struct store *store, struct reader **ret_reader)
{
    enum error error = store->ops->reader_open(store, ret_reader);
    if (!error)
        (*ret_reader)->store = store;
    return error;
}

void reader_close(struct reader *reader)
{
    if (reader)
        reader->store->ops->reader_close(reader);
}

enum error reader_fetch(struct reader *reader, const int64_t *ids, size_t count, void *features,
                        size_t stride_bytes, double *labels, enum row_status *status)
{
    return reader->store->ops->fetch(reader, ids, count, features, stride_bytes, labels, status);
}

bool reader_find(struct reader *reader, const int64_t *ids, size_t count, uint32_t *places,
                 double *labels, struct store_memory *ret_memory)
{
    const struct store_ops *ops = reader->store->ops;
    return ops->find && ops->find(reader, ids, count, places, labels, ret_memory);
}

bool reader_has_run(struct reader *reader, int64_t *ret_first)
{
    const struct store_ops *ops = reader->store->ops;
    return ops->has_run && ops->has_run(reader, ret_first);
}

/* `lengths` NULL: not requested. */
static enum error fetch_into(struct reader *reader, const int64_t *ids, size_t count,
                             void *features, size_t stride_bytes, double *labels,
                             enum row_status *status, int64_t *lengths)
{
    reader->lengths = lengths;
    enum error error = reader_fetch(reader, ids, count, features, stride_bytes, labels, status);
    reader->lengths = NULL;
    return error;
}

enum error reader_fetch_lengths(struct reader *reader, const int64_t *ids, size_t count,
                                void *features, size_t stride_bytes, double *labels,
                                enum row_status *status, int64_t *lengths)
{
    const struct store_info *info = &reader->store->info;
    bool are_alike = info->lengths == LENGTHS_ALIKE;
    enum error error = fetch_into(reader, ids, count, features, stride_bytes, labels, status,
                                  are_alike ? NULL : lengths);
    for (size_t i = 0; i < count && !error && are_alike; i++)
        lengths[i] = status[i] == ROW_OK ? (int64_t)info->features : 0;
    return error;
}

enum error reader_fetch_as(struct reader *inner, const struct reader *outer, size_t first,
                           const int64_t *ids, size_t count, void *features, size_t stride_bytes,
                           double *labels, enum row_status *status)
{
    return fetch_into(inner, ids, count, features, stride_bytes, labels, status,
                      outer->lengths ? outer->lengths + first : NULL);
}

/* ---- lengths only ------------------------------------------------------- */

#define MEASURED_BYTES ((size_t)1 << 20) /* of rows fetched at once to measure them */

static enum error measure_by_fetching(struct reader *reader, const int64_t *ids, size_t count,
                                      int64_t *lengths)
{
    const struct store_info *info = &reader->store->info;
    size_t row_bytes = info->features * element_bytes(info->element);
    size_t most = MEASURED_BYTES / (row_bytes + 1) + 1;
    most = most < count ? most : count;
    uint8_t *features = array_new(most, row_bytes + 1, "rows whose lengths are asked for");
    enum row_status *status = array_new(most, sizeof(*status), "rows whose lengths are asked for");
    enum error error = features && status ? OK : ERROR_MEMORY;
    for (size_t done = 0, step; done < count && !error; done += step) {
        step = count - done < most ? count - done : most;
        error = reader_fetch_lengths(reader, ids + done, step, features, row_bytes, NULL, status,
                                     lengths + done);
    }
    free(features);
    free(status);
    return error;
}

enum error reader_lengths(struct reader *reader, const int64_t *ids, size_t count, int64_t *lengths)
{
    const struct store *store = reader->store;
    if (store->info.lengths != LENGTHS_ALIKE && store->ops->measure)
        return store->ops->measure(reader, ids, count, lengths);
    return measure_by_fetching(reader, ids, count, lengths);
}

/* ---- packed rows -------------------------------------------------------- */

static size_t width_of(const struct store_info *info, const int64_t *lengths, size_t count)
{
    int64_t longest = 0;
    if (info->lengths != LENGTHS_VARY)
        return info->features;
    for (size_t i = 0; i < count; i++)
        longest = lengths[i] > longest ? lengths[i] : longest;
    return (size_t)longest;
}

/* Rows [count, from] become [count, to]. A row never overwrites one that is still to move. */
static void pack(uint8_t *features, size_t unit_bytes, const int64_t *lengths, size_t count,
                 size_t from, size_t to)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t *row = features + i * to * unit_bytes;
        size_t bytes = (size_t)lengths[i] * unit_bytes;
        if (from != to)
            memmove(row, features + i * from * unit_bytes, bytes);
        memset(row + bytes, 0, to * unit_bytes - bytes);
    }
}

enum error reader_fetch_packed(struct reader *reader, const int64_t *ids, size_t count,
                               void *features, double *labels, enum row_status *status,
                               int64_t *lengths, size_t *ret_width)
{
    const struct store *store = reader->store;
    size_t unit = element_bytes(store->info.element), stride = store->info.features, width;
    enum error error = OK;
    if (store->info.lengths == LENGTHS_VARY && store->ops->knows_lengths &&
        store->ops->knows_lengths(reader)) {
        error = reader_lengths(reader, ids, count, lengths);
        stride = width_of(&store->info, lengths, count);
    }
    if (!error)
        error = reader_fetch_lengths(reader, ids, count, features, stride * unit, labels, status,
                                     lengths);
    if (error)
        return error;
    width = width_of(&store->info, lengths, count);
    if (width > stride)
        return error_set(ERROR_INPUT, "%s: a row is longer than it was", store->info.uri);
    pack(features, unit, lengths, count, stride, width);
    *ret_width = width;
    return OK;
}

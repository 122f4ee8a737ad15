/* SPDX-License-Identifier: MIT */
/* Rows by id: each is checked, and copied unchanged. */
#include <string.h>

#include "loader/rows/store_rows.h"
#include "loader/store/strided_reader.h"

static int64_t find_row(const struct store *base, int64_t id)
{
    return id_index_row(&((const struct rows_store *)base)->ids, id);
}

static enum error take_row(const struct store *base, struct fetch_call *call,
                           const struct fetch_place *place, const uint8_t *record)
{
    const struct rows_store *store = (const struct rows_store *)base;
    double label;
    size_t length;
    enum error error =
        rows_store_read(store, place->key, call->ids[place->index], record, &label, &length);
    if (error)
        return error;
    if (length > 0)
        memcpy(fetch_call_slot(call, place->index), record + sizeof(struct rows_row),
               length * call->unit_bytes);
    if (row_limit_varies(&store->limit))
        fetch_call_length(call, place->index, length);
    fetch_call_set(call, place->index, ROW_OK, label);
    return OK;
}

enum error rows_reader_open(struct store *base, struct reader **ret_reader)
{
    const struct rows_store *store = (const struct rows_store *)base;
    struct strided_layout layout = {.path = store->path,
                                    .name = store->is_copy ? base->info.uri : store->path,
                                    .identity = &store->identity,
                                    .begin = store->header.head.rows_at,
                                    .row_bytes = rows_store_longest(store),
                                    .ends = store->ends,
                                    .is_copy = store->is_copy,
                                    .find = find_row,
                                    .take = take_row};
    return strided_reader_open(base, &layout, ret_reader);
}

bool rows_reader_has_run(struct reader *base, int64_t *ret_first)
{
    const struct rows_store *store = (const struct rows_store *)base->store;
    *ret_first = store->ids.first;
    return !store->ids.ids;
}

enum error rows_reader_measure(struct reader *base, const int64_t *ids, size_t count,
                               int64_t *lengths)
{
    const struct rows_store *store = (const struct rows_store *)base->store;
    for (size_t i = 0; i < count; i++) {
        int64_t row = find_row(base->store, ids[i]);
        lengths[i] = row < 0 ? 0 : (int64_t)rows_store_length(store, row);
    }
    return OK;
}

bool rows_reader_knows_lengths(const struct reader *reader)
{
    (void)reader;
    return true;
}

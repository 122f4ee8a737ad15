/* SPDX-License-Identifier: MIT */
/* Rows by id: each is checked, and copied as it stands. */
#include <string.h>

#include "loader/rows/rows_file.h"
#include "loader/rows/rows_record.h"
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
    int64_t id = call->ids[place->index];
    double label;
    const char *wrong = rows_row_read(&store->header, id, record, &label);
    if (wrong)
        return rows_file_refuse(store->path, &store->header, place->key, id, wrong);
    if (call->row_bytes > 0)
        memcpy(fetch_call_slot(call, place->index), record + sizeof(struct rows_row),
               call->row_bytes);
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
                                    .row_bytes = (size_t)store->header.head.row_bytes,
                                    .is_copy = store->is_copy,
                                    .find = find_row,
                                    .take = take_row};
    return strided_reader_open(base, &layout, ret_reader);
}

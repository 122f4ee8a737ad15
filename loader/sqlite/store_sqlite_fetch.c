/* SPDX-License-Identifier: MIT */
/* Rows of an SQLite table by id: one prepared statement, ids in ascending order. */
#include <stdlib.h>

#include "common/array.h"
#include "loader/sqlite/store_sqlite.h"
#include "loader/store/fetch_call.h"

struct sqlite_reader {
    struct reader reader; /* first */
    struct sqlite_cursor cursor;
    struct sqlite_cursor lengths; /* zeroed: no lengths were requested yet */
    struct fetch_place *places;   /* owned; by id */
    size_t places_capacity;
};

enum error sqlite_reader_open(struct store *base, struct reader **ret_reader)
{
    const struct sqlite_store *store = (const struct sqlite_store *)base;
    struct sqlite_reader *reader = array_new(1, sizeof(*reader), "a reader of an SQLite file");
    if (!reader)
        return ERROR_MEMORY;
    enum error error = sqlite_cursor_open(&reader->cursor, store, store->fetch_sql);
    if (error) {
        free(reader);
        return error;
    }
    *ret_reader = &reader->reader;
    return OK;
}

void sqlite_reader_close(struct reader *base)
{
    struct sqlite_reader *reader = (struct sqlite_reader *)base;
    sqlite_cursor_close(&reader->cursor);
    sqlite_cursor_close(&reader->lengths);
    free(reader->places);
    free(reader);
}

static enum error find_row(const struct sqlite_store *store, struct sqlite_cursor *cursor,
                           int64_t id, bool *ret_row)
{
    int64_t key = id;
    sqlite3_reset(cursor->statement);
    if (store->table.row_name) {
        int64_t row = id_index_row(&store->ids, id);
        *ret_row = false;
        if (row < 0)
            return OK;
        key = store->row_numbers[row];
    }
    sqlite3_bind_int64(cursor->statement, 1, key);
    enum error error = sqlite_cursor_step(cursor, ret_row);
    return error ? error_prefix(error, "id %lld: ", (long long)id) : OK;
}

static enum error take_row(const struct sqlite_store *store, sqlite3_stmt *statement,
                           struct fetch_call *call, size_t index)
{
    const struct store_info *info = &store->store.info;
    struct sqlite_row decoded;
    const struct store_row *row = &decoded.row;
    double label = 0;
    enum error error = sqlite_decode_row(&store->format, statement, info->element,
                                         fetch_call_slot(call, index), &decoded);
    if (!error)
        error = store_row_check(row, call->ids[index], info, &store->labels, "the file", &label);
    if (error || row->status == ROW_BAD)
        sqlite_store_prefix(store, error, call->ids[index]);
    if (!error && row_limit_varies(&store->format.limit))
        fetch_call_length(call, index, row->length);
    if (!error)
        fetch_call_set(call, index, row->status, label);
    return error;
}

static enum error fetch_one(struct sqlite_reader *reader, struct fetch_call *call, size_t index)
{
    const struct sqlite_store *store = (const struct sqlite_store *)reader->reader.store;
    int64_t id = call->ids[index];
    bool there = false;
    enum error error = find_row(store, &reader->cursor, id, &there);
    if (error)
        return error;
    if (there)
        return take_row(store, reader->cursor.statement, call, index);
    error_set(ERROR_INPUT, "%s, table \"%s\", has no row with the id %lld", store->path,
              store->table.name, (long long)id);
    fetch_call_set(call, index, ROW_MISSING, 0);
    return OK;
}

enum error sqlite_reader_fetch(struct reader *base, const int64_t *ids, size_t count,
                               void *features, size_t stride_bytes, double *labels,
                               enum row_status *status)
{
    struct sqlite_reader *reader = (struct sqlite_reader *)base;
    struct fetch_call call;
    fetch_call_init(&call, base, ids, features, stride_bytes, labels, status);
    enum error error = sqlite_cursor_check(&reader->cursor);
    if (!error)
        error = array_grow((void **)&reader->places, &reader->places_capacity, count,
                           sizeof(*reader->places), "a batch of rows");
    if (error)
        return error;
    for (size_t i = 0; i < count; i++)
        reader->places[i] = (struct fetch_place){.key = ids[i], .index = i};
    fetch_places_sort(reader->places, count);
    for (size_t i = 0; i < count && !error; i++) {
        const struct fetch_place *place = &reader->places[i];
        if (i > 0 && place->key == place[-1].key)
            fetch_call_copy(&call, place[-1].index, place->index);
        else
            error = fetch_one(reader, &call, place->index);
    }
    sqlite3_reset(reader->cursor.statement);
    if (!error)
        error = sqlite_cursor_check(&reader->cursor); /* rows read may include later writes */
    return error ? error : fetch_call_finish(&call);
}

enum error sqlite_reader_measure(struct reader *base, const int64_t *ids, size_t count,
                                 int64_t *lengths)
{
    struct sqlite_reader *reader = (struct sqlite_reader *)base;
    const struct sqlite_store *store = (const struct sqlite_store *)base->store;
    struct sqlite_cursor *cursor = &reader->lengths;
    enum error error =
        cursor->statement ? OK : sqlite_cursor_open(cursor, store, store->length_sql);
    for (size_t i = 0; i < count && !error; i++) {
        bool there = false;
        error = find_row(store, cursor, ids[i], &there);
        lengths[i] = there ? sqlite3_column_int64(cursor->statement, 0) /
                                 (int64_t)element_bytes(base->store->info.element)
                           : 0;
    }
    if (cursor->statement)
        sqlite3_reset(cursor->statement);
    return error ? error : sqlite_cursor_check(cursor);
}

/* SPDX-License-Identifier: MIT */
/*
 * Rows by id, in file order. A row is reached through the preceding pages of its row group, so
 * random rows cost the decoding of whole groups; consecutive rows cost what they cost a scan.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/log.h"
#include "loader/parquet/parquet_tile.h"
#include "loader/parquet/store_parquet.h"
#include "loader/store/fetch_call.h"

#define JUMPS_BEFORE_WARNING 16

struct parquet_reader {
    struct reader reader; /* first */
    struct parquet_cursor cursor;
    int group;   /* the cursor's row group; -1: none */
    bool jumped; /* moved back or skipped a group since fetch() was called */
    struct parquet_tile *tile;
    struct fetch_place *places; /* owned; by row */
    size_t places_capacity;
};

enum error parquet_reader_open(struct store *base, struct reader **ret_reader)
{
    const struct parquet_store *store = (const struct parquet_store *)base;
    struct parquet_reader *reader = array_new(1, sizeof(*reader), "a reader of a Parquet file");
    if (!reader)
        return ERROR_MEMORY;
    reader->reader.store = base;
    reader->group = -1;
    reader->tile = parquet_tile_new(&store->columns, PARQUET_ALL, base->info.element);
    enum error error = reader->tile
                           ? parquet_cursor_open(&reader->cursor, store->path, &store->identity,
                                                 &store->columns, PARQUET_ALL)
                           : ERROR_MEMORY;
    if (error)
        parquet_reader_close(&reader->reader);
    else
        *ret_reader = &reader->reader;
    return error;
}

void parquet_reader_close(struct reader *base)
{
    struct parquet_reader *reader = (struct parquet_reader *)base;
    parquet_cursor_close(&reader->cursor);
    parquet_tile_free(reader->tile);
    free(reader->places);
    free(reader);
}

/* The existing ones, sorted; how many. */
static size_t find_rows(struct fetch_call *call, const struct parquet_store *store,
                        struct fetch_place *places, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t row = id_index_row(&store->ids, call->ids[i]);
        if (row >= 0)
            places[found++] = (struct fetch_place){.key = row, .index = i};
        else
            fetch_call_miss(call, i, store->path);
    }
    fetch_places_sort(places, found);
    return found;
}

static int group_of(const struct parquet_store *store, int64_t row)
{
    int low = 0, high = store->group_count;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (store->group_rows[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Once, if rows are random for longer than a row cache takes to fill. */
static void warn_of_jumps(struct parquet_store *store)
{
    if (atomic_fetch_add(&store->jumps, 1) + 1 == JUMPS_BEFORE_WARNING)
        log_warning("%s: rows at random cost the decoding of whole row groups; a row cache that "
                    "holds all, or tombola-loader import %s rows:PATH, is thousands of times as "
                    "fast",
                    store->path, store->path);
}

/* Advances until the row is in the batch. */
static enum error reach(struct parquet_reader *reader, int64_t row)
{
    const struct parquet_store *store = (const struct parquet_store *)reader->reader.store;
    struct parquet_cursor *cursor = &reader->cursor;
    int group = group_of(store, row);
    enum error error = OK;
    if (group != reader->group || row < cursor->first_row) {
        if (reader->group >= 0 && (group != reader->group + 1 || row > store->group_rows[group]))
            reader->jumped = true;
        reader->group = -1;
        error = parquet_cursor_seek(cursor, group, store->group_rows[group], true);
        if (!error)
            reader->group = group;
    }
    while (!error && row >= cursor->first_row + cursor->rows) {
        error = parquet_cursor_next(cursor);
        if (!error && cursor->rows == 0)
            error =
                error_set(ERROR_INPUT, "%s is damaged: its row group %d ends in front of row %lld",
                          store->path, group, (long long)row);
    }
    if (error)
        reader->group = -1; /* the cursor's rows are not valid */
    return error;
}

/* How many of `places` are consecutive rows of the batch that fit the tile. */
static size_t count_run(const struct parquet_reader *reader, const struct fetch_place *places,
                        size_t count)
{
    const struct parquet_cursor *cursor = &reader->cursor;
    size_t run = 1;
    while (run < count && run < reader->tile->limit &&
           places[run].key == places[0].key + (int64_t)run &&
           places[run].key < cursor->first_row + cursor->rows)
        run++;
    return run;
}

static enum error take_run(struct parquet_reader *reader, struct fetch_call *call,
                           const struct fetch_place *places, size_t run)
{
    const struct parquet_store *store = (const struct parquet_store *)reader->reader.store;
    const struct store_info *info = &store->store.info;
    struct parquet_tile *tile = reader->tile;
    int64_t first = places[0].key - reader->cursor.first_row;
    enum error error = parquet_tile_decode(tile, &reader->cursor, first, run);
    for (size_t i = 0; i < run && !error; i++) {
        size_t index = places[i].index;
        double label;
        error = store_row_check(&tile->rows[i], call->ids[index], info, &store->labels, "the file",
                                &label);
        if (error)
            return error_prefix(error, "%s, id %lld: ", store->path, (long long)call->ids[index]);
        if (tile->rows[i].status == ROW_BAD)
            parquet_tile_explain(tile, &reader->cursor, first, i);
        size_t bytes = tile->row_bytes;
        if (store->columns.ragged) {
            bytes = tile->rows[i].length * element_bytes(info->element);
            fetch_call_length(call, index, tile->rows[i].length);
        }
        if (bytes > 0)
            memcpy(fetch_call_slot(call, index), parquet_tile_row(tile, i), bytes);
        fetch_call_set(call, index, tile->rows[i].status, label);
    }
    return error;
}

enum error parquet_reader_measure(struct reader *base, const int64_t *ids, size_t count,
                                  int64_t *lengths)
{
    const struct parquet_store *store = (const struct parquet_store *)base->store;
    id_index_lengths(&store->ids, store->lengths, ids, count, lengths);
    return OK;
}

enum error parquet_reader_fetch(struct reader *base, const int64_t *ids, size_t count,
                                void *features, size_t stride_bytes, double *labels,
                                enum row_status *status)
{
    struct parquet_reader *reader = (struct parquet_reader *)base;
    struct parquet_store *store = (struct parquet_store *)base->store;
    struct fetch_call call;
    fetch_call_init(&call, base, ids, features, stride_bytes, labels, status);
    enum error error = source_file_check(&reader->cursor.file.source);
    if (!error)
        error = array_grow((void **)&reader->places, &reader->places_capacity, count,
                           sizeof(*reader->places), "a batch of a Parquet file's rows");
    if (error)
        return error;
    reader->jumped = false;
    size_t found = find_rows(&call, store, reader->places, count);
    for (size_t done = 0; done < found && !error;) {
        const struct fetch_place *places = reader->places + done;
        size_t run = 1;
        if (done > 0 && places[0].key == places[-1].key) {
            fetch_call_copy(&call, places[-1].index, places[0].index);
        } else {
            error = reach(reader, places[0].key);
            if (!error) {
                run = count_run(reader, places, found - done);
                error = take_run(reader, &call, places, run);
            }
        }
        done += run;
    }
    if (reader->jumped)
        warn_of_jumps(store);
    if (!error)
        error = source_file_check(&reader->cursor.file.source);
    return error ? error : fetch_call_finish(&call);
}

/* SPDX-License-Identifier: MIT */
/* Rows by id, in the order of the file, neighbours by one read. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/rows/rows_file.h"
#include "loader/rows/rows_record.h"
#include "loader/rows/store_rows.h"
#include "loader/store/fetch_call.h"

#define PIECE_BYTES ((size_t)1 << 20) /* one read, unless a row is longer */
#define GAP_BYTES 4096 /* so many are read for nothing rather than apart: the disk reads a page */

struct rows_reader {
    struct reader reader; /* first */
    struct source_file file;
    struct fetch_place *places; /* owned; by row */
    size_t places_capacity;
    uint8_t *piece; /* owned; [piece_rows, row_bytes] */
    size_t piece_rows;
};

enum error rows_reader_open(struct store *base, struct reader **ret_reader)
{
    const struct rows_store *store = (const struct rows_store *)base;
    size_t bytes = (size_t)store->header.head.row_bytes;
    struct rows_reader *reader = array_new(1, sizeof(*reader), "a reader of a row file");
    if (!reader)
        return ERROR_MEMORY;
    reader->reader.store = base;
    reader->file.descriptor = -1;
    reader->piece_rows = PIECE_BYTES / bytes + (PIECE_BYTES < bytes);
    reader->piece = array_new(reader->piece_rows, bytes, "rows of a row file");
    enum error error = reader->piece
                           ? source_file_open(&reader->file, store->path, &store->identity)
                           : ERROR_MEMORY;
    if (error)
        rows_reader_close(&reader->reader);
    else
        *ret_reader = &reader->reader;
    return error;
}

void rows_reader_close(struct reader *base)
{
    struct rows_reader *reader = (struct rows_reader *)base;
    source_file_close(&reader->file);
    free(reader->places);
    free(reader->piece);
    free(reader);
}

/* Those that are there, sorted; how many. */
static size_t find_rows(struct fetch_call *call, const struct rows_store *store,
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

/* How many of `wanted` one read serves. */
static size_t count_near(const struct rows_reader *reader, const struct fetch_place *places,
                         size_t wanted)
{
    const struct rows_store *store = (const struct rows_store *)reader->reader.store;
    int64_t gap = (int64_t)(1 + GAP_BYTES / store->header.head.row_bytes);
    size_t near = 1;
    while (near < wanted && places[near].key - places[near - 1].key <= gap &&
           (size_t)(places[near].key - places[0].key) < reader->piece_rows)
        near++;
    return near;
}

static enum error take_row(struct rows_reader *reader, struct fetch_call *call,
                           const struct fetch_place *place, const uint8_t *record)
{
    const struct rows_store *store = (const struct rows_store *)reader->reader.store;
    double label;
    const char *wrong = rows_row_read(&store->header, call->ids[place->index], record, &label);
    if (wrong)
        return rows_file_refuse(&reader->file, &store->header, place->key, call->ids[place->index],
                                wrong);
    if (call->row_bytes > 0)
        memcpy(fetch_call_slot(call, place->index), record + sizeof(struct rows_row),
               call->row_bytes);
    fetch_call_set(call, place->index, ROW_OK, label);
    return OK;
}

static enum error fetch_near(struct rows_reader *reader, struct fetch_call *call,
                             const struct fetch_place *places, size_t count)
{
    const struct rows_store *store = (const struct rows_store *)reader->reader.store;
    size_t bytes = (size_t)store->header.head.row_bytes;
    int64_t first = places[0].key;
    enum error error = source_file_read(&reader->file, reader->piece,
                                        (size_t)(places[count - 1].key - first + 1) * bytes,
                                        rows_header_row_at(&store->header, first));
    if (error)
        return error_prefix(error, "id %lld: ", (long long)call->ids[places[0].index]);
    for (size_t i = 0; i < count && !error; i++)
        error = take_row(reader, call, &places[i],
                         reader->piece + (size_t)(places[i].key - first) * bytes);
    return error;
}

enum error rows_reader_fetch(struct reader *base, const int64_t *ids, size_t count, void *features,
                             size_t stride_bytes, double *labels, enum row_status *status)
{
    struct rows_reader *reader = (struct rows_reader *)base;
    const struct rows_store *store = (const struct rows_store *)base->store;
    struct fetch_call call;
    fetch_call_init(&call, &base->store->info, ids, features, stride_bytes, labels, status);
    enum error error = source_file_check(&reader->file);
    if (!error)
        error = array_grow((void **)&reader->places, &reader->places_capacity, count,
                           sizeof(*reader->places), "a batch of a row file's rows");
    if (error)
        return error;
    size_t found = find_rows(&call, store, reader->places, count);
    for (size_t done = 0; done < found && !error;) {
        size_t near = count_near(reader, reader->places + done, found - done);
        error = fetch_near(reader, &call, reader->places + done, near);
        done += near;
    }
    if (!error)
        error = source_file_check(&reader->file); /* what was written meanwhile may be among it */
    return error ? error : fetch_call_finish(&call);
}

/* SPDX-License-Identifier: MIT */
/* Rows of an IDX file: in their order, a piece of the file at a time; and by id, in the order of
 * the file, neighbours at once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "loader/idx/store_idx.h"
#include "loader/store/feature.h"
#include "loader/store/fetch_call.h"
#include "loader/store/scan_block.h"

#define PIECE_BYTES ((size_t)1 << 20) /* one read, unless a row is longer */
#define GAP_ROWS 16                   /* so many rows are read for nothing rather than apart */

static size_t row_bytes(const struct idx_store *store)
{
    return store->header.values * store->header.value_bytes;
}

static uint64_t offset_of(const struct idx_store *store, int64_t row)
{
    return store->header.bytes + (uint64_t)row * row_bytes(store);
}

static size_t piece_rows(const struct idx_store *store)
{
    size_t rows = PIECE_BYTES / row_bytes(store);
    return rows > 0 ? rows : 1;
}

enum row_status idx_row_decode(const struct idx_store *store, int64_t row, const uint8_t *bytes,
                               enum element element, void *features, bool *ret_is_u8)
{
    const struct idx_header *header = &store->header;
    *ret_is_u8 = true;
    if (header->type == IDX_U8) {
        memcpy(features, bytes, header->values);
        return ROW_OK;
    }
    for (size_t i = 0; i < header->values; i++) {
        double value = idx_value(header->type, bytes + i * header->value_bytes);
        if (!feature_fits(value)) {
            error_set(ERROR_INPUT, "%s, row %lld: value %zu is %g where %s belongs", store->path,
                      (long long)row, i, value, feature_wanted(isfinite(value)));
            return ROW_BAD;
        }
        feature_store(value, element, features, i, ret_is_u8);
    }
    return ROW_OK;
}

enum error idx_row_locate(struct store *base, int64_t row, char out[STORE_PLACE_BYTES])
{
    const struct idx_store *store = (const struct idx_store *)base;
    snprintf(out, STORE_PLACE_BYTES, "%s, row %lld", store->path, (long long)row);
    return OK;
}

static double label_of(const struct idx_store *store, int64_t row)
{
    return store->labels ? store->labels[row] : 0;
}

/* ---- scan --------------------------------------------------------------- */

struct scan {
    const struct idx_store *store;
    struct source_file file;
    struct scan_block *block;
    uint8_t *piece; /* [piece_rows, row_bytes]; NULL: keys only */
};

static enum error add_row(const struct scan *scan, int64_t row, const uint8_t *bytes)
{
    const struct idx_store *store = scan->store;
    char digits[TEXT_INTEGER_BYTES];
    struct store_row added = store_row_fresh;
    added.id = row;
    if (store->labels) {
        char *end = text_write_integer(digits, store->labels[row]);
        added.label = (struct text){.data = digits, .length = (size_t)(end - digits)};
    }
    if (bytes)
        added.status = idx_row_decode(store, row, bytes, store->store.info.element,
                                      scan_block_slot(scan->block), &added.is_u8);
    double label = added.status == ROW_OK ? label_of(store, row) : 0;
    return scan_block_add(scan->block, &added, label);
}

static enum error scan_piece(struct scan *scan, int64_t first, size_t rows)
{
    size_t bytes = row_bytes(scan->store);
    enum error error = OK;
    if (scan->piece)
        error =
            source_file_read(&scan->file, scan->piece, rows * bytes, offset_of(scan->store, first));
    for (size_t i = 0; i < rows && !error; i++)
        error = add_row(scan, first + (int64_t)i, scan->piece ? scan->piece + i * bytes : NULL);
    return error;
}

static enum error scan_all(struct scan *scan)
{
    int64_t rows = scan->store->store.info.rows;
    enum error error = source_file_check(&scan->file);
    for (int64_t first = 0; first < rows && !error;) {
        size_t some = piece_rows(scan->store);
        if ((int64_t)some > rows - first)
            some = (size_t)(rows - first);
        error = scan_piece(scan, first, some);
        first += (int64_t)some;
    }
    if (!error)
        error = source_file_check(&scan->file); /* what was written meanwhile may be among it */
    return error ? error : scan_block_finish(scan->block);
}

enum error idx_store_scan(struct store *base, enum scan_columns columns, store_sink *sink,
                          void *context)
{
    const struct idx_store *store = (const struct idx_store *)base;
    struct scan scan = {.store = store, .file = {.descriptor = -1}};
    enum error error = source_file_open(&scan.file, store->path, &store->identity);
    if (error)
        return error;
    scan.block = scan_block_new(&base->info, columns, sink, context);
    if (columns & SCAN_FEATURES)
        scan.piece = array_new(piece_rows(store), row_bytes(store), "rows of an IDX file");
    if (!scan.block || ((columns & SCAN_FEATURES) && !scan.piece))
        error = ERROR_MEMORY;
    else
        error = scan_all(&scan);
    free(scan.piece);
    scan_block_free(scan.block);
    source_file_close(&scan.file);
    return error;
}

/* ---- fetch -------------------------------------------------------------- */

struct idx_reader {
    struct reader reader; /* first */
    struct source_file file;
    struct fetch_place *places; /* owned; by row */
    size_t places_capacity;
    uint8_t *piece; /* owned; [piece_rows, row_bytes] */
};

enum error idx_reader_open(struct store *base, struct reader **ret_reader)
{
    const struct idx_store *store = (const struct idx_store *)base;
    struct idx_reader *reader = array_new(1, sizeof(*reader), "a reader of an IDX file");
    if (!reader)
        return ERROR_MEMORY;
    reader->reader.store = base;
    reader->file.descriptor = -1;
    reader->piece = array_new(piece_rows(store), row_bytes(store), "rows of an IDX file");
    enum error error = reader->piece
                           ? source_file_open(&reader->file, store->path, &store->identity)
                           : ERROR_MEMORY;
    if (error)
        idx_reader_close(&reader->reader);
    else
        *ret_reader = &reader->reader;
    return error;
}

void idx_reader_close(struct reader *base)
{
    struct idx_reader *reader = (struct idx_reader *)base;
    source_file_close(&reader->file);
    free(reader->places);
    free(reader->piece);
    free(reader);
}

/* Those that are there, sorted; how many. */
static size_t find_rows(struct fetch_call *call, const struct idx_store *store,
                        struct fetch_place *places, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t id = call->ids[i];
        if (id >= 0 && id < store->store.info.rows)
            places[found++] = (struct fetch_place){.key = id, .index = i};
        else
            fetch_call_miss(call, i, store->path);
    }
    fetch_places_sort(places, found);
    return found;
}

/* How many of `wanted` one read serves. */
static size_t count_near(const struct idx_store *store, const struct fetch_place *places,
                         size_t wanted)
{
    size_t near = 1;
    while (near < wanted && places[near].key - places[near - 1].key <= GAP_ROWS &&
           (size_t)(places[near].key - places[0].key) < piece_rows(store))
        near++;
    return near;
}

static enum error fetch_near(struct idx_reader *reader, struct fetch_call *call,
                             const struct fetch_place *places, size_t count)
{
    const struct idx_store *store = (const struct idx_store *)reader->reader.store;
    int64_t first = places[0].key;
    size_t bytes = row_bytes(store);
    enum error error = source_file_read(&reader->file, reader->piece,
                                        (size_t)(places[count - 1].key - first + 1) * bytes,
                                        offset_of(store, first));
    if (error)
        return error_prefix(error, "id %lld: ", (long long)first);
    for (size_t i = 0; i < count; i++) {
        int64_t row = places[i].key;
        bool is_u8;
        enum row_status status = idx_row_decode(
            store, row, reader->piece + (size_t)(row - first) * bytes, store->store.info.element,
            fetch_call_slot(call, places[i].index), &is_u8);
        fetch_call_set(call, places[i].index, status, label_of(store, row));
    }
    return OK;
}

enum error idx_reader_fetch(struct reader *base, const int64_t *ids, size_t count, void *features,
                            size_t stride_bytes, double *labels, enum row_status *status)
{
    struct idx_reader *reader = (struct idx_reader *)base;
    const struct idx_store *store = (const struct idx_store *)base->store;
    struct fetch_call call;
    fetch_call_init(&call, &base->store->info, ids, features, stride_bytes, labels, status);
    enum error error = source_file_check(&reader->file);
    if (!error)
        error = array_grow((void **)&reader->places, &reader->places_capacity, count,
                           sizeof(*reader->places), "a batch of an IDX file's rows");
    if (error)
        return error;
    size_t found = find_rows(&call, store, reader->places, count);
    for (size_t done = 0; done < found && !error;) {
        size_t near = count_near(store, reader->places + done, found - done);
        error = fetch_near(reader, &call, reader->places + done, near);
        done += near;
    }
    if (!error)
        error = source_file_check(&reader->file); /* what was written meanwhile may be among it */
    return error ? error : fetch_call_finish(&call);
}

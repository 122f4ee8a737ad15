/* SPDX-License-Identifier: MIT */
/*
 * Rows of a CSV file by id: sorted by their place in the file, neighbours read at once, decoded
 * directly into their slots. Every call first checks that the file has not changed.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/csv/csv_messages.h"
#include "loader/csv/store_csv.h"
#include "loader/store/fetch_call.h"

#define GAP_BYTES \
    ((uint64_t)32 << 10) /* reading this many unneeded bytes is cheaper than a second read */
#define WINDOW_BYTES ((uint64_t)1 << 20) /* one read, unless a row is longer */

struct csv_reader {
    struct reader reader; /* first */
    struct text_file file;
    struct csv_decoder decoder;
    struct fetch_place *places; /* owned; by row number */
    size_t places_capacity;
    char *window; /* owned; [window_capacity] and padding */
    size_t window_capacity;
};

/* One call of fetch(). */
struct fetch {
    struct fetch_call call; /* first */
    struct csv_reader *reader;
    const struct csv_store *store;
};

enum error csv_reader_open(struct store *base, struct reader **ret_reader)
{
    const struct csv_store *store = (const struct csv_store *)base;
    struct csv_reader *reader = array_new(1, sizeof(*reader), "a reader of a CSV file");
    if (!reader)
        return ERROR_MEMORY;
    reader->reader.store = base;
    enum error error = csv_decoder_init(&reader->decoder, &store->columns, store->delimiter);
    if (!error) {
        if (row_limit_varies(&store->columns.limit))
            reader->decoder.most = base->info.longest;
        error = text_file_open(&reader->file, &store->source.text);
        if (error)
            csv_decoder_release(&reader->decoder);
    }
    if (error) {
        free(reader);
        return error;
    }
    *ret_reader = &reader->reader;
    return OK;
}

void csv_reader_close(struct reader *base)
{
    struct csv_reader *reader = (struct csv_reader *)base;
    csv_decoder_release(&reader->decoder);
    text_file_close(&reader->file);
    free(reader->places);
    free(reader->window);
    free(reader);
}

/* Looks the ids up; returns how many exist. */
static size_t find_rows(struct fetch *fetch, size_t count)
{
    struct fetch_place *places = fetch->reader->places;
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t row = id_index_row(&fetch->store->ids, fetch->call.ids[i]);
        if (row >= 0)
            places[found++] = (struct fetch_place){.key = row, .index = i};
        else
            fetch_call_miss(&fetch->call, i, fetch->store->path);
    }
    return found;
}

static enum error prefix_row(const struct fetch *fetch, int64_t row)
{
    const struct csv_store *store = fetch->store;
    return error_prefix(ERROR_INPUT, "%s, line %lld (id %lld): ", store->path,
                        (long long)csv_store_line(store, store->offsets[row]),
                        (long long)id_index_id(&store->ids, row));
}

static enum error decode_row(struct fetch *fetch, const struct fetch_place *place, char *record,
                             size_t length)
{
    const struct csv_store *store = fetch->store;
    const struct store_info *info = &store->store.info;
    int64_t id = fetch->call.ids[place->index];
    struct store_row row;
    double label = 0;
    enum error error = csv_decode_row(&fetch->reader->decoder, record, length, false, info->element,
                                      fetch_call_slot(&fetch->call, place->index), &row);
    if (!error)
        error = store_row_check(&row, id, info, &store->labels, "the file", &label);
    if (error == ERROR_INPUT || row.status == ROW_BAD)
        prefix_row(fetch, place->key);
    if (!error && row_limit_varies(&store->columns.limit))
        fetch_call_length(&fetch->call, place->index, row.length);
    if (!error)
        fetch_call_set(&fetch->call, place->index, row.status, label);
    return error;
}

static enum error reserve_window(struct csv_reader *reader, size_t bytes)
{
    if (bytes <= reader->window_capacity)
        return OK;
    size_t capacity = bytes > WINDOW_BYTES ? bytes : WINDOW_BYTES;
    free(reader->window);
    reader->window_capacity = 0;
    reader->window = array_new(capacity + 1 + CSV_PADDING_BYTES, 1, "reading CSV rows");
    if (!reader->window)
        return ERROR_MEMORY;
    reader->window_capacity = capacity;
    return OK;
}

/* How many of `wanted` one read serves. */
static size_t window_rows(const struct csv_store *store, const struct fetch_place *places,
                          size_t count)
{
    uint64_t begin = store->offsets[places[0].key];
    size_t rows = 1;
    for (; rows < count; rows++) {
        uint64_t end = store->offsets[places[rows - 1].key + 1];
        if (store->offsets[places[rows].key] > end + GAP_BYTES ||
            store->offsets[places[rows].key + 1] - begin > WINDOW_BYTES)
            break;
    }
    return rows;
}

static enum error read_window(struct fetch *fetch, uint64_t begin, size_t *bytes)
{
    struct csv_reader *reader = fetch->reader;
    enum error error = reserve_window(reader, *bytes);
    if (!error)
        error = text_file_read_again(&reader->file, reader->window, *bytes, begin);
    if (error)
        return error;
    if (reader->window[*bytes - 1] != '\n')
        reader->window[(*bytes)++] = '\n'; /* the file's last line lacks it */
    memset(reader->window + *bytes, 0, CSV_PADDING_BYTES);
    return OK;
}

static enum error fetch_window(struct fetch *fetch, const struct fetch_place *places, size_t rows)
{
    const uint64_t *offsets = fetch->store->offsets;
    uint64_t begin = offsets[places[0].key];
    size_t bytes = (size_t)(offsets[places[rows - 1].key + 1] - begin);
    enum error error = read_window(fetch, begin, &bytes);
    if (error)
        return error_prefix(error, "id %lld: ", (long long)fetch->call.ids[places[0].index]);
    for (size_t i = 0; i < rows && !error; i++) {
        if (i > 0 && places[i].key == places[i - 1].key) {
            fetch_call_copy(&fetch->call, places[i - 1].index, places[i].index);
            continue;
        }
        size_t at = (size_t)(offsets[places[i].key] - begin);
        size_t end = (size_t)(offsets[places[i].key + 1] - begin);
        size_t left = places[i].key + 1 == fetch->store->store.info.rows ? bytes - at : end - at;
        char *record = fetch->reader->window + at;
        size_t length = csv_count_record(record, left, NULL); /* blank lines may follow */
        error = decode_row(fetch, &places[i], record, length ? length : left);
    }
    return error;
}

enum error csv_reader_measure(struct reader *base, const int64_t *ids, size_t count,
                              int64_t *lengths)
{
    const struct csv_store *store = (const struct csv_store *)base->store;
    id_index_lengths(&store->ids, store->lengths, ids, count, lengths);
    return OK;
}

enum error csv_reader_fetch(struct reader *base, const int64_t *ids, size_t count, void *features,
                            size_t stride_bytes, double *labels, enum row_status *status)
{
    struct csv_reader *reader = (struct csv_reader *)base;
    struct fetch fetch = {.reader = reader, .store = (const struct csv_store *)base->store};
    fetch_call_init(&fetch.call, base, ids, features, stride_bytes, labels, status);
    enum error error = text_file_check(&reader->file);
    if (!error)
        error = array_grow((void **)&reader->places, &reader->places_capacity, count,
                           sizeof(*reader->places), "a batch of CSV rows");
    if (error)
        return error;
    size_t found = find_rows(&fetch, count);
    fetch_places_sort(reader->places, found);
    for (size_t done = 0; done < found && !error;) {
        size_t rows = window_rows(fetch.store, reader->places + done, found - done);
        error = fetch_window(&fetch, reader->places + done, rows);
        done += rows;
    }
    if (!error)
        error = text_file_check(&reader->file); /* rows read may include later writes */
    return error ? error : fetch_call_finish(&fetch.call);
}

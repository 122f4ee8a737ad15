/* SPDX-License-Identifier: MIT */
#include "loader/store/strided_reader.h"

#include <stdlib.h>

#include "common/array.h"
#include "loader/store/row_gather.h"

#define AHEAD 8        /* rows in memory that are prefetched */
#define GAP_BYTES 4096 /* smaller gaps are read, too: the disk reads whole pages anyway */

struct strided_reader {
    struct reader reader; /* first */
    struct strided_layout layout;
    struct source_file file;
    struct strided_rows rows;
    struct row_gather *gather;  /* owned; NULL: rows are read one by one */
    struct fetch_place *places; /* owned; by row */
    size_t places_capacity;
};

/* Without it a reader is only slower. */
static void open_gather(struct strided_reader *reader)
{
    struct row_gather *gather = array_new(1, sizeof(*gather), "a reader of a store");
    const struct source_file *file = &reader->file;
    if (gather && row_gather_open(gather, file->path, file->descriptor, file->identity.size_bytes,
                                  reader->rows.piece_bytes))
        reader->gather = gather;
    else
        free(gather);
}

enum error strided_reader_open(struct store *store, const struct strided_layout *layout,
                               struct reader **ret_reader)
{
    struct strided_reader *reader = array_new(1, sizeof(*reader), "a reader of a store");
    if (!reader)
        return ERROR_MEMORY;
    reader->reader.store = store;
    reader->layout = *layout;
    reader->file.descriptor = -1;
    enum error error = strided_rows_init(&reader->rows, &reader->file, layout->begin,
                                         layout->row_bytes, layout->ends, store->info.rows);
    if (!error)
        error = source_file_open(&reader->file, layout->path, layout->identity);
    reader->file.is_copy = layout->is_copy;
    reader->rows.text = layout->text;
    if (!error && !layout->text)
        open_gather(reader);
    if (error)
        strided_reader_close(&reader->reader);
    else
        *ret_reader = &reader->reader;
    return error;
}

void strided_reader_close(struct reader *base)
{
    struct strided_reader *reader = (struct strided_reader *)base;
    if (reader->gather)
        row_gather_close(reader->gather);
    free(reader->gather);
    source_file_close(&reader->file);
    strided_rows_release(&reader->rows);
    free(reader->places);
    free(reader);
}

/* The existing ones, sorted; how many. */
static size_t find_rows(const struct strided_reader *reader, struct fetch_call *call, size_t count)
{
    struct fetch_place *places = reader->places;
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t row = reader->layout.find(reader->reader.store, call->ids[i]);
        if (row >= 0)
            places[found++] = (struct fetch_place){.key = row, .index = i};
        else
            fetch_call_miss(call, i, reader->layout.name);
    }
    fetch_places_sort(places, found);
    return found;
}

/* ---- with one system call ----------------------------------------------- */

/* How many of `wanted` fit the window of one call. */
static size_t gather(const struct strided_reader *reader, const struct fetch_place *places,
                     size_t wanted)
{
    const struct strided_rows *rows = &reader->rows;
    size_t count = 0;
    row_gather_clear(reader->gather);
    while (count < wanted &&
           row_gather_add(reader->gather,
                          rows->begin + strided_rows_offset(rows, places[count].key),
                          strided_rows_bytes(rows, places[count].key)))
        count++;
    return count > 0 && row_gather_copy(reader->gather) ? count : 0;
}

/* The leading rows that can be read so; the rest is left to pread(2), which reports the error. */
static enum error fetch_gathered(struct strided_reader *reader, struct fetch_call *call,
                                 const struct fetch_place *places, size_t wanted, size_t *ret_done)
{
    enum error error = OK;
    size_t count, done = 0;
    while (done < wanted && !error && (count = gather(reader, places + done, wanted - done)) > 0) {
        const uint8_t *record = reader->gather->window;
        for (size_t i = 0; i < count && !error; i++) {
            error = reader->layout.take(reader->reader.store, call, &places[done + i], record);
            record += strided_rows_bytes(&reader->rows, places[done + i].key);
        }
        done += count;
    }
    *ret_done = done;
    return error;
}

/* ---- from memory -------------------------------------------------------- */

static enum error fetch_held(const struct strided_reader *reader, struct fetch_call *call,
                             const struct fetch_place *places, size_t wanted)
{
    const struct strided_rows *rows = &reader->rows;
    enum error error = OK;
    for (size_t i = 0; i < wanted && !error; i++) {
        if (i + AHEAD < wanted)
            row_prefetch(strided_rows_in_memory(rows, places[i + AHEAD].key), rows->row_bytes);
        error = reader->layout.take(reader->reader.store, call, &places[i],
                                    strided_rows_in_memory(rows, places[i].key));
    }
    return error;
}

/* ---- one by one --------------------------------------------------------- */

/* How many of `wanted` one read serves. */
static size_t count_near(const struct strided_rows *rows, const struct fetch_place *places,
                         size_t wanted)
{
    uint64_t begin = strided_rows_offset(rows, places[0].key);
    size_t near = 1;
    while (near < wanted &&
           strided_rows_offset(rows, places[near].key) <=
               strided_rows_offset(rows, places[near - 1].key + 1) + GAP_BYTES &&
           strided_rows_offset(rows, places[near].key + 1) - begin <= rows->piece_bytes)
        near++;
    return near;
}

static enum error fetch_near(struct strided_reader *reader, struct fetch_call *call,
                             const struct fetch_place *places, size_t count)
{
    enum error error = strided_rows_read(&reader->rows, places[0].key, places[count - 1].key);
    if (error)
        return error_prefix(error, "id %lld: ", (long long)call->ids[places[0].index]);
    for (size_t i = 0; i < count && !error; i++)
        error = reader->layout.take(reader->reader.store, call, &places[i],
                                    strided_rows_at(&reader->rows, places[i].key));
    return error;
}

static enum error check_file(const struct strided_reader *reader)
{
    return reader->layout.is_copy ? OK : source_file_check(&reader->file);
}

enum error strided_reader_fetch(struct reader *base, const int64_t *ids, size_t count,
                                void *features, size_t stride_bytes, double *labels,
                                enum row_status *status)
{
    struct strided_reader *reader = (struct strided_reader *)base;
    struct fetch_call call;
    fetch_call_init(&call, base, ids, features, stride_bytes, labels, status);
    enum error error = check_file(reader);
    if (!error)
        error = array_grow((void **)&reader->places, &reader->places_capacity, count,
                           sizeof(*reader->places), "a batch of rows");
    if (error)
        return error;
    size_t found = find_rows(reader, &call, count), done = 0;
    if (reader->gather) {
        error = fetch_gathered(reader, &call, reader->places, found, &done);
    } else if (reader->rows.text && reader->rows.text->held) {
        error = fetch_held(reader, &call, reader->places, found);
        done = found;
    }
    while (done < found && !error) {
        size_t near = count_near(&reader->rows, reader->places + done, found - done);
        error = fetch_near(reader, &call, reader->places + done, near);
        done += near;
    }
    if (!error)
        error = check_file(reader); /* rows read may include later writes */
    return error ? error : fetch_call_finish(&call);
}

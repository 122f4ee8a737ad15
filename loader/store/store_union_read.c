/* SPDX-License-Identifier: MIT */
/* Scans and fetches through several stores. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/log.h"
#include "loader/store/content_digest.h"
#include "loader/store/fetch_call.h"
#include "loader/store/store_union_parts.h"
#include "loader/store/store_union_private.h"

/* ---- scan --------------------------------------------------------------- */

struct union_scan {
    struct union_store *store;
    const struct union_part *part;
    int64_t rows; /* of the earlier parts */
    store_sink *sink;
    void *context;
    int64_t *ids; /* owned; of a block, if row numbers continue over parts; owned, too: */
    double *label_values;
    uint8_t *features;
    size_t ids_capacity, labels_capacity, features_capacity;
};

static enum error number_ids(struct union_scan *scan, struct store_block *block)
{
    enum error error = array_grow((void **)&scan->ids, &scan->ids_capacity, block->rows,
                                  sizeof(*scan->ids), "a block of rows");
    for (size_t i = 0; i < block->rows && !error; i++)
        scan->ids[i] = scan->rows + block->ids[i];
    block->ids = scan->ids;
    return error;
}

static enum error map_labels(struct union_scan *scan, struct store_block *block)
{
    enum error error = array_grow((void **)&scan->label_values, &scan->labels_capacity, block->rows,
                                  sizeof(*scan->label_values), "a block of rows");
    for (size_t i = 0; i < block->rows && !error; i++) {
        bool is_bad = block->status && block->status[i] != ROW_OK;
        scan->label_values[i] =
            is_bad ? 0 : union_label(scan->store, scan->part, block->label_values[i]);
    }
    block->label_values = scan->label_values;
    return error;
}

static enum error widen(struct union_scan *scan, struct store_block *block)
{
    const struct store_info *part = &scan->part->store->info;
    size_t count = 0;
    for (size_t i = 0; i < block->rows; i++)
        count += store_block_row_bytes(block, i, part) / element_bytes(part->element);
    enum error error = array_grow((void **)&scan->features, &scan->features_capacity,
                                  count * sizeof(float), 1, "a block of rows");
    if (error)
        return error;
    union_widen(block->features, count, scan->features);
    block->features = scan->features;
    return OK;
}

static enum error pass_on(void *context, const struct store_block *block)
{
    struct union_scan *scan = context;
    struct store_block shown = *block;
    enum error error = OK;
    shown.first_row += scan->rows;
    if (scan->store->is_numbered)
        error = number_ids(scan, &shown);
    if (!error && shown.label_values)
        error = map_labels(scan, &shown);
    if (!error && shown.features && union_widens(scan->store, scan->part))
        error = widen(scan, &shown);
    if (error)
        return error;
    shown.bytes_done += scan->part->first_bytes;
    shown.bytes_total = block->bytes_total > 0 ? scan->store->bytes : 0;
    return scan->sink(scan->context, &shown);
}

/* Rows of the part just scanned: if only keys are read, they are known only then. */
struct union_count {
    struct union_scan *scan;
    int64_t rows;
    bool verifies; /* adds up the rows' digest as the part gives them */
    struct content_digest digest;
};

static enum error count_and_pass_on(void *context, const struct store_block *block)
{
    struct union_count *count = context;
    enum error error = OK;
    count->rows += (int64_t)block->rows;
    if (count->verifies)
        error = content_digest_add(&count->digest, store_info(count->scan->part->store), block);
    return error ? error : pass_on(count->scan, block);
}

static enum error scan_part(struct union_count *count, enum scan_columns columns)
{
    struct store *part = count->scan->part->store;
    count->verifies = (columns & SCAN_FEATURES) && (columns & SCAN_DIGESTS);
    content_digest_init(&count->digest);
    enum error error = store_scan(part, columns, count_and_pass_on, count);
    if (!error && count->verifies)
        error = content_digest_check(&count->digest, store_info(part));
    content_digest_release(&count->digest);
    return error;
}

enum error union_scan(struct store *base, enum scan_columns columns, store_sink *sink,
                      void *context)
{
    struct union_store *store = (struct union_store *)base;
    struct union_scan scan = {.store = store, .sink = sink, .context = context};
    enum error error = OK;
    bool is_empty = false; /* the last part had no rows, which a scan of keys only finds here */
    for (size_t i = 0; i < store->count && (!error || is_empty); i++) {
        struct union_count count = {.scan = &scan};
        scan.part = &store->parts[i];
        if (store->keys_only)
            store->parts[i].first_row = scan.rows;
        error = scan_part(&count, columns);
        scan.rows += count.rows;
        is_empty = store_is_without_rows(error);
        if (is_empty)
            log_warning("%s: passed over", error_message());
    }
    if (is_empty && scan.rows > 0)
        error = OK;
    free(scan.ids);
    free(scan.label_values);
    free(scan.features);
    return error;
}

/* ---- fetch -------------------------------------------------------------- */

struct union_reader {
    struct reader reader;    /* first */
    struct reader **readers; /* owned; [parts] */
    size_t count;
    struct fetch_place *places; /* owned; [capacity], as all below */
    int64_t *ids;
    double *labels;
    enum row_status *status;
    int64_t *lengths;
    uint8_t *features;
    size_t capacity;
};

void union_reader_close(struct reader *base)
{
    struct union_reader *reader = (struct union_reader *)base;
    for (size_t i = 0; reader->readers && i < reader->count; i++)
        reader_close(reader->readers[i]);
    free(reader->readers);
    free(reader->places);
    free(reader->ids);
    free(reader->labels);
    free(reader->status);
    free(reader->lengths);
    free(reader->features);
    free(reader);
}

enum error union_reader_open(struct store *base, struct reader **ret_reader)
{
    const struct union_store *store = (struct union_store *)base;
    struct union_reader *reader = array_new(1, sizeof(*reader), "a reader");
    if (!reader)
        return ERROR_MEMORY;
    reader->readers = array_new(store->count, sizeof(struct reader *), "a reader");
    enum error error = reader->readers ? OK : ERROR_MEMORY;
    while (!error && reader->count < store->count) {
        error = reader_open(store->parts[reader->count].store, &reader->readers[reader->count]);
        reader->count += !error;
    }
    if (error) {
        union_reader_close(&reader->reader);
        return error;
    }
    *ret_reader = &reader->reader;
    return OK;
}

static enum error renew(void **array, size_t count, size_t element_bytes)
{
    void *larger = array_new(count, element_bytes, "a batch of rows");
    if (!larger)
        return ERROR_MEMORY;
    free(*array);
    *array = larger;
    return OK;
}

static enum error reserve(struct union_reader *reader, size_t count)
{
    const struct store_info *info = &reader->reader.store->info;
    size_t row_bytes = info->features * element_bytes(info->element);
    if (count <= reader->capacity)
        return OK;
    reader->capacity = 0;
    enum error error = renew((void **)&reader->places, count, sizeof(*reader->places));
    if (!error)
        error = renew((void **)&reader->ids, count, sizeof(*reader->ids));
    if (!error)
        error = renew((void **)&reader->labels, count, sizeof(*reader->labels));
    if (!error)
        error = renew((void **)&reader->status, count, sizeof(*reader->status));
    if (!error)
        error = renew((void **)&reader->lengths, count, sizeof(*reader->lengths));
    if (!error)
        error = renew((void **)&reader->features, count, row_bytes);
    if (!error)
        reader->capacity = count;
    return error;
}

static int64_t row_of(const struct union_store *store, int64_t id)
{
    return id < 0 ? -1 : id_index_row(&store->ids, id);
}

/* Sorts by part; ids in no part come first. */
static void place_ids(struct union_reader *reader, const int64_t *ids, size_t count)
{
    const struct union_store *store = (struct union_store *)reader->reader.store;
    for (size_t i = 0; i < count; i++) {
        int64_t row = row_of(store, ids[i]);
        int64_t part = row < 0 ? -1 : (int64_t)union_part_of(store, row);
        reader->places[i] = (struct fetch_place){.key = part, .index = i};
    }
    fetch_places_sort(reader->places, count);
}

static void refuse_missing(struct fetch_call *call, const struct union_store *store, size_t index)
{
    error_set(ERROR_NOT_FOUND, "%s and %zu more: no row has the id %lld",
              store->parts[0].store->info.uri, store->count - 1, (long long)call->ids[index]);
    fetch_call_set(call, index, ROW_MISSING, 0);
}

static void take_row(struct fetch_call *call, const struct union_store *store,
                     const struct union_part *part, const struct union_reader *reader, size_t i,
                     size_t index)
{
    const struct store_info *info = &part->store->info;
    size_t features = (size_t)reader->lengths[i];
    size_t bytes = features * element_bytes(info->element);
    const uint8_t *row = reader->features + i * info->features * element_bytes(info->element);
    if (reader->status[i] != ROW_OK) {
        fetch_call_set(call, index, reader->status[i], 0);
        return;
    }
    if (union_widens(store, part))
        union_widen(row, features, fetch_call_slot(call, index));
    else if (bytes > 0)
        memcpy(fetch_call_slot(call, index), row, bytes);
    fetch_call_length(call, index, features);
    fetch_call_set(call, index, ROW_OK, union_label(store, part, reader->labels[i]));
}

/* Places [begin, end) are in one part. Of its bad rows, the first one's message counts. */
static enum error fetch_part(struct union_reader *reader, struct fetch_call *call, size_t begin,
                             size_t end)
{
    const struct union_store *store = (struct union_store *)reader->reader.store;
    size_t number = (size_t)reader->places[begin].key;
    const struct union_part *part = &store->parts[number];
    const struct store_info *info = &part->store->info;
    for (size_t i = begin; i < end; i++)
        reader->ids[i - begin] =
            call->ids[reader->places[i].index] - (store->is_numbered ? part->first_row : 0);
    enum error error =
        reader_fetch_lengths(reader->readers[number], reader->ids, end - begin, reader->features,
                             info->features * element_bytes(info->element), reader->labels,
                             reader->status, reader->lengths);
    for (size_t i = begin; i < end && !error; i++)
        take_row(call, store, part, reader, i - begin, reader->places[i].index);
    return error;
}

enum error union_fetch(struct reader *base, const int64_t *ids, size_t count, void *features,
                       size_t stride_bytes, double *labels, enum row_status *status)
{
    struct union_reader *reader = (struct union_reader *)base;
    struct fetch_call call;
    enum error error = reserve(reader, count);
    if (error)
        return error;
    fetch_call_init(&call, base, ids, features, stride_bytes, labels, status);
    place_ids(reader, ids, count);
    for (size_t begin = 0, end; begin < count && !error; begin = end) {
        for (end = begin; end < count && reader->places[end].key == reader->places[begin].key;)
            end++;
        if (reader->places[begin].key >= 0)
            error = fetch_part(reader, &call, begin, end);
        for (size_t i = begin; i < end && reader->places[begin].key < 0; i++)
            refuse_missing(&call, (struct union_store *)base->store, reader->places[i].index);
    }
    return error ? error : fetch_call_finish(&call);
}

enum error union_measure(struct reader *base, const int64_t *ids, size_t count, int64_t *lengths)
{
    const struct union_reader *reader = (const struct union_reader *)base;
    const struct union_store *store = (const struct union_store *)base->store;
    enum error error = OK;
    for (size_t i = 0; i < count && !error; i++) {
        int64_t row = row_of(store, ids[i]);
        size_t part = row < 0 ? 0 : union_part_of(store, row);
        int64_t id = ids[i] - (store->is_numbered ? store->parts[part].first_row : 0);
        lengths[i] = 0;
        if (row >= 0)
            error = reader_lengths(reader->readers[part], &id, 1, &lengths[i]);
    }
    return error;
}

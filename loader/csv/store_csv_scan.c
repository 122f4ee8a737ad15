/* SPDX-License-Identifier: MIT */
/* All rows of a CSV file in file order. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/csv/csv_messages.h"
#include "loader/csv/store_csv.h"

/* The rows of one block; arrays grow to the largest block and stay. */
struct scanned {
    struct csv_decoder decoder;
    bool ready;
    size_t rows;
    size_t capacity;
    int64_t *ids;
    struct text *labels;
    double *label_values;
    double *weights;
    struct text *groups;
    uint8_t *features;
    enum row_status *status;
    int64_t *lengths; /* where rows differ in length: the same one behind the other, */
    uint8_t *packed;  /* and their features */
    size_t packed_bytes, packed_capacity;
};

struct scan {
    struct csv_store *store;
    enum scan_columns columns;
    store_sink *sink;
    void *context;
    int64_t rows; /* handed out */
    int64_t *ids; /* owned; keys only: all ids, to find duplicates */
    size_t ids_capacity;
};

static bool has(const struct csv_store *store, enum column_role role)
{
    return store->columns.column_of[role] >= 0;
}

static size_t row_bytes(const struct csv_store *store)
{
    return store->columns.features * element_bytes(store->store.info.element);
}

static bool varies(const struct scan *scan)
{
    return (scan->columns & SCAN_FEATURES) && row_limit_varies(&scan->store->columns.limit);
}

static void release_arrays(struct scanned *scanned)
{
    free(scanned->lengths);
    free(scanned->ids);
    free(scanned->labels);
    free(scanned->label_values);
    free(scanned->weights);
    free(scanned->groups);
    free(scanned->features);
    free(scanned->status);
    scanned->capacity = 0;
}

static void release_scanned(void *context, void *result)
{
    struct scanned *scanned = result;
    (void)context;
    if (scanned->ready)
        csv_decoder_release(&scanned->decoder);
    release_arrays(scanned);
    free(scanned->packed);
}

static bool new_arrays(const struct scan *scan, struct scanned *scanned, size_t rows)
{
    static const char what[] = "the rows of a block of CSV";
    const struct csv_store *store = scan->store;
    bool features = scan->columns & SCAN_FEATURES, packs = varies(scan);
    scanned->ids = array_new(rows, sizeof(*scanned->ids), what);
    scanned->labels = array_new(rows, sizeof(*scanned->labels), what);
    scanned->label_values = features ? array_new(rows, sizeof(double), what) : NULL;
    scanned->weights = has(store, COLUMN_WEIGHT) ? array_new(rows, sizeof(double), what) : NULL;
    scanned->groups =
        has(store, COLUMN_GROUP) ? array_new(rows, sizeof(*scanned->groups), what) : NULL;
    scanned->features = features && !packs ? array_new(rows, row_bytes(store) + 1, what) : NULL;
    scanned->lengths = packs ? array_new(rows, sizeof(*scanned->lengths), what) : NULL;
    scanned->status = features ? array_new(rows, sizeof(*scanned->status), what) : NULL;
    return scanned->ids && scanned->labels && (!features || scanned->label_values) &&
           (!has(store, COLUMN_WEIGHT) || scanned->weights) &&
           (!has(store, COLUMN_GROUP) || scanned->groups) &&
           (!features || ((packs || scanned->features) && scanned->status)) &&
           (!packs || scanned->lengths);
}

static enum error prepare(const struct scan *scan, struct scanned *scanned, size_t rows)
{
    enum error error = OK;
    scanned->rows = 0;
    scanned->packed_bytes = 0;
    if (!scanned->ready)
        error = csv_decoder_init(&scanned->decoder, &scan->store->columns, scan->store->delimiter);
    if (error)
        return error;
    if (varies(scan))
        scanned->decoder.most = scan->store->store.info.longest;
    scanned->ready = true;
    if (rows <= scanned->capacity)
        return OK;
    release_arrays(scanned);
    bool there = new_arrays(scan, scanned, rows);
    scanned->capacity = there ? rows : 0;
    if (!there) {
        release_arrays(scanned);
        *scanned = (struct scanned){.decoder = scanned->decoder,
                                    .ready = true,
                                    .packed = scanned->packed,
                                    .packed_capacity = scanned->packed_capacity};
    }
    return there ? OK : ERROR_MEMORY;
}

static enum error keep_features(const struct scan *scan, struct scanned *scanned,
                                const struct store_row *row)
{
    const struct csv_store *store = scan->store;
    size_t bytes = row_bytes(store);
    size_t i = scanned->rows;
    scanned->status[i] = row->status;
    if (row->status == ROW_BAD && !(scan->columns & SCAN_BAD_ROWS))
        return ERROR_INPUT;
    if (scanned->lengths) {
        size_t length = row->status == ROW_BAD ? 0 : row->length;
        scanned->lengths[i] = (int64_t)length;
        scanned->packed_bytes += length * element_bytes(store->store.info.element);
    } else if (row->status == ROW_BAD) {
        memset(scanned->features + i * bytes, 0, bytes);
    }
    return store_row_check(row, row->id, &store->store.info, &store->labels, store->path,
                           &scanned->label_values[i]);
}

static enum error keep_row(const struct scan *scan, struct scanned *scanned,
                           const struct store_row *row)
{
    size_t i = scanned->rows;
    enum error error = OK;
    scanned->ids[i] = row->id;
    scanned->labels[i] = row->label;
    if (scanned->weights)
        scanned->weights[i] = row->weight;
    if (scanned->groups)
        scanned->groups[i] = row->group;
    if (scan->columns & SCAN_FEATURES)
        error = keep_features(scan, scanned, row);
    scanned->rows++;
    return error;
}

/* Lines are not rows if quotes contain line ends; a row has at least a byte per column. */
static size_t most_rows(const struct csv_store *store, const struct csv_block *block)
{
    size_t lines = (size_t)block->lines + 1;
    size_t rows = block->length / csv_columns_least(&store->columns) + 1;
    return lines < rows ? lines : rows;
}

/* If rows differ in length: a feature needs at least two bytes of text, except for the last. */
static enum error reserve_packed(const struct scan *scan, struct scanned *scanned,
                                 const struct csv_block *block)
{
    size_t bytes = (block->length / 2 + 2) * element_bytes(scan->store->store.info.element);
    return varies(scan) ? array_grow((void **)&scanned->packed, &scanned->packed_capacity, bytes, 1,
                                     "the rows of a block of CSV")
                        : OK;
}

static uint8_t *next_slot(const struct scan *scan, const struct scanned *scanned)
{
    if (scanned->lengths)
        return scanned->packed + scanned->packed_bytes;
    return scanned->features ? scanned->features + scanned->rows * row_bytes(scan->store) : NULL;
}

static enum error scan_block(void *context, void *result, struct csv_block *block)
{
    const struct scan *scan = context;
    const struct csv_store *store = scan->store;
    struct scanned *scanned = result;
    struct csv_cursor cursor = {.at = 0};
    enum error error = prepare(scan, scanned, most_rows(store, block));
    if (!error)
        error = reserve_packed(scan, scanned, block);
    if (error)
        return error;
    for (;;) {
        struct store_row row;
        error = csv_decode_next(&scanned->decoder, block, &cursor, store->store.info.element,
                                next_slot(scan, scanned), &row);
        if (!error)
            error = keep_row(scan, scanned, &row);
        if (error)
            return error == ERROR_END ? OK : csv_store_prefix(store, error, cursor.line);
    }
}

static enum error keep_ids(struct scan *scan, const struct scanned *scanned)
{
    size_t rows = (size_t)scan->rows;
    enum error error = array_grow((void **)&scan->ids, &scan->ids_capacity, rows + scanned->rows,
                                  sizeof(*scan->ids), "the ids of CSV rows");
    if (!error && scanned->rows > 0)
        memcpy(scan->ids + rows, scanned->ids, scanned->rows * sizeof(*scan->ids));
    return error;
}

static enum error take_block(void *context, void *result, const struct csv_block *block)
{
    struct scan *scan = context;
    struct scanned *scanned = result;
    enum error error = OK;
    (void)block;
    if (!has(scan->store, COLUMN_ID)) {
        for (size_t i = 0; i < scanned->rows; i++)
            scanned->ids[i] = scan->rows + (int64_t)i;
    } else if (scan->store->keys_only) {
        error = keep_ids(scan, scanned);
    }
    if (error || scanned->rows == 0)
        return error;
    struct store_block rows = {.rows = scanned->rows,
                               .first_row = scan->rows,
                               .ids = scanned->ids,
                               .labels = scanned->labels,
                               .weights = scanned->weights,
                               .groups = scanned->groups,
                               .label_values = scanned->label_values,
                               .features = scanned->lengths ? scanned->packed : scanned->features,
                               .lengths = scanned->lengths,
                               .status = scan->columns & SCAN_BAD_ROWS ? scanned->status : NULL};
    scan->rows += (int64_t)scanned->rows;
    return scan->sink(scan->context, &rows);
}

/* ---- duplicate ids, if open() made no index ----------------------------- */

static enum error refuse_twice(const struct csv_store *store, const int64_t twice[2], int64_t id)
{
    int64_t lines[2] = {0};
    enum error error = csv_store_find_lines(store, twice, 2, lines);
    return error ? error : csv_store_refuse_twice(store, id, lines[0], lines[1]);
}

static enum error check_twice(struct scan *scan)
{
    struct id_index index;
    int64_t twice[2];
    enum error error = id_index_init(&index, scan->ids, scan->rows, twice);
    if (error == ERROR_CONFLICT)
        return refuse_twice(scan->store, twice, scan->ids[twice[0]]);
    if (error)
        return error;
    scan->ids = NULL;
    id_index_release(&index);
    return OK;
}

enum error csv_store_scan(struct store *base, enum scan_columns columns, store_sink *sink,
                          void *context)
{
    struct csv_store *store = (struct csv_store *)base;
    if (columns & SCAN_CODES)
        return csv_store_scan_keys(store, sink, context);
    struct scan scan = {.store = store, .columns = columns, .sink = sink, .context = context};
    struct csv_pass pass = {.what = "reading",
                            .result_bytes = sizeof(struct scanned),
                            .work = scan_block,
                            .take = take_block,
                            .release = release_scanned,
                            .context = &scan};
    enum error error = csv_pass_run(&pass, &store->source);
    if (!error && scan.rows == 0)
        error = csv_store_refuse_empty(store);
    if (!error && scan.ids)
        error = check_twice(&scan);
    free(scan.ids);
    return error;
}

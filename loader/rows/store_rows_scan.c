/* SPDX-License-Identifier: MIT */
/* All rows in file order: only keys, or keys and rows side by side. */
#include <string.h>

#include "loader/rows/rows_keys.h"
#include "loader/rows/store_rows.h"
#include "loader/store/scan_block.h"
#include "loader/store/strided_rows.h"

struct scan {
    const struct rows_store *store;
    struct source_file file;
    struct rows_keys keys;
    struct strided_rows rows; /* zeroed: keys only */
    struct scan_block *block; /* owned */
};

/* Puts the features into the block's slot. */
static enum error take_row(struct scan *scan, int64_t row, struct store_row *added,
                           double *ret_label)
{
    const struct rows_store *store = scan->store;
    const struct store_info *info = &store->store.info;
    const uint8_t *record;
    size_t length;
    enum error error = strided_rows_next(&scan->rows, row, &record);
    if (error)
        return error;
    error = rows_store_read(store, row, added->id, record, ret_label, &length);
    if (error)
        return error;
    memcpy(scan_block_slot(scan->block), record + sizeof(struct rows_row),
           length * element_bytes(info->element));
    added->length = row_limit_varies(&store->limit) ? length : 0;
    return OK;
}

static enum error add_row(struct scan *scan, int64_t row)
{
    struct rows_keys_row taken;
    struct store_row added = store_row_fresh;
    double label = 0;
    enum error error = rows_keys_next(&scan->keys, &taken);
    if (error)
        return error;
    added.id = taken.key.id;
    added.weight = taken.key.weight;
    added.label = taken.label;
    added.group = taken.group;
    if (scan->rows.piece)
        error = take_row(scan, row, &added, &label);
    return error ? error : scan_block_add(scan->block, &added, label);
}

/* A store opened for keys only has not checked for duplicate ids. */
static enum error check_ids(struct scan *scan, enum scan_columns columns)
{
    struct id_index index;
    if ((columns & SCAN_CODES) || scan->store->ids.rows > 0)
        return OK;
    enum error error =
        rows_keys_index(&scan->store->header, &scan->file, scan->store->path, &index);
    if (!error)
        id_index_release(&index);
    return error;
}

static enum error scan_all(struct scan *scan, enum scan_columns columns)
{
    int64_t rows = scan->store->store.info.rows;
    enum error error = source_file_check(&scan->file);
    if (!error)
        error = check_ids(scan, columns);
    for (int64_t row = 0; row < rows && !error; row++)
        error = add_row(scan, row);
    if (!error)
        error = source_file_check(&scan->file); /* rows read may include later writes */
    return error ? error : scan_block_finish(scan->block);
}

static enum error scan_begin(struct scan *scan, enum scan_columns columns, store_sink *sink,
                             void *context)
{
    const struct rows_head *head = &scan->store->header.head;
    enum error error = rows_keys_open(&scan->keys, &scan->store->header, &scan->file, true);
    if (error)
        return error;
    scan->block = scan_block_new(&scan->store->store.info, columns, sink, context);
    if (!scan->block)
        return ERROR_MEMORY;
    if (!(columns & SCAN_FEATURES))
        return OK;
    return strided_rows_init(&scan->rows, &scan->file, head->rows_at,
                             rows_store_longest(scan->store), scan->store->ends,
                             (int64_t)head->rows);
}

enum error rows_store_scan(struct store *base, enum scan_columns columns, store_sink *sink,
                           void *context)
{
    const struct rows_store *store = (const struct rows_store *)base;
    struct scan scan = {.store = store};
    enum error error = source_file_open(&scan.file, store->path, &store->identity);
    if (error)
        return error;
    error = scan_begin(&scan, columns, sink, context);
    if (!error)
        error = scan_all(&scan, columns);
    strided_rows_release(&scan.rows);
    scan_block_free(scan.block);
    rows_keys_close(&scan.keys);
    source_file_close(&scan.file);
    return error;
}

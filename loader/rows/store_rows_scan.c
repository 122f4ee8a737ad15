/* SPDX-License-Identifier: MIT */
/* All rows in the file's order: the keys alone, or keys and rows side by side. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/rows/rows_file.h"
#include "loader/rows/rows_keys.h"
#include "loader/rows/store_rows.h"
#include "loader/store/scan_block.h"

#define PIECE_BYTES ((size_t)1 << 20) /* one read, unless a row is longer */

struct scan {
    const struct rows_store *store;
    struct source_file file;
    struct rows_keys keys;
    struct scan_block *block; /* owned */
    uint8_t *piece;           /* owned; [piece_rows, row_bytes]; NULL: keys only */
    size_t piece_rows;
};

static enum error read_piece(struct scan *scan, int64_t first)
{
    const struct rows_head *head = &scan->store->header.head;
    uint64_t left = head->rows - (uint64_t)first;
    size_t rows = left < scan->piece_rows ? (size_t)left : scan->piece_rows;
    return source_file_read(&scan->file, scan->piece, rows * (size_t)head->row_bytes,
                            rows_header_row_at(&scan->store->header, first));
}

/* The features go to the block's slot. */
static enum error take_row(struct scan *scan, int64_t row, int64_t id, double *ret_label)
{
    const struct rows_store *store = scan->store;
    size_t at = (size_t)row % scan->piece_rows, bytes = (size_t)store->header.head.row_bytes;
    const struct store_info *info = &store->store.info;
    enum error error = at == 0 ? read_piece(scan, row) : OK;
    if (error)
        return error;
    const uint8_t *record = scan->piece + at * bytes;
    const char *wrong = rows_row_read(&store->header, id, record, ret_label);
    if (wrong)
        return rows_file_refuse(&scan->file, &store->header, row, id, wrong);
    memcpy(scan_block_slot(scan->block), record + sizeof(struct rows_row),
           info->features * element_bytes(info->element));
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
    if (scan->piece)
        error = take_row(scan, row, added.id, &label);
    return error ? error : scan_block_add(scan->block, &added, label);
}

/* Who opened for keys only has not seen whether an id is there twice. */
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
        error = source_file_check(&scan->file); /* what was written meanwhile may be among it */
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
    scan->piece_rows = PIECE_BYTES / (size_t)head->row_bytes;
    scan->piece_rows += scan->piece_rows == 0;
    scan->piece = array_new(scan->piece_rows, (size_t)head->row_bytes, "rows of a row file");
    return scan->piece ? OK : ERROR_MEMORY;
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
    free(scan.piece);
    scan_block_free(scan.block);
    rows_keys_close(&scan.keys);
    source_file_close(&scan.file);
    return error;
}

/* SPDX-License-Identifier: MIT */
/* All rows in file order, in blocks. */
#include <string.h>

#include "loader/parquet/parquet_pass.h"
#include "loader/store/scan_block.h"

struct scan {
    const struct parquet_store *store;
    struct scan_block *block; /* owned */
};

static enum error keep_row(void *context, const struct store_row *row, const uint8_t *features)
{
    struct scan *scan = context;
    const struct parquet_store *store = scan->store;
    const struct store_info *info = &store->store.info;
    double label = 0;
    void *slot = scan_block_slot(scan->block);
    if (slot) {
        enum error error = store_row_check(row, row->id, info, &store->labels, "the file", &label);
        if (error)
            return error_prefix(error, "%s, id %lld: ", store->path, (long long)row->id);
        if (features)
            memcpy(slot, features,
                   (store->columns.ragged ? row->length : info->features) *
                       element_bytes(info->element));
    }
    return scan_block_add(scan->block, row, label);
}

enum error parquet_store_scan(struct store *base, enum scan_columns columns, store_sink *sink,
                              void *context)
{
    const struct parquet_store *store = (const struct parquet_store *)base;
    struct scan scan = {.store = store};
    struct parquet_pass pass = {.store = store,
                                .part = columns & SCAN_FEATURES ? PARQUET_ALL : PARQUET_KEYS,
                                .element = base->info.element,
                                .visit = keep_row,
                                .context = &scan};
    enum error error = OK;
    if (!(columns & SCAN_CODES) && store->ids.rows == 0)
        error = parquet_store_check_ids(store);
    if (error)
        return error;
    scan.block = scan_block_new(&base->info, columns, sink, context);
    if (!scan.block)
        return ERROR_MEMORY;
    error = parquet_pass_run(&pass);
    if (!error)
        error = scan_block_finish(scan.block);
    scan_block_free(scan.block);
    return error;
}

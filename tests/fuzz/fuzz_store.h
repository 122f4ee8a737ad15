/* SPDX-License-Identifier: MIT */
/* What must hold for every store that opens, whatever its bytes are. */
#ifndef TESTS_FUZZ_FUZZ_STORE_H
#define TESTS_FUZZ_FUZZ_STORE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "loader/store/row_cache.h"
#include "loader/store/store.h"
#include "loader/store_open.h"

static inline void fuzz_check(bool holds)
{
    if (!holds)
        abort();
}

/* Whether the bytes of the store are such that a search may miss what a walk finds. */
typedef bool fuzz_damage(void);

struct fuzz_scan {
    struct reader *reader; /* NULL: rows are only counted */
    const struct store_info *info;
    fuzz_damage *is_damaged; /* NULL: it cannot be, and still open */
    int64_t rows, bad_rows;
};

/* Every row that the scan hands out can be fetched, and is the same; of a damaged store fetch may
 * say that it is missing. */
static inline void fuzz_compare_row(const struct fuzz_scan *scan, const struct store_block *block,
                                    size_t i, const uint8_t *row)
{
    size_t bytes = scan->info->features * element_bytes(scan->info->element);
    uint8_t *features = malloc(bytes + 1);
    double label = -1;
    int64_t length = -1, measured = -1;
    enum row_status status = ROW_MISSING;
    if (!features ||
        reader_fetch_lengths(scan->reader, &block->ids[i], 1, features, bytes, &label, &status,
                             &length) ||
        reader_lengths(scan->reader, &block->ids[i], 1, &measured))
        abort();
    if (status == ROW_MISSING) {
        fuzz_check(scan->is_damaged && scan->is_damaged());
        free(features);
        return;
    }
    fuzz_check(status == block->status[i]);
    fuzz_check(label == block->label_values[i]);
    fuzz_check(status != ROW_OK || length == measured);
    fuzz_check(!block->lengths || block->lengths[i] == length);
    fuzz_check(memcmp(features, row, store_block_row_bytes(block, i, scan->info)) == 0);
    free(features);
}

static inline enum error fuzz_take(void *context, const struct store_block *block)
{
    struct fuzz_scan *scan = context;
    const uint8_t *row = block->features;
    fuzz_check(block->rows > 0 && block->first_row == scan->rows);
    for (size_t i = 0; i < block->rows; i++) {
        fuzz_check(block->ids[i] >= 0);
        fuzz_check(block->labels[i].data != NULL);
        if (block->status)
            scan->bad_rows += block->status[i] == ROW_BAD;
        if (scan->reader && scan->rows + (int64_t)i < 50)
            fuzz_compare_row(scan, block, i, row);
        if (row)
            row += store_block_row_bytes(block, i, scan->info);
    }
    scan->rows += (int64_t)block->rows;
    return OK;
}

/* A cache of what opening kept, or of what it reads then, gives the rows of a scan. */
static inline void fuzz_cache(const char *uri, struct store *plain, fuzz_damage *is_damaged)
{
    struct store *inner = NULL;
    struct store *cache = NULL;
    struct fuzz_scan scan = {.info = store_info(plain), .is_damaged = is_damaged};
    fuzz_check(!store_open_with(uri, &(struct store_open_options){.cache.bytes = 1 << 20}, &inner));
    fuzz_check(store_info(inner)->element == scan.info->element);
    fuzz_check(store_info(inner)->label_kind == scan.info->label_kind);
    fuzz_check(store_info(inner)->bad_rows == scan.info->bad_rows);
    if (!row_cache_open(inner, 1 << 20, 0, &cache)) {
        if (!row_cache_wait(cache) && !reader_open(cache, &scan.reader) &&
            !store_scan(plain, SCAN_FEATURES | SCAN_BAD_ROWS, fuzz_take, &scan))
            fuzz_check(scan.rows == scan.info->rows);
        reader_close(scan.reader);
        store_close(cache);
    }
    store_close(inner);
}

static inline void fuzz_store(const char *uri, fuzz_damage *is_damaged)
{
    struct store *store = NULL;
    if (store_open(uri, false, &store)) {
        fuzz_check(error_message()[0] != '\0');
        return;
    }
    struct fuzz_scan keys = {.info = store_info(store)};
    struct fuzz_scan all = {.info = store_info(store), .is_damaged = is_damaged};
    fuzz_check(all.info->rows > 0);
    if (all.info->features >
        1 << 22) { /* of rows that differ in length: what one claims that may be */
        store_close(store);
        return;
    }
    fuzz_check((all.info->bad_rows > 0) == (all.info->first_bad_row != NULL));
    if (!store_scan(store, SCAN_KEYS, fuzz_take, &keys))
        fuzz_check(keys.rows == keys.info->rows);
    if (!reader_open(store, &all.reader) &&
        !store_scan(store, SCAN_FEATURES | SCAN_BAD_ROWS, fuzz_take, &all)) {
        fuzz_check(all.rows == all.info->rows);
        fuzz_check(all.bad_rows == all.info->bad_rows);
    }
    reader_close(all.reader);
    fuzz_cache(uri, store, is_damaged);
    store_close(store);
}

#endif

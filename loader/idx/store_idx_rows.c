/* SPDX-License-Identifier: MIT */
/* Rows of an IDX file, in order and by id. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"
#include "loader/column/feature.h"
#include "loader/idx/store_idx.h"
#include "loader/store/fetch_call.h"
#include "loader/store/scan_block.h"
#include "loader/store/strided_reader.h"

enum row_status idx_row_decode(const struct idx_store *store, int64_t row, const uint8_t *bytes,
                               enum element element, void *features, bool *ret_is_u8)
{
    const struct idx_header *header = &store->text.header;
    *ret_is_u8 = true;
    if (header->type == IDX_U8 && element == ELEMENT_U8) {
        memcpy(features, bytes, header->values);
        return ROW_OK;
    }
    for (size_t i = 0; i < header->values; i++) {
        double value = idx_value(header->type, bytes + i * header->value_bytes);
        if (!feature_fits(value, element)) {
            error_set(ERROR_INPUT, "%s, row %lld: value %zu is %.9g where %s belongs", store->path,
                      (long long)row, i, value, feature_wanted(isfinite(value), element));
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
    struct strided_rows rows; /* zeroed: keys only */
    struct scan_block *block; /* owned */
};

static enum error take_features(struct scan *scan, int64_t row, struct store_row *added)
{
    const uint8_t *record;
    enum error error = strided_rows_next(&scan->rows, row, &record);
    if (!error)
        added->status = idx_row_decode(scan->store, row, record, scan->store->store.info.element,
                                       scan_block_slot(scan->block), &added->is_u8);
    return error;
}

static enum error add_row(struct scan *scan, int64_t row)
{
    const struct idx_store *store = scan->store;
    char digits[TEXT_INTEGER_BYTES];
    struct store_row added = store_row_fresh;
    added.id = row;
    if (store->labels) {
        char *end = text_write_integer(digits, store->labels[row]);
        added.label = (struct text){.data = digits, .length = (size_t)(end - digits)};
    }
    enum error error = scan->rows.piece ? take_features(scan, row, &added) : OK;
    if (error)
        return error;
    double label = added.status == ROW_OK ? label_of(store, row) : 0;
    return scan_block_add(scan->block, &added, label);
}

static enum error scan_all(struct scan *scan)
{
    enum error error = source_file_check(&scan->file);
    for (int64_t row = 0; row < scan->store->store.info.rows && !error; row++)
        error = add_row(scan, row);
    if (!error)
        error = source_file_check(&scan->file); /* rows read may include later writes */
    return error ? error : scan_block_finish(scan->block);
}

static enum error scan_begin(struct scan *scan, enum scan_columns columns, store_sink *sink,
                             void *context)
{
    const struct idx_store *store = scan->store;
    scan->block = scan_block_new(&store->store.info, columns, sink, context);
    if (!scan->block)
        return ERROR_MEMORY;
    return columns & SCAN_FEATURES ? idx_text_rows(&store->text, &scan->file, &scan->rows) : OK;
}

enum error idx_store_scan(struct store *base, enum scan_columns columns, store_sink *sink,
                          void *context)
{
    const struct idx_store *store = (const struct idx_store *)base;
    struct scan scan = {.store = store};
    enum error error = source_file_open(&scan.file, store->path, &store->text.source.identity);
    if (error)
        return error;
    error = scan_begin(&scan, columns, sink, context);
    if (!error)
        error = scan_all(&scan);
    strided_rows_release(&scan.rows);
    scan_block_free(scan.block);
    source_file_close(&scan.file);
    return error;
}

/* ---- fetch -------------------------------------------------------------- */

static int64_t find_row(const struct store *base, int64_t id)
{
    return id >= 0 && id < base->info.rows ? id : -1;
}

static enum error take_row(const struct store *base, struct fetch_call *call,
                           const struct fetch_place *place, const uint8_t *record)
{
    const struct idx_store *store = (const struct idx_store *)base;
    bool is_u8;
    enum row_status status = idx_row_decode(store, place->key, record, base->info.element,
                                            fetch_call_slot(call, place->index), &is_u8);
    fetch_call_set(call, place->index, status, label_of(store, place->key));
    return OK;
}

/* Packed rows that are not in memory are unpacked in order, by a scan. */
bool idx_reader_has_run(struct reader *base, int64_t *ret_first)
{
    const struct idx_store *store = (const struct idx_store *)base->store;
    const struct strided_text *packed = idx_text_records(&store->text);
    *ret_first = 0;
    return !packed || packed->held;
}

enum error idx_reader_open(struct store *base, struct reader **ret_reader)
{
    const struct idx_store *store = (const struct idx_store *)base;
    const struct idx_header *header = &store->text.header;
    struct strided_layout layout = {.path = store->path,
                                    .name = store->path,
                                    .identity = &store->text.source.identity,
                                    .text = idx_text_records(&store->text),
                                    .begin = header->bytes,
                                    .row_bytes = header->row_bytes,
                                    .find = find_row,
                                    .take = take_row};
    return strided_reader_open(base, &layout, ret_reader);
}

/* SPDX-License-Identifier: MIT */
#include "loader/store/store_range.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "loader/store/store_kinds.h"

#define SCHEME "range"
#define BLOCK_ROWS 4096

struct range_store {
    struct store store; /* first */
    struct range range;
};

enum error range_parse(struct uri *uri, struct range *ret_range)
{
    struct range range = {.units = 0};
    char shown[TEXT_QUOTE_BYTES];
    if (!text_parse_integer(uri->path, strlen(uri->path), 1, RANGE_UNITS_LIMIT, &range.units))
        return error_set(
            ERROR_USAGE,
            SCHEME ":%s is not a number of units: give " SCHEME ":N?labels=K with N from "
                   "1 to %" PRId64,
            text_quote(shown, sizeof(shown), uri->path, strlen(uri->path)), RANGE_UNITS_LIMIT);
    enum error error =
        uri_query_integer(&uri->query, "labels", 1, RANGE_LABELS_LIMIT, 0, &range.labels);
    if (!error)
        error = uri_query_finish(&uri->query);
    if (error)
        return error_prefix(error, SCHEME ": ");
    *ret_range = range;
    return OK;
}

/* ---- store -------------------------------------------------------------- */

static enum error range_open(struct uri *uri, const struct read_options *options,
                             struct store **ret_store)
{
    (void)options;
    struct range range;
    enum error error = range_parse(uri, &range);
    if (error)
        return error;
    struct range_store *store = array_new(1, sizeof(*store), "a store");
    if (!store)
        return ERROR_MEMORY;
    store->range = range;
    store->store.info = (struct store_info){
        .rows = range.units,
        .element = ELEMENT_U8,
        .label_kind = range.labels > 0 ? LABEL_INTEGER : LABEL_NONE,
        .label_column = range.labels > 0 ? "label" : NULL,
    };
    *ret_store = &store->store;
    return OK;
}

static void range_close(struct store *store)
{
    free(store);
}

static int64_t label_of(const struct range *range, int64_t id)
{
    return range->labels > 0 ? id % range->labels : 0;
}

/* ---- scan --------------------------------------------------------------- */

struct range_block {
    int64_t ids[BLOCK_ROWS];
    struct text labels[BLOCK_ROWS];
    double label_values[BLOCK_ROWS];
    char texts[BLOCK_ROWS * TEXT_INTEGER_BYTES];
};

static void fill(struct range_block *block, const struct range *range, int64_t first, size_t rows)
{
    char *end = block->texts;
    for (size_t i = 0; i < rows; i++) {
        int64_t id = first + (int64_t)i;
        block->ids[i] = id;
        block->label_values[i] = (double)label_of(range, id);
        block->labels[i].data = end;
        if (range->labels > 0)
            end = text_write_integer(end, label_of(range, id));
        block->labels[i].length = (size_t)(end - block->labels[i].data);
    }
}

static enum error range_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                             void *context)
{
    const struct range *range = &((struct range_store *)store)->range;
    struct range_block *block = array_new(1, sizeof(*block), "a block of rows");
    if (!block)
        return ERROR_MEMORY;
    enum error error = OK;
    for (int64_t first = 0; first < range->units && !error; first += BLOCK_ROWS) {
        int64_t left = range->units - first;
        size_t rows = left < BLOCK_ROWS ? (size_t)left : BLOCK_ROWS;
        fill(block, range, first, rows);
        struct store_block shown = {
            .rows = rows,
            .first_row = first,
            .ids = block->ids,
            .labels = block->labels,
            .label_values = columns & SCAN_FEATURES ? block->label_values : NULL,
        };
        error = sink(context, &shown);
    }
    free(block);
    return error;
}

/* ---- reader ------------------------------------------------------------- */

static enum error range_reader_open(struct store *store, struct reader **ret_reader)
{
    struct reader *reader = array_new(1, sizeof(*reader), "a reader");
    if (!reader)
        return ERROR_MEMORY;
    reader->store = store;
    *ret_reader = reader;
    return OK;
}

static void range_reader_close(struct reader *reader)
{
    free(reader);
}

static enum error range_fetch(struct reader *reader, const int64_t *ids, size_t count,
                              void *features, size_t stride_bytes, double *labels,
                              enum row_status *status)
{
    (void)features;
    (void)stride_bytes;
    const struct range *range = &((const struct range_store *)reader->store)->range;
    bool is_first = true;
    for (size_t i = 0; i < count; i++) {
        bool is_there = ids[i] >= 0 && ids[i] < range->units;
        status[i] = is_there ? ROW_OK : ROW_MISSING;
        if (labels)
            labels[i] = is_there ? (double)label_of(range, ids[i]) : 0;
        if (!is_there && is_first)
            error_set(ERROR_NOT_FOUND,
                      "%s has no row with id %" PRId64 ": its ids are 0 to %" PRId64,
                      reader->store->info.uri, ids[i], range->units - 1);
        is_first = is_first && is_there;
    }
    return OK;
}

const struct store_ops store_range_ops = {
    .scheme = SCHEME,
    .open = range_open,
    .close = range_close,
    .scan = range_scan,
    .reader_open = range_reader_open,
    .reader_close = range_reader_close,
    .fetch = range_fetch,
};

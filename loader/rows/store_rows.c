/* SPDX-License-Identifier: MIT */
#include "loader/rows/store_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/rows/rows_ends.h"
#include "loader/rows/rows_file.h"
#include "loader/rows/rows_keys.h"
#include "loader/store/store_kinds.h"
#include "loader/store/strided_reader.h"

static enum error rows_store_locate(struct store *base, int64_t row, char out[STORE_PLACE_BYTES])
{
    const struct rows_store *store = (const struct rows_store *)base;
    snprintf(out, STORE_PLACE_BYTES, "%s, row %" PRId64, store->path, row);
    return OK;
}

/* The file's limit, unless the URI gives one. */
static void choose_limit(struct rows_store *store)
{
    const struct rows_header *header = &store->header;
    if (row_limit_varies(&store->limit) || !rows_header_has(header, ROWS_VARY))
        return;
    store->limit = rows_header_has(header, ROWS_LIMITED)
                       ? (struct row_limit){LENGTHS_LIMITED, (size_t)header->head.features}
                       : (struct row_limit){LENGTHS_VARY, ROW_LIMIT_MOST};
}

static void describe(struct rows_store *store, bool keys_only)
{
    const struct rows_header *header = &store->header;
    const struct rows_head *head = &header->head;
    bool varies = row_limit_varies(&store->limit);
    uint64_t elements = rows_header_has(header, ROWS_VARY) ? header->elements
                        : varies                           ? head->rows * head->features
                                                           : 0;
    memcpy(store->digest, head->digest, sizeof(head->digest));
    store->store.info = (struct store_info){
        .rows = (int64_t)head->rows,
        .features = row_limit_features(&store->limit, (size_t)head->features),
        .lengths = store->limit.lengths,
        .elements = elements,
        .longest = varies ? (size_t)head->features : 0,
        .shape = head->dimensions > 0 && !varies ? header->shape : NULL,
        .dimensions = (size_t)head->dimensions,
        .element = (enum element)head->element,
        .label_kind = (enum label_kind)head->label_kind,
        .bytes = keys_only ? head->rows_at - head->head_bytes : head->file_bytes,
        .id_column = header->columns[ROWS_COLUMN_ID],
        .label_column = header->columns[ROWS_COLUMN_LABEL],
        .weight_column = header->columns[ROWS_COLUMN_WEIGHT],
        .group_column = header->columns[ROWS_COLUMN_GROUP],
        .feature_names = varies ? NULL : (const char *const *)header->feature_names,
        .label_texts = (const char *const *)header->label_texts,
        .label_text_count = (size_t)head->label_texts,
        .digest = store->digest[0] ? store->digest : NULL,
        .recipe = store->recipe,
    };
}

static void rows_store_close(struct store *base)
{
    struct rows_store *store = (struct rows_store *)base;
    rows_header_release(&store->header);
    feature_recipe_free(store->recipe);
    id_index_release(&store->ids);
    free(store->ends);
    free(store->path);
    free(store);
}

static enum error refuse_length(const struct rows_store *store)
{
    int64_t row = 0;
    while (rows_store_length(store, row) <= store->limit.longest)
        row++;
    return error_prefix(row_limit_refuse(&store->limit, rows_store_length(store, row)),
                        "%s, row %" PRId64 ": ", store->path, row);
}

/* Determines rows' lengths, and checks that they are allowed. */
static enum error measure_rows(struct rows_store *store, struct source_file *file)
{
    struct store_info *info = &store->store.info;
    enum error error = OK;
    if (rows_header_has(&store->header, ROWS_VARY))
        error = rows_ends_read(&store->header, file, &store->ends, &info->longest);
    if (error || !row_limit_varies(&store->limit))
        return error;
    info->features = row_limit_features(&store->limit, info->longest);
    return info->longest > store->limit.longest ? refuse_length(store) : OK;
}

static enum error open_file(struct rows_store *store, bool keys_only)
{
    struct source_file file;
    enum error error = rows_file_open(&file, store->path, &store->header);
    if (error)
        return error;
    store->identity = file.identity;
    if (store->header.recipe)
        error = feature_recipe_parse(store->header.recipe, "the recipe of its features",
                                     &store->recipe);
    if (error == ERROR_INPUT)
        error = error_prefix(error, "%s is damaged: ", store->path);
    choose_limit(store);
    describe(store, keys_only);
    if (!error && !keys_only)
        error = rows_keys_index(&store->header, &file, store->path, &store->ids);
    if (!error && !keys_only)
        error = measure_rows(store, &file);
    if (!error)
        error = source_file_check(&file);
    source_file_close(&file);
    return error;
}

static enum error rows_store_open(struct uri *uri, const struct read_options *options,
                                  struct store **ret_store)
{
    struct row_limit limit;
    enum error error = row_limit_read(&limit, uri);
    if (!error)
        error = uri_query_finish(&uri->query);
    if (error)
        return error_prefix(error, "%s: ", uri->path);
    struct rows_store *store = array_new(1, sizeof(*store), "a store");
    if (!store)
        return ERROR_MEMORY;
    store->limit = limit;
    store->path = strdup(uri->path);
    error = store->path ? open_file(store, options->keys_only)
                        : error_set_memory(strlen(uri->path), "a file's name");
    if (error)
        rows_store_close(&store->store);
    else
        *ret_store = &store->store;
    return error;
}

const struct store_ops store_rows_ops = {
    .scheme = "rows",
    .endings = ".rows",
    .open = rows_store_open,
    .close = rows_store_close,
    .scan = rows_store_scan,
    .reader_open = rows_reader_open,
    .reader_close = strided_reader_close,
    .fetch = strided_reader_fetch,
    .locate = rows_store_locate,
    .has_run = rows_reader_has_run,
    .measure = rows_reader_measure,
    .knows_lengths = rows_reader_knows_lengths,
};

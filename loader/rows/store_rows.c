/* SPDX-License-Identifier: MIT */
#include "loader/rows/store_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
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

static void describe(struct rows_store *store, bool keys_only)
{
    const struct rows_header *header = &store->header;
    const struct rows_head *head = &header->head;
    memcpy(store->digest, head->digest, sizeof(head->digest));
    store->store.info = (struct store_info){
        .rows = (int64_t)head->rows,
        .features = (size_t)head->features,
        .shape = head->dimensions > 0 ? header->shape : NULL,
        .dimensions = (size_t)head->dimensions,
        .element = (enum element)head->element,
        .label_kind = (enum label_kind)head->label_kind,
        .bytes = keys_only ? head->rows_at - head->head_bytes : head->file_bytes,
        .id_column = header->columns[ROWS_COLUMN_ID],
        .label_column = header->columns[ROWS_COLUMN_LABEL],
        .weight_column = header->columns[ROWS_COLUMN_WEIGHT],
        .group_column = header->columns[ROWS_COLUMN_GROUP],
        .feature_names = (const char *const *)header->feature_names,
        .label_texts = (const char *const *)header->label_texts,
        .label_text_count = (size_t)head->label_texts,
        .digest = store->digest[0] ? store->digest : NULL,
    };
}

static void rows_store_close(struct store *base)
{
    struct rows_store *store = (struct rows_store *)base;
    rows_header_release(&store->header);
    id_index_release(&store->ids);
    free(store->path);
    free(store);
}

static enum error open_file(struct rows_store *store, bool keys_only)
{
    struct source_file file;
    enum error error = rows_file_open(&file, store->path, &store->header);
    if (error)
        return error;
    store->identity = file.identity;
    describe(store, keys_only);
    if (!keys_only)
        error = rows_keys_index(&store->header, &file, store->path, &store->ids);
    if (!error)
        error = source_file_check(&file);
    source_file_close(&file);
    return error;
}

static enum error rows_store_open(struct uri *uri, bool keys_only, struct store **ret_store)
{
    enum error error = uri_query_finish(&uri->query);
    if (error)
        return error_prefix(error, "%s: ", uri->path);
    struct rows_store *store = array_new(1, sizeof(*store), "a store");
    if (!store)
        return ERROR_MEMORY;
    store->path = strdup(uri->path);
    error = store->path ? open_file(store, keys_only)
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
};

/* SPDX-License-Identifier: MIT */
#include "loader/parquet/store_parquet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/parquet/parquet_file.h"
#include "loader/store/store_kinds.h"

/* Borrowed from the URI. */
static enum error read_uri(struct parquet_store *store, struct uri *uri,
                           const struct read_options *options, struct column_choice *choice)
{
    column_choice_read(choice, uri, options);
    store->label_told = choice->names[COLUMN_LABEL] != NULL;
    enum error error = row_limit_read(&choice->limit, uri);
    if (!error)
        error = element_choice_read(&choice->element, uri);
    if (!error)
        error = uri_query_finish(&uri->query);
    return error ? error_prefix(error, "%s: ", uri->path) : OK;
}

/* ---- facts in the footer ------------------------------------------------ */

static enum error count_rows(struct parquet_store *store, const struct parquet_file *file)
{
    int count;
    const struct parquet_group *groups = file->module->groups(file->handle, &count);
    store->group_rows = array_new((size_t)count + 1, sizeof(*store->group_rows), "row groups");
    if (!store->group_rows)
        return ERROR_MEMORY;
    store->group_count = count;
    for (int i = 0; i < count; i++) {
        if (groups[i].rows < 0 || groups[i].rows > INT64_MAX - store->group_rows[i])
            return error_set(ERROR_INPUT, "%s is damaged: row group %d has %" PRId64 " rows",
                             store->path, i, groups[i].rows);
        store->group_rows[i + 1] = store->group_rows[i] + groups[i].rows;
    }
    store->store.info.rows = store->group_rows[count];
    if (store->store.info.rows == 0)
        return error_set_kind(
            error_set(ERROR_INPUT, "%s has no rows; a store needs at least one unit", store->path),
            STORE_WITHOUT_ROWS);
    return OK;
}

static enum error find_columns(struct parquet_store *store, struct parquet_file *file,
                               const struct column_choice *choice)
{
    struct arrow_schema schema;
    enum error error = parquet_file_schema(file, &schema);
    if (error)
        return error;
    error = parquet_columns_init(&store->columns, &schema, choice, store->keys_only);
    schema.release(&schema);
    return error ? error_prefix(error, "%s: ", store->path) : OK;
}

static enum error read_footer(struct parquet_store *store, const struct column_choice *choice)
{
    struct parquet_file file;
    enum error error = parquet_file_open(&file, store->path, NULL);
    if (error)
        return error;
    store->identity = file.source.identity;
    store->store.info.bytes = file.source.identity.size_bytes;
    error = count_rows(store, &file);
    if (!error)
        error = find_columns(store, &file, choice);
    for (size_t i = 0; i < store->columns.read_count && !error; i++) {
        struct parquet_column *column = &store->columns.read[i];
        column->is_bytes =
            column->role == COLUMN_FEATURE && file.module->is_bytes(file.handle, column->place);
    }
    parquet_file_close(&file);
    return error;
}

/* ---- life --------------------------------------------------------------- */

static const char *name_of(const struct parquet_store *store, enum column_role role)
{
    const struct parquet_column *column = store->columns.key_of[role];
    return column ? column->name : NULL;
}

/* Could a column hold labels, if the URI named it? */
static bool has_label_choice(const struct parquet_store *store)
{
    return !store->label_told && !store->columns.key_of[COLUMN_LABEL] &&
           store->columns.count > (size_t)(store->columns.key_of[COLUMN_ID] != NULL);
}

static void describe(struct parquet_store *store)
{
    struct store_info *info = &store->store.info;
    info->lengths = store->columns.limit.lengths;
    info->features = store->columns.features;
    if (store->columns.ragged)
        info->features = row_limit_features(&store->columns.limit, info->longest);
    info->label_kind = store->labels.kind;
    info->id_column = name_of(store, COLUMN_ID);
    info->label_column = name_of(store, COLUMN_LABEL);
    info->weight_column = name_of(store, COLUMN_WEIGHT);
    info->group_column = name_of(store, COLUMN_GROUP);
    info->feature_names = store->columns.ragged ? NULL : store->columns.feature_names;
    info->column_names = (const char *const *)store->columns.names;
    info->column_count = store->columns.count;
    if (has_label_choice(store)) {
        info->label_choices = info->column_names;
        info->label_choice_count = info->column_count;
    }
    info->label_texts = store->labels.texts;
    info->label_text_count = store->labels.count;
    info->first_bad_row = store->first_bad_row;
}

static void parquet_store_close(struct store *base)
{
    struct parquet_store *store = (struct parquet_store *)base;
    parquet_columns_release(&store->columns);
    label_dictionary_release(&store->labels);
    id_index_release(&store->ids);
    free(store->group_rows);
    free(store->lengths);
    free(store->first_bad_row);
    free(store->path);
    free(store);
}

static enum error open_file(struct parquet_store *store, struct uri *uri,
                            const struct read_options *options)
{
    struct column_choice choice;
    enum error error = read_uri(store, uri, options, &choice);
    if (!error)
        error = read_footer(store, &choice);
    if (!error)
        error = parquet_store_measure(store);
    if (!error && store->keys_only)
        store->labels.kind = store->columns.key_of[COLUMN_LABEL] ? LABEL_TEXT : LABEL_NONE;
    else if (!error)
        error = parquet_store_inspect(store);
    return error;
}

static enum error parquet_store_open(struct uri *uri, const struct read_options *options,
                                     struct store **ret_store)
{
    struct parquet_store *store = array_new(1, sizeof(*store), "a Parquet store");
    if (!store)
        return ERROR_MEMORY;
    store->keys_only = options->keys_only;
    store->path = strdup(uri->path);
    enum error error = store->path ? open_file(store, uri, options)
                                   : error_set_memory(strlen(uri->path), "a file's name");
    if (error) {
        parquet_store_close(&store->store);
        return error;
    }
    describe(store);
    *ret_store = &store->store;
    return OK;
}

static enum error parquet_store_locate(struct store *base, int64_t row, char out[STORE_PLACE_BYTES])
{
    const struct parquet_store *store = (const struct parquet_store *)base;
    snprintf(out, STORE_PLACE_BYTES, "%.400s, row %" PRId64, store->path, row);
    return OK;
}

const struct store_ops store_parquet_ops = {
    .scheme = "parquet",
    .endings = ".parquet|.pq",
    .open = parquet_store_open,
    .close = parquet_store_close,
    .scan = parquet_store_scan,
    .reader_open = parquet_reader_open,
    .reader_close = parquet_reader_close,
    .fetch = parquet_reader_fetch,
    .locate = parquet_store_locate,
    .measure = parquet_reader_measure,
};

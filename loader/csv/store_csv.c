/* SPDX-License-Identifier: MIT */
#include "loader/csv/store_csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/log.h"
#include "common/text.h"
#include "loader/csv/csv_messages.h"
#include "loader/store/store_files.h"
#include "loader/store/store_kinds.h"

static enum error read_delimiter(struct uri *uri, char *ret_delimiter, bool *ret_told)
{
    const char *value = uri_query_get(&uri->query, "delimiter");
    char shown[TEXT_QUOTE_BYTES];
    *ret_told = value != NULL;
    *ret_delimiter = store_path_ends_in(uri->path, ".tsv|.tsv.gz|.tsv.zst") ? '\t' : ',';
    if (!value)
        return OK;
    if (strcmp(value, "tab") == 0)
        *ret_delimiter = '\t';
    else if (strlen(value) == 1 && strchr(",;|\t", value[0]))
        *ret_delimiter = value[0];
    else
        return error_set(ERROR_USAGE, "delimiter is %s, must be one of , ; | and tab",
                         text_quote(shown, sizeof(shown), value, strlen(value)));
    return OK;
}

static enum error read_uri(struct csv_store *store, struct uri *uri,
                           const struct read_options *options, struct column_choice *ret_choice,
                           enum csv_header *ret_header)
{
    bool given = uri_query_get(&uri->query, "header") != NULL;
    bool header = true;
    enum error error = uri_query_boolean(&uri->query, "header", true, &header);
    if (!error)
        error = read_delimiter(uri, &store->delimiter, &store->delimiter_told);
    column_choice_read(ret_choice, uri, options);
    if (!error)
        error = row_limit_read(&ret_choice->limit, uri);
    if (!error)
        error = element_choice_read(&ret_choice->element, uri);
    if (row_limit_varies(&ret_choice->limit))
        ret_choice->only_count = 0; /* features have no names by which to choose them */
    store->label_told = ret_choice->names[COLUMN_LABEL] != NULL;
    if (!error)
        error = uri_query_finish(&uri->query);
    *ret_header = !header ? CSV_HEADER_NO : given ? CSV_HEADER_YES : CSV_HEADER_ASSUMED;
    return error ? error_prefix(error, "%s: ", uri->path) : OK;
}

/* Splits a record into all its fields, however many. */
static enum error split_first(struct csv_store *store, char *record, size_t length, int64_t line,
                              struct csv_splitter *splitter)
{
    size_t fields = csv_count_bytes(record, length, store->delimiter) + 1;
    enum error error = csv_splitter_init(splitter, store->delimiter, fields);
    if (error)
        return error;
    error = csv_split(splitter, record, length);
    if (error) {
        csv_splitter_release(splitter);
        return csv_store_prefix(store, error, line);
    }
    return OK;
}

/* pandas writes its index as an unnamed column. */
static void warn_of_unnamed(const struct csv_store *store)
{
    const struct csv_columns *columns = &store->columns;
    char more[64] = "";
    if (columns->unnamed == 0)
        return;
    if (columns->unnamed > 1)
        snprintf(more, sizeof(more), ", and so do %zu more", columns->unnamed - 1);
    log_warning(
        "%s: column %zu (counted from 0) has no name in the header: it is called \"%s\" and "
        "taken for a feature%s; id=%s makes it the id",
        store->path, columns->first_unnamed, columns->names[columns->first_unnamed], more,
        columns->names[columns->first_unnamed]);
}

static enum error take_first(struct csv_store *store, struct csv_block *block,
                             enum csv_header header, const struct column_choice *choice)
{
    size_t at = 0;
    int64_t lines = 0;
    size_t length;
    int64_t line;
    struct csv_splitter splitter;
    char *record = csv_block_next(block, store->delimiter, &at, &lines, &length, &line);
    if (!record)
        return error_set_kind(
            error_set(ERROR_INPUT, "%s holds nothing but blank lines", store->path),
            STORE_WITHOUT_ROWS);
    enum error error = split_first(store, record, length, line, &splitter);
    if (error)
        return error;
    if (!store->delimiter_told)
        error = csv_columns_check_delimiter(&splitter);
    if (!error)
        error = csv_columns_init(&store->columns, &splitter, header, choice);
    csv_splitter_release(&splitter);
    if (error == ERROR_INPUT)
        return csv_store_prefix(store, error, line);
    if (error)
        return error_prefix(error, "%s: ", store->path);
    warn_of_unnamed(store);
    if (store->columns.header) {
        uint64_t begin = block->offset + at;
        uint64_t size = text_source_length(&store->source.text);
        store->source.begin = begin < size ? begin : size; /* a last line may lack its LF */
        store->source.begin_line = block->first_line + lines;
    }
    return OK;
}

static bool has_record(const struct csv_block *block, char delimiter)
{
    size_t at = 0, length;
    int64_t lines = 0, line;
    return csv_block_next(block, delimiter, &at, &lines, &length, &line) != NULL;
}

/* Names the columns and moves source.begin after the header. */
static enum error read_first(struct csv_store *store, enum csv_header header,
                             const struct column_choice *choice)
{
    struct text_file file;
    struct csv_block block = {.memory = NULL};
    struct csv_place place = {.offset = store->source.begin, .line = store->source.begin_line};
    enum error error = text_file_open(&file, &store->source.text);
    if (error)
        return error;
    do {
        error = csv_block_read(&block, &file, place.offset);
        if (!error)
            error = csv_block_cut(&block, &file, &place);
    } while (!error && !has_record(&block, store->delimiter) &&
             place.offset < text_source_length(&store->source.text));
    if (!error)
        error = take_first(store, &block, header, choice);
    csv_block_release(&block);
    text_file_close(&file);
    return error;
}

static const char *name_of(const struct csv_store *store, enum column_role role)
{
    ptrdiff_t column = store->columns.column_of[role];
    return column < 0 ? NULL : store->columns.names[column];
}

/* Could a column hold labels, if the URI named it? */
static bool has_label_choice(const struct csv_store *store)
{
    const struct csv_columns *columns = &store->columns;
    bool has_other = false;
    for (size_t i = 0; i < columns->count; i++)
        has_other = has_other || columns->roles[i] <= COLUMN_IGNORED;
    return has_other && !store->label_told && columns->column_of[COLUMN_LABEL] < 0;
}

static void describe(struct csv_store *store)
{
    struct store_info *info = &store->store.info;
    bool varies = row_limit_varies(&store->columns.limit);
    if (store->keys_only)
        info->features = 0;
    else if (!varies)
        info->features = store->columns.features;
    info->lengths = store->columns.limit.lengths;
    info->label_kind = store->labels.kind;
    info->id_column = name_of(store, COLUMN_ID);
    info->label_column = name_of(store, COLUMN_LABEL);
    info->weight_column = name_of(store, COLUMN_WEIGHT);
    info->group_column = name_of(store, COLUMN_GROUP);
    if (!varies) {
        info->feature_names = store->columns.feature_names;
        info->column_names = (const char *const *)store->columns.names;
        info->column_count = store->columns.count;
    }
    if (has_label_choice(store)) {
        info->label_choices = (const char *const *)store->columns.names;
        info->label_choice_count = store->columns.count;
    }
    info->bytes = store->source.text.identity.size_bytes;
    info->label_texts = store->labels.texts;
    info->label_text_count = store->labels.count;
    info->first_bad_row = store->first_bad_row;
    info->recipe = store->columns.plan.recipe;
}

static void csv_store_close(struct store *base)
{
    struct csv_store *store = (struct csv_store *)base;
    csv_columns_release(&store->columns);
    id_index_release(&store->ids);
    label_dictionary_release(&store->labels);
    free(store->offsets);
    free(store->lengths);
    free(store->marks);
    free(store->first_bad_row);
    csv_fill_release(&store->fill);
    csv_source_release(&store->source);
    free(store->path);
    free(store);
}

static enum error csv_store_open(struct uri *uri, const struct read_options *options,
                                 struct store **ret_store)
{
    struct column_choice choice;
    enum csv_header header;
    struct csv_store *store = array_new(1, sizeof(*store), "a CSV store");
    if (!store)
        return ERROR_MEMORY;
    store->keys_only = options->keys_only;
    store->cache_bytes = options->cache_bytes;
    store->path = strdup(uri->path);
    enum error error = store->path ? OK : error_set_memory(strlen(uri->path), "a file's name");
    if (!error)
        error = read_uri(store, uri, options, &choice, &header);
    if (!error)
        error = csv_source_init(&store->source, store->path);
    if (!error)
        error = read_first(store, header, &choice);
    if (!error)
        store->fill.element =
            store->columns.plan.recipe ? ELEMENT_F32 : store->columns.element.element;
    if (!error)
        error = cell_plan_learns(&store->columns.plan) ? csv_store_learn(store)
                                                       : csv_store_inspect(store);
    if (error) {
        csv_store_close(&store->store);
        return error;
    }
    describe(store);
    *ret_store = &store->store;
    return OK;
}

static bool csv_store_take_rows(struct store *base, struct row_slots *ret_slots,
                                const struct id_index **ret_ids)
{
    struct csv_store *store = (struct csv_store *)base;
    if (!store->fill.slots.memory)
        return false;
    *ret_slots = store->fill.slots;
    *ret_ids = &store->ids;
    store->fill.slots = (struct row_slots){.memory = NULL};
    return true;
}

static enum error csv_store_locate(struct store *base, int64_t row, char out[STORE_PLACE_BYTES])
{
    struct csv_store *store = (struct csv_store *)base;
    int64_t line;
    enum error error = csv_store_find_lines(store, &row, 1, &line);
    if (!error)
        snprintf(out, STORE_PLACE_BYTES, "%.400s, line %lld", store->path, (long long)line);
    return error;
}

const struct store_ops store_csv_ops = {
    .scheme = "csv",
    .endings = ".csv|.tsv|.csv.gz|.tsv.gz|.csv.zst|.tsv.zst",
    .takes_recipe = true,
    .open = csv_store_open,
    .take_rows = csv_store_take_rows,
    .close = csv_store_close,
    .scan = csv_store_scan,
    .reader_open = csv_reader_open,
    .reader_close = csv_reader_close,
    .fetch = csv_reader_fetch,
    .locate = csv_store_locate,
    .measure = csv_reader_measure,
};

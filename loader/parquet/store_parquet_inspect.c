/* SPDX-License-Identifier: MIT */
/* What open() determines: the length of rows, from the first of them; elements, labels, ids and bad
 * rows, from all. */
#include <inttypes.h>
#include <stdlib.h>

#include "common/array.h"
#include "loader/column/feature.h"
#include "loader/parquet/parquet_pass.h"

/* ---- the length of rows ------------------------------------------------- */

static enum error take_length(struct parquet_column *column, size_t length)
{
    column->features = length;
    column->varies = false;
    return OK;
}

static enum error measure_blob(struct parquet_store *store, const struct arrow_values *values,
                               int64_t rows, struct parquet_column *column)
{
    struct parquet_columns *columns = &store->columns;
    bool ragged = columns->ragged != NULL;
    enum element looks = ELEMENT_U8;
    size_t length = 0, looked = 0;
    for (int64_t row = 0; row < rows && looked < FEATURE_LOOKS_ROWS; row++) {
        struct text bytes;
        if (!arrow_values_bytes(values, row, &bytes) || (ragged && bytes.length == 0))
            continue; /* no information */
        enum element look = feature_looks(bytes.data, bytes.length);
        looks = looked == 0 || look == looks ? look : ELEMENT_U8;
        if (looked++ == 0)
            length = bytes.length;
    }
    if (looked == 0)
        return OK;
    if (looks != ELEMENT_U8 && !columns->element_told)
        return error_set(ERROR_INPUT,
                         "%s: column \"%s\" holds %zu bytes a row, which " FEATURE_READINGS,
                         store->path, column->name, length, length / element_bytes(looks),
                         element_things[looks], length, element_names[looks]);
    if (ragged)
        return take_length(column, 0);
    if (length % element_bytes(columns->element) != 0)
        return error_set(ERROR_INPUT, "%s: column \"%s\" holds %zu bytes a row, which are not %s",
                         store->path, column->name, length, element_things[columns->element]);
    return take_length(column, length / element_bytes(columns->element));
}

static enum error measure_list(const struct arrow_values *values, int64_t rows,
                               struct parquet_column *column)
{
    int64_t first, count;
    for (int64_t row = 0; row < rows; row++) {
        if (arrow_values_of_row(values, row, &first, &count))
            return take_length(column, (size_t)count);
    }
    return OK;
}

static const struct parquet_column *find_varying(const struct parquet_columns *columns)
{
    for (size_t i = 0; i < columns->read_count; i++) {
        if (columns->read[i].varies)
            return &columns->read[i];
    }
    return NULL;
}

static enum error measure_batch(struct parquet_store *store, const struct parquet_cursor *cursor)
{
    enum error error = OK;
    for (size_t i = 0; i < store->columns.read_count && !error; i++) {
        struct parquet_column *column = &store->columns.read[i];
        if (!column->varies)
            continue;
        if (store->columns.blob)
            error = measure_blob(store, &cursor->values[i], cursor->rows, column);
        else
            error = measure_list(&cursor->values[i], cursor->rows, column);
    }
    return error;
}

static enum error measure_rows(struct parquet_store *store)
{
    struct parquet_cursor cursor;
    const struct parquet_column *column = find_varying(&store->columns);
    enum error error =
        parquet_cursor_open(&cursor, store->path, &store->identity, &store->columns, PARQUET_ALL);
    if (error)
        return error;
    error = parquet_cursor_seek(&cursor, 0, 0, false);
    while (!error && column) {
        error = parquet_cursor_next(&cursor);
        if (!error && cursor.rows == 0 && store->columns.ragged)
            break; /* rows without features */
        if (!error && cursor.rows == 0)
            error = error_set(ERROR_INPUT, "%s: column \"%s\" holds nothing but nulls", store->path,
                              column->name);
        if (!error)
            error = measure_batch(store, &cursor);
        column = find_varying(&store->columns);
    }
    parquet_cursor_close(&cursor);
    return error;
}

enum error parquet_store_measure(struct parquet_store *store)
{
    enum error error = find_varying(&store->columns) ? measure_rows(store) : OK;
    if (error)
        return error;
    error = parquet_columns_finish(&store->columns);
    return error ? error_prefix(error, "%s: ", store->path) : OK;
}

/* ---- all rows ----------------------------------------------------------- */

struct inspection {
    struct parquet_store *store;
    bool is_u8;
    struct label_kinds kinds;
    int64_t *ids; /* owned until the index takes them; NULL: there is no such column */
    int64_t rows;
};

static enum error note_length(struct parquet_store *store, int64_t row, size_t length)
{
    struct store_info *info = &store->store.info;
    enum error error =
        array_grow((void **)&store->lengths, &store->lengths_capacity, (size_t)row + 1,
                   sizeof(*store->lengths), "the lengths of a Parquet file's rows");
    if (error)
        return error;
    store->lengths[row] = (uint32_t)length;
    info->elements += length;
    info->longest = length > info->longest ? length : info->longest;
    return OK;
}

static enum error inspect_row(void *context, const struct store_row *row, const uint8_t *features)
{
    struct inspection *all = context;
    struct parquet_store *store = all->store;
    enum error error = OK;
    (void)features;
    if (all->ids)
        all->ids[all->rows] = row->id;
    if (store->columns.ragged)
        error = note_length(store, all->rows, row->length);
    all->rows++;
    if (store->columns.key_of[COLUMN_LABEL])
        label_kind_add(&all->kinds, row->label.data, row->label.length);
    all->is_u8 &= row->is_u8;
    if (!error && row->status == ROW_BAD)
        error = store_add_bad_row(&store->store.info, &store->first_bad_row);
    return error;
}

static enum error collect_label(void *context, const struct store_row *row, const uint8_t *features)
{
    struct parquet_store *store = context;
    (void)features;
    return text_set_add(&store->labels.found, row->label.data, row->label.length, NULL);
}

static enum error collect_labels(struct parquet_store *store)
{
    struct parquet_pass pass = {.store = store,
                                .what = "reading the labels of",
                                .part = PARQUET_KEYS,
                                .visit = collect_label,
                                .context = store};
    enum error error = parquet_pass_run(&pass);
    if (!error)
        label_dictionary_finish(&store->labels);
    return error;
}

static enum error new_ids(const struct parquet_store *store, int64_t **ret_ids)
{
    *ret_ids = NULL;
    if (!store->columns.key_of[COLUMN_ID])
        return OK;
    *ret_ids = array_new((size_t)store->store.info.rows, sizeof(**ret_ids), "ids");
    return *ret_ids ? OK : ERROR_MEMORY;
}

/* Takes `ids` over. */
static enum error make_index(const struct parquet_store *store, int64_t *ids,
                             struct id_index *ret_index)
{
    int64_t twice[2];
    enum error error = id_index_init(ret_index, ids, store->store.info.rows, twice);
    if (!error)
        return OK;
    if (error == ERROR_CONFLICT && ids)
        error = error_set(ERROR_INPUT,
                          "%s: the id %" PRId64 " is there twice, in the rows %" PRId64
                          " and %" PRId64 " (counted from 0); each may come only once",
                          store->path, ids[twice[0]], twice[0], twice[1]);
    free(ids);
    return error;
}

/* Does the footer leave anything undetermined? */
static bool is_doubtful(const struct parquet_columns *columns)
{
    for (size_t i = 0; i < columns->read_count; i++) {
        if (!columns->read[i].is_bytes)
            return true;
    }
    return false;
}

enum error parquet_store_inspect(struct parquet_store *store)
{
    struct inspection all = {.store = store, .is_u8 = true};
    struct parquet_pass pass = {.store = store,
                                .what = "looking at",
                                .part = PARQUET_DOUBTFUL,
                                .element = store->columns.element,
                                .visit = inspect_row,
                                .context = &all};
    enum error error = new_ids(store, &all.ids);
    if (!error && is_doubtful(&store->columns))
        error = parquet_pass_run(&pass);
    if (error) {
        free(all.ids);
        return error;
    }
    error = make_index(store, all.ids, &store->ids);
    if (error)
        return error;
    if (store->columns.ragged)
        store->columns.ragged->features =
            (size_t)(store->store.info.elements / (uint64_t)store->store.info.rows) + 1;
    store->store.info.element = all.is_u8 ? store->columns.element : ELEMENT_F32;
    bool labelled = store->columns.key_of[COLUMN_LABEL] != NULL;
    store->labels.kind = labelled ? label_kind_of(&all.kinds) : LABEL_NONE;
    return store->labels.kind == LABEL_TEXT ? collect_labels(store) : OK;
}

static enum error keep_id(void *context, const struct store_row *row, const uint8_t *features)
{
    struct inspection *all = context;
    (void)features;
    all->ids[all->rows++] = row->id;
    return OK;
}

enum error parquet_store_check_ids(const struct parquet_store *store)
{
    struct inspection all = {.rows = 0};
    struct id_index index;
    struct parquet_pass pass = {.store = store,
                                .what = "reading the ids of",
                                .part = PARQUET_IDS,
                                .visit = keep_id,
                                .context = &all};
    enum error error = new_ids(store, &all.ids);
    if (error || !all.ids)
        return error;
    error = parquet_pass_run(&pass);
    if (error) {
        free(all.ids);
        return error;
    }
    error = make_index(store, all.ids, &index);
    if (!error)
        id_index_release(&index);
    return error;
}

/* SPDX-License-Identifier: MIT */
#include "loader/store/store_union_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/text.h"
#include "loader/column/feature_recipe.h"
#include "loader/store/store_union_parts.h"

static const char *union_place(const struct union_store *store, int64_t row,
                               char out[STORE_PLACE_BYTES])
{
    const struct union_part *part = &store->parts[union_part_of(store, row)];
    return store_locate(part->store, row - part->first_row, out);
}

static enum error union_locate(struct store *base, int64_t row, char out[STORE_PLACE_BYTES])
{
    union_place((struct union_store *)base, row, out);
    return OK;
}

static const struct store *union_part(const struct store *base, size_t number)
{
    const struct union_store *store = (const struct union_store *)base;
    return number < store->count ? store->parts[number].store : NULL;
}

static void union_close(struct store *base)
{
    struct union_store *store = (struct union_store *)base;
    for (size_t i = 0; i < store->count; i++) {
        store_close(store->parts[i].store);
        free(store->parts[i].labels);
    }
    free(store->parts);
    id_index_release(&store->ids);
    label_dictionary_release(&store->labels);
    free(store);
}

/* ---- compatibility of parts --------------------------------------------- */

static enum error refuse_column(const struct store_info *a, const struct store_info *b,
                                const char *what, const char *a_name, const char *b_name)
{
    char shown[2][TEXT_QUOTE_BYTES];
    const char *names[2] = {a_name, b_name};
    for (int i = 0; i < 2; i++) {
        if (names[i])
            text_quote(shown[i], sizeof(shown[i]), names[i], strlen(names[i]));
        else
            snprintf(shown[i], sizeof(shown[i]), "none");
    }
    return error_set(ERROR_INPUT,
                     "%s and %s do not agree: the %s is %s in the first and %s in the second; "
                     "files that are read as one have the same columns",
                     a->uri, b->uri, what, shown[0], shown[1]);
}

static bool is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static enum error compare_names(const struct store_info *a, const struct store_info *b,
                                const char *what, const char *const *a_names, size_t a_count,
                                const char *const *b_names, size_t b_count)
{
    char number[64];
    for (size_t i = 0; i < a_count || i < b_count; i++) {
        const char *a_name = i < a_count ? a_names[i] : NULL;
        const char *b_name = i < b_count ? b_names[i] : NULL;
        if (is_same(a_name, b_name))
            continue;
        snprintf(number, sizeof(number), "%s %zu", what, i + 1);
        return refuse_column(a, b, number, a_name, b_name);
    }
    return OK;
}

/* Rows of all files differ in length, or of none, with the same limit for all. */
static enum error compare_lengths(const struct store_info *a, const struct store_info *b)
{
    if (a->lengths == b->lengths && (a->lengths == LENGTHS_VARY || a->features == b->features))
        return OK;
    return error_set(ERROR_INPUT,
                     "%s and %s do not agree on how long rows may be; files that are read as one "
                     "have the same longest= in their URIs",
                     a->uri, b->uri);
}

/* URIs of one list may name different columns of the same files. */
static enum error compare_keys(const struct store_info *a, const struct store_info *b)
{
    const char *const names[][3] = {{"id column", a->id_column, b->id_column},
                                    {"label column", a->label_column, b->label_column},
                                    {"weight column", a->weight_column, b->weight_column},
                                    {"group column", a->group_column, b->group_column}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!is_same(names[i][1], names[i][2]))
            return refuse_column(a, b, names[i][0], names[i][1], names[i][2]);
    }
    return OK;
}

static enum error compare_features(const struct store_info *a, const struct store_info *b)
{
    if (a->lengths != LENGTHS_ALIKE || b->lengths != LENGTHS_ALIKE)
        return compare_lengths(a, b);
    if (a->feature_names && b->feature_names)
        return compare_names(a, b, "feature", a->feature_names, a->features, b->feature_names,
                             b->features);
    if (a->features == b->features)
        return OK;
    return error_set(ERROR_INPUT,
                     "%s has %zu %s and %s has %zu; files that are read as "
                     "one have the same columns",
                     a->uri, a->features, text_plural(a->features, "feature", "features"), b->uri,
                     b->features);
}

/* A store opened for keys only need not know its features. */
static enum error compare_columns(const struct union_store *store, const struct store_info *a,
                                  const struct store_info *b)
{
    enum error error = OK;
    if (a->column_names && b->column_names)
        error = compare_names(a, b, "column", a->column_names, a->column_count, b->column_names,
                              b->column_count);
    if (!error)
        error = compare_keys(a, b);
    bool is_known = !store->keys_only || (a->features > 0 && b->features > 0);
    return error || !is_known ? error : compare_features(a, b);
}

/* A store of numbers does not keep a number's text, except for integers. */
static enum error compare_labels(const struct union_store *store)
{
    const struct store_info *text = NULL, *real = NULL;
    for (size_t i = 0; i < store->count; i++) {
        const struct store_info *info = &store->parts[i].store->info;
        text = info->label_kind == LABEL_TEXT ? info : text;
        real = info->label_kind == LABEL_REAL ? info : real;
    }
    if (store->keys_only || !text || !real)
        return OK;
    return error_set(ERROR_INPUT,
                     "%s has labels that are texts, %s has labels that are fractions; files that "
                     "are read as one have labels of one kind",
                     text->uri, real->uri);
}

/* Bytes become floats if other parts are floats; 32-bit integers would lose precision. */
static enum error compare_elements(const struct store_info *a, const struct store_info *b)
{
    if (a->element == b->element || (a->element != ELEMENT_I32 && b->element != ELEMENT_I32))
        return OK;
    return error_set(ERROR_INPUT,
                     "%s has features of %s, %s of %s; files that are read as one have 32-bit "
                     "integers (element=i32) in all of them or in none",
                     a->uri, element_things[a->element], b->uri, element_things[b->element]);
}

/* The first one's is kept with a model, and would encode other tables otherwise than the rows of
 * the second. */
static enum error compare_recipes(const struct store_info *a, const struct store_info *b)
{
    if (!b->recipe || feature_recipe_is_same(a->recipe, b->recipe))
        return OK;
    return error_set(ERROR_INPUT,
                     "%s and %s were imported apart, and their missing= or onehot= encode the same "
                     "value differently; import their sources as one",
                     a->uri, b->uri);
}

/* Units without rows, and damaged files, announce any number. */
static enum error check_rows(const struct union_store *store)
{
    int64_t rows = 0;
    for (size_t i = 0; i < store->count; i++) {
        const struct store_info *info = &store->parts[i].store->info;
        if (__builtin_add_overflow(rows, info->rows, &rows))
            return error_set(ERROR_INPUT, "%s: with it, the stores have more than %lld rows",
                             info->uri, (long long)INT64_MAX);
    }
    return OK;
}

static enum error check_parts(const struct union_store *store)
{
    enum error error = check_rows(store);
    for (size_t i = 1; i < store->count && !error; i++)
        error = compare_columns(store, &store->parts[0].store->info, &store->parts[i].store->info);
    for (size_t i = 1; i < store->count && !store->keys_only && !error; i++)
        error = compare_elements(&store->parts[0].store->info, &store->parts[i].store->info);
    size_t first = 0; /* with a recipe */
    while (first < store->count && !store->parts[first].store->info.recipe)
        first++;
    for (size_t i = first + 1; i < store->count && !error; i++)
        error = compare_recipes(&store->parts[first].store->info, &store->parts[i].store->info);
    return error ? error : compare_labels(store);
}

/* ---- description of the whole ------------------------------------------- */

static bool has_shape(const struct store_info *info, const struct store_info *of)
{
    return info->shape && of->shape && info->dimensions == of->dimensions &&
           memcmp(info->shape, of->shape, of->dimensions * sizeof(*of->shape)) == 0;
}

static void describe(struct union_store *store)
{
    struct store_info *info = &store->store.info;
    bool all_known = true;
    *info = store->parts[0].store->info;
    info->uri = info->table = info->database = info->digest = NULL;
    info->rows = 0;
    info->bytes = 0;
    info->bad_rows = 0;
    info->first_bad_row = NULL;
    info->label_texts = NULL;
    info->label_text_count = 0;
    for (size_t i = 0; i < store->count; i++) {
        const struct store_info *part = &store->parts[i].store->info;
        store->parts[i].first_row = info->rows;
        store->parts[i].first_bytes = store->bytes;
        store->bytes += part->bytes;
        all_known = all_known && part->bytes > 0;
        info->rows += part->rows;
        info->bad_rows += part->bad_rows;
        if (!info->first_bad_row)
            info->first_bad_row = part->first_bad_row;
        if (part->element == ELEMENT_F32)
            info->element = ELEMENT_F32;
        if (!info->recipe)
            info->recipe = part->recipe;
        info->features = part->features > info->features ? part->features : info->features;
        info->longest = part->longest > info->longest ? part->longest : info->longest;
        info->elements += i > 0 ? part->elements : 0;
        if (!has_shape(part, info))
            info->shape = NULL;
        if (part->label_kind > info->label_kind) /* texts before fractions before integers */
            info->label_kind = part->label_kind;
    }
    store->parts[store->count].first_row = info->rows;
    store->bytes = all_known ? store->bytes : 0;
    store->is_numbered = info->id_column == NULL;
    store->labels.kind = info->label_kind;
}

/* Ids of all rows, and the label texts of a part that keeps numbers. */
struct reading {
    struct union_store *store;
    bool with_labels;
    int64_t *ids; /* owned until the index takes them */
    size_t ids_capacity;
    size_t rows;
};

static enum error read_block(void *context, const struct store_block *block)
{
    struct reading *reading = context;
    enum error error = OK;
    if (!reading->store->is_numbered) {
        error = array_grow((void **)&reading->ids, &reading->ids_capacity,
                           reading->rows + block->rows, sizeof(*reading->ids), "ids");
        if (!error && block->rows > 0)
            memcpy(reading->ids + reading->rows, block->ids, block->rows * sizeof(*block->ids));
    }
    reading->rows += block->rows;
    for (size_t i = 0; i < block->rows && reading->with_labels && !error; i++)
        error = text_set_add(&reading->store->labels.found, block->labels[i].data,
                             block->labels[i].length, NULL);
    return error;
}

static enum error add_texts(struct union_store *store, const struct store_info *info)
{
    enum error error = OK;
    for (size_t i = 0; i < info->label_text_count && !error; i++)
        error = text_set_add(&store->labels.found, info->label_texts[i],
                             strlen(info->label_texts[i]), NULL);
    return error;
}

static enum error read_part(struct reading *reading, const struct union_part *part)
{
    struct union_store *store = reading->store;
    enum error error = OK;
    bool has_texts = store->labels.kind == LABEL_TEXT;
    bool own_texts = part->store->info.label_kind == LABEL_TEXT;
    if (has_texts && own_texts)
        error = add_texts(store, &part->store->info);
    reading->with_labels = has_texts && !own_texts;
    if (!error && (!store->is_numbered || reading->with_labels))
        error = store_scan(part->store, SCAN_KEYS, read_block, reading);
    if (!error && !store->is_numbered &&
        (int64_t)reading->rows != part->first_row + part->store->info.rows)
        error = error_set(ERROR_INPUT, "%s has another number of rows than when it was opened",
                          part->store->info.uri);
    return error;
}

static enum error map_labels(struct union_store *store, struct union_part *part)
{
    const struct store_info *info = &part->store->info;
    if (info->label_kind != LABEL_TEXT)
        return OK;
    part->labels = array_new(info->label_text_count, sizeof(*part->labels), "the labels");
    if (!part->labels)
        return ERROR_MEMORY;
    for (size_t i = 0; i < info->label_text_count; i++) {
        const char *text = info->label_texts[i];
        if (!label_value(&store->labels, text, strlen(text), &part->labels[i]))
            part->labels[i] = 0; /* cannot happen: all were added */
    }
    return OK;
}

static enum error refuse_twice(const struct union_store *store, const int64_t twice[2], int64_t id)
{
    char places[2][STORE_PLACE_BYTES];
    return error_set(ERROR_INPUT, "id %lld comes twice: in %s and in %s", (long long)id,
                     union_place(store, twice[0], places[0]),
                     union_place(store, twice[1], places[1]));
}

static enum error finish_reading(struct reading *reading)
{
    struct union_store *store = reading->store;
    int64_t twice[2];
    enum error error = OK;
    label_dictionary_finish(&store->labels);
    for (size_t i = 0; i < store->count && store->labels.kind == LABEL_TEXT && !error; i++)
        error = map_labels(store, &store->parts[i]);
    if (store->labels.kind == LABEL_TEXT) {
        store->store.info.label_texts = store->labels.texts;
        store->store.info.label_text_count = store->labels.count;
    }
    if (error)
        return error;
    error = id_index_init(&store->ids, reading->ids, store->store.info.rows, twice);
    if (error == ERROR_CONFLICT && reading->ids)
        return refuse_twice(store, twice, reading->ids[twice[0]]);
    if (!error)
        reading->ids = NULL;
    return error;
}

static enum error read_parts(struct union_store *store)
{
    struct reading reading = {.store = store};
    enum error error = OK;
    for (size_t i = 0; i < store->count && !error; i++)
        error = read_part(&reading, &store->parts[i]);
    if (!error)
        error = finish_reading(&reading);
    free(reading.ids);
    return error;
}

static const struct store_ops store_union_ops = {
    .scheme = "",
    .close = union_close,
    .scan = union_scan,
    .reader_open = union_reader_open,
    .reader_close = union_reader_close,
    .fetch = union_fetch,
    .locate = union_locate,
    .measure = union_measure,
    .part = union_part,
};

enum error store_union_new(struct store *const parts[], size_t count, bool keys_only,
                           struct store **ret_store)
{
    struct union_store *store = array_new(1, sizeof(*store), "a store");
    struct union_part *list = array_new(count + 1, sizeof(*list), "a list of stores");
    if (!store || !list) {
        for (size_t i = 0; i < count; i++)
            store_close(parts[i]);
        free(store);
        free(list);
        return ERROR_MEMORY;
    }
    store->parts = list;
    store->count = count;
    store->keys_only = keys_only;
    store->store.ops = &store_union_ops;
    for (size_t i = 0; i < count; i++)
        list[i].store = parts[i];
    enum error error = check_parts(store);
    if (!error)
        describe(store);
    if (!error && !keys_only)
        error = read_parts(store);
    if (error) {
        union_close(&store->store);
        return error;
    }
    *ret_store = &store->store;
    return OK;
}

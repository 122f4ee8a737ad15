/* SPDX-License-Identifier: MIT */
/*
 * The first pass: finds where rows begin, determines ids, labels and features, and counts bad rows;
 * it also fills a row cache to come (store_csv_fill.h).
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/csv/csv_messages.h"
#include "loader/csv/store_csv.h"

/* Facts about one block. */
struct facts {
    struct csv_decoder decoder;
    uint8_t *features; /* scratch for one row, as floats or bytes; NULL: not prepared yet */
    size_t features_capacity;
    bool mostly_u8; /* rows not kept are read as bytes, as the last one was */
    struct csv_fill_block share;
    size_t rows;
    uint64_t *offsets;
    size_t offsets_capacity;
    uint32_t *lengths;                /* NULL unless rows differ in length */
    size_t lengths_capacity, longest; /* also of bad rows, whose length is 0 */
    int64_t *ids;                     /* NULL without an id column */
    size_t ids_capacity;
    bool is_u8;
    struct label_kinds labels;
    struct text_set texts; /* of all blocks of this slot so far */
    uint32_t *numbers;     /* [numbered]: numbers of these texts among all */
    size_t numbered, numbers_capacity;
    size_t *bad; /* [bad_rows]: their numbers in the block */
    size_t bad_rows, bad_capacity;
    struct error_report report; /* the first bad row's */
    bool floats, has_texts;     /* a row does not fit the form in which rows are kept */
};

/* Facts about the whole file. */
struct inspection {
    struct csv_store *store;
    int64_t rows;
    int64_t *ids; /* owned until the index takes them */
    size_t ids_capacity;
    bool is_u8;
    struct label_kinds labels;
    int64_t bad_rows;
    bool floats, texts; /* forms whose need ended the pass: workers read store->fill until then */
};

static bool varies(const struct csv_store *store)
{
    return row_limit_varies(&store->columns.limit);
}

static enum error prepare(const struct csv_store *store, struct facts *facts)
{
    if (facts->features)
        return OK;
    uint8_t *features = array_new(store->columns.features, sizeof(float), "a row of a CSV file");
    if (!features)
        return ERROR_MEMORY;
    enum error error = csv_decoder_init(&facts->decoder, &store->columns, store->delimiter);
    if (error) {
        free(features);
        return error;
    }
    facts->features = features;
    facts->features_capacity = store->columns.features;
    facts->mostly_u8 = true;
    return OK;
}

/* A feature needs at least two bytes of text, except for a row's last. */
static enum error reserve_lengths(struct facts *facts, const struct csv_block *block, size_t rows)
{
    enum error error = array_grow((void **)&facts->features, &facts->features_capacity,
                                  block->length / 2 + 1, sizeof(float), "a row of a CSV file");
    return error ? error
                 : array_grow((void **)&facts->lengths, &facts->lengths_capacity, rows,
                              sizeof(*facts->lengths), "the lengths of CSV rows");
}

static enum error reserve(const struct csv_store *store, struct facts *facts,
                          const struct csv_block *block)
{
    size_t rows = (size_t)block->lines + 1;
    facts->rows = 0;
    facts->is_u8 = true;
    facts->longest = 0;
    facts->labels = (struct label_kinds){.integers = false};
    facts->bad_rows = 0;
    facts->floats = false;
    facts->has_texts = false;
    enum error error = array_grow((void **)&facts->offsets, &facts->offsets_capacity, rows,
                                  sizeof(*facts->offsets), "an index of CSV rows");
    if (!error && store->columns.column_of[COLUMN_ID] >= 0)
        error = array_grow((void **)&facts->ids, &facts->ids_capacity, rows, sizeof(*facts->ids),
                           "the ids of CSV rows");
    if (!error && varies(store))
        error = reserve_lengths(facts, block, rows);
    return error;
}

static enum error note_bad(const struct csv_store *store, struct facts *facts, int64_t line)
{
    if (facts->bad_rows == 0)
        error_report_take(csv_store_prefix(store, ERROR_INPUT, line), &facts->report);
    enum error error = array_grow((void **)&facts->bad, &facts->bad_capacity, facts->bad_rows + 1,
                                  sizeof(*facts->bad), "the bad rows of a CSV file");
    if (!error)
        facts->bad[facts->bad_rows++] = facts->rows;
    return error;
}

/* `slot` NULL: do not keep the row. */
static enum error note_row(const struct csv_store *store, struct facts *facts,
                           const struct store_row *row, uint8_t *slot, int64_t line)
{
    uint32_t number = 0;
    enum error error = OK;
    if (row->status == ROW_BAD)
        error = note_bad(store, facts, line);
    if (store->columns.column_of[COLUMN_LABEL] >= 0)
        label_kind_add(&facts->labels, row->label.data, row->label.length);
    facts->has_texts = facts->labels.texts && !store->fill.texts;
    facts->floats = slot && !row->is_u8 && store->fill.element == ELEMENT_U8;
    if (!error && store->fill.texts)
        error = text_set_add(&facts->texts, row->label.data, row->label.length, &number);
    if (slot)
        csv_fill_label(&store->fill, slot, row, number);
    if (facts->ids)
        facts->ids[facts->rows] = row->id;
    facts->longest = row->length > facts->longest ? row->length : facts->longest;
    if (facts->lengths)
        facts->lengths[facts->rows] = row->status == ROW_OK ? (uint32_t)row->length : 0;
    facts->is_u8 &= row->is_u8;
    facts->rows++;
    return error;
}

static enum error inspect_row(struct csv_store *store, struct facts *facts, struct csv_block *block,
                              struct csv_cursor *cursor)
{
    struct store_row row;
    uint8_t *slot = csv_fill_slot(&store->fill, &facts->share, facts->rows);
    enum element unkept = facts->mostly_u8 ? store->columns.element.element : ELEMENT_F32;
    enum error error =
        csv_decode_next(&facts->decoder, block, cursor, slot ? store->fill.element : unkept,
                        slot ? slot + sizeof(double) : facts->features, &row);
    if (error)
        return error == ERROR_END ? error : csv_store_prefix(store, error, cursor->line);
    facts->mostly_u8 = row.is_u8;
    facts->offsets[facts->rows] = block->offset + cursor->record;
    return note_row(store, facts, &row, slot, cursor->line);
}

static enum error inspect_block(void *context, void *result, struct csv_block *block)
{
    struct csv_store *store = ((struct inspection *)context)->store;
    struct facts *facts = result;
    struct csv_cursor cursor = {.at = 0};
    enum error error = prepare(store, facts);
    if (!error)
        error = reserve(store, facts, block);
    csv_fill_claim(&store->fill, block, &facts->share);
    while (!error && !facts->floats && !facts->has_texts)
        error = inspect_row(store, facts, block, &cursor);
    return error == ERROR_END ? OK : error;
}

static enum error add_mark(struct csv_store *store, const struct csv_block *block)
{
    enum error error = array_grow((void **)&store->marks, &store->marks_capacity,
                                  store->mark_count + 1, sizeof(*store->marks), "line numbers");
    if (!error)
        store->marks[store->mark_count++] =
            (struct csv_mark){.offset = block->offset, .line = block->first_line};
    return error;
}

static enum error keep_bad_row(struct csv_store *store, const struct facts *facts)
{
    if (store->first_bad_row || facts->bad_rows == 0)
        return OK;
    store->first_bad_row = strdup(facts->report.message);
    return store->first_bad_row ? OK : error_set_memory(sizeof(facts->report), "a message");
}

/* Numbers this slot's texts among all texts. */
static enum error number_texts(struct csv_store *store, struct facts *facts)
{
    enum error error =
        array_grow((void **)&facts->numbers, &facts->numbers_capacity, facts->texts.count,
                   sizeof(*facts->numbers), "the numbers of labels");
    while (!error && facts->numbered < facts->texts.count) {
        const struct text *text = &facts->texts.texts[facts->numbered];
        error = text_set_add(&store->labels.found, text->data, text->length,
                             &facts->numbers[facts->numbered]);
        facts->numbered++;
    }
    return error;
}

static enum error keep_rows(struct csv_store *store, struct facts *facts, uint64_t row)
{
    enum error error = store->fill.texts ? number_texts(store, facts) : OK;
    if (error)
        return error;
    csv_fill_take(&store->fill, &facts->share, row, facts->rows,
                  store->fill.texts ? facts->numbers : NULL);
    for (size_t i = 0; i < facts->bad_rows && facts->share.rows > 0 && !error; i++)
        error = row_slots_mark_bad(&store->fill.slots, row + facts->bad[i]);
    return error;
}

/* ERROR_CANCELLED, which the caller expects. */
static enum error ask_for_form(struct inspection *all, const struct facts *facts)
{
    all->floats = facts->floats;
    all->texts = facts->has_texts;
    return ERROR_CANCELLED;
}

static enum error grow_index(struct inspection *all, const struct facts *facts)
{
    struct csv_store *store = all->store;
    size_t rows = (size_t)all->rows + facts->rows;
    enum error error = array_grow((void **)&store->offsets, &store->offsets_capacity, rows + 1,
                                  sizeof(*store->offsets), "an index of CSV rows");
    if (!error && facts->ids)
        error = array_grow((void **)&all->ids, &all->ids_capacity, rows, sizeof(*all->ids),
                           "the ids of CSV rows");
    if (!error && facts->lengths)
        error = array_grow((void **)&store->lengths, &store->lengths_capacity, rows,
                           sizeof(*store->lengths), "the lengths of CSV rows");
    return error;
}

static void merge_lengths(struct csv_store *store, const struct facts *facts, size_t rows)
{
    struct store_info *info = &store->store.info;
    for (size_t i = 0; i < facts->rows; i++) {
        info->elements += facts->lengths[i];
        store->lengths[rows + i] = facts->lengths[i];
    }
    info->longest = facts->longest > info->longest ? facts->longest : info->longest;
}

static enum error merge_block(void *context, void *result, const struct csv_block *block)
{
    struct inspection *all = context;
    struct csv_store *store = all->store;
    struct facts *facts = result;
    size_t rows = (size_t)all->rows;
    if (facts->floats || facts->has_texts)
        return ask_for_form(all, facts);
    enum error error = add_mark(store, block);
    if (!error)
        error = grow_index(all, facts);
    if (!error)
        error = keep_bad_row(store, facts);
    if (!error)
        error = keep_rows(store, facts, (uint64_t)rows);
    if (error)
        return error;
    memcpy(store->offsets + rows, facts->offsets, facts->rows * sizeof(*store->offsets));
    if (facts->lengths)
        merge_lengths(store, facts, rows);
    if (facts->ids && facts->rows > 0)
        memcpy(all->ids + rows, facts->ids, facts->rows * sizeof(*all->ids));
    all->rows += (int64_t)facts->rows;
    all->is_u8 &= facts->is_u8;
    all->bad_rows += (int64_t)facts->bad_rows;
    label_kind_merge(&all->labels, &facts->labels);
    return OK;
}

static void release_facts(void *context, void *result)
{
    struct facts *facts = result;
    (void)context;
    if (facts->features)
        csv_decoder_release(&facts->decoder);
    free(facts->features);
    free(facts->offsets);
    free(facts->lengths);
    free(facts->ids);
    free(facts->bad);
    free(facts->numbers);
    text_set_release(&facts->texts);
}

/* ---- all of it ---------------------------------------------------------- */

static enum error refuse_twice(const struct csv_store *store, const struct inspection *all,
                               const int64_t twice[2])
{
    return csv_store_refuse_twice(store, all->ids[twice[0]],
                                  csv_store_line(store, store->offsets[twice[0]]),
                                  csv_store_line(store, store->offsets[twice[1]]));
}

/* Doubling left up to half of it unused. */
static void trim_offsets(struct csv_store *store, int64_t rows)
{
    size_t count = (size_t)rows + 1;
    uint64_t *trimmed = realloc(store->offsets, count * sizeof(*trimmed));
    if (trimmed)
        store->offsets = trimmed;
}

static enum error finish(struct inspection *all)
{
    struct csv_store *store = all->store;
    struct store_info *info = &store->store.info;
    int64_t twice[2];
    trim_offsets(store, all->rows);
    if (varies(store))
        info->features = row_limit_features(&store->columns.limit, info->longest);
    store->offsets[all->rows] = text_source_length(&store->source.text);
    info->rows = all->rows;
    info->element = all->is_u8 ? store->columns.element.element : ELEMENT_F32;
    info->bad_rows = all->bad_rows;
    bool labelled = store->columns.column_of[COLUMN_LABEL] >= 0;
    store->labels.kind = labelled ? label_kind_of(&all->labels) : LABEL_NONE;
    enum error error = id_index_init(&store->ids, all->ids, all->rows, twice);
    if (error == ERROR_CONFLICT)
        return refuse_twice(store, all, twice);
    if (!error)
        all->ids = NULL; /* the index has them */
    return error;
}

/* Sorts the texts, and renumbers the labels in the rows kept. */
static enum error finish_rows(struct csv_store *store)
{
    struct label_dictionary *labels = &store->labels;
    size_t count = labels->kind == LABEL_TEXT ? labels->found.count : 0;
    struct text *texts = array_new(count, sizeof(*texts), "labels");
    uint32_t *ranks = array_new(count, sizeof(*ranks), "labels");
    if (texts && ranks && count > 0) {
        memcpy(texts, labels->found.texts, count * sizeof(*texts));
        label_dictionary_finish(labels);
    }
    for (size_t i = 0; texts && ranks && i < count; i++) {
        double rank = 0;
        label_value(labels, texts[i].data, texts[i].length, &rank);
        ranks[i] = (uint32_t)rank;
    }
    bool there = texts && ranks;
    if (there)
        csv_fill_finish(&store->fill, (uint64_t)store->store.info.rows, count ? ranks : NULL);
    free(texts);
    free(ranks);
    return there ? OK : ERROR_MEMORY;
}

static enum error inspect_once(struct inspection *all)
{
    struct csv_store *store = all->store;
    struct csv_pass pass = {.what = "looking at",
                            .result_bytes = sizeof(struct facts),
                            .work = inspect_block,
                            .take = merge_block,
                            .release = release_facts,
                            .context = all};
    uint64_t bytes = text_source_length(&store->source.text) - store->source.begin;
    store->fill.first_line = store->source.begin_line;
    if (store->cache_bytes > 0 && !varies(store))
        csv_fill_start(&store->fill, &store->columns, bytes, store->cache_bytes);
    enum error error = csv_pass_run(&pass, &store->source);
    if (!error)
        error = all->rows > 0 ? finish(all) : csv_store_refuse_empty(store);
    free(all->ids);
    all->ids = NULL;
    return error;
}

/* Restarts from scratch, except for the form that rows need. */
static void forget(struct csv_store *store, const struct inspection *all)
{
    if (all->floats)
        store->fill.element = ELEMENT_F32;
    store->fill.texts |= all->texts;
    csv_fill_release(&store->fill);
    label_dictionary_release(&store->labels);
    free(store->first_bad_row);
    store->first_bad_row = NULL;
    store->mark_count = 0;
    store->store.info.longest = 0;
    store->store.info.elements = 0;
}

static enum error inspect_all(struct csv_store *store)
{
    struct feature_recipe *recipe = store->columns.plan.recipe;
    int64_t unseen = feature_recipe_unseen(recipe); /* of other files */
    struct inspection all = {.store = store};
    enum error error;
    do {
        forget(store, &all);
        feature_recipe_forget_unseen(recipe, unseen);
        all = (struct inspection){.store = store, .is_u8 = true};
        error = inspect_once(&all);
    } while (error == ERROR_CANCELLED && (all.floats || all.texts));
    return error ? error : finish_rows(store);
}

enum error csv_store_inspect(struct csv_store *store)
{
    if (store->keys_only) { /* rows are checked when they are scanned */
        store->labels.kind = store->columns.column_of[COLUMN_LABEL] >= 0 ? LABEL_TEXT : LABEL_NONE;
        return OK;
    }
    return inspect_all(store);
}

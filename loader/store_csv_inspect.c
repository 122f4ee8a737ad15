/* The first pass: where rows begin, what ids, labels and features are, and which rows are bad. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "loader/store_csv.h"

/* What one block holds. */
struct facts {
    struct csv_decoder decoder;
    uint8_t *features; /* one row, decoded to be checked; NULL: not prepared yet */
    size_t rows;
    uint64_t *offsets;
    size_t offsets_capacity;
    int64_t *ids; /* NULL without an id column */
    size_t ids_capacity;
    bool is_u8;
    struct label_kinds labels;
    int64_t bad_rows;
    struct error_report bad; /* the first bad row's */
};

/* What the whole file holds. */
struct inspection {
    struct csv_store *store;
    int64_t rows;
    int64_t *ids; /* owned until the index takes them */
    size_t ids_capacity;
    bool is_u8;
    struct label_kinds labels;
    int64_t bad_rows;
};

static enum error prepare(const struct csv_store *store, struct facts *facts)
{
    if (facts->features)
        return OK;
    uint8_t *features = array_new(store->columns.features, 1, "a row of a CSV file");
    if (!features)
        return ERROR_MEMORY;
    enum error error = csv_decoder_init(&facts->decoder, &store->columns, store->delimiter);
    if (error) {
        free(features);
        return error;
    }
    facts->features = features;
    return OK;
}

static enum error reserve(const struct csv_store *store, struct facts *facts, size_t rows)
{
    facts->rows = 0;
    facts->is_u8 = true;
    facts->labels = (struct label_kinds){.integers = false};
    facts->bad_rows = 0;
    enum error error = array_grow((void **)&facts->offsets, &facts->offsets_capacity, rows,
                                  sizeof(*facts->offsets), "an index of CSV rows");
    if (!error && store->columns.column_of[COLUMN_ID] >= 0)
        error = array_grow((void **)&facts->ids, &facts->ids_capacity, rows, sizeof(*facts->ids),
                           "the ids of CSV rows");
    return error;
}

static void note_row(const struct csv_store *store, struct facts *facts, const struct csv_row *row,
                     uint64_t offset, int64_t line)
{
    facts->offsets[facts->rows] = offset;
    if (facts->ids)
        facts->ids[facts->rows] = row->id;
    facts->rows++;
    if (store->columns.column_of[COLUMN_LABEL] >= 0)
        label_kind_add(&facts->labels, row->label.data, row->label.length);
    if (row->status == ROW_BAD && facts->bad_rows++ == 0)
        error_report_take(csv_store_prefix(store, ERROR_INPUT, line), &facts->bad);
    facts->is_u8 &= row->is_u8;
}

static enum error inspect_block(void *context, void *result, struct csv_block *block)
{
    const struct csv_store *store = ((struct inspection *)context)->store;
    struct facts *facts = result;
    enum error error = prepare(store, facts);
    if (!error)
        error = reserve(store, facts, (size_t)block->lines + 1);
    size_t at = 0;
    int64_t lines = 0;
    while (!error) {
        size_t length;
        int64_t line;
        struct csv_row row;
        char *record = csv_block_next(block, store->delimiter, &at, &lines, &length, &line);
        if (!record)
            break;
        uint64_t offset = block->offset + (uint64_t)(record - block->data);
        error = csv_decode_row(&facts->decoder, record, length, block->plain, ELEMENT_U8,
                               facts->features, &row);
        if (error)
            return csv_store_prefix(store, error, line);
        note_row(store, facts, &row, offset, line);
    }
    return error;
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
    store->first_bad_row = strdup(facts->bad.message);
    return store->first_bad_row ? OK : error_set_memory(sizeof(facts->bad), "a message");
}

static enum error merge_block(void *context, void *result, const struct csv_block *block)
{
    struct inspection *all = context;
    struct csv_store *store = all->store;
    const struct facts *facts = result;
    size_t rows = (size_t)all->rows;
    enum error error = add_mark(store, block);
    if (!error)
        error = array_grow((void **)&store->offsets, &store->offsets_capacity,
                           rows + facts->rows + 1, sizeof(*store->offsets), "an index of CSV rows");
    if (!error && facts->ids)
        error = array_grow((void **)&all->ids, &all->ids_capacity, rows + facts->rows,
                           sizeof(*all->ids), "the ids of CSV rows");
    if (!error)
        error = keep_bad_row(store, facts);
    if (error)
        return error;
    memcpy(store->offsets + rows, facts->offsets, facts->rows * sizeof(*store->offsets));
    if (facts->ids && facts->rows > 0)
        memcpy(all->ids + rows, facts->ids, facts->rows * sizeof(*all->ids));
    all->rows += (int64_t)facts->rows;
    all->is_u8 &= facts->is_u8;
    all->bad_rows += facts->bad_rows;
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
    free(facts->ids);
}

/* ---- label texts: a pass of their own, which few files need ---------------------------------- */

struct texts {
    struct csv_decoder decoder;
    bool ready;
    struct label_dictionary labels; /* of the blocks that this slot had so far */
};

static enum error collect_texts(void *context, void *result, struct csv_block *block)
{
    const struct csv_store *store = context;
    struct texts *texts = result;
    size_t at = 0;
    int64_t lines = 0;
    enum error error = OK;
    if (!texts->ready)
        error = csv_decoder_init(&texts->decoder, &store->columns, store->delimiter);
    if (error)
        return error;
    texts->ready = true;
    while (!error) {
        size_t length;
        int64_t line;
        struct csv_row row;
        char *record = csv_block_next(block, store->delimiter, &at, &lines, &length, &line);
        if (!record)
            break;
        error =
            csv_decode_row(&texts->decoder, record, length, block->plain, ELEMENT_U8, NULL, &row);
        if (error)
            return csv_store_prefix(store, error, line);
        error = label_dictionary_add(&texts->labels, row.label.data, row.label.length, NULL);
    }
    return error;
}

static enum error merge_texts(void *context, void *result, const struct csv_block *block)
{
    struct csv_store *store = context;
    const struct texts *texts = result;
    enum error error = OK;
    (void)block;
    for (size_t i = 0; i < texts->labels.count && !error; i++)
        error = label_dictionary_add(&store->labels, texts->labels.texts[i],
                                     strlen(texts->labels.texts[i]), NULL);
    return error;
}

static void release_texts(void *context, void *result)
{
    struct texts *texts = result;
    (void)context;
    if (texts->ready)
        csv_decoder_release(&texts->decoder);
    label_dictionary_release(&texts->labels);
}

static enum error read_label_texts(struct csv_store *store)
{
    struct csv_pass pass = {.what = "reading the labels of",
                            .result_bytes = sizeof(struct texts),
                            .work = collect_texts,
                            .take = merge_texts,
                            .release = release_texts,
                            .context = store};
    enum error error = csv_pass_run(&pass, &store->source);
    if (!error)
        label_dictionary_finish(&store->labels);
    return error;
}

/* ---- keys only: rows are counted, and checked when they are scanned ---------------------------
 */

struct row_count {
    int64_t rows;
};

static enum error count_rows(void *context, void *result, struct csv_block *block)
{
    const struct csv_store *store = context;
    struct row_count *count = result;
    size_t at = 0;
    int64_t lines = 0;
    size_t length;
    int64_t line;
    count->rows = 0;
    while (csv_block_next(block, store->delimiter, &at, &lines, &length, &line))
        count->rows++;
    return OK;
}

static enum error add_rows(void *context, void *result, const struct csv_block *block)
{
    struct csv_store *store = context;
    store->store.info.rows += ((struct row_count *)result)->rows;
    return add_mark(store, block);
}

static enum error count_all(struct csv_store *store)
{
    struct csv_pass pass = {.what = "counting the rows of",
                            .result_bytes = sizeof(struct row_count),
                            .work = count_rows,
                            .take = add_rows,
                            .context = store};
    store->labels.kind = store->columns.column_of[COLUMN_LABEL] >= 0 ? LABEL_TEXT : LABEL_NONE;
    return csv_pass_run(&pass, &store->source);
}

/* ---- all of it --------------------------------------------------------------------------------
 */

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
    store->offsets[all->rows] = store->source.identity.size_bytes;
    info->rows = all->rows;
    info->element = all->is_u8 ? ELEMENT_U8 : ELEMENT_F32;
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

static enum error inspect_all(struct csv_store *store)
{
    struct inspection all = {.store = store, .is_u8 = true};
    struct csv_pass pass = {.what = "looking at",
                            .result_bytes = sizeof(struct facts),
                            .work = inspect_block,
                            .take = merge_block,
                            .release = release_facts,
                            .context = &all};
    enum error error = csv_pass_run(&pass, &store->source);
    if (!error)
        error = finish(&all);
    free(all.ids);
    if (!error && store->labels.kind == LABEL_TEXT)
        error = read_label_texts(store);
    return error;
}

enum error csv_store_inspect(struct csv_store *store)
{
    enum error error = store->keys_only ? count_all(store) : inspect_all(store);
    if (!error && store->store.info.rows == 0)
        error = error_set(ERROR_INPUT, "%s has %s; a store of no units is of no use", store->path,
                          store->columns.header ? "a header and no rows" : "no rows");
    return error;
}

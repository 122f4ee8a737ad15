/*
 * All rows of a table by ascending id, once: to be handed out in blocks (scan), or to find what
 * they are (inspect).
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/buffer.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "loader/sqlite/store_sqlite.h"

#define BLOCK_ROWS 1024
#define TEXTS_LIMIT_BYTES ((size_t)1 << 30)
#define PROGRESS_NS INT64_C(2000000000)
#define PROGRESS_ROWS 1024 /* the clock is looked at so often */

/* ---- walking ------------------------------------------------------------ */

/* Called for every row; `row` is borrowed. */
typedef enum error row_visitor(void *context, sqlite3_stmt *statement, struct sqlite_row *row);

struct walk {
    const struct sqlite_store *store;
    const char *what;     /* "reading", for the log */
    enum element element; /* that features are wanted as */
    void *features;       /* NULL: keys only */
    row_visitor *visit;
    void *context;
    int64_t rows, last_id, last_row_number, progress_ns;
};

static enum error show_progress(struct walk *walk)
{
    const struct sqlite_store *store = walk->store;
    if (walk->rows % PROGRESS_ROWS != 0)
        return OK;
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped while %s %s", walk->what, store->path);
    if (clock_now_ns() < walk->progress_ns)
        return OK;
    walk->progress_ns = clock_now_ns() + PROGRESS_NS;
    log_info("%s %s: %lld rows", walk->what, store->path, (long long)walk->rows);
    return OK;
}

static int64_t row_number(sqlite3_stmt *statement)
{
    return sqlite3_column_int64(statement, sqlite3_column_count(statement) - 1);
}

static enum error refuse_order(const struct walk *walk, sqlite3_stmt *statement, int64_t id)
{
    const struct sqlite_store *store = walk->store;
    const char *name = store->table.name;
    if (id == walk->last_id && store->table.row_name)
        return error_set(ERROR_INPUT,
                         "%s: table \"%s\" has the id %lld twice, in the rows with the %s %lld and "
                         "%lld; each may come only once",
                         store->path, name, (long long)id, store->table.row_name,
                         (long long)walk->last_row_number, (long long)row_number(statement));
    if (id == walk->last_id && store->table.view)
        return error_set(ERROR_INPUT,
                         "%s: view \"%s\" has the id %lld twice; each may come only once",
                         store->path, name, (long long)id);
    return error_set(ERROR_INPUT, "%s: table \"%s\" is damaged: id %lld comes %s", store->path,
                     name, (long long)id, id == walk->last_id ? "twice" : "out of its order");
}

/* A row whose id is none is named by its number, if by anything. */
static enum error prefix_row(const struct sqlite_store *store, sqlite3_stmt *statement,
                             enum error error)
{
    if (sqlite3_column_type(statement, 0) == SQLITE_INTEGER)
        return sqlite_store_prefix(store, error, sqlite3_column_int64(statement, 0));
    if (store->table.row_name)
        return error_prefix(error, "%s, table \"%s\", %s %lld: ", store->path, store->table.name,
                            store->table.row_name, (long long)row_number(statement));
    return error_prefix(error, "%s, table \"%s\": ", store->path, store->table.name);
}

static enum error visit_row(struct walk *walk, sqlite3_stmt *statement)
{
    struct sqlite_row row;
    enum error error =
        sqlite_decode_row(&walk->store->format, statement, walk->element, walk->features, &row);
    if (error)
        return prefix_row(walk->store, statement, error);
    if (row.status == ROW_BAD)
        sqlite_store_prefix(walk->store, ERROR_INPUT, row.id);
    if (walk->rows > 0 && row.id <= walk->last_id)
        return refuse_order(walk, statement, row.id);
    error = walk->visit(walk->context, statement, &row);
    if (error)
        return error;
    walk->rows++;
    walk->last_id = row.id;
    if (walk->store->table.row_name)
        walk->last_row_number = row_number(statement);
    return show_progress(walk);
}

static enum error walk_rows(struct walk *walk, const char *sql)
{
    struct sqlite_cursor cursor;
    bool row = true;
    enum error error = sqlite_cursor_open(&cursor, walk->store, sql);
    if (error)
        return error;
    walk->progress_ns = clock_now_ns() + PROGRESS_NS;
    while (!error && row) {
        error = sqlite_cursor_step(&cursor, &row);
        if (!error && row)
            error = visit_row(walk, cursor.statement);
    }
    if (!error)
        error = sqlite_cursor_check(&cursor);
    sqlite_cursor_close(&cursor);
    return error;
}

/* ---- inspect ------------------------------------------------------------ */

struct inspection {
    struct sqlite_store *store;
    bool is_u8;
    struct label_kinds kinds;
    int64_t *ids; /* owned until the index takes them; only with table.row_name */
    size_t ids_capacity;
};

/* Grows both lists by one: the rows' number is not known before. */
static enum error keep_place(struct inspection *all, sqlite3_stmt *statement, int64_t id)
{
    struct sqlite_store *store = all->store;
    size_t row = (size_t)store->ids.rows;
    enum error error =
        array_grow((void **)&all->ids, &all->ids_capacity, row + 1, sizeof(*all->ids), "ids");
    if (!error)
        error = array_grow((void **)&store->row_numbers, &store->row_numbers_capacity, row + 1,
                           sizeof(*store->row_numbers), "row numbers");
    if (error)
        return error;
    all->ids[row] = id;
    store->row_numbers[row] = row_number(statement);
    store->ids.rows++;
    return OK;
}

/* The walk has seen to it that they ascend. */
static enum error index_places(struct inspection *all)
{
    int64_t twice[2];
    enum error error = id_index_init(&all->store->ids, all->ids, all->store->ids.rows, twice);
    if (!error)
        all->ids = NULL;
    return error;
}

static enum error inspect_row(void *context, sqlite3_stmt *statement, struct sqlite_row *row)
{
    struct inspection *all = context;
    if (all->store->table.row_name) {
        enum error error = keep_place(all, statement, row->id);
        if (error)
            return error;
    }
    if (all->store->table.key_of[COLUMN_LABEL])
        label_kind_add(&all->kinds, row->label.data, row->label.length);
    all->is_u8 &= row->is_u8;
    if (row->status == ROW_BAD)
        return store_add_bad_row(&all->store->store.info, &all->store->first_bad_row);
    return OK;
}

static enum error collect_label(void *context, sqlite3_stmt *statement, struct sqlite_row *row)
{
    struct sqlite_store *store = context;
    (void)statement;
    return text_set_add(&store->labels.found, row->label.data, row->label.length, NULL);
}

static enum error collect_labels(struct sqlite_store *store)
{
    struct walk walk = {
        .store = store, .what = "reading the labels of", .visit = collect_label, .context = store};
    enum error error = walk_rows(&walk, store->keys_sql);
    if (!error)
        label_dictionary_finish(&store->labels);
    return error;
}

enum error sqlite_store_inspect(struct sqlite_store *store)
{
    struct inspection all = {.store = store, .is_u8 = true};
    struct walk walk = {.store = store,
                        .what = "looking at",
                        .element = ELEMENT_U8,
                        .visit = inspect_row,
                        .context = &all};
    size_t bytes = store->format.features * sizeof(float);
    walk.features = array_new(bytes, 1, "a row of an SQLite table");
    if (!walk.features)
        return ERROR_MEMORY;
    enum error error = walk_rows(&walk, store->scan_sql);
    if (!error && store->table.row_name)
        error = index_places(&all);
    free(all.ids);
    free(walk.features);
    if (error)
        return error;
    store->store.info.rows = walk.rows;
    store->store.info.element = all.is_u8 ? ELEMENT_U8 : ELEMENT_F32;
    if (store->format.blob)
        store->store.info.element = store->format.element;
    bool labelled = store->table.key_of[COLUMN_LABEL] != NULL;
    store->labels.kind = labelled ? label_kind_of(&all.kinds) : LABEL_NONE;
    return store->labels.kind == LABEL_TEXT ? collect_labels(store) : OK;
}

/* ---- scan --------------------------------------------------------------- */

/* A block that fills up. Texts are kept as offsets until it is handed out: their memory moves. */
struct block {
    const struct sqlite_store *store;
    enum scan_columns columns;
    store_sink *sink;
    void *context;
    int64_t first_row;
    size_t rows;
    int64_t *ids;
    struct text *labels, *groups; /* data: filled in at the end */
    size_t *label_at, *group_at;
    double *label_values, *weights;
    uint8_t *features;
    enum row_status *status;
    size_t row_bytes;
    struct buffer texts;
    uint8_t *row_features; /* the next row's, BLOB or not */
};

static void release_block(struct block *block)
{
    free(block->ids);
    free(block->labels);
    free(block->groups);
    free(block->label_at);
    free(block->group_at);
    free(block->label_values);
    free(block->weights);
    free(block->features);
    free(block->status);
    buffer_release(&block->texts);
}

static enum error init_block(struct block *block)
{
    static const char what[] = "a block of rows";
    const struct sqlite_store *store = block->store;
    block->row_bytes = store->format.features * element_bytes(store->store.info.element);
    block->ids = array_new(BLOCK_ROWS, sizeof(*block->ids), what);
    block->labels = array_new(BLOCK_ROWS, sizeof(*block->labels), what);
    block->groups = array_new(BLOCK_ROWS, sizeof(*block->groups), what);
    block->label_at = array_new(BLOCK_ROWS, sizeof(*block->label_at), what);
    block->group_at = array_new(BLOCK_ROWS, sizeof(*block->group_at), what);
    block->label_values = array_new(BLOCK_ROWS, sizeof(*block->label_values), what);
    block->weights = array_new(BLOCK_ROWS, sizeof(*block->weights), what);
    block->status = array_new(BLOCK_ROWS, sizeof(*block->status), what);
    size_t rows = block->columns & SCAN_FEATURES ? BLOCK_ROWS : 0;
    block->features = array_new(rows, block->row_bytes + 1, what);
    bool there = block->ids && block->labels && block->groups && block->label_at &&
                 block->group_at && block->label_values && block->weights && block->status &&
                 block->features;
    return there ? OK : ERROR_MEMORY;
}

static void place_texts(struct block *block)
{
    for (size_t i = 0; i < block->rows; i++) {
        block->labels[i].data = block->texts.data + block->label_at[i];
        block->groups[i].data = block->texts.data + block->group_at[i];
    }
}

static enum error hand_out(struct block *block)
{
    const struct sqlite_table *table = &block->store->table;
    bool features = block->columns & SCAN_FEATURES;
    if (block->rows == 0)
        return OK;
    place_texts(block);
    struct store_block rows = {
        .rows = block->rows,
        .first_row = block->first_row,
        .ids = block->ids,
        .labels = block->labels,
        .weights = table->key_of[COLUMN_WEIGHT] ? block->weights : NULL,
        .groups = table->key_of[COLUMN_GROUP] ? block->groups : NULL,
        .label_values = features ? block->label_values : NULL,
        .features = features ? block->features : NULL,
        .status = block->columns & SCAN_BAD_ROWS ? block->status : NULL,
    };
    enum error error = block->sink(block->context, &rows);
    block->first_row += (int64_t)block->rows;
    block->rows = 0;
    buffer_clear(&block->texts);
    return error;
}

static enum error keep_text(struct block *block, const struct text *text, struct text *kept,
                            size_t *at)
{
    *at = block->texts.length;
    kept->length = text->length;
    return buffer_add(&block->texts, text->data, text->length);
}

static enum error refuse_other(const struct sqlite_store *store, int64_t id)
{
    error_set(ERROR_INPUT, "the row is not what it was when the file was opened");
    return sqlite_store_prefix(store, ERROR_INPUT, id);
}

static enum error keep_features(struct block *block, const struct sqlite_row *row)
{
    const struct sqlite_store *store = block->store;
    uint8_t *slot = block->features + block->rows * block->row_bytes;
    block->status[block->rows] = row->status;
    block->label_values[block->rows] = 0;
    if (row->status == ROW_BAD) {
        if (!(block->columns & SCAN_BAD_ROWS))
            return ERROR_INPUT;
        memset(slot, 0, block->row_bytes);
        return OK;
    }
    if (!row->is_u8 && store->store.info.element == ELEMENT_U8)
        return refuse_other(store, row->id);
    memcpy(slot, block->row_features, block->row_bytes);
    return label_value(&store->labels, row->label.data, row->label.length,
                       &block->label_values[block->rows])
               ? OK
               : refuse_other(store, row->id);
}

static enum error keep_row(void *context, sqlite3_stmt *statement, struct sqlite_row *row)
{
    struct block *block = context;
    size_t i = block->rows;
    (void)statement;
    block->ids[i] = row->id;
    block->weights[i] = row->weight;
    enum error error = keep_text(block, &row->label, &block->labels[i], &block->label_at[i]);
    if (!error)
        error = keep_text(block, &row->group, &block->groups[i], &block->group_at[i]);
    if (!error && block->columns & SCAN_FEATURES)
        error = keep_features(block, row);
    if (error)
        return error;
    block->rows++;
    return block->rows == BLOCK_ROWS ? hand_out(block) : OK;
}

enum error sqlite_store_scan(struct store *base, enum scan_columns columns, store_sink *sink,
                             void *context)
{
    const struct sqlite_store *store = (const struct sqlite_store *)base;
    bool features = columns & SCAN_FEATURES;
    struct block block = {.store = store,
                          .columns = columns,
                          .sink = sink,
                          .context = context,
                          .texts = BUFFER_INIT(TEXTS_LIMIT_BYTES)};
    struct walk walk = {.store = store,
                        .what = "reading",
                        .element = store->store.info.element,
                        .visit = keep_row,
                        .context = &block};
    enum error error = init_block(&block);
    if (!error && features) {
        walk.features = array_new(block.row_bytes, 1, "a row of an SQLite table");
        error = walk.features ? OK : ERROR_MEMORY;
    }
    block.row_features = walk.features;
    if (!error)
        error = walk_rows(&walk, features ? store->scan_sql : store->keys_sql);
    if (!error)
        error = hand_out(&block);
    free(walk.features);
    release_block(&block);
    return error;
}

/* SPDX-License-Identifier: MIT */
/*
 * All rows of a table by ascending id, once: to deliver them in blocks (scan), or to inspect them.
 */
#include <stdlib.h>

#include "common/array.h"
#include "common/stop.h"
#include "loader/sqlite/store_sqlite.h"
#include "loader/store/progress.h"
#include "loader/store/scan_block.h"

#define PROGRESS_ROWS 1024 /* between two checks of the clock */

/* ---- a pass over all rows ----------------------------------------------- */

/* Called for every row; `row` is borrowed. */
typedef enum error row_visitor(void *context, sqlite3_stmt *statement, const struct store_row *row);

struct pass {
    const struct sqlite_store *store;
    const char *what;     /* "reading", for messages */
    bool is_quiet;        /* the rows' consumer reports progress */
    enum element element; /* in which features are wanted */
    void *features;       /* NULL: keys only */
    row_visitor *visit;
    void *context;
    int64_t rows, last_id, last_row_number;
    struct progress progress;
};

static enum error show_progress(struct pass *pass)
{
    const struct sqlite_store *store = pass->store;
    if (pass->rows % PROGRESS_ROWS != 0)
        return OK;
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped while %s %s", pass->what, store->path);
    if (!pass->is_quiet)
        progress_show(&pass->progress, (uint64_t)pass->rows, (uint64_t)store->store.info.rows);
    return OK;
}

static int64_t row_number(sqlite3_stmt *statement)
{
    return sqlite3_column_int64(statement, sqlite3_column_count(statement) - 1);
}

static enum error refuse_order(const struct pass *pass, sqlite3_stmt *statement, int64_t id)
{
    const struct sqlite_store *store = pass->store;
    const char *name = store->table.name;
    if (id == pass->last_id && store->table.row_name)
        return error_set(ERROR_INPUT,
                         "%s: table \"%s\" has the id %lld twice, in the rows with the %s %lld and "
                         "%lld; each may come only once",
                         store->path, name, (long long)id, store->table.row_name,
                         (long long)pass->last_row_number, (long long)row_number(statement));
    if (id == pass->last_id && store->table.view)
        return error_set(ERROR_INPUT,
                         "%s: view \"%s\" has the id %lld twice; each may come only once",
                         store->path, name, (long long)id);
    return error_set(ERROR_INPUT, "%s: table \"%s\" is damaged: id %lld comes %s", store->path,
                     name, (long long)id, id == pass->last_id ? "twice" : "out of its order");
}

/* A row without a valid id is named by its number, if there is one. */
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

static enum error visit_row(struct pass *pass, sqlite3_stmt *statement)
{
    struct sqlite_row decoded;
    const struct store_row *row = &decoded.row;
    enum error error =
        sqlite_decode_row(&pass->store->format, statement, pass->element, pass->features, &decoded);
    if (error)
        return prefix_row(pass->store, statement, error);
    if (row->status == ROW_BAD)
        sqlite_store_prefix(pass->store, ERROR_INPUT, row->id);
    if (pass->rows > 0 && row->id <= pass->last_id)
        return refuse_order(pass, statement, row->id);
    error = pass->visit(pass->context, statement, row);
    if (error)
        return error;
    pass->rows++;
    pass->last_id = row->id;
    if (pass->store->table.row_name)
        pass->last_row_number = row_number(statement);
    return show_progress(pass);
}

static enum error pass_run(struct pass *pass, const char *sql)
{
    struct sqlite_cursor cursor;
    bool row = true;
    enum error error = sqlite_cursor_open(&cursor, pass->store, sql);
    if (error)
        return error;
    pass->progress = progress_of_rows(pass->what, pass->store->path);
    while (!error && row) {
        error = sqlite_cursor_step(&cursor, &row);
        if (!error && row)
            error = visit_row(pass, cursor.statement);
    }
    error = sqlite_cursor_check_after(&cursor, error);
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

/* Grows both lists by one: the number of rows is not known in advance. */
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

/* The pass has checked that they ascend. */
static enum error index_places(struct inspection *all)
{
    int64_t twice[2];
    enum error error = id_index_init(&all->store->ids, all->ids, all->store->ids.rows, twice);
    if (!error)
        all->ids = NULL;
    return error;
}

static enum error inspect_row(void *context, sqlite3_stmt *statement, const struct store_row *row)
{
    struct inspection *all = context;
    if (all->store->table.row_name) {
        enum error error = keep_place(all, statement, row->id);
        if (error)
            return error;
    }
    if (all->store->table.key_of[COLUMN_LABEL])
        label_kind_add(&all->kinds, row->label.data, row->label.length);
    struct store_info *info = &all->store->store.info;
    info->longest = row->length > info->longest ? row->length : info->longest;
    info->elements += row->length;
    all->is_u8 &= row->is_u8;
    if (row->status == ROW_BAD)
        return store_add_bad_row(&all->store->store.info, &all->store->first_bad_row);
    return OK;
}

static enum error collect_label(void *context, sqlite3_stmt *statement, const struct store_row *row)
{
    struct sqlite_store *store = context;
    (void)statement;
    return text_set_add(&store->labels.found, row->label.data, row->label.length, NULL);
}

static enum error collect_labels(struct sqlite_store *store)
{
    struct pass pass = {
        .store = store, .what = "reading the labels of", .visit = collect_label, .context = store};
    enum error error = pass_run(&pass, store->keys_sql);
    if (!error)
        label_dictionary_finish(&store->labels);
    return error;
}

enum error sqlite_store_inspect(struct sqlite_store *store)
{
    struct inspection all = {.store = store, .is_u8 = true};
    struct pass pass = {.store = store,
                        .what = "looking at",
                        .element = store->format.element,
                        .visit = inspect_row,
                        .context = &all};
    size_t bytes = store->format.features * sizeof(float);
    pass.features = array_new(bytes, 1, "a row of an SQLite table");
    if (!pass.features)
        return ERROR_MEMORY;
    enum error error = pass_run(&pass, store->scan_sql);
    if (!error && store->table.row_name)
        error = index_places(&all);
    free(all.ids);
    free(pass.features);
    if (error)
        return error;
    store->store.info.rows = pass.rows;
    store->store.info.element = all.is_u8 ? store->format.element : ELEMENT_F32;
    bool labelled = store->table.key_of[COLUMN_LABEL] != NULL;
    store->labels.kind = labelled ? label_kind_of(&all.kinds) : LABEL_NONE;
    return store->labels.kind == LABEL_TEXT ? collect_labels(store) : OK;
}

static enum error pass_over(void *context, sqlite3_stmt *statement, const struct store_row *row)
{
    (void)context;
    (void)statement;
    (void)row;
    return OK;
}

enum error sqlite_store_learn(struct sqlite_store *store)
{
    struct feature_recipe *recipe = store->table.plan.recipe;
    char nowhere[1]; /* features are not kept */
    struct pass pass = {.store = store,
                        .what = "learning the columns of",
                        .element = ELEMENT_F32,
                        .features = nowhere,
                        .visit = pass_over};
    store->format.learner = recipe_learner_new(recipe);
    if (!store->format.learner)
        return ERROR_MEMORY;
    enum error error = pass_run(&pass, store->scan_sql);
    recipe_learner_merge(recipe, store->format.learner);
    store->format.learner = NULL;
    store->store.info.rows = pass.rows;
    return error;
}

/* ---- scan --------------------------------------------------------------- */

struct scan {
    const struct sqlite_store *store;
    struct scan_block *block; /* owned */
    struct pass pass;
};

static enum error keep_row(void *context, sqlite3_stmt *statement, const struct store_row *row)
{
    struct scan *scan = context;
    const struct sqlite_store *store = scan->store;
    double label = 0;
    enum error error = OK;
    (void)statement;
    if (scan->pass.features)
        error =
            store_row_check(row, row->id, &store->store.info, &store->labels, "the file", &label);
    if (error)
        return sqlite_store_prefix(store, error, row->id);
    error = scan_block_add(scan->block, row, label);
    scan->pass.features = scan_block_slot(scan->block);
    return error;
}

enum error sqlite_store_scan(struct store *base, enum scan_columns columns, store_sink *sink,
                             void *context)
{
    const struct sqlite_store *store = (const struct sqlite_store *)base;
    struct scan scan = {.store = store,
                        .block = scan_block_new(&base->info, columns, sink, context)};
    if (!scan.block)
        return ERROR_MEMORY;
    scan.pass = (struct pass){.store = store,
                              .what = "reading",
                              .is_quiet = true,
                              .element = base->info.element,
                              .features = scan_block_slot(scan.block),
                              .visit = keep_row,
                              .context = &scan};
    enum error error =
        pass_run(&scan.pass, columns & SCAN_FEATURES ? store->scan_sql : store->keys_sql);
    if (!error)
        error = scan_block_finish(scan.block);
    scan_block_free(scan.block);
    return error;
}

/* SPDX-License-Identifier: MIT */
/* All rows by ascending id: one COPY within one snapshot, to deliver or to inspect them. */
#include <libpq-fe.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/stop.h"
#include "common/text.h"
#include "loader/postgres/store_postgres.h"
#include "loader/store/scan_block.h"

typedef enum error row_visitor(void *context, const struct store_row *row);

struct pass {
    const struct postgres_store *store;
    PGconn *connection;
    bool keys_only;
    enum element element;
    void *features; /* for one row; NULL: keys only */
    row_visitor *visit;
    void *context;
    struct postgres_value *values; /* owned; [count] */
    size_t count;
    int64_t rows, last_id;
    bool is_begun, is_ended;
};

static enum error refuse_order(const struct pass *pass, int64_t id)
{
    return error_set(ERROR_INPUT,
                     "postgresql:%s, table %s: id %lld comes %s; each may come only once",
                     pass->store->place.shown, pass->store->table.name, (long long)id,
                     id == pass->last_id ? "twice" : "out of its order");
}

static enum error visit_row(struct pass *pass)
{
    struct postgres_row decoded;
    const struct store_row *row = &decoded.row;
    enum error error = postgres_decode_row(&pass->store->table.format, pass->values, pass->element,
                                           pass->features, &decoded);
    if (error && row->id >= 0)
        return postgres_store_prefix(pass->store, error, row->id);
    if (error)
        return error_prefix(error, "postgresql:%s, table %s: ", pass->store->place.shown,
                            pass->store->table.name);
    if (row->status == ROW_BAD)
        postgres_store_prefix(pass->store, ERROR_INPUT, row->id);
    if (pass->rows > 0 && row->id <= pass->last_id)
        return refuse_order(pass, row->id);
    error = pass->visit(pass->context, row);
    pass->rows++;
    pass->last_id = row->id;
    return error;
}

/* One piece from the server: whole rows. */
static enum error take_piece(struct pass *pass, const uint8_t *bytes, size_t length)
{
    size_t at = 0;
    enum error error = OK;
    if (!pass->is_begun)
        error = postgres_copy_head(bytes, length, &at);
    pass->is_begun = true;
    while (!error && at < length && !pass->is_ended) {
        error = postgres_copy_row(bytes, length, &at, pass->count, pass->values, &pass->is_ended);
        if (!error && !pass->is_ended)
            error = visit_row(pass);
    }
    return error;
}

/* The next piece; *ret_length -1 at the end. */
static enum error next_piece(struct pass *pass, char **ret_bytes, int *ret_length)
{
    enum error error = OK;
    while ((*ret_length = PQgetCopyData(pass->connection, ret_bytes, 1)) == 0 && !error)
        error = postgres_await_work(&pass->store->place, pass->connection);
    if (!error && *ret_length == -2)
        error = error_set(ERROR_NETWORK, "postgresql:%s went away after %lld %s: %.300s",
                          pass->store->place.shown, (long long)pass->rows,
                          text_plural(pass->rows, "row", "rows"), PQerrorMessage(pass->connection));
    return error;
}

static enum error receive(struct pass *pass)
{
    PGresult *result = NULL;
    enum error error = OK;
    int length = 0;
    while (!error) {
        char *bytes = NULL;
        error = next_piece(pass, &bytes, &length);
        if (!error && length == -1)
            break;
        if (!error)
            error = take_piece(pass, (const uint8_t *)bytes, (size_t)length);
        if (!error && stop_requested())
            error = error_set(ERROR_CANCELLED, "stopped while postgresql:%s was read",
                              pass->store->place.shown);
        PQfreemem(bytes);
    }
    if (!error) /* the result of the COPY, which may still be an error */
        error = postgres_answer(&pass->store->place, pass->connection, PGRES_COMMAND_OK, &result);
    if (!error && !pass->is_ended)
        error = error_set(ERROR_NETWORK, "postgresql:%s: its answer ends before the last row",
                          pass->store->place.shown);
    PQclear(result);
    return error;
}

/* A COPY does not say what its values are; a SELECT in the same snapshot does. */
static enum error check_table(const struct pass *pass)
{
    const struct postgres_store *store = pass->store;
    PGresult *result = NULL;
    char *sql = postgres_table_select(&store->table, pass->keys_only, "", " LIMIT 0");
    enum error error =
        sql ? postgres_run(&store->place, pass->connection, sql, PGRES_TUPLES_OK, &result)
            : ERROR_MEMORY;
    if (!error) {
        error = postgres_table_check(&store->table, pass->keys_only, result);
        error = error ? error_prefix(error, "postgresql:%s: ", store->place.shown) : OK;
    }
    PQclear(result);
    free(sql);
    return error;
}

static enum error copy_out(struct pass *pass)
{
    const struct postgres_store *store = pass->store;
    char *sql = postgres_table_select(&store->table, pass->keys_only, "COPY (",
                                      " ORDER BY $id) TO STDOUT (FORMAT binary)");
    if (!sql)
        return ERROR_MEMORY;
    enum error error =
        postgres_run(&store->place, pass->connection,
                     "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; " POSTGRES_SETTINGS(
                         "LOCAL") "; " POSTGRES_NO_TIMEOUTS,
                     PGRES_COMMAND_OK, NULL);
    PGresult *result = NULL;
    if (!error)
        error = check_table(pass);
    if (!error)
        error = postgres_run(&store->place, pass->connection, sql, PGRES_COPY_OUT, &result);
    PQclear(result);
    free(sql);
    return error ? error : receive(pass);
}

/* On error the connection is dropped midway: the server ends the query. */
static enum error pass_run(struct pass *pass)
{
    pass->count = postgres_value_count(&pass->store->table.format, pass->keys_only);
    pass->values = array_new(pass->count, sizeof(*pass->values), "a row");
    if (!pass->values)
        return ERROR_MEMORY;
    enum error error = postgres_connect(&pass->store->place, &pass->connection);
    if (!error)
        error = postgres_check_cluster(&pass->store->place, pass->connection, pass->store->cluster);
    if (!error)
        error = copy_out(pass);
    PQfinish(pass->connection);
    free(pass->values);
    return error;
}

/* ---- inspect ------------------------------------------------------------ */

struct inspection {
    struct postgres_store *store;
    bool is_u8;
    struct label_kinds kinds;
};

static enum error inspect_row(void *context, const struct store_row *row)
{
    struct inspection *all = context;
    if (all->store->table.format.label)
        label_kind_add(&all->kinds, row->label.data, row->label.length);
    struct store_info *info = &all->store->store.info;
    info->longest = row->length > info->longest ? row->length : info->longest;
    info->elements += row->length;
    all->is_u8 &= row->is_u8;
    if (row->status == ROW_BAD)
        return store_add_bad_row(&all->store->store.info, &all->store->first_bad_row);
    return OK;
}

static enum error collect_label(void *context, const struct store_row *row)
{
    struct postgres_store *store = context;
    return text_set_add(&store->labels.found, row->label.data, row->label.length, NULL);
}

static enum error collect_labels(struct postgres_store *store)
{
    struct pass pass = {
        .store = store, .keys_only = true, .visit = collect_label, .context = store};
    enum error error = pass_run(&pass);
    if (!error)
        label_dictionary_finish(&store->labels);
    return error;
}

enum error postgres_store_inspect(struct postgres_store *store)
{
    const struct postgres_format *format = &store->table.format;
    struct inspection all = {.store = store, .is_u8 = true};
    enum element element = format->plan ? ELEMENT_F32 : format->element;
    void *features = array_new(format->features + 1, element_bytes(element), "a row");
    if (!features)
        return ERROR_MEMORY;
    struct pass pass = {.store = store,
                        .element = element,
                        .features = features,
                        .visit = inspect_row,
                        .context = &all};
    enum error error = pass_run(&pass);
    free(features);
    if (error)
        return error;
    store->store.info.rows = pass.rows;
    store->store.info.element = all.is_u8 ? format->element : ELEMENT_F32;
    store->labels.kind = format->label ? label_kind_of(&all.kinds) : LABEL_NONE;
    return store->labels.kind == LABEL_TEXT ? collect_labels(store) : OK;
}

static enum error pass_over(void *context, const struct store_row *row)
{
    (void)context;
    (void)row;
    return OK;
}

enum error postgres_store_learn(struct postgres_store *store)
{
    struct feature_recipe *recipe = store->table.plan.recipe;
    char nowhere[1]; /* features are not kept */
    struct pass pass = {
        .store = store, .element = ELEMENT_F32, .features = nowhere, .visit = pass_over};
    store->table.format.learner = recipe_learner_new(recipe);
    if (!store->table.format.learner)
        return ERROR_MEMORY;
    enum error error = pass_run(&pass);
    recipe_learner_merge(recipe, store->table.format.learner);
    store->table.format.learner = NULL;
    return error;
}

/* ---- scan --------------------------------------------------------------- */

struct scan {
    const struct postgres_store *store;
    struct scan_block *block; /* owned */
    struct pass pass;
};

static enum error keep_row(void *context, const struct store_row *row)
{
    struct scan *scan = context;
    const struct postgres_store *store = scan->store;
    double label = 0;
    enum error error = OK;
    if (scan->pass.features)
        error =
            store_row_check(row, row->id, &store->store.info, &store->labels, "the store", &label);
    if (error)
        return postgres_store_prefix(store, error, row->id);
    error = scan_block_add(scan->block, row, label);
    scan->pass.features = scan_block_slot(scan->block);
    return error;
}

enum error postgres_store_refuse_empty(const struct postgres_store *store)
{
    enum error error = error_set(
        ERROR_INPUT, "postgresql:%s, table %s has no rows; a store needs at least one unit",
        store->place.shown, store->table.name);
    return error_set_kind(error, STORE_WITHOUT_ROWS);
}

enum error postgres_store_scan(struct store *base, enum scan_columns columns, store_sink *sink,
                               void *context)
{
    const struct postgres_store *store = (const struct postgres_store *)base;
    struct scan scan = {.store = store,
                        .block = scan_block_new(&base->info, columns, sink, context)};
    if (!scan.block)
        return ERROR_MEMORY;
    scan.pass = (struct pass){.store = store,
                              .keys_only = !(columns & SCAN_FEATURES),
                              .element = base->info.element,
                              .features = scan_block_slot(scan.block),
                              .visit = keep_row,
                              .context = &scan};
    enum error error = pass_run(&scan.pass);
    if (!error)
        error = scan_block_finish(scan.block);
    if (!error && scan.pass.rows == 0)
        error = postgres_store_refuse_empty(store);
    scan_block_free(scan.block);
    return error;
}

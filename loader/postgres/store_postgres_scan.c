/* All rows by ascending id: one COPY within one snapshot, to be handed out or to be looked at. */
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/stop.h"
#include "common/text.h"
#include "loader/postgres/postgres_messages.h"
#include "loader/postgres/store_postgres.h"

#define BLOCK_ROWS 1024
#define TEXTS_LIMIT_BYTES ((size_t)1 << 30)

typedef enum error row_visitor(void *context, const struct postgres_row *row);

struct walk {
    const struct postgres_store *store;
    PGconn *connection;
    bool keys_only;
    enum element element;
    void *features; /* where a row's go; NULL: keys only */
    row_visitor *visit;
    void *context;
    struct postgres_value *values; /* owned; [count] */
    size_t count;
    int64_t rows, last_id;
    bool is_begun, is_ended;
};

static enum error refuse_order(const struct walk *walk, int64_t id)
{
    return error_set(ERROR_INPUT,
                     "postgresql:%s, table %s: id %lld comes %s; each may come only once",
                     walk->store->place.shown, walk->store->table.name, (long long)id,
                     id == walk->last_id ? "twice" : "out of its order");
}

static enum error visit_row(struct walk *walk)
{
    struct postgres_row row;
    enum error error = postgres_decode_row(&walk->store->table.format, walk->values, walk->element,
                                           walk->features, &row);
    if (error && row.id >= 0 && walk->values[0].bytes)
        return postgres_store_prefix(walk->store, error, row.id);
    if (error)
        return error_prefix(error, "postgresql:%s, table %s: ", walk->store->place.shown,
                            walk->store->table.name);
    if (row.status == ROW_BAD)
        postgres_store_prefix(walk->store, ERROR_INPUT, row.id);
    if (walk->rows > 0 && row.id <= walk->last_id)
        return refuse_order(walk, row.id);
    error = walk->visit(walk->context, &row);
    walk->rows++;
    walk->last_id = row.id;
    return error;
}

/* One piece of what the server sends: whole rows. */
static enum error take_piece(struct walk *walk, const uint8_t *bytes, size_t length)
{
    size_t at = 0;
    enum error error = OK;
    if (!walk->is_begun)
        error = postgres_copy_head(bytes, length, &at);
    walk->is_begun = true;
    while (!error && at < length && !walk->is_ended) {
        error = postgres_copy_row(bytes, length, &at, walk->count, walk->values, &walk->is_ended);
        if (!error && !walk->is_ended)
            error = visit_row(walk);
    }
    return error;
}

/* The next piece; *ret_length -1 at the end. */
static enum error next_piece(struct walk *walk, char **ret_bytes, int *ret_length)
{
    enum error error = OK;
    while ((*ret_length = PQgetCopyData(walk->connection, ret_bytes, 1)) == 0 && !error)
        error = postgres_await_input(&walk->store->place, walk->connection);
    if (!error && *ret_length == -2)
        error = error_set(ERROR_NETWORK, "postgresql:%s went away after %lld %s: %.300s",
                          walk->store->place.shown, (long long)walk->rows,
                          text_plural(walk->rows, "row", "rows"), PQerrorMessage(walk->connection));
    return error;
}

static enum error receive(struct walk *walk)
{
    PGresult *result = NULL;
    enum error error = OK;
    int length = 0;
    while (!error) {
        char *bytes = NULL;
        error = next_piece(walk, &bytes, &length);
        if (!error && length == -1)
            break;
        if (!error)
            error = take_piece(walk, (const uint8_t *)bytes, (size_t)length);
        if (!error && stop_requested())
            error = error_set(ERROR_CANCELLED, "stopped while postgresql:%s was read",
                              walk->store->place.shown);
        PQfreemem(bytes);
    }
    if (!error) /* the server's last word on the COPY, which may be that it failed */
        error = postgres_answer(&walk->store->place, walk->connection, PGRES_COMMAND_OK, &result);
    if (!error && !walk->is_ended)
        error = error_set(ERROR_NETWORK, "postgresql:%s: its answer ends before the last row",
                          walk->store->place.shown);
    PQclear(result);
    return error;
}

static enum error copy_out(struct walk *walk)
{
    const struct postgres_store *store = walk->store;
    char *sql = postgres_table_select(&store->table, walk->keys_only, "COPY (",
                                      " ORDER BY $id) TO STDOUT (FORMAT binary)");
    if (!sql)
        return ERROR_MEMORY;
    enum error error =
        postgres_run(&store->place, walk->connection,
                     "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", PGRES_COMMAND_OK, NULL);
    PGresult *result = NULL;
    if (!error)
        error = postgres_run(&store->place, walk->connection, sql, PGRES_COPY_OUT, &result);
    PQclear(result);
    free(sql);
    return error ? error : receive(walk);
}

/* With an error the connection is dropped in the middle: the server ends the query. */
static enum error walk_rows(struct walk *walk)
{
    walk->count = postgres_value_count(&walk->store->table.format, walk->keys_only);
    walk->values = array_new(walk->count, sizeof(*walk->values), "a row");
    if (!walk->values)
        return ERROR_MEMORY;
    enum error error = postgres_connect(&walk->store->place, &walk->connection);
    if (!error)
        error = copy_out(walk);
    PQfinish(walk->connection);
    free(walk->values);
    return error;
}

/* ---- inspect ------------------------------------------------------------ */

struct inspection {
    struct postgres_store *store;
    bool is_u8;
    struct label_kinds kinds;
};

static enum error inspect_row(void *context, const struct postgres_row *row)
{
    struct inspection *all = context;
    if (all->store->table.format.label)
        label_kind_add(&all->kinds, row->label.data, row->label.length);
    all->is_u8 &= row->is_u8;
    if (row->status == ROW_BAD)
        return store_add_bad_row(&all->store->store.info, &all->store->first_bad_row);
    return OK;
}

static enum error collect_label(void *context, const struct postgres_row *row)
{
    struct postgres_store *store = context;
    return text_set_add(&store->labels.found, row->label.data, row->label.length, NULL);
}

static enum error collect_labels(struct postgres_store *store)
{
    struct walk walk = {
        .store = store, .keys_only = true, .visit = collect_label, .context = store};
    enum error error = walk_rows(&walk);
    if (!error)
        label_dictionary_finish(&store->labels);
    return error;
}

enum error postgres_store_inspect(struct postgres_store *store)
{
    const struct postgres_format *format = &store->table.format;
    struct inspection all = {.store = store, .is_u8 = true};
    enum element element = format->blob ? format->element : ELEMENT_U8;
    void *features = array_new(format->features + 1, element_bytes(element), "a row");
    if (!features)
        return ERROR_MEMORY;
    struct walk walk = {.store = store,
                        .element = element,
                        .features = features,
                        .visit = inspect_row,
                        .context = &all};
    enum error error = walk_rows(&walk);
    free(features);
    if (error)
        return error;
    store->store.info.rows = walk.rows;
    store->store.info.element = all.is_u8 ? ELEMENT_U8 : ELEMENT_F32;
    if (format->blob)
        store->store.info.element = format->element;
    store->labels.kind = format->label ? label_kind_of(&all.kinds) : LABEL_NONE;
    return store->labels.kind == LABEL_TEXT ? collect_labels(store) : OK;
}

/* ---- scan --------------------------------------------------------------- */

/* A block that fills. Texts are gathered, and found again by their offsets when it is full. */
struct scan {
    struct postgres_store *store;
    enum scan_columns columns;
    store_sink *sink;
    void *context;
    struct walk walk;
    size_t rows, row_bytes;
    int64_t first_row;
    int64_t ids[BLOCK_ROWS];
    struct text labels[BLOCK_ROWS], groups[BLOCK_ROWS];
    size_t label_at[BLOCK_ROWS], group_at[BLOCK_ROWS];
    double weights[BLOCK_ROWS], label_values[BLOCK_ROWS];
    enum row_status status[BLOCK_ROWS];
    uint8_t *features; /* owned; [BLOCK_ROWS] rows */
    char *texts;       /* owned */
    size_t text_bytes, text_capacity;
};

static enum error add_text(struct scan *scan, const struct text *text, size_t *ret_at,
                           struct text *ret_text)
{
    enum error error = array_grow((void **)&scan->texts, &scan->text_capacity,
                                  scan->text_bytes + text->length + 1, 1, "the labels of a block");
    if (error)
        return error;
    memcpy(scan->texts + scan->text_bytes, text->data, text->length);
    *ret_at = scan->text_bytes;
    ret_text->length = text->length;
    scan->text_bytes += text->length;
    return OK;
}

static enum error hand_out(struct scan *scan)
{
    const struct postgres_format *format = &scan->store->table.format;
    bool features = scan->columns & SCAN_FEATURES;
    if (scan->rows == 0)
        return OK;
    for (size_t i = 0; i < scan->rows; i++) {
        scan->labels[i].data = format->label ? scan->texts + scan->label_at[i] : "";
        scan->groups[i].data = format->group ? scan->texts + scan->group_at[i] : "";
    }
    struct store_block block = {
        .rows = scan->rows,
        .first_row = scan->first_row,
        .ids = scan->ids,
        .labels = scan->labels,
        .weights = format->weight ? scan->weights : NULL,
        .groups = format->group ? scan->groups : NULL,
        .label_values = features ? scan->label_values : NULL,
        .features = features ? scan->features : NULL,
        .status = scan->columns & SCAN_BAD_ROWS ? scan->status : NULL,
    };
    scan->first_row += (int64_t)scan->rows;
    scan->rows = 0;
    scan->text_bytes = 0;
    return scan->sink(scan->context, &block);
}

static enum error keep_features(struct scan *scan, const struct postgres_row *row)
{
    const struct postgres_store *store = scan->store;
    size_t i = scan->rows;
    scan->status[i] = row->status;
    scan->label_values[i] = 0;
    if (row->status == ROW_BAD) {
        memset(scan->walk.features, 0, scan->row_bytes);
        return scan->columns & SCAN_BAD_ROWS ? OK : ERROR_INPUT;
    }
    if ((!row->is_u8 && store->store.info.element == ELEMENT_U8) ||
        !label_value(&store->labels, row->label.data, row->label.length, &scan->label_values[i]))
        return postgres_store_prefix(store, postgres_store_refuse_other(), row->id);
    return OK;
}

static enum error keep_row(void *context, const struct postgres_row *row)
{
    struct scan *scan = context;
    size_t i = scan->rows;
    enum error error = scan->columns & SCAN_FEATURES ? keep_features(scan, row) : OK;
    scan->ids[i] = row->id;
    scan->weights[i] = row->weight;
    if (!error)
        error = add_text(scan, &row->label, &scan->label_at[i], &scan->labels[i]);
    if (!error)
        error = add_text(scan, &row->group, &scan->group_at[i], &scan->groups[i]);
    if (error)
        return error;
    scan->rows++;
    if (scan->rows == BLOCK_ROWS || scan->text_bytes > TEXTS_LIMIT_BYTES)
        error = hand_out(scan);
    if (scan->columns & SCAN_FEATURES)
        scan->walk.features = scan->features + scan->rows * scan->row_bytes;
    return error;
}

enum error postgres_store_scan(struct store *base, enum scan_columns columns, store_sink *sink,
                               void *context)
{
    struct postgres_store *store = (struct postgres_store *)base;
    bool features = columns & SCAN_FEATURES;
    struct scan *scan = array_new(1, sizeof(*scan), "a block of rows");
    if (!scan)
        return ERROR_MEMORY;
    scan->store = store;
    scan->columns = columns;
    scan->sink = sink;
    scan->context = context;
    scan->row_bytes = store->store.info.features * element_bytes(store->store.info.element);
    scan->features =
        features ? array_new(BLOCK_ROWS, scan->row_bytes + 1, "a block of rows") : NULL;
    scan->walk = (struct walk){.store = store,
                               .keys_only = !features,
                               .element = store->store.info.element,
                               .features = scan->features,
                               .visit = keep_row,
                               .context = scan};
    enum error error = features && !scan->features ? ERROR_MEMORY : walk_rows(&scan->walk);
    if (!error)
        error = hand_out(scan);
    if (!error && scan->first_row == 0)
        error = error_set(ERROR_INPUT, "postgresql:%s, table %s has no rows", store->place.shown,
                          store->table.name);
    free(scan->features);
    free(scan->texts);
    free(scan);
    return error;
}

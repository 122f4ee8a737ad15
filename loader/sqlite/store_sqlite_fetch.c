/* SPDX-License-Identifier: MIT */
/* Rows of an SQLite table by id, in ascending order: one prepared statement for a batch of ids, one
 * for ids that follow each other, one for a single id. */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/log.h"
#include "loader/sqlite/sqlite_file.h"
#include "loader/sqlite/sqlite_keys.h"
#include "loader/sqlite/sqlite_pages.h"
#include "loader/sqlite/sqlite_vfs.h"
#include "loader/sqlite/store_sqlite.h"
#include "loader/store/fetch_call.h"

#define RUN_ROWS 8 /* fewer consecutive ids are looked up like any others */
/* Pages that a run passes are not needed again: a few stay in the processor's cache. */
#define RUN_PAGES "PRAGMA cache_size=16"
#define TAKES_PAGES "PRAGMA mmap_size=1" /* of any size: the VFS decides for each page */

struct sqlite_reader {
    struct reader reader; /* first */
    struct sqlite_cursor cursor;
    sqlite3_stmt *run;            /* of the same connection; NULL: no run was requested yet */
    bool has_looked;              /* for `many` */
    sqlite3_stmt *many;           /* of the same connection; NULL: rows are looked up one by one */
    struct sqlite_keys keys;      /* of `many` */
    struct sqlite_pages *pages;   /* owned; for `many`; NULL: SQLite reads each page itself */
    struct sqlite_cursor lengths; /* zeroed: no lengths were requested yet */
    struct fetch_place *places;   /* owned; by id */
    size_t places_capacity;
};

enum error sqlite_reader_open(struct store *base, struct reader **ret_reader)
{
    const struct sqlite_store *store = (const struct sqlite_store *)base;
    struct sqlite_reader *reader = array_new(1, sizeof(*reader), "a reader of an SQLite file");
    if (!reader)
        return ERROR_MEMORY;
    enum error error = sqlite_cursor_open(&reader->cursor, store, store->fetch_sql);
    if (error) {
        free(reader);
        return error;
    }
    *ret_reader = &reader->reader;
    return OK;
}

void sqlite_reader_close(struct reader *base)
{
    struct sqlite_reader *reader = (struct sqlite_reader *)base;
    sqlite3_finalize(reader->run);
    sqlite3_finalize(reader->many);
    sqlite_cursor_close(&reader->cursor);
    sqlite_cursor_close(&reader->lengths);
    sqlite_pages_free(reader->pages);
    free(reader->places);
    free(reader);
}

static enum error find_row(const struct sqlite_store *store, struct sqlite_cursor *cursor,
                           int64_t id, bool *ret_row)
{
    int64_t key = id;
    sqlite3_reset(cursor->statement);
    if (store->table.row_name) {
        int64_t row = id_index_row(&store->ids, id);
        *ret_row = false;
        if (row < 0)
            return OK;
        key = store->row_numbers[row];
    }
    sqlite3_bind_int64(cursor->statement, 1, key);
    enum error error = sqlite_cursor_step(cursor, ret_row);
    return error ? error_prefix(error, "id %lld: ", (long long)id) : OK;
}

static enum error take_row(const struct sqlite_store *store, sqlite3_stmt *statement,
                           struct fetch_call *call, size_t index)
{
    const struct store_info *info = &store->store.info;
    struct sqlite_row decoded;
    const struct store_row *row = &decoded.row;
    double label = 0;
    enum error error = sqlite_decode_row(&store->format, statement, info->element,
                                         fetch_call_slot(call, index), &decoded);
    if (!error)
        error = store_row_check(row, call->ids[index], info, &store->labels, "the file", &label);
    if (error || row->status == ROW_BAD)
        sqlite_store_prefix(store, error, call->ids[index]);
    if (!error && row_limit_varies(&store->format.limit))
        fetch_call_length(call, index, row->length);
    if (!error)
        fetch_call_set(call, index, row->status, label);
    return error;
}

static void miss(const struct sqlite_store *store, struct fetch_call *call, size_t index)
{
    error_set(ERROR_INPUT, "%s, table \"%s\", has no row with the id %lld", store->path,
              store->table.name, (long long)call->ids[index]);
    fetch_call_set(call, index, ROW_MISSING, 0);
}

static enum error fetch_one(struct sqlite_reader *reader, struct fetch_call *call, size_t index)
{
    const struct sqlite_store *store = (const struct sqlite_store *)reader->reader.store;
    int64_t id = call->ids[index];
    bool there = false;
    enum error error = find_row(store, &reader->cursor, id, &there);
    if (error)
        return error;
    if (there)
        return take_row(store, reader->cursor.statement, call, index);
    miss(store, call, index);
    return OK;
}

/* ---- several ids -------------------------------------------------------- */

static enum error step(struct sqlite_reader *reader, sqlite3_stmt *statement, bool *ret_row)
{
    struct sqlite_cursor cursor = reader->cursor;
    const struct sqlite_keys *keys = &reader->keys;
    cursor.statement = statement;
    enum error error = sqlite_cursor_step(&cursor, ret_row);
    if (!error || statement != reader->many || keys->at >= keys->count)
        return error;
    return error_prefix(error, "id %lld: ", (long long)keys->places[keys->at].key);
}

/* Takes the rows of a statement that returns them by id. */
static enum error take_found(struct sqlite_reader *reader, struct fetch_call *call,
                             sqlite3_stmt *statement, const struct fetch_place *places,
                             size_t count)
{
    const struct sqlite_store *store = (const struct sqlite_store *)reader->reader.store;
    bool there = false;
    enum error error = step(reader, statement, &there);
    for (size_t i = 0; i < count && !error; i++) {
        if (i > 0 && places[i].key == places[i - 1].key) {
            fetch_call_copy(call, places[i - 1].index, places[i].index);
            continue;
        }
        if (!there || sqlite3_column_int64(statement, 0) != places[i].key) {
            miss(store, call, places[i].index);
            continue;
        }
        error = take_row(store, statement, call, places[i].index);
        if (!error)
            error = step(reader, statement, &there);
    }
    sqlite3_reset(statement);
    return error;
}

/* The root page of the table, if the statement for one id looks up one row number in one table, as
 * SQLite's program says; 0: it does not. */
static uint32_t find_root(const struct sqlite_reader *reader)
{
    const struct sqlite_store *store = (const struct sqlite_store *)reader->reader.store;
    struct sqlite_cursor cursor = reader->cursor;
    int tables = 0, searches = 0;
    int64_t root = 0;
    bool there = false;
    cursor.statement = NULL;
    char *sql = sqlite3_mprintf("EXPLAIN %s", store->fetch_sql);
    if (sql && !sqlite_prepare(cursor.connection, store->path, sql, &cursor.statement)) {
        while (!sqlite_cursor_step(&cursor, &there) && there) {
            const char *operation = (const char *)sqlite3_column_text(cursor.statement, 1);
            bool opens = operation && strcmp(operation, "OpenRead") == 0;
            root = opens ? sqlite3_column_int64(cursor.statement, 3) : root;
            tables += opens;
            searches += operation && strcmp(operation, "SeekRowid") == 0;
        }
    }
    sqlite3_finalize(cursor.statement);
    sqlite3_free(sql);
    return tables == 1 && searches == 1 ? (uint32_t)root : 0;
}

static void open_pages(struct sqlite_reader *reader, uint32_t root)
{
    const struct sqlite_store *store = (const struct sqlite_store *)reader->reader.store;
    sqlite3 *connection = reader->cursor.connection;
    reader->pages = sqlite_pages_new(sqlite_vfs_file(connection), root);
    if (reader->pages && sqlite_run(connection, store->path, TAKES_PAGES) == OK)
        sqlite_vfs_use_pages(connection, reader->pages);
}

/* Without it a reader is only slower. */
static void prepare_many(struct sqlite_reader *reader)
{
    const struct sqlite_store *store = (const struct sqlite_store *)reader->reader.store;
    sqlite3 *connection = reader->cursor.connection;
    static const char by_key[] =
        " FROM " SQLITE_KEYS_TABLE " CROSS JOIN $ WHERE @ = " SQLITE_KEYS_COLUMN;
    char *sql = NULL;
    uint32_t root = store->table.row_name ? 0 : find_root(reader);
    reader->has_looked = true;
    if (root == 0 || sqlite_keys_init(&reader->keys, connection, store->path) ||
        sqlite_table_select(&store->table, true, NULL, by_key, &sql) ||
        sqlite_prepare(connection, store->path, sql, &reader->many))
        log_debug("rows are looked up one by one");
    else
        open_pages(reader, root);
    free(sql);
}

static enum error fetch_many(struct sqlite_reader *reader, struct fetch_call *call,
                             const struct fetch_place *places, size_t count)
{
    reader->keys.places = places;
    reader->keys.count = count;
    reader->keys.at = 0;
    return take_found(reader, call, reader->many, places, count);
}

/* ---- consecutive ids ---------------------------------------------------- */

/* How many of the places, sorted and at least one, have ids that follow each other. */
static size_t count_run(const struct fetch_place *places, size_t count)
{
    size_t run = 1;
    while (run < count && places[run - 1].key < places[run].key &&
           places[run - 1].key + 1 == places[run].key)
        run++;
    return run;
}

/* How many there are before such a run. */
static size_t count_others(const struct fetch_place *places, size_t count)
{
    size_t others = 0;
    while (others < count) {
        size_t run = count_run(places + others, count - others);
        if (run >= RUN_ROWS)
            break;
        others += run;
    }
    return others;
}

static enum error prepare_run(struct sqlite_reader *reader)
{
    const struct sqlite_store *store = (const struct sqlite_store *)reader->reader.store;
    sqlite3 *connection = reader->cursor.connection;
    if (reader->run)
        return OK;
    enum error error = sqlite_run(connection, store->path, RUN_PAGES);
    return error ? error : sqlite_prepare(connection, store->path, store->run_sql, &reader->run);
}

static enum error fetch_run(struct sqlite_reader *reader, struct fetch_call *call,
                            const struct fetch_place *places, size_t count)
{
    enum error error = prepare_run(reader);
    if (error)
        return error;
    sqlite3_bind_int64(reader->run, 1, places[0].key);
    sqlite3_bind_int64(reader->run, 2, places[count - 1].key);
    return take_found(reader, call, reader->run, places, count);
}

/* The first id in an order. */
static bool read_end(const struct sqlite_reader *reader, const char *order, int64_t *ret_id)
{
    const struct sqlite_store *store = (const struct sqlite_store *)reader->reader.store;
    struct sqlite_cursor cursor = reader->cursor;
    char *sql = NULL;
    bool there = false;
    cursor.statement = NULL;
    enum error error = sqlite_table_select(&store->table, false, NULL, order, &sql);
    if (!error)
        error = sqlite_prepare(cursor.connection, store->path, sql, &cursor.statement);
    if (!error)
        error = sqlite_cursor_step(&cursor, &there);
    if (!error && there)
        *ret_id = sqlite3_column_int64(cursor.statement, 0);
    sqlite3_finalize(cursor.statement);
    free(sql);
    return !error && there;
}

bool sqlite_reader_has_run(struct reader *base, int64_t *ret_first)
{
    struct sqlite_reader *reader = (struct sqlite_reader *)base;
    const struct sqlite_store *store = (const struct sqlite_store *)base->store;
    int64_t last;
    return store->run_sql && !store->table.view &&
           read_end(reader, " FROM $ ORDER BY @ LIMIT 1", ret_first) && *ret_first >= 0 &&
           read_end(reader, " FROM $ ORDER BY @ DESC LIMIT 1", &last) && last >= *ret_first &&
           last - *ret_first == base->store->info.rows - 1;
}

/* ---- a batch ------------------------------------------------------------ */

/* Rows from place `at` on, at least one; *ret_count: how many. */
static enum error fetch_some(struct sqlite_reader *reader, struct fetch_call *call, size_t at,
                             size_t count, size_t *ret_count)
{
    const struct sqlite_store *store = (const struct sqlite_store *)reader->reader.store;
    const struct fetch_place *place = &reader->places[at];
    *ret_count = 1;
    if (at > 0 && place->key == place[-1].key) {
        fetch_call_copy(call, place[-1].index, place->index);
        return OK;
    }
    size_t run = store->run_sql ? count_run(place, count - at) : 1;
    if (run >= RUN_ROWS) {
        *ret_count = run;
        return fetch_run(reader, call, place, run);
    }
    if (!reader->has_looked && count - at > 1)
        prepare_many(reader);
    if (!reader->many)
        return fetch_one(reader, call, place->index);
    *ret_count = run + count_others(place + run, count - at - run);
    if (reader->pages)
        *ret_count = sqlite_pages_gather(reader->pages, place, *ret_count);
    return fetch_many(reader, call, place, *ret_count);
}

enum error sqlite_reader_fetch(struct reader *base, const int64_t *ids, size_t count,
                               void *features, size_t stride_bytes, double *labels,
                               enum row_status *status)
{
    struct sqlite_reader *reader = (struct sqlite_reader *)base;
    struct fetch_call call;
    fetch_call_init(&call, base, ids, features, stride_bytes, labels, status);
    enum error error = sqlite_cursor_check(&reader->cursor);
    if (!error)
        error = array_grow((void **)&reader->places, &reader->places_capacity, count,
                           sizeof(*reader->places), "a batch of rows");
    if (error)
        return error;
    for (size_t i = 0; i < count; i++)
        reader->places[i] = (struct fetch_place){.key = ids[i], .index = i};
    fetch_places_sort(reader->places, count);
    for (size_t i = 0, done; i < count && !error; i += done)
        error = fetch_some(reader, &call, i, count, &done);
    sqlite3_reset(reader->cursor.statement);
    error = sqlite_cursor_check_after(&reader->cursor, error);
    return error ? error : fetch_call_finish(&call);
}

enum error sqlite_reader_measure(struct reader *base, const int64_t *ids, size_t count,
                                 int64_t *lengths)
{
    struct sqlite_reader *reader = (struct sqlite_reader *)base;
    const struct sqlite_store *store = (const struct sqlite_store *)base->store;
    struct sqlite_cursor *cursor = &reader->lengths;
    enum error error =
        cursor->statement ? OK : sqlite_cursor_open(cursor, store, store->length_sql);
    for (size_t i = 0; i < count && !error; i++) {
        bool there = false;
        error = find_row(store, cursor, ids[i], &there);
        lengths[i] = there ? sqlite3_column_int64(cursor->statement, 0) /
                                 (int64_t)element_bytes(base->store->info.element)
                           : 0;
    }
    if (cursor->statement)
        sqlite3_reset(cursor->statement);
    return error ? error : sqlite_cursor_check(cursor);
}

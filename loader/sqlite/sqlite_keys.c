/* SPDX-License-Identifier: MIT */
#include "loader/sqlite/sqlite_keys.h"

#include "loader/sqlite/sqlite_file.h"

static struct sqlite_keys *keys_of(sqlite3_vtab_cursor *cursor)
{
    return (struct sqlite_keys *)cursor->pVtab;
}

static int keys_connect(sqlite3 *connection, void *context, int count, const char *const *words,
                        sqlite3_vtab **ret_table, char **ret_message)
{
    struct sqlite_keys *keys = context;
    (void)count;
    (void)words;
    (void)ret_message;
    *ret_table = &keys->table;
    return sqlite3_declare_vtab(connection, "CREATE TABLE x (" SQLITE_KEYS_COLUMN ")");
}

static int keys_disconnect(sqlite3_vtab *table)
{
    (void)table;
    return SQLITE_OK;
}

/* Always from the first key to the last. */
static int keys_best_index(sqlite3_vtab *table, sqlite3_index_info *plan)
{
    (void)table;
    plan->estimatedCost = 1;
    return SQLITE_OK;
}

static int keys_open(sqlite3_vtab *table, sqlite3_vtab_cursor **ret_cursor)
{
    *ret_cursor = &((struct sqlite_keys *)table)->cursor;
    return SQLITE_OK;
}

static int keys_close(sqlite3_vtab_cursor *cursor)
{
    (void)cursor;
    return SQLITE_OK;
}

static int keys_filter(sqlite3_vtab_cursor *cursor, int plan, const char *name, int count,
                       sqlite3_value **values)
{
    (void)plan;
    (void)name;
    (void)count;
    (void)values;
    keys_of(cursor)->at = 0;
    return SQLITE_OK;
}

static int keys_next(sqlite3_vtab_cursor *cursor)
{
    struct sqlite_keys *keys = keys_of(cursor);
    int64_t key = keys->places[keys->at].key;
    while (keys->at < keys->count && keys->places[keys->at].key == key)
        keys->at++;
    return SQLITE_OK;
}

static int keys_eof(sqlite3_vtab_cursor *cursor)
{
    const struct sqlite_keys *keys = keys_of(cursor);
    return keys->at >= keys->count;
}

static int keys_column(sqlite3_vtab_cursor *cursor, sqlite3_context *result, int column)
{
    const struct sqlite_keys *keys = keys_of(cursor);
    (void)column;
    sqlite3_result_int64(result, keys->places[keys->at].key);
    return SQLITE_OK;
}

static int keys_row(sqlite3_vtab_cursor *cursor, sqlite3_int64 *ret_row)
{
    *ret_row = (sqlite3_int64)keys_of(cursor)->at;
    return SQLITE_OK;
}

/* Without xCreate: the table is there without CREATE, under the module's name. */
static const sqlite3_module module = {
    .xConnect = keys_connect,
    .xBestIndex = keys_best_index,
    .xDisconnect = keys_disconnect,
    .xOpen = keys_open,
    .xClose = keys_close,
    .xFilter = keys_filter,
    .xNext = keys_next,
    .xEof = keys_eof,
    .xColumn = keys_column,
    .xRowid = keys_row,
};

enum error sqlite_keys_init(struct sqlite_keys *keys, sqlite3 *connection, const char *path)
{
    int result = sqlite3_create_module(connection, "tombola keys", &module, keys);
    return result == SQLITE_OK ? OK : sqlite_refuse(connection, result, path, "read it");
}

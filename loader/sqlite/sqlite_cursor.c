/* SPDX-License-Identifier: MIT */
#include "loader/sqlite/sqlite_file.h"
#include "loader/sqlite/sqlite_vfs.h"
#include "loader/sqlite/store_sqlite.h"

enum error sqlite_cursor_open(struct sqlite_cursor *cursor, const struct sqlite_store *store,
                              const char *sql)
{
    *cursor = (struct sqlite_cursor){.path = store->path};
    enum error error = sqlite_connect(store->path, &store->identity, &cursor->connection);
    if (!error)
        error = sqlite_prepare(cursor->connection, store->path, sql, &cursor->statement);
    if (error)
        sqlite_cursor_close(cursor);
    return error;
}

void sqlite_cursor_close(struct sqlite_cursor *cursor)
{
    sqlite3_finalize(cursor->statement);
    cursor->statement = NULL;
    sqlite3_close(cursor->connection);
    cursor->connection = NULL;
}

enum error sqlite_cursor_check(const struct sqlite_cursor *cursor)
{
    return source_file_check(sqlite_vfs_file(cursor->connection));
}

enum error sqlite_cursor_check_after(const struct sqlite_cursor *cursor, enum error error)
{
    struct error_report report;
    if (error && error != ERROR_INPUT)
        return error;
    error_report_take(error, &report);
    enum error changed = sqlite_cursor_check(cursor);
    return changed ? changed : error_restore(&report);
}

enum error sqlite_cursor_step(struct sqlite_cursor *cursor, bool *ret_row)
{
    int result = sqlite3_step(cursor->statement);
    if (result != SQLITE_ROW && result != SQLITE_DONE)
        return sqlite_refuse(cursor->connection, result, cursor->path, "read it");
    *ret_row = result == SQLITE_ROW;
    return OK;
}

enum error sqlite_store_prefix(const struct sqlite_store *store, enum error code, int64_t id)
{
    return error_prefix(code, "%s, table \"%s\", id %lld: ", store->path, store->table.name,
                        (long long)id);
}

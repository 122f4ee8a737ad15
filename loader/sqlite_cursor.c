#include "loader/sqlite_file.h"
#include "loader/store_sqlite.h"

static void disconnect(struct sqlite_cursor *cursor)
{
    sqlite3_finalize(cursor->statement);
    cursor->statement = NULL;
    sqlite3_close(cursor->connection);
    cursor->connection = NULL;
}

static enum error connect_again(struct sqlite_cursor *cursor)
{
    enum error error = sqlite_connect(&cursor->file, &cursor->connection);
    if (!error)
        error = sqlite_prepare(cursor->connection, cursor->path, cursor->sql, &cursor->statement);
    if (error)
        disconnect(cursor);
    return error;
}

enum error sqlite_cursor_open(struct sqlite_cursor *cursor, const struct sqlite_store *store,
                              const char *sql)
{
    *cursor = (struct sqlite_cursor){.path = store->path, .sql = sql};
    enum error error = source_file_open(&cursor->file, store->path, &store->identity);
    if (error)
        return error;
    error = connect_again(cursor);
    if (error)
        source_file_close(&cursor->file);
    return error;
}

void sqlite_cursor_close(struct sqlite_cursor *cursor)
{
    disconnect(cursor);
    source_file_close(&cursor->file);
}

enum error sqlite_cursor_heal(struct sqlite_cursor *cursor, int *attempt, int result)
{
    struct error_report report;
    error_report_take(sqlite_refuse(cursor->connection, result, cursor->path, "read it"), &report);
    enum error error = source_file_check(&cursor->file); /* not damaged, but written to? */
    if (error)
        return error;
    if (!sqlite_may_heal(result))
        return error_restore(&report);
    disconnect(cursor);
    do {
        error = source_file_reopen(&cursor->file, (*attempt)++, &report);
        if (error)
            return error;
        error = connect_again(cursor);
        error_report_take(error, &report);
    } while (error == ERROR_IO);
    return error;
}

enum error sqlite_store_prefix(const struct sqlite_store *store, enum error code, int64_t id)
{
    return error_prefix(code, "%s, table \"%s\", id %lld: ", store->path, store->table.name,
                        (long long)id);
}

/* SPDX-License-Identifier: MIT */
/*
 * Everything goes into a temporary file next to the final name, which is synced and renamed at the
 * end. The file's other contents are copied first: all tables but the imported one stay.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/file.h"
#include "common/stop.h"
#include "common/text.h"
#include "loader/sqlite/sqlite_facts.h"
#include "loader/sqlite/sqlite_file.h"
#include "loader/sqlite/sqlite_vfs.h"
#include "loader/store/store_kinds.h"
#include "loader/store/store_writer.h"

#define PROGRESS_STEPS 100000 /* of SQLite's virtual machine: some milliseconds */
#define CHANGE_COUNTER_AT 24  /* byte of the file's header, big-endian */
#define COPY_PAGES 1024       /* between two checks for a stop */

struct sqlite_writer {
    struct store_writer writer; /* first */
    char *path;                 /* owned; what a symbolic link leads to */
    bool replace;
    struct file_writer *file;
    sqlite3 *connection;
    sqlite3_stmt *insert;
    uint32_t kept_changes;       /* change counter of the file whose other tables are kept */
    struct file_identity before; /* of the file at the open; zeroed: there was none */
};

/* ---- existing files ----------------------------------------------------- */

/* The kind of a name in a file: "table", "view" or "" for nothing. */
static enum error find_kind(sqlite3 *connection, const char *path, const char *table, char out[16])
{
    sqlite3_stmt *statement = NULL;
    enum error error =
        sqlite_prepare(connection, path,
                       "SELECT type FROM sqlite_master WHERE name = ?1 COLLATE NOCASE"
                       " AND type IN ('table', 'view')",
                       &statement);
    if (error)
        return error;
    out[0] = '\0';
    sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
    int result = sqlite3_step(statement);
    if (result == SQLITE_ROW)
        snprintf(out, 16, "%s", (const char *)sqlite3_column_text(statement, 0));
    else if (result != SQLITE_DONE)
        error = sqlite_refuse(connection, result, path, "read it");
    sqlite3_finalize(statement);
    return error;
}

/* Is there more than the table and the facts about it? */
static enum error has_others(sqlite3 *connection, const char *path, const char *table,
                             bool *ret_has)
{
    sqlite3_stmt *statement = NULL;
    enum error error = sqlite_prepare(connection, path,
                                      "SELECT 1 FROM sqlite_master WHERE tbl_name COLLATE NOCASE"
                                      " NOT IN ('tombola', 'tombola_labels', ?1)",
                                      &statement);
    if (error)
        return error;
    sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
    *ret_has = sqlite3_step(statement) != SQLITE_DONE;
    sqlite3_finalize(statement);
    return OK;
}

/* No file, or an empty one. */
static enum error is_free(const char *path, bool *ret_free)
{
    struct stat status;
    *ret_free = true;
    if (stat(path, &status))
        return errno == ENOENT ? OK : error_set_errno(ERROR_IO, errno, "cannot look at %s", path);
    if (S_ISDIR(status.st_mode))
        return error_set(ERROR_USAGE, "%s is a folder; import writes a file", path);
    *ret_free = S_ISREG(status.st_mode) && status.st_size == 0;
    return OK;
}

static enum error look(sqlite3 *connection, const char *path, const char *table, bool *ret_may)
{
    struct sqlite_facts last, own = {.there = false};
    uint32_t changes = 0;
    char kind[16] = "";
    enum error error = sqlite_file_check(sqlite_vfs_file(connection), &changes);
    if (error)
        return error;
    error = sqlite_facts_read(&last, connection, path, NULL, changes);
    if (!error)
        error = find_kind(connection, path, table, kind);
    if (!error && kind[0])
        error = sqlite_facts_read(&own, connection, path, table, changes);
    *ret_may = !error && last.there && (!kind[0] || own.fresh);
    sqlite_facts_release(&last);
    sqlite_facts_release(&own);
    return error;
}

/* No file, an empty one, an imported one without that table, or an imported one not written to
 * since? */
static enum error may_write(const char *path, const char *table, bool *ret_may)
{
    sqlite3 *connection = NULL;
    enum error error = is_free(path, ret_may);
    if (error || *ret_may)
        return error;
    error = sqlite_connect(path, NULL, &connection);
    if (!error)
        error = look(connection, path, table, ret_may);
    sqlite3_close(connection);
    return error == ERROR_INPUT ? OK : error;
}

static enum error check_place(const char *path, const char *table)
{
    bool may = false;
    enum error error = may_write(path, table, &may);
    if (!error && !may)
        error = error_set(ERROR_CONFLICT,
                          "%s exists, and is not a file that import made, or its table %s is not; "
                          "name another one, or replace it with --force",
                          path, table);
    return error;
}

static enum error check_table(const char *table)
{
    char shown[TEXT_QUOTE_BYTES];
    if (table[0] && strncasecmp(table, "sqlite_", 7) != 0 && strcasecmp(table, "tombola") != 0 &&
        strcasecmp(table, "tombola_labels") != 0)
        return OK;
    return error_set(ERROR_USAGE, "a table of rows cannot be named %s",
                     text_quote(shown, sizeof(shown), table, strlen(table)));
}

/* ---- opening ------------------------------------------------------------ */

static bool has_label(const struct sqlite_writer *writer)
{
    return writer->writer.info->label_kind != LABEL_NONE;
}

static enum error run_format(struct sqlite_writer *writer, char *sql)
{
    enum error error = sql ? sqlite_run(writer->connection, writer->path, sql)
                           : error_set_memory(1024, "an SQLite statement");
    sqlite3_free(sql);
    return error;
}

/* Random rows are cheapest if a page holds a few of them; large rows are chains of pages. */
static int page_bytes(size_t row_bytes)
{
    if (row_bytes <= 1000)
        return 8192;
    return row_bytes <= 32768 ? 16384 : 65536;
}

static enum error drop_table(struct sqlite_writer *writer)
{
    char kind[16] = "";
    enum error error = find_kind(writer->connection, writer->path, writer->writer.table, kind);
    if (error || !kind[0])
        return error;
    return run_format(writer, sqlite3_mprintf("DROP %s \"%w\"", kind, writer->writer.table));
}

/* A name for the index of keys of a table: TABLE/keys, or if that is a table's, TABLE/keys2 and so
 * on. sqlite3_free() it. */
static enum error name_index(struct sqlite_writer *writer, const char *table, char **ret_name)
{
    sqlite3_stmt *statement = NULL;
    enum error error =
        sqlite_prepare(writer->connection, writer->path,
                       "WITH RECURSIVE tried(n, name) AS (SELECT 1, ?1 || '/keys' UNION ALL "
                       "SELECT n + 1, ?1 || '/keys' || (n + 1) FROM tried) "
                       "SELECT name FROM tried WHERE name COLLATE NOCASE NOT IN "
                       "(SELECT name FROM sqlite_master UNION ALL SELECT ?2) LIMIT 1",
                       &statement);
    if (error)
        return error;
    sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, writer->writer.table, -1, SQLITE_STATIC);
    int result = sqlite3_step(statement);
    if (result != SQLITE_ROW)
        error = sqlite_refuse(writer->connection, result, writer->path, "work with it");
    else if (!(*ret_name = sqlite3_mprintf("%s", sqlite3_column_text(statement, 0))))
        error = error_set_memory(strlen(table), "an index's name");
    sqlite3_finalize(statement);
    return error;
}

/* The index of keys of another table has the name of the one to be made. */
static enum error rename_index(struct sqlite_writer *writer, const char *table, const char *sql)
{
    const char *taken = writer->writer.table;
    char *head = sqlite3_mprintf("CREATE UNIQUE INDEX \"%w\"", taken);
    char *name = NULL;
    enum error error = head ? name_index(writer, table, &name)
                            : error_set_memory(strlen(taken), "an SQLite statement");
    if (!error && strncasecmp(sql, head, strlen(head)) == 0)
        error =
            run_format(writer, sqlite3_mprintf("DROP INDEX \"%w\"; CREATE UNIQUE INDEX \"%w\"%s",
                                               taken, name, sql + strlen(head)));
    sqlite3_free(name);
    sqlite3_free(head);
    return error;
}

static enum error free_name(struct sqlite_writer *writer)
{
    sqlite3_stmt *statement = NULL;
    char *table = NULL, *sql = NULL;
    enum error error = sqlite_prepare(
        writer->connection, writer->path,
        "SELECT tbl_name, sql FROM sqlite_master WHERE type = 'index' AND "
        "name = ?1 COLLATE NOCASE AND substr(name, 1, length(tbl_name) + 5) = tbl_name || '/keys'",
        &statement);
    if (error)
        return error;
    sqlite3_bind_text(statement, 1, writer->writer.table, -1, SQLITE_STATIC);
    if (sqlite3_step(statement) == SQLITE_ROW) {
        table = sqlite3_mprintf("%s", sqlite3_column_text(statement, 0));
        sql = sqlite3_mprintf("%s", sqlite3_column_text(statement, 1));
    }
    sqlite3_finalize(statement);
    if (table && sql)
        error = rename_index(writer, table, sql);
    sqlite3_free(table);
    sqlite3_free(sql);
    return error;
}

static enum error create_tables(struct sqlite_writer *writer)
{
    const struct store_info *info = writer->writer.info;
    uint64_t all = info->elements * element_bytes(info->element);
    size_t row_bytes = info->lengths == LENGTHS_ALIKE
                           ? info->features * element_bytes(info->element)
                           : (size_t)(all / (uint64_t)info->rows);
    enum error error =
        run_format(writer, sqlite3_mprintf("PRAGMA page_size=%d", page_bytes(row_bytes)));
    if (error)
        return error;
    error = drop_table(writer);
    if (!error)
        error = free_name(writer);
    if (error)
        return error;
    return run_format(
        writer,
        sqlite3_mprintf("BEGIN; CREATE TABLE \"%w\" (id INTEGER PRIMARY KEY%s%s%s, features BLOB "
                        "NOT NULL)",
                        writer->writer.table, has_label(writer) ? ", label NOT NULL" : "",
                        info->weight_column ? ", weight REAL NOT NULL" : "",
                        info->group_column ? ", \"group\" TEXT NOT NULL" : ""));
}

static enum error prepare_insert(struct sqlite_writer *writer)
{
    const struct store_info *info = writer->writer.info;
    char *sql = sqlite3_mprintf(
        "INSERT INTO \"%w\" (id%s%s%s, features) VALUES (?1%s%s%s, ?5)", writer->writer.table,
        has_label(writer) ? ", label" : "", info->weight_column ? ", weight" : "",
        info->group_column ? ", \"group\"" : "", has_label(writer) ? ", ?2" : "",
        info->weight_column ? ", ?3" : "", info->group_column ? ", ?4" : "");
    if (!sql)
        return error_set_memory(1024, "an SQLite statement");
    enum error error = sqlite_prepare(writer->connection, writer->path, sql, &writer->insert);
    sqlite3_free(sql);
    return error;
}

/* Building the index takes a while, during which SQLite calls nothing else. */
static int is_stopped(void *context)
{
    (void)context;
    return stop_requested();
}

/* Nobody else has the file, and any failure discards it: no journal, no syncs. */
static enum error connect_writer(struct sqlite_writer *writer)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    /* No other process uses the file, and on NFS the writer's lock would block SQLite's. */
    int result = sqlite3_open_v2(file_writer_temporary_path(writer->file), &writer->connection,
                                 flags, "unix-none");
    if (result != SQLITE_OK)
        return sqlite_refuse(writer->connection, result, writer->path, "create it");
    sqlite3_extended_result_codes(writer->connection, 1);
    sqlite3_progress_handler(writer->connection, PROGRESS_STEPS, is_stopped, NULL);
    return run_format(writer, sqlite3_mprintf("PRAGMA journal_mode=OFF;"
                                              "PRAGMA synchronous=OFF;"
                                              "PRAGMA cache_size=-16384;"));
}

static enum error copy_pages(struct sqlite_writer *writer, sqlite3 *from)
{
    int result = SQLITE_OK;
    sqlite3_backup *copy = sqlite3_backup_init(writer->connection, "main", from, "main");
    if (!copy)
        return sqlite_refuse(writer->connection, sqlite3_errcode(writer->connection), writer->path,
                             "copy its other tables");
    while (result == SQLITE_OK && !stop_requested())
        result = sqlite3_backup_step(copy, COPY_PAGES);
    sqlite3_backup_finish(copy);
    if (result == SQLITE_DONE)
        return OK;
    if (result == SQLITE_OK)
        return error_set(ERROR_CANCELLED, "stopped while the tables of %s were copied",
                         writer->path);
    return sqlite_refuse(from, result, writer->path, "copy its other tables");
}

/* A file that is not SQLite has nothing to keep; one that cannot be read may have. */
static enum error is_sqlite(const char *path, bool *ret_is)
{
    static const char magic[] = "SQLite format 3";
    char head[sizeof(magic)] = "";
    int descriptor = -1;
    bool free = true;
    *ret_is = false;
    enum error error = is_free(path, &free);
    if (!error && !free)
        error = file_open_read(path, &descriptor);
    if (error || free)
        return error;
    error = file_read_at(descriptor, path, head, sizeof(head), 0);
    close(descriptor);
    *ret_is = !error && memcmp(head, magic, sizeof(magic)) == 0;
    return error == ERROR_INPUT ? OK : error; /* shorter */
}

static enum error keep_others(struct sqlite_writer *writer)
{
    sqlite3 *from = NULL;
    bool is_database = false, others = false;
    enum error error = is_sqlite(writer->path, &is_database);
    if (error || !is_database)
        return error;
    error = sqlite_connect(writer->path, NULL, &from);
    if (!error)
        error = sqlite_file_check(sqlite_vfs_file(from), &writer->kept_changes);
    if (!error)
        error = sqlite_file_check_mode(sqlite_vfs_file(from));
    if (!error)
        error = has_others(from, writer->path, writer->writer.table, &others);
    if (!error && others)
        error = copy_pages(writer, from);
    sqlite3_close(from);
    return error;
}

/* Zeroes: there is none. */
static enum error identify(const char *path, struct file_identity *ret_identity)
{
    *ret_identity = (struct file_identity){.size_bytes = 0};
    return access(path, F_OK) && errno == ENOENT ? OK : file_identity_at(path, ret_identity);
}

/* Another import into the file, or any other program, may have written what would be lost, or have
 * left a journal that SQLite would apply to the new file. */
static enum error check_meanwhile(const struct sqlite_writer *writer)
{
    const char *table = writer->writer.table;
    struct file_identity now;
    sqlite3 *from = NULL;
    bool may = true, is_database = false, others = false;
    enum error error = sqlite_check_journals(writer->path);
    if (!error)
        error = identify(writer->path, &now);
    if (error || file_identity_equal(&now, &writer->before))
        return error;
    if (!writer->replace)
        error = may_write(writer->path, table, &may);
    if (!error)
        error = is_sqlite(writer->path, &is_database);
    if (!error && is_database)
        error = sqlite_connect(writer->path, NULL, &from);
    if (!error && is_database)
        error = has_others(from, writer->path, table, &others);
    sqlite3_close(from);
    if (!error && (!may || others))
        error = error_set(ERROR_CONFLICT,
                          "%s: another program wrote to it meanwhile, which would be lost; nothing "
                          "was changed, import again",
                          writer->path);
    return error;
}

static void disconnect(struct sqlite_writer *writer)
{
    sqlite3_finalize(writer->insert);
    writer->insert = NULL;
    sqlite3_close(writer->connection);
    writer->connection = NULL;
}

static void sqlite_writer_close(struct store_writer *base)
{
    struct sqlite_writer *writer = (struct sqlite_writer *)base;
    disconnect(writer);
    file_writer_close(writer->file);
    free(writer->path);
    free(writer);
}

static enum error sqlite_writer_open(struct uri *uri, const char *table, bool replace,
                                     struct store_writer **ret_writer)
{
    struct file_identity before;
    enum error error = check_table(table);
    if (!error)
        error = identify(uri->path, &before);
    if (!error && !replace)
        error = check_place(uri->path, table);
    struct sqlite_writer *writer =
        error ? NULL : array_new(1, sizeof(*writer), "writing an SQLite file");
    if (!writer)
        return error ? error : ERROR_MEMORY;
    writer->before = before;
    writer->replace = replace;
    writer->writer.place = uri->path;
    writer->writer.table = writer->writer.replaces = table;
    writer->path = file_real_path(uri->path);
    if (!writer->path) {
        sqlite_writer_close(&writer->writer);
        return ERROR_MEMORY;
    }
    *ret_writer = &writer->writer;
    return OK;
}

static enum error sqlite_writer_begin(struct store_writer *base)
{
    struct sqlite_writer *writer = (struct sqlite_writer *)base;
    enum error error = sqlite_check_journals(writer->path);
    if (!error)
        error = file_writer_open(writer->path, &writer->file);
    if (!error)
        error = connect_writer(writer);
    if (!error)
        error = keep_others(writer);
    if (!error)
        error = create_tables(writer);
    return error ? error : prepare_insert(writer);
}

/* ---- rows --------------------------------------------------------------- */

static void bind_text(sqlite3_stmt *statement, int at, const struct text *text)
{
    sqlite3_bind_text64(statement, at, text->data, text->length, SQLITE_STATIC, SQLITE_UTF8);
}

static void bind_label(struct sqlite_writer *writer, const struct store_block *block, size_t i)
{
    if (writer->writer.info->label_kind == LABEL_INTEGER)
        sqlite3_bind_int64(writer->insert, 2, (int64_t)block->label_values[i]);
    else if (writer->writer.info->label_kind != LABEL_NONE)
        bind_text(writer->insert, 2, &block->labels[i]);
}

static enum error refuse_row(struct sqlite_writer *writer, int result, int64_t id)
{
    if ((result & 0xff) == SQLITE_CONSTRAINT)
        return error_set(ERROR_INPUT, "%s: two rows have the id %" PRId64, writer->writer.info->uri,
                         id);
    return sqlite_refuse(writer->connection, result, writer->path, "write it");
}

static enum error add_row(struct sqlite_writer *writer, const struct store_block *block, size_t i,
                          const uint8_t *features, size_t row_bytes)
{
    sqlite3_bind_int64(writer->insert, 1, block->ids[i]);
    bind_label(writer, block, i);
    if (writer->writer.info->weight_column)
        sqlite3_bind_double(writer->insert, 3, block->weights[i]);
    if (writer->writer.info->group_column)
        bind_text(writer->insert, 4, &block->groups[i]);
    int result = row_bytes > 0
                     ? sqlite3_bind_blob64(writer->insert, 5, features, row_bytes, SQLITE_STATIC)
                     : sqlite3_bind_zeroblob(writer->insert, 5, 0);
    if (result == SQLITE_OK)
        result = sqlite3_step(writer->insert);
    sqlite3_reset(writer->insert);
    return result == SQLITE_DONE ? OK : refuse_row(writer, result, block->ids[i]);
}

static enum error sqlite_writer_add(struct store_writer *base, const struct store_block *block)
{
    struct sqlite_writer *writer = (struct sqlite_writer *)base;
    const uint8_t *features = block->features;
    enum error error = OK;
    for (size_t i = 0; i < block->rows && !error; i++) {
        size_t bytes = store_block_row_bytes(block, i, base->info);
        error = add_row(writer, block, i, features, bytes);
        features += bytes;
    }
    return error;
}

/* ---- the end ------------------------------------------------------------ */

/* Over everything but the features: SCAN_KEYS then reads 20 bytes per row instead of all. */
static enum error create_index(struct sqlite_writer *writer)
{
    const struct store_info *info = writer->writer.info;
    char *name = NULL;
    enum error error = name_index(writer, writer->writer.table, &name);
    if (error)
        return error;
    char *sql = sqlite3_mprintf("CREATE UNIQUE INDEX \"%w\" ON \"%w\" (id%s%s%s)", name,
                                writer->writer.table, has_label(writer) ? ", label" : "",
                                info->weight_column ? ", weight" : "",
                                info->group_column ? ", \"group\"" : "");
    int result = sql ? sqlite3_exec(writer->connection, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    if (result == SQLITE_CORRUPT) /* what SQLite makes of EIO, also in its temporary file */
        result = SQLITE_IOERR_READ;
    if (result != SQLITE_OK)
        error = sqlite_refuse(writer->connection, result, writer->path,
                              "sort its keys, for which SQLite makes a temporary file in "
                              "SQLITE_TMPDIR, TMPDIR or /var/tmp");
    sqlite3_free(sql);
    sqlite3_free(name);
    return error;
}

static enum error read_changes(struct sqlite_writer *writer, uint32_t *ret_changes)
{
    uint8_t bytes[4];
    int descriptor = -1;
    enum error error = file_open_read(file_writer_temporary_path(writer->file), &descriptor);
    if (error)
        return error;
    error = file_read_at(descriptor, writer->path, bytes, sizeof(bytes), CHANGE_COUNTER_AT);
    close(descriptor);
    if (!error)
        *ret_changes = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 |
                       (uint32_t)bytes[2] << 8 | (uint32_t)bytes[3];
    return error;
}

static enum error write_facts(struct sqlite_writer *writer)
{
    uint32_t changes = 0;
    uint32_t changes_now = 0;
    enum error error = read_changes(writer, &changes);
    if (!error)
        error = sqlite_run(writer->connection, writer->path, "BEGIN");
    if (!error) /* each transaction increments the counter */
        error = sqlite_facts_write(writer->writer.table, writer->writer.info,
                                   writer->writer.digest_text, writer->kept_changes, changes + 1,
                                   writer->connection, writer->path);
    if (!error)
        error = sqlite_run(writer->connection, writer->path, "COMMIT");
    if (!error)
        error = read_changes(writer, &changes_now);
    if (!error && changes_now != changes + 1)
        error =
            error_set(ERROR_IO, "%s: SQLite counts changes differently from what its manual says",
                      writer->path);
    return error;
}

static enum error sqlite_writer_finish(struct store_writer *base, const char **ret_path)
{
    struct sqlite_writer *writer = (struct sqlite_writer *)base;
    const char *temporary = file_writer_temporary_path(writer->file);
    struct stat status;
    enum error error = sqlite_run(writer->connection, writer->path, "COMMIT; BEGIN");
    if (!error)
        error = create_index(writer);
    if (!error)
        error = sqlite_run(writer->connection, writer->path, "COMMIT");
    if (!error)
        error = write_facts(writer);
    disconnect(writer);
    if (!error && stat(temporary, &status))
        error = error_set_errno(ERROR_IO, errno, "cannot look at %s", writer->path);
    if (error)
        return error;
    base->bytes = (uint64_t)status.st_size;
    *ret_path = temporary;
    return OK;
}

static enum error sqlite_writer_publish(struct store_writer *base)
{
    struct sqlite_writer *writer = (struct sqlite_writer *)base;
    /* A sync may take long: next to no time lies between the check and the rename. */
    enum error error = file_writer_sync(writer->file);
    if (!error)
        error = check_meanwhile(writer);
    return error ? error : file_writer_publish(writer->file);
}

const struct store_writer_ops store_writer_sqlite_ops = {.store = &store_sqlite_ops,
                                                         .has_table = true,
                                                         .open = sqlite_writer_open,
                                                         .begin = sqlite_writer_begin,
                                                         .add = sqlite_writer_add,
                                                         .finish = sqlite_writer_finish,
                                                         .publish = sqlite_writer_publish,
                                                         .close = sqlite_writer_close};

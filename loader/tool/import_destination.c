/* SPDX-License-Identifier: MIT */
#include "loader/tool/import_destination.h"

#include <string.h>
#include <strings.h>

#include "common/text.h"
#include "loader/postgres/postgres_writer.h"
#include "loader/rows/rows_writer.h"
#include "loader/sqlite/sqlite_writer.h"
#include "loader/store/store_files.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

struct import_kind {
    const char *scheme;
    const char *endings; /* of bare paths; NULL: none is of this kind */
    bool is_server;
    bool has_table;
    enum error (*check)(struct import_destination *destination, bool force) MUST_CHECK;
    enum error (*begin)(struct import_destination *destination,
                        const struct store_info *info) MUST_CHECK;
    enum error (*add)(void *writer, const struct store_block *block) MUST_CHECK;
    enum error (*commit)(void *writer) MUST_CHECK;
    void (*close)(void *writer);
    void (*describe)(const struct import_destination *destination,
                     struct import_result *ret_result);
};

/* ---- SQLite ------------------------------------------------------------- */

static enum error check_table(const char *table)
{
    char shown[TEXT_QUOTE_BYTES];
    if (table[0] && strncasecmp(table, "sqlite_", 7) != 0 && strcasecmp(table, "tombola") != 0 &&
        strcasecmp(table, "tombola_labels") != 0)
        return OK;
    return error_set(ERROR_USAGE, "a table of rows cannot be called %s",
                     text_quote(shown, sizeof(shown), table, strlen(table)));
}

static enum error check_sqlite(struct import_destination *destination, bool force)
{
    const char *path = destination->uri.path;
    bool may = false;
    enum error error = check_table(destination->table);
    if (error || force)
        return error;
    error = sqlite_writer_may_write(path, destination->table, &may);
    if (!error && !may)
        error = error_set(ERROR_CONFLICT,
                          "%s exists, and is not a file that import made, or its table %s is not; "
                          "name another one, or replace it with --force",
                          path, destination->table);
    return error;
}

static enum error begin_sqlite(struct import_destination *destination,
                               const struct store_info *info)
{
    struct sqlite_writer *writer = NULL;
    enum error error = sqlite_writer_open(destination->uri.path, destination->table, info, &writer);
    destination->writer = writer;
    return error;
}

static enum error add_sqlite(void *writer, const struct store_block *block)
{
    return sqlite_writer_add(writer, block);
}

static enum error commit_sqlite(void *writer)
{
    return sqlite_writer_commit(writer);
}

static void close_sqlite(void *writer)
{
    sqlite_writer_close(writer);
}

static void describe_sqlite(const struct import_destination *destination,
                            struct import_result *ret_result)
{
    *ret_result = (struct import_result){.place = destination->uri.path,
                                         .digest = sqlite_writer_digest(destination->writer),
                                         .bytes = sqlite_writer_bytes(destination->writer)};
}

/* ---- row files ---------------------------------------------------------- */

static enum error check_rows(struct import_destination *destination, bool force)
{
    const char *path = destination->uri.path;
    bool may = false;
    enum error error = rows_writer_may_write(path, &may);
    if (!error && !may && !force)
        error = error_set(ERROR_CONFLICT,
                          "%s exists, and is not a whole row file, which import would have made; "
                          "name another one, or replace it with --force",
                          path);
    return error;
}

static enum error begin_rows(struct import_destination *destination, const struct store_info *info)
{
    struct rows_writer *writer = NULL;
    enum error error = rows_writer_open(destination->uri.path, info, &writer);
    destination->writer = writer;
    return error;
}

static enum error add_rows(void *writer, const struct store_block *block)
{
    return rows_writer_add(writer, block);
}

static enum error commit_rows(void *writer)
{
    return rows_writer_commit(writer);
}

static void close_rows(void *writer)
{
    rows_writer_close(writer);
}

static void describe_rows(const struct import_destination *destination,
                          struct import_result *ret_result)
{
    *ret_result = (struct import_result){.place = destination->uri.path,
                                         .digest = rows_writer_digest(destination->writer),
                                         .bytes = rows_writer_bytes(destination->writer)};
}

/* ---- PostgreSQL --------------------------------------------------------- */

#ifdef HAVE_LIBPQ

static enum error check_postgres(struct import_destination *destination, bool force)
{
    struct postgres_writer *writer = NULL;
    enum error error = postgres_writer_open(&destination->uri, destination->table, force, &writer);
    destination->writer = writer;
    return error;
}

static enum error begin_postgres(struct import_destination *destination,
                                 const struct store_info *info)
{
    return postgres_writer_begin(destination->writer, info);
}

static enum error add_postgres(void *writer, const struct store_block *block)
{
    return postgres_writer_add(writer, block);
}

static enum error commit_postgres(void *writer)
{
    return postgres_writer_commit(writer);
}

static void close_postgres(void *writer)
{
    postgres_writer_close(writer);
}

static void describe_postgres(const struct import_destination *destination,
                              struct import_result *ret_result)
{
    *ret_result = (struct import_result){.place = postgres_writer_place(destination->writer),
                                         .digest = postgres_writer_digest(destination->writer),
                                         .bytes = postgres_writer_bytes(destination->writer)};
}

#else

static enum error check_postgres(struct import_destination *destination, bool force)
{
    (void)destination;
    (void)force;
    return error_set(ERROR_UNAVAILABLE, "this program was built without PostgreSQL");
}

#endif

/* ---- the kinds ---------------------------------------------------------- */

static const struct import_kind kinds[] = {
    {.scheme = "sqlite",
     .endings = ".sqlite|.sqlite3|.db",
     .has_table = true,
     .check = check_sqlite,
     .begin = begin_sqlite,
     .add = add_sqlite,
     .commit = commit_sqlite,
     .close = close_sqlite,
     .describe = describe_sqlite},
    {.scheme = "rows",
     .endings = ".rows",
     .check = check_rows,
     .begin = begin_rows,
     .add = add_rows,
     .commit = commit_rows,
     .close = close_rows,
     .describe = describe_rows},
    {.scheme = "postgresql",
     .is_server = true,
     .has_table = true,
     .check = check_postgres,
#ifdef HAVE_LIBPQ
     .begin = begin_postgres,
     .add = add_postgres,
     .commit = commit_postgres,
     .close = close_postgres,
     .describe = describe_postgres
#endif
    },
};

static const struct import_kind *find_kind(const struct uri *uri)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (uri->scheme[0] ? strcmp(uri->scheme, kinds[i].scheme) == 0
                           : kinds[i].endings && store_path_ends_in(uri->path, kinds[i].endings))
            return &kinds[i];
    }
    return NULL;
}

enum error import_destination_init(struct import_destination *destination, const char *text)
{
    char shown[TEXT_QUOTE_BYTES];
    *destination = (struct import_destination){.kind = NULL};
    enum error error = uri_init(&destination->uri, text);
    if (error)
        return error;
    destination->kind = find_kind(&destination->uri);
    if (!destination->kind) {
        uri_release(&destination->uri);
        return error_set(
            ERROR_USAGE,
            "%s: import writes row files and tables of SQLite and PostgreSQL: rows:PATH, "
            "sqlite:PATH[?table=NAME], a path ending in .rows, .sqlite, .sqlite3 or .db, or "
            "postgresql://USER@HOST/DATABASE[?table=NAME]",
            text_quote(shown, sizeof(shown), text, strlen(text)));
    }
    if (destination->kind->has_table) {
        const char *table = uri_query_get(&destination->uri.query, "table");
        destination->table = table ? table : "samples";
    }
    return OK;
}

void import_destination_release(struct import_destination *destination)
{
    if (destination->writer)
        destination->kind->close(destination->writer);
    uri_release(&destination->uri);
}

bool import_destination_is_server(const struct import_destination *destination)
{
    return destination->kind->is_server;
}

enum error import_destination_check(struct import_destination *destination, bool force)
{
    enum error error = destination->kind->is_server /* whose driver knows more parameters */
                           ? OK
                           : uri_query_finish(&destination->uri.query);
    return error ? error : destination->kind->check(destination, force);
}

enum error import_destination_begin(struct import_destination *destination,
                                    const struct store_info *info)
{
    return destination->kind->begin(destination, info);
}

enum error import_destination_add(struct import_destination *destination,
                                  const struct store_block *block)
{
    return destination->kind->add(destination->writer, block);
}

enum error import_destination_commit(struct import_destination *destination,
                                     struct import_result *ret_result)
{
    enum error error = destination->kind->commit(destination->writer);
    if (!error)
        destination->kind->describe(destination, ret_result);
    return error;
}

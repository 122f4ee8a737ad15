/* SPDX-License-Identifier: MIT */
/*
 * `tombola-loader import SOURCE-URI DEST-URI`: any store into a table of an SQLite file or of a
 * PostgreSQL server. All or nothing: the table is there when it is complete and on the disk.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/clock.h"
#include "common/hang.h"
#include "common/options.h"
#include "common/stop.h"
#include "common/text.h"
#include "common/uri.h"
#include "loader/postgres/postgres_writer.h"
#include "loader/sqlite/sqlite_writer.h"
#include "loader/store/scan_apart.h"
#include "loader/store/store.h"
#include "loader/store/store_files.h"
#include "loader/store_apart.h"
#include "loader/tool/commands.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* ---- where to ----------------------------------------------------------- */

struct destination {
    struct uri uri;
    const char *table; /* borrowed from uri */
    struct sqlite_writer *sqlite;
    struct postgres_writer *postgres; /* one of them writes */
};

static bool is_postgres(const struct destination *destination)
{
    return strcmp(destination->uri.scheme, "postgresql") == 0;
}

static enum error check_scheme(const char *text, const struct uri *uri)
{
    char shown[TEXT_QUOTE_BYTES];
    bool bare = store_path_ends_in(uri->path, ".sqlite|.sqlite3|.db");
    if (strcmp(uri->scheme, "sqlite") == 0 || strcmp(uri->scheme, "postgresql") == 0 ||
        (!uri->scheme[0] && bare))
        return OK;
    return error_set(
        ERROR_USAGE,
        "%s: import writes tables of SQLite and PostgreSQL: sqlite:PATH[?table=NAME], a path "
        "ending in .sqlite, .sqlite3 or .db, or postgresql://USER@HOST/DATABASE[?table=NAME]",
        text_quote(shown, sizeof(shown), text, strlen(text)));
}

static enum error check_table(const char *table)
{
    char shown[TEXT_QUOTE_BYTES];
    if (table[0] && strncasecmp(table, "sqlite_", 7) != 0 && strcasecmp(table, "tombola") != 0 &&
        strcasecmp(table, "tombola_labels") != 0)
        return OK;
    return error_set(ERROR_USAGE, "a table of rows cannot be called %s",
                     text_quote(shown, sizeof(shown), table, strlen(table)));
}

static enum error check_file(const struct destination *destination, bool force)
{
    const char *path = destination->uri.path;
    bool may = false;
    if (force)
        return OK;
    enum error error = sqlite_writer_may_write(path, destination->table, &may);
    if (!error && !may)
        error = error_set(ERROR_CONFLICT,
                          "%s exists, and is not a file that import made, or its table %s is not; "
                          "name another one, or replace it with --force",
                          path, destination->table);
    return error;
}

static enum error connect_server(struct destination *destination, bool force)
{
#ifdef HAVE_LIBPQ
    return postgres_writer_open(&destination->uri, destination->table, force,
                                &destination->postgres);
#else
    (void)destination;
    (void)force;
    return error_set(ERROR_UNAVAILABLE, "this program was built without PostgreSQL");
#endif
}

static enum error destination_init(struct destination *destination, const char *text, bool force)
{
    const char *table = uri_query_get(&destination->uri.query, "table");
    destination->table = table ? table : "samples";
    enum error error = check_scheme(text, &destination->uri);
    if (!error && is_postgres(destination))
        return connect_server(destination, force);
    if (!error)
        error = uri_query_finish(&destination->uri.query);
    if (!error)
        error = check_table(destination->table);
    return error ? error : check_file(destination, force);
}

static void destination_release(struct destination *destination)
{
    sqlite_writer_close(destination->sqlite);
#ifdef HAVE_LIBPQ
    postgres_writer_close(destination->postgres);
#endif
    uri_release(&destination->uri);
}

/* ---- rows --------------------------------------------------------------- */

static enum error begin(struct destination *destination, const struct store_info *info)
{
#ifdef HAVE_LIBPQ
    if (destination->postgres)
        return postgres_writer_begin(destination->postgres, info);
#endif
    return sqlite_writer_open(destination->uri.path, destination->table, info,
                              &destination->sqlite);
}

static enum error add_block(void *context, const struct store_block *block)
{
    struct destination *destination = context;
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped before everything was imported; nothing was "
                                          "left");
#ifdef HAVE_LIBPQ
    if (destination->postgres)
        return postgres_writer_add(destination->postgres, block);
#endif
    return sqlite_writer_add(destination->sqlite, block);
}

static enum error commit(struct destination *destination)
{
#ifdef HAVE_LIBPQ
    if (destination->postgres)
        return postgres_writer_commit(destination->postgres);
#endif
    return sqlite_writer_commit(destination->sqlite);
}

static void report(const struct destination *destination, const struct store_info *info,
                   int64_t start_ns)
{
    const char *place = destination->uri.path, *digest = "";
    uint64_t bytes = 0;
    if (destination->sqlite) {
        bytes = sqlite_writer_bytes(destination->sqlite);
        digest = sqlite_writer_digest(destination->sqlite);
    }
#ifdef HAVE_LIBPQ
    if (destination->postgres) {
        place = postgres_writer_place(destination->postgres);
        bytes = postgres_writer_bytes(destination->postgres);
        digest = postgres_writer_digest(destination->postgres);
    }
#endif
    printf("%s: table %s, %" PRId64 " %s of %zu %s %s, %.1f MB in %.1f s, digest %s\n", place,
           destination->table, info->rows, text_plural(info->rows, "row", "rows"), info->features,
           element_names[info->element], text_plural(info->features, "feature", "features"),
           (double)bytes / 1e6, (double)(clock_now_ns() - start_ns) / 1e9, digest);
}

static enum error copy_rows(struct store *store, struct destination *destination)
{
    const struct store_info *info = store_info(store);
    int64_t start_ns = clock_now_ns();
    enum error error = begin(destination, info);
    if (!error)
        error = store_scan_apart(store, SCAN_FEATURES, add_block, destination);
    if (!error)
        error = commit(destination);
    if (!error)
        report(destination, info, start_ns);
    return error;
}

static enum error import_into(struct destination *destination, const char *source, const char *text,
                              bool force)
{
    struct store *store = NULL;
    enum error error = destination_init(destination, text, force);
    if (!error)
        error = store_open_apart(source, 0, NULL, 0, &store);
    if (!error && store_info(store)->first_bad_row)
        error = error_set(ERROR_INPUT, "%s", store_info(store)->first_bad_row);
    if (!error) {
        store_warn_of_labels(store_info(store));
        error = copy_rows(store, destination);
    }
    destination_release(destination);
    store_close(store);
    return error;
}

/* A server's writer has deadlines of its own, and undoes there what it began. */
static enum error import(const char *source, const char *text, bool force)
{
    struct destination destination = {.table = NULL};
    struct hang hang;
    enum error error = uri_init(&destination.uri, text);
    if (error)
        return error;
    if (is_postgres(&destination))
        return import_into(&destination, source, text, force);
    hang_begin(&hang, HANG_MS,
               "while the disk of %s does not answer; what has that name is whole, and what was "
               "written beside it is removed by the next import",
               destination.uri.path);
    error = import_into(&destination, source, text, force);
    hang_end(&hang);
    return error;
}

static enum error run(const struct program *program, int argc, char **argv)
{
    bool force = false;
    char **words;
    const struct option options[] = {
        {.name = "force",
         .type = OPTION_FLAG,
         .target = &force,
         .help = "replace a destination that import did not make, or that was written to since"},
    };
    enum error error = options_parse(program, &command_import, options,
                                     sizeof(options) / sizeof(options[0]), argc, argv, &words);
    return error ? error : import(words[0], words[1], force);
}

const struct command command_import = {
    .name = "import",
    .positional = "SOURCE-URI DEST-URI",
    .summary = "copy a store into a table of SQLite or PostgreSQL",
    .details =
        "Rows are read once to find what they are and once to be copied. The table is there when\n"
        "it is complete; until then a file or a table in its place stays unchanged, also when "
        "import\n"
        "fails or is stopped. In an SQLite file a table that import made is replaced, any other "
        "is\n"
        "not, and the other tables stay; PostgreSQL's tables are replaced with --force only.\n"
        "\n"
        "  tombola-loader import 'csv:mnist_train.csv?label=0&header=no' sqlite:mnist.sqlite\n"
        "  tombola-loader import people.csv 'sqlite:people.sqlite?table=people'\n"
        "  tombola-loader import people.csv 'postgresql://me@db/data?table=people'\n",
    .run = run,
};

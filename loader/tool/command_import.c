/* SPDX-License-Identifier: MIT */
/*
 * `tombola-loader import SOURCE-URI DEST-URI`: any store into an SQLite file. All or nothing: the
 * file appears under its name when it is complete and on the disk.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/clock.h"
#include "common/options.h"
#include "common/stop.h"
#include "common/text.h"
#include "common/uri.h"
#include "loader/sqlite/sqlite_writer.h"
#include "loader/store/store.h"
#include "loader/store/store_files.h"
#include "loader/store_open.h"
#include "loader/tool/commands.h"

static enum error check_destination(const char *text, const struct uri *uri)
{
    char shown[TEXT_QUOTE_BYTES];
    const char *path = uri->path;
    bool bare = store_path_ends_in(path, ".sqlite|.sqlite3|.db");
    if (strcmp(uri->scheme, "sqlite") == 0 || (!uri->scheme[0] && bare))
        return OK;
    return error_set(
        ERROR_USAGE,
        "%s: import writes SQLite files: sqlite:PATH[?table=NAME], or a path ending in "
        ".sqlite, .sqlite3 or .db",
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

static enum error read_destination(const char *text, struct uri *uri, const char **ret_table)
{
    enum error error = uri_init(uri, text);
    if (error)
        return error;
    const char *table = uri_query_get(&uri->query, "table");
    table = table ? table : "samples";
    error = check_destination(text, uri);
    if (!error)
        error = uri_query_finish(&uri->query);
    if (!error)
        error = check_table(table);
    if (error)
        uri_release(uri);
    else
        *ret_table = table;
    return error;
}

static enum error check_replace(const char *path, const char *table, bool force)
{
    bool may = false;
    if (force)
        return OK;
    enum error error = sqlite_writer_may_write(path, table, &may);
    if (!error && !may)
        error = error_set(ERROR_CONFLICT,
                          "%s exists, and is not a file that import made, or its table %s is not; "
                          "name another one, or replace it with --force",
                          path, table);
    return error;
}

static enum error add_block(void *context, const struct store_block *block)
{
    if (stop_requested())
        return error_set(ERROR_CANCELLED, "stopped before everything was imported; nothing was "
                                          "left");
    return sqlite_writer_add(context, block);
}

static enum error copy_rows(struct store *store, const char *path, const char *table)
{
    const struct store_info *info = store_info(store);
    struct sqlite_writer *writer = NULL;
    int64_t start_ns = clock_now_ns();
    enum error error = sqlite_writer_open(path, table, info, &writer);
    if (!error)
        error = store_scan(store, SCAN_FEATURES, add_block, writer);
    if (!error)
        error = sqlite_writer_commit(writer);
    if (!error)
        printf("%s: table %s, %" PRId64 " %s of %zu %s %s, %.1f MB in %.1f s, digest %s\n", path,
               table, info->rows, text_plural(info->rows, "row", "rows"), info->features,
               info->element == ELEMENT_U8 ? "u8" : "f32",
               text_plural(info->features, "feature", "features"),
               (double)sqlite_writer_bytes(writer) / 1e6, (double)(clock_now_ns() - start_ns) / 1e9,
               sqlite_writer_digest(writer));
    sqlite_writer_close(writer);
    return error;
}

static enum error import(const char *source, const char *destination, bool force)
{
    struct uri uri;
    const char *table = NULL;
    struct store *store = NULL;
    enum error error = read_destination(destination, &uri, &table);
    if (error)
        return error;
    error = check_replace(uri.path, table, force);
    if (!error)
        error = store_open(source, false, &store);
    if (!error && store_info(store)->first_bad_row)
        error = error_set(ERROR_INPUT, "%s", store_info(store)->first_bad_row);
    if (!error) {
        store_warn_of_labels(store_info(store));
        error = copy_rows(store, uri.path, table);
    }
    store_close(store);
    uri_release(&uri);
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
    .summary = "copy a store into an SQLite file",
    .details =
        "Rows are read once to find what they are and once to be copied. The file appears under\n"
        "its name when it is complete; until then an existing file stays unchanged, also when "
        "import\n"
        "fails or is stopped. A table that import made is replaced, any other is not; the other\n"
        "tables of a file stay.\n"
        "\n"
        "  tombola-loader import 'csv:mnist_train.csv?label=0&header=no' sqlite:mnist.sqlite\n"
        "  tombola-loader import people.csv 'sqlite:people.sqlite?table=people'\n",
    .run = run,
};

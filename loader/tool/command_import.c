/* SPDX-License-Identifier: MIT */
/*
 * `tombola-loader import SOURCE-URI DEST-URI`: any store into a row file, or a table of an SQLite
 * file or of a PostgreSQL server. All or nothing: the result appears when it is complete and on
 * disk.
 */
#include <inttypes.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/command/options.h"
#include "common/hang.h"
#include "common/log.h"
#include "common/text.h"
#include "loader/store/feature_range.h"
#include "loader/store/scan_apart.h"
#include "loader/store/store.h"
#include "loader/store_apart.h"
#include "loader/tool/commands.h"
#include "loader/tool/import_destination.h"

static void report(const struct store_writer *writer, int64_t start_ns)
{
    const struct store_info *info = writer->info;
    printf("%s: ", writer->place);
    if (writer->table)
        printf("table %s, ", writer->table);
    printf("%" PRId64 " %s of %s%zu %s %s, %.1f MB in %.1f s, digest %s\n", info->rows,
           text_plural(info->rows, "row", "rows"), info->lengths != LENGTHS_ALIKE ? "up to " : "",
           info->lengths != LENGTHS_ALIKE ? info->longest : info->features,
           element_names[info->element], text_plural(info->features, "feature", "features"),
           (double)writer->bytes / 1e6, (double)(clock_now_ns() - start_ns) / 1e9,
           writer->digest_text);
}

/* Warns if integers were probably read as floats. */
static enum error look_at_values(struct store *store)
{
    struct feature_range range;
    enum error error = feature_range_find(store, &range);
    if (!error && feature_range_is_rounded(&range))
        log_warning("%s: features are " FEATURE_RANGE_ROUNDED, store_info(store)->uri);
    return error;
}

static enum error copy_rows(struct store *store, struct import_destination *destination)
{
    int64_t start_ns = clock_now_ns();
    enum error error = store_writer_begin(destination->writer, store_info(store));
    if (!error)
        error = store_scan_apart(store, SCAN_FEATURES, store_writer_add, destination->writer);
    if (!error)
        error = import_destination_commit(destination);
    if (!error)
        report(destination->writer, start_ns);
    return error;
}

static enum error import_into(struct import_destination *destination, const char *source,
                              bool force)
{
    struct store *store = NULL;
    enum error error = import_destination_open(destination, force);
    if (!error)
        error = store_open_apart(source, &(struct store_open_options){.keys_only = false}, &store);
    if (!error)
        error = import_destination_check_source(destination, source, store);
    if (!error && store_info(store)->first_bad_row)
        error = error_set(ERROR_INPUT, "%s", store_info(store)->first_bad_row);
    if (!error) {
        store_warn_of_labels(store_info(store));
        error = look_at_values(store);
    }
    if (!error)
        error = copy_rows(store, destination);
    import_destination_release(destination);
    store_close(store);
    return error;
}

/* A server's writer has its own deadlines, and undoes there what it began. */
static enum error import(const char *source, const char *text, bool force)
{
    struct import_destination destination;
    struct hang hang;
    enum error error = import_destination_init(&destination, text);
    if (error)
        return error;
    if (destination.ops->is_server)
        return import_into(&destination, source, force);
    hang_begin(&hang, HANG_MS,
               "while the disk of %s does not answer; what has that name is whole, and what was "
               "written beside it is removed by the next import",
               destination.uri.path);
    error = import_into(&destination, source, force);
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
         .help = "replace a destination that import did not create, or that has been "
                 "modified since"},
    };
    enum error error = options_parse(program, &command_import, options,
                                     sizeof(options) / sizeof(options[0]), argc, argv, &words);
    return error ? error : import(words[0], words[1], force);
}

const struct command command_import = {
    .name = "import",
    .positional = "SOURCE-URI DEST-URI",
    .summary = "copy a store into a row file, or a table of SQLite or PostgreSQL",
    .details =
        "Reads the rows once to find their columns, once to copy them, then reads the copy back\n"
        "and compares it. The destination appears only after that: if import fails or is stopped,\n"
        "whatever was there is unchanged, unless the message says that the new one is in its "
        "place.\n"
        "A row file (rows:) is the fastest store to fetch from. It is replaced as a whole; in an\n"
        "SQLite file, only the table is, and only if import created it; a PostgreSQL table is\n"
        "replaced with --force only. The source is never replaced.\n"
        "\n"
        "  tombola-loader import 'csv:mnist_train.csv?label=0&header=no' rows:mnist.rows\n"
        "  tombola-loader import 'csv:mnist_train.csv?label=0&header=no' sqlite:mnist.sqlite\n"
        "  tombola-loader import people.csv 'sqlite:people.sqlite?table=people'\n"
        "  tombola-loader import people.csv 'postgresql://me@db/data?table=people'\n",
    .run = run,
};

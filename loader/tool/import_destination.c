/* SPDX-License-Identifier: MIT */
#include "loader/tool/import_destination.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "config.h"

#include "common/text.h"
#include "loader/cache/cache_key.h"
#include "loader/store/store_files.h"
#include "loader/store_open.h"

static const struct store_writer_ops *const kinds[] = {
    &store_writer_rows_ops,
    &store_writer_sqlite_ops,
#ifdef HAVE_LIBPQ
    &store_writer_postgres_ops,
#endif
};

static const struct store_writer_ops *find_kind(const struct uri *uri)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct store_ops *store = kinds[i]->store;
        if (uri->scheme[0] ? strcmp(uri->scheme, store->scheme) == 0
                           : store->endings && store_path_ends_in(uri->path, store->endings))
            return kinds[i];
    }
    return NULL;
}

static enum error refuse_kind(const char *text, const struct uri *uri)
{
    char shown[TEXT_QUOTE_BYTES];
    if (strcmp(uri->scheme, "postgresql") == 0) /* its URI may hold a password */
        return error_set(ERROR_UNAVAILABLE, "this program was built without PostgreSQL");
    text_quote(shown, sizeof(shown), text, strlen(text));
    return error_set(
        ERROR_USAGE,
        "%s: import writes row files and tables of SQLite and PostgreSQL: rows:PATH, "
        "sqlite:PATH[?table=NAME], a path ending in .rows, .sqlite, .sqlite3 or .db, or "
        "postgresql://USER@HOST/DATABASE[?table=NAME]",
        shown);
}

/* Files are published whole under their names, so none can go to standard output. */
static bool is_standard_output(const struct import_destination *destination)
{
    return !destination->ops->is_server && strcmp(destination->uri.path, "-") == 0;
}

enum error import_destination_init(struct import_destination *destination, const char *text)
{
    *destination = (struct import_destination){.text = text};
    enum error error = uri_init(&destination->uri, text);
    if (error)
        return error;
    destination->ops = find_kind(&destination->uri);
    if (!destination->ops)
        error = refuse_kind(text, &destination->uri);
    else if (is_standard_output(destination))
        error = error_set(ERROR_USAGE,
                          "%s does not name a file: what import writes is written aside and "
                          "renamed, and not to standard output (%s:./- is a file of that name)",
                          text, destination->uri.scheme);
    if (error) {
        uri_release(&destination->uri);
        return error;
    }
    if (destination->ops->has_table) {
        const char *table = uri_query_get(&destination->uri.query, "table");
        destination->table = table ? table : "samples";
    }
    return OK;
}

void import_destination_release(struct import_destination *destination)
{
    store_writer_close(destination->writer);
    uri_release(&destination->uri);
}

/* A link is followed to the file that is replaced; where there is none yet, the rows would take the
 * link's own place. */
static enum error check_link(const char *path)
{
    struct stat status;
    if (lstat(path, &status) || !S_ISLNK(status.st_mode) || !stat(path, &status) || errno != ENOENT)
        return OK;
    return error_set(ERROR_USAGE,
                     "%s is a symbolic link to a file that does not exist; name that file, or "
                     "remove the link",
                     path);
}

enum error import_destination_open(struct import_destination *destination, bool force)
{
    enum error error = OK;
    if (!destination->ops->is_server) { /* its driver knows more parameters */
        error = uri_query_finish(&destination->uri.query);
        if (!error)
            error = check_link(destination->uri.path);
    }
    return error ? error
                 : store_writer_open(destination->ops, &destination->uri, destination->table, force,
                                     &destination->writer);
}

/* ---- the source --------------------------------------------------------- */

static bool is_same_file(const char *a, const char *b)
{
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* *ret_file: which of its files is also the destination's; "": none. */
static enum error find_file(const struct import_destination *destination, const char *source,
                            char *ret_file, size_t bytes)
{
    struct cache_source files;
    enum error error = cache_source_init(&files, source);
    if (!error)
        error = store_note_source(source, &files);
    for (size_t at = 0; at < files.files.length && !error && !ret_file[0];) {
        const char *path = files.files.data + at;
        if (is_same_file(path, destination->uri.path))
            snprintf(ret_file, bytes, "%s", path);
        at += strlen(path) + 1;
    }
    cache_source_release(&files);
    return error == ERROR_UNAVAILABLE ? OK : error; /* for stores that are not files */
}

/* For a server, compares the store's name, "postgresql:SERVER, table NAME", or the server's own
 * identity. */
static bool is_same_server(const struct import_destination *destination,
                           const struct store_info *info)
{
    const char *server = destination->writer->database;
    size_t length = strlen(destination->writer->place);
    if (server && info->database && strcmp(server, info->database) == 0)
        return true;
    return strncmp(info->uri, destination->writer->place, length) == 0 && info->uri[length] == ',';
}

static bool is_same_database(const struct import_destination *destination,
                             const struct store_info *info)
{
    if (!info->table)
        return false;
    if (destination->ops->is_server)
        return is_same_server(destination, info);
    return info->database && is_same_file(info->database, destination->uri.path);
}

/* If the database is the same. A file of a kind without tables is replaced as a whole. */
static bool is_replaced(const struct import_destination *destination, const struct store_info *info)
{
    const char *replaces = destination->writer->replaces;
    if (destination->ops->is_server)
        return replaces && strcmp(replaces, info->table) == 0;
    return !replaces || strcasecmp(replaces, info->table) == 0;
}

static enum error refuse_source(const char *place, const char *table)
{
    return error_set(ERROR_CONFLICT,
                     "%s%s%s is what is imported from: its rows would take its place, and what "
                     "import does not keep would be gone; import into another one, and rename that",
                     place, table ? ", table " : "", table ? table : "");
}

/* Another table of the same file or server is not affected. */
static enum error check_tables(const struct import_destination *destination,
                               const struct store *source, bool *ret_beside)
{
    const char *place =
        destination->ops->is_server ? destination->writer->place : destination->uri.path;
    const struct store *part;
    for (size_t i = 0; (part = store_part(source, i)); i++) {
        const struct store_info *info = store_info(part);
        if (!is_same_database(destination, info))
            continue;
        *ret_beside = true;
        if (is_replaced(destination, info))
            return refuse_source(place, info->table);
    }
    return OK;
}

enum error import_destination_check_source(const struct import_destination *destination,
                                           const char *uri, const struct store *source)
{
    char file[PATH_MAX] = "";
    bool beside = false;
    enum error error = check_tables(destination, source, &beside);
    if (!error && !beside && !destination->ops->is_server)
        error = find_file(destination, uri, file, sizeof(file));
    return error || !file[0] ? error : refuse_source(file, NULL);
}

/* ---- the end ------------------------------------------------------------ */

static enum error read_server_back(const struct import_destination *destination)
{
    struct uri uri;
    enum error error = uri_init(&uri, destination->text);
    if (error)
        return error;
    if (!uri_query_get(&uri.query, "table"))
        error = uri_query_add(&uri.query, "table", destination->table);
    if (!error)
        error = store_writer_read_back(destination->writer, &uri);
    uri_release(&uri);
    return error ? error_prefix(
                       error, "the table %s is there, but was not read back: ", destination->table)
                 : OK;
}

enum error import_destination_commit(struct import_destination *destination)
{
    enum error error = store_writer_commit(destination->writer);
    return error || !destination->ops->is_server ? error : read_server_back(destination);
}

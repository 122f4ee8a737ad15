/* SPDX-License-Identifier: MIT */
#include "loader/store_uri.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

#include "common/file.h"
#include "common/text.h"
#include "loader/store/store_kinds.h"

static const struct store_ops *const kinds[] = {
    &store_csv_ops,      &store_idx_ops,  &store_parquet_ops,
    &store_range_ops,    &store_rows_ops, &store_sqlite_ops,
#ifdef HAVE_LIBPQ
    &store_postgres_ops,
#endif
};

#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

const struct store_ops *store_kind_find(const struct uri *uri)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (uri->scheme[0] ? strcmp(uri->scheme, kinds[i]->scheme) == 0
                           : kinds[i]->endings && store_path_ends_in(uri->path, kinds[i]->endings))
            return kinds[i];
    }
    return NULL;
}

/* Common kinds of files, and what makes a store of them. */
static const struct {
    const char *endings, *advice;
} others[] = {
    {".gz", "a compressed file is a store only if it is CSV or IDX (csv:PATH, idx:PATH); unpack "
            "others (gzip -d)"},
    {".bz2", "files compressed like this are not read; unpack it (bzip2 -d)"},
    {".xz", "files compressed like this are not read; unpack it (xz -d)"},
    {".zst", "a compressed file is a store only if it is CSV or IDX (csv:PATH, idx:PATH); unpack "
             "others (zstd -d)"},
    {".zip", "files compressed like this are not read; unpack it (unzip)"},
    {".txt", "rows of text are csv:PATH, whatever the file is called (delimiter=tab, ; or | in the "
             "URI where it is no comma)"},
    {".json|.jsonl|.ndjson",
     "JSON is not read; make it CSV (DuckDB: COPY (FROM 'x.json') TO 'x.csv')"},
    {".xlsx|.xls|.ods", "spreadsheets are not read; save it as CSV in UTF-8"},
    {".feather|.arrow", "Arrow files are not read; make it CSV (pandas: read_feather(\"x.feather\")"
                        ".to_csv(\"x.csv\", index=False))"},
    {".tfrecord|.tfrecords", "TensorFlow's records are not read; write their features as CSV"},
    {".npy|.npz",
     "NumPy's format is not read; make it CSV (numpy.savetxt(\"x.csv\", x, delimiter=\",\"))"},
};

static enum error refuse_kind(const char *text, const struct uri *uri)
{
    char shown[TEXT_QUOTE_BYTES];
    const char *place = strstr(text, "://");
    bool may_hold_password = place && strchr(place, '@');
    text_quote(shown, sizeof(shown), text,
               may_hold_password ? (size_t)(place - text) : strlen(text));
    if (strcmp(uri->scheme, "postgresql") == 0)
        return error_set(ERROR_UNAVAILABLE,
                         "this build has no PostgreSQL store (it was made without libpq); csv:, "
                         "sqlite:, idx:, rows: and range: are there");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (store_path_ends_in(uri->path, others[i].endings))
            return error_set(ERROR_USAGE, "%s: %s", shown, others[i].advice);
    }
    return error_set(
        ERROR_USAGE,
        "%s: which kind of store is that? csv:PATH, parquet:PATH, sqlite:PATH, rows:PATH, "
        "idx:PATH, range:N and postgresql://HOST/DATABASE?table=NAME are known, and bare paths "
        "ending in .csv, .tsv, .idx, -idx3-ubyte (.gz or .zst behind it), .sqlite, .sqlite3, .db, "
        ".parquet or .rows",
        shown);
}

enum error store_uri_init(struct store_uri *store, const char *text)
{
    store->files = (struct store_files){.paths = NULL};
    enum error error = uri_init(&store->uri, text);
    if (error)
        return error;
    store->ops = store_kind_find(&store->uri);
    if (!store->ops)
        error = refuse_kind(text, &store->uri);
    else if (store->ops->endings)
        error = store_files_find(&store->files, store->uri.path, store->ops->endings);
    if (error)
        uri_release(&store->uri);
    return error;
}

void store_uri_release(struct store_uri *store)
{
    store_files_release(&store->files);
    uri_release(&store->uri);
}

enum error store_uri_visit_files(const struct store_uri *store,
                                 enum error (*visit)(void *, const char *path), void *context)
{
    enum error error = OK;
    if (!store->ops->endings)
        return OK;
    if (!store->files.paths)
        return visit(context, store->uri.path);
    for (size_t i = 0; i < store->files.count && !error; i++)
        error = visit(context, store->files.paths[i]);
    return error;
}

enum error store_uris_visit(const char *text, enum error (*visit)(void *, const char *uri),
                            void *context)
{
    size_t count = 0;
    enum error error = OK;
    if (!strchr(text, '\n'))
        return visit(context, text);
    for (const char *at = text; *at && !error;) {
        size_t length = strcspn(at, "\n");
        char *line = strndup(at, length);
        if (!line)
            error = error_set_memory(length, "a store's URI");
        else if (length > 0)
            error = visit(context, line);
        count += length > 0;
        free(line);
        at += length + (at[length] == '\n');
    }
    if (!error && count == 0)
        error = error_set(ERROR_USAGE, "no URI of a store, but empty lines");
    return error;
}

static enum error check_file(void *context, const char *path)
{
    int descriptor;
    enum error error = file_as_input(file_open_read(path, &descriptor), path);
    (void)context;
    if (!error)
        close(descriptor);
    return error;
}

static enum error check_uri(void *context, const char *text)
{
    struct store_uri store;
    enum error error = store_uri_init(&store, text);
    if (error)
        return error;
    error = store_uri_visit_files(&store, check_file, context);
    store_uri_release(&store);
    return error;
}

enum error store_check_uri(const char *uri)
{
    return store_uris_visit(uri, check_uri, NULL);
}

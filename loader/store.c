#include "loader/store.h"

#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "loader/store_kinds.h"

static const struct store_ops *const kinds[] = {&store_csv_ops, &store_range_ops,
                                                &store_sqlite_ops};

#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

size_t element_bytes(enum element element)
{
    return element == ELEMENT_U8 ? 1 : 4;
}

/* Does `path` end in one of `endings` (".csv|.tsv")? */
static bool ends_in(const char *path, const char *endings)
{
    size_t path_length = strlen(path);
    while (endings && *endings) {
        size_t length = strcspn(endings, "|");
        if (path_length > length && strncmp(path + path_length - length, endings, length) == 0)
            return true;
        endings += length + (endings[length] == '|');
    }
    return false;
}

static const struct store_ops *find_kind(const struct uri *uri)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (uri->scheme[0] ? strcmp(uri->scheme, kinds[i]->scheme) == 0
                           : ends_in(uri->path, kinds[i]->endings))
            return kinds[i];
    }
    return NULL;
}

static enum error refuse_kind(const char *text, const struct uri *uri)
{
    char shown[TEXT_QUOTE_BYTES];
    text_quote(shown, sizeof(shown), text, strlen(text));
    if (strcmp(uri->scheme, "postgresql") == 0)
        return error_set(
            ERROR_USAGE,
            "%s: this build has no PostgreSQL store; csv:, sqlite: and range: are there", shown);
    return error_set(ERROR_USAGE,
                     "%s: which kind of store is that? csv:PATH, sqlite:PATH and range:N are "
                     "known, and bare paths ending in .csv, .tsv, .sqlite, .sqlite3 or .db",
                     shown);
}

enum error store_open(const char *uri_text, bool keys_only, struct store **ret_store)
{
    struct uri uri;
    struct store *store = NULL;
    enum error error = uri_init(&uri, uri_text);
    if (error)
        return error;
    char *copy = strdup(uri_text);
    const struct store_ops *ops = find_kind(&uri);
    if (!copy)
        error = error_set_memory(strlen(uri_text), "a store's URI");
    else if (!ops)
        error = refuse_kind(uri_text, &uri);
    else
        error = ops->open(&uri, keys_only, &store);
    uri_release(&uri);
    if (error) {
        free(copy);
        return error;
    }
    store->ops = ops;
    store->info.uri = copy;
    *ret_store = store;
    return OK;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    char *uri = (char *)store->info.uri;
    store->ops->close(store);
    free(uri);
}

const struct store_info *store_info(const struct store *store)
{
    return &store->info;
}

enum error store_scan(struct store *store, enum scan_columns columns, store_sink *sink,
                      void *context)
{
    return store->ops->scan(store, columns, sink, context);
}

enum error reader_open(struct store *store, struct reader **ret_reader)
{
    enum error error = store->ops->reader_open(store, ret_reader);
    if (!error)
        (*ret_reader)->store = store;
    return error;
}

void reader_close(struct reader *reader)
{
    if (reader)
        reader->store->ops->reader_close(reader);
}

enum error reader_fetch(struct reader *reader, const int64_t *ids, size_t count, void *features,
                        size_t stride_bytes, double *labels, enum row_status *status)
{
    return reader->store->ops->fetch(reader, ids, count, features, stride_bytes, labels, status);
}

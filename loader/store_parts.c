/* SPDX-License-Identifier: MIT */
#include "loader/store_parts.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/buffer.h"
#include "common/file.h"
#include "common/log.h"
#include "loader/column/feature_recipe.h"
#include "loader/store/row_slots.h"
#include "loader/store/store_union.h"
#include "loader/store_uri.h"

#define NAME_LIMIT_BYTES ((size_t)256 << 20) /* of a list */

/* store_recipe_find() has read it; the kind of store need not know its parameters. */
static enum error pass_over_request(struct uri *uri)
{
    struct recipe_request request;
    enum error error = recipe_request_read(&request, uri);
    recipe_request_release(&request);
    return error;
}

/* One store. `shown` is its URI in messages. */
static enum error open_kind(const struct store_parts *parts, const struct store_ops *ops,
                            struct uri *uri, const char *shown, struct store **ret_store)
{
    struct store *store = NULL;
    char *copy = strdup(shown);
    if (!copy)
        return error_set_memory(strlen(shown), "a store's URI");
    const struct store_open_options *options = &parts->options;
    const struct read_options wanted = {.keys_only = options->keys_only,
                                        .columns = options->columns,
                                        .column_count = options->column_count,
                                        .recipe = options->keys_only ? NULL : options->recipe,
                                        .cache_bytes = options->cache.bytes};
    enum error error = ops->takes_recipe ? pass_over_request(uri) : OK;
    if (!error)
        error = ops->open(uri, &wanted, &store);
    if (error) {
        free(copy);
        return ops->endings ? file_as_input(error, uri->path) : error;
    }
    store->ops = ops;
    if (store->info.uri) /* the store has its own name for it, without a password */
        free(copy);
    else
        store->info.uri = copy;
    *ret_store = store;
    return OK;
}

/* A row cache of several stores reads them again, so rows kept by the first store are dropped. */
static void keep_no_rows(struct store_parts *parts)
{
    struct store *first = parts->stores[0];
    struct row_slots slots;
    const struct id_index *ids;
    if (parts->options.cache.bytes > 0 && first->ops->take_rows &&
        first->ops->take_rows(first, &slots, &ids))
        row_slots_release(&slots);
    parts->options.cache.bytes = 0;
}

/* `text` is the URI as given, `shown` the store's name in messages. A store without rows is skipped
 * in a union: programs that write a file for each of their parts produce such. */
static enum error add_part(struct store_parts *parts, const struct store_ops *ops, struct uri *uri,
                           const char *text, const char *shown)
{
    struct store *store = NULL;
    const char *parameters = strrchr(text, '?');
    if (parts->count > 0)
        keep_no_rows(parts);
    enum error error = array_grow((void **)&parts->stores, &parts->capacity, parts->count + 1,
                                  sizeof(struct store *), "a list of stores");
    if (!error && ops->endings)
        error = duplicate_files_add(&parts->files, uri->path, parameters ? parameters : "");
    if (!error)
        error = open_kind(parts, ops, uri, shown, &store);
    if (!error)
        parts->stores[parts->count++] = store;
    if (!store_is_without_rows(error))
        return error;
    error_report_take(error, &parts->empty);
    parts->empty_count++;
    return OK;
}

/* The URI again, for one of the files of its path. */
static enum error add_file(struct store_parts *parts, const struct store_ops *ops, const char *text,
                           const char *path)
{
    struct uri uri;
    enum error error = uri_init(&uri, text);
    if (error)
        return error;
    free(uri.path);
    uri.path = strdup(path);
    error = uri.path ? add_part(parts, ops, &uri, text, path)
                     : error_set_memory(strlen(path), "a file's name");
    uri_release(&uri);
    return error;
}

/* All stores of one URI. */
static enum error add_uri(void *context, const char *text)
{
    struct store_parts *parts = context;
    struct store_uri store;
    enum error error = store_uri_init(&store, text);
    if (error)
        return error;
    if (!store.files.paths)
        error = add_part(parts, store.ops, &store.uri, text, text);
    for (size_t i = 0; store.files.paths && i < store.files.count && !error; i++)
        error = add_file(parts, store.ops, text, store.files.paths[i]);
    store_uri_release(&store);
    return error;
}

/* The list as given, or each store's own name: a server's has no password. free() it. */
static enum error name_whole(const struct store_parts *parts, const char *text, char **ret_name)
{
    struct buffer names = BUFFER_INIT(NAME_LIMIT_BYTES);
    bool are_files = true;
    for (size_t i = 0; i < parts->count; i++)
        are_files &= parts->stores[i]->ops->endings != NULL;
    for (size_t i = 0; i < parts->count && !are_files; i++)
        buffer_print(&names, "%s%s", i > 0 ? " " : "", store_info(parts->stores[i])->uri);
    if (are_files)
        buffer_add_text(&names, text);
    for (size_t i = 0; i < names.length; i++)
        names.data[i] = names.data[i] == '\n' ? ' ' : names.data[i];
    return buffer_take(&names, ret_name);
}

static enum error unite(struct store_parts *parts, const char *text, struct store **ret_store)
{
    struct store *whole;
    char *name = NULL;
    size_t count = parts->count;
    enum error error = name_whole(parts, text, &name);
    if (error)
        return error;
    parts->count = 0; /* the union takes them, also on failure */
    error = store_union_new(parts->stores, count, parts->options.keys_only, &whole);
    if (error) {
        free(name);
        return error;
    }
    whole->info.uri = name;
    *ret_store = whole;
    return OK;
}

static enum error check_empty(const struct store_parts *parts)
{
    if (parts->empty_count > 0 && parts->count == 0)
        return error_restore(&parts->empty);
    if (parts->empty_count > 0)
        log_warning("%zu of %zu stores without rows passed over; the last of them: %s",
                    parts->empty_count, parts->empty_count + parts->count, parts->empty.message);
    return OK;
}

enum error store_parts_open(struct store_parts *parts, const struct store_open_options *options,
                            const char *text)
{
    *parts = (struct store_parts){.options = *options};
    enum error error = store_uris_visit(text, add_uri, parts);
    return error ? error : check_empty(parts);
}

enum error store_parts_unite(struct store_parts *parts, const char *text, struct store **ret_store)
{
    if (parts->count > 1)
        return unite(parts, text, ret_store);
    *ret_store = parts->stores[--parts->count];
    return OK;
}

void store_parts_release(struct store_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        store_close(parts->stores[i]);
    free(parts->stores);
    duplicate_files_release(&parts->files);
}

/* SPDX-License-Identifier: MIT */
#include "loader/store_open.h"

#include <string.h>

#include "common/log.h"
#include "loader/cache/kept_store.h"
#include "loader/column/feature_recipe.h"
#include "loader/store_parts.h"
#include "loader/store_recipe.h"
#include "loader/store_uri.h"

static enum error open_parts(const struct store_open_options *options, const char *text,
                             struct store **ret_store)
{
    struct store_parts parts;
    enum error error = store_parts_open(&parts, options, text);
    if (!error)
        error = store_parts_unite(&parts, text, ret_store);
    store_parts_release(&parts);
    return error;
}

/* Not from a folder. */
static enum error open_itself(const char *uri, const struct store_open_options *options,
                              struct store **ret_store)
{
    struct store_open_options chosen = *options;
    enum error error = store_recipe_find(options, uri, &chosen.recipe);
    if (error)
        return error;
    error = open_parts(&chosen, uri, ret_store);
    if (!error && chosen.recipe)
        feature_recipe_warn_of_unseen(chosen.recipe, store_info(*ret_store)->uri);
    feature_recipe_free(chosen.recipe);
    return error;
}

enum error store_open(const char *uri, bool keys_only, struct store **ret_store)
{
    return store_open_with(uri, &(struct store_open_options){.keys_only = keys_only}, ret_store);
}

/* ---- kept in a folder --------------------------------------------------- */

struct noting {
    struct cache_source *source;
    struct store_uri *store;
};

static enum error note_other_file(void *context, const char *path)
{
    return cache_source_add_file(context, path);
}

static enum error note_file(void *context, const char *path)
{
    struct noting *noting = context;
    struct store_uri *store = noting->store;
    enum error error = cache_source_add_file(noting->source, path);
    if (!error && store->ops->other_files)
        error = store->ops->other_files(path, &store->uri.query, note_other_file, noting->source);
    return error;
}

/* A URI's parameters, and its files. */
static enum error note_uri(void *context, const char *text)
{
    struct store_uri store;
    struct noting noting = {.source = context, .store = &store};
    const char *parameters = strrchr(text, '?');
    enum error error = store_uri_init(&store, text);
    if (error)
        return error;
    if (!store.ops->endings)
        error = error_set(ERROR_UNAVAILABLE,
                          "%s: rows that do not come from a file are not kept "
                          "in a folder: nothing says whether they are still the same",
                          store.ops->scheme);
    if (!error)
        error = cache_source_add_parameters(noting.source, store.ops->scheme);
    if (!error)
        error = cache_source_add_parameters(noting.source, parameters ? parameters : "");
    if (!error)
        error = store_uri_visit_files(&store, note_file, &noting);
    store_uri_release(&store);
    return error;
}

enum error store_note_source(const char *uri, struct cache_source *source)
{
    return store_uris_visit(uri, note_uri, source);
}

static enum error open_for_kept(const char *uri, uint64_t cache_bytes,
                                struct feature_recipe *recipe, struct store **ret_store)
{
    return open_itself(
        uri, &(struct store_open_options){.cache = {.bytes = cache_bytes}, .recipe = recipe},
        ret_store);
}

/* A model's recipe also decides the rows' bytes. */
static enum error note_recipe(struct cache_source *source, const struct feature_recipe *recipe)
{
    struct buffer text = BUFFER_INIT(RECIPE_JSON_LIMIT);
    enum error error = recipe ? feature_recipe_print(recipe, &text) : OK;
    if (!error && recipe)
        error = cache_source_add_parameters(source, text.data);
    buffer_release(&text);
    return error;
}

static enum error open_kept(const char *uri, const struct store_open_options *options,
                            struct store **ret_store)
{
    struct cache_source source;
    struct kept_store_options kept = {.folder = options->cache.folder,
                                      .limit_bytes = options->cache.folder_limit_bytes,
                                      .cache_bytes = options->cache.bytes,
                                      .recipe = options->recipe,
                                      .open = open_for_kept};
    enum error error = cache_source_init(&source, uri);
    if (!error)
        error = store_note_source(uri, &source);
    if (!error)
        error = note_recipe(&source, options->recipe);
    if (!error)
        return kept_store_open(&source, &kept, ret_store);
    cache_source_release(&source);
    if (error != ERROR_UNAVAILABLE)
        return error;
    log_warning("%s", error_message());
    return open_itself(uri, options, ret_store);
}

enum error store_open_with(const char *uri, const struct store_open_options *options,
                           struct store **ret_store)
{
    const char *folder = options->cache.folder;
    bool kept = folder && folder[0] && !options->keys_only && options->column_count == 0;
    return kept ? open_kept(uri, options, ret_store) : open_itself(uri, options, ret_store);
}

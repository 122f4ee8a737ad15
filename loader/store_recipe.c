/* SPDX-License-Identifier: MIT */
#include "loader/store_recipe.h"

#include "loader/column/feature_recipe.h"
#include "loader/column/recipe_learner.h"
#include "loader/store_parts.h"
#include "loader/store_uri.h"

struct asked {
    struct recipe_request request; /* common to the stores so far */
    size_t stores;
};

/* Stores of a union must request the same. */
static enum error read_request(void *context, const char *text)
{
    struct asked *asked = context;
    struct recipe_request request = {.missing = MISSING_BAD};
    struct uri uri;
    enum error error = uri_init(&uri, text);
    if (error)
        return error;
    const struct store_ops *ops = store_kind_find(&uri);
    if (ops && ops->takes_recipe)
        error = recipe_request_read(&request, &uri);
    uri_release(&uri);
    if (!error && asked->stores > 0 && !recipe_request_is_same(&request, &asked->request))
        error = error_set(ERROR_USAGE, "stores that are read as one have the same missing= and "
                                       "onehot=; one has others, or none");
    if (!error && asked->stores++ == 0)
        asked->request = request;
    else
        recipe_request_release(&request);
    return error;
}

/* One pass through all rows. */
static enum error learn_once(const struct store_open_options *options, const char *text,
                             bool *ret_again)
{
    struct store_parts parts;
    enum error error = store_parts_open(&parts, options, text);
    if (!error) {
        error = recipe_learner_next(options->recipe, ret_again);
        if (error)
            error = error_prefix(error, "%.400s: ", parts.stores[0]->info.uri);
    }
    store_parts_release(&parts);
    return error;
}

static enum error learn(const struct store_open_options *options, const char *text,
                        struct recipe_request *request, struct feature_recipe **ret_recipe)
{
    struct store_open_options learning = *options;
    bool again = true;
    learning.cache = (struct store_cache){.bytes = 0};
    learning.recipe = feature_recipe_new(request);
    enum error error = learning.recipe ? OK : ERROR_MEMORY;
    while (!error && again)
        error = learn_once(&learning, text, &again);
    if (error && learning.recipe)
        recipe_learner_abandon(learning.recipe);
    if (error)
        feature_recipe_free(learning.recipe);
    else
        *ret_recipe = learning.recipe;
    return error;
}

/* The model's recipe, unless the URI requests something else. */
static enum error take_given(struct feature_recipe *given, const struct recipe_request *request,
                             struct feature_recipe **ret_recipe)
{
    char asked[RECIPE_REQUEST_BYTES], kept[RECIPE_REQUEST_BYTES];
    if (!recipe_request_is_empty(request) && !recipe_request_is_same(request, &given->request))
        return error_set(ERROR_CONFLICT,
                         "the URI has %s, and the model was trained with %s, which it keeps; leave "
                         "them out of the URI",
                         recipe_request_text(request, asked),
                         recipe_request_text(&given->request, kept));
    if (request->unseen_given && request->unseen_is_bad != given->request.unseen_is_bad)
        return feature_recipe_copy(given, request->unseen_is_bad, ret_recipe);
    feature_recipe_keep(given);
    *ret_recipe = given;
    return OK;
}

enum error store_recipe_find(const struct store_open_options *options, const char *text,
                             struct feature_recipe **ret_recipe)
{
    struct asked asked = {.stores = 0};
    enum error error = store_uris_visit(text, read_request, &asked);
    *ret_recipe = NULL;
    if (!error && !options->keys_only) {
        if (options->recipe)
            error = take_given(options->recipe, &asked.request, ret_recipe);
        else if (!recipe_request_is_empty(&asked.request))
            error = learn(options, text, &asked.request, ret_recipe);
    }
    recipe_request_release(&asked.request);
    return error;
}

/* SPDX-License-Identifier: MIT */
/* The thread owns everything it uses: the caller may be gone. */
#include "loader/store_apart.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/errand.h"
#include "loader/column/feature_recipe.h"
#include "loader/store/scan_apart.h"

struct opening {
    char *uri;                         /* owned */
    char **columns;                    /* [options.column_count], owned */
    struct store_open_options options; /* with a reference to the recipe */
    char *folder;                      /* owned; the cache's */
    struct store *store;               /* owned */
    struct error_report report;
};

static void open_it(void *context)
{
    struct opening *opening = context;
    enum error error = store_open_with(opening->uri, &opening->options, &opening->store);
    error_report_take(error, &opening->report);
}

static void release(void *context)
{
    struct opening *opening = context;
    store_close(opening->store);
    for (size_t i = 0; opening->columns && i < opening->options.column_count; i++)
        free(opening->columns[i]);
    feature_recipe_free(opening->options.recipe);
    free(opening->columns);
    free(opening->folder);
    free(opening->uri);
    free(opening);
}

static enum error copy_columns(struct opening *opening, const char *const columns[])
{
    size_t count = opening->options.column_count;
    opening->columns = array_new(count, sizeof(char *), "names of columns");
    if (!opening->columns)
        return ERROR_MEMORY;
    opening->options.columns = (const char *const *)opening->columns;
    for (size_t i = 0; i < count; i++) {
        opening->columns[i] = strdup(columns[i]);
        if (!opening->columns[i])
            return error_set_memory(strlen(columns[i]), "a column's name");
    }
    return OK;
}

static enum error copy_folder(struct opening *opening)
{
    struct store_cache *cache = &opening->options.cache;
    if (!cache->folder)
        return OK;
    opening->folder = strdup(cache->folder);
    if (!opening->folder)
        return error_set_memory(strlen(cache->folder), "a folder's name");
    cache->folder = opening->folder;
    return OK;
}

static enum error take(struct opening *opening, struct store **ret_store)
{
    if (opening->report.code)
        return error_restore(&opening->report);
    *ret_store = opening->store;
    opening->store = NULL;
    return OK;
}

enum error store_open_apart(const char *uri, const struct store_open_options *options,
                            struct store **ret_store)
{
    struct errand *errand = NULL;
    struct opening *opening = array_new(1, sizeof(*opening), "a store");
    if (!opening)
        return ERROR_MEMORY;
    opening->options = *options;
    feature_recipe_keep(options->recipe);
    opening->uri = strdup(uri);
    enum error error = opening->uri ? OK : error_set_memory(strlen(uri), "a store's URI");
    if (!error)
        error = copy_folder(opening);
    if (!error && options->column_count > 0)
        error = copy_columns(opening, options->columns);
    if (!error)
        error = errand_new(open_it, release, opening, &errand);
    if (error) {
        release(opening);
        return error;
    }
    error = store_name_left(errand_run(errand, "tombola-open", NULL), uri);
    if (!error)
        error = take(opening, ret_store);
    errand_leave(errand);
    return error;
}

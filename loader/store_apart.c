/* SPDX-License-Identifier: MIT */
/* All that the thread uses is its own: who asked for the store may be gone. */
#include "loader/store_apart.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/errand.h"
#include "loader/store/scan_apart.h"

struct opening {
    char *uri;      /* owned */
    char **columns; /* [count], owned */
    size_t count;
    struct store_cache cache;
    char *folder;        /* owned; the cache's */
    struct store *store; /* owned */
    struct error_report report;
};

static void open_it(void *context)
{
    struct opening *opening = context;
    const char *const *columns = (const char *const *)opening->columns;
    enum error error =
        opening->count > 0
            ? store_open_columns(opening->uri, columns, opening->count, &opening->store)
            : store_open_kept(opening->uri, &opening->cache, &opening->store);
    error_report_take(error, &opening->report);
}

static void release(void *context)
{
    struct opening *opening = context;
    store_close(opening->store);
    for (size_t i = 0; i < opening->count; i++)
        free(opening->columns[i]);
    free(opening->columns);
    free(opening->folder);
    free(opening->uri);
    free(opening);
}

static enum error copy_columns(struct opening *opening, const char *const columns[], size_t count)
{
    opening->columns = array_new(count, sizeof(char *), "names of columns");
    if (!opening->columns)
        return ERROR_MEMORY;
    opening->count = count;
    for (size_t i = 0; i < count; i++) {
        opening->columns[i] = strdup(columns[i]);
        if (!opening->columns[i])
            return error_set_memory(strlen(columns[i]), "a column's name");
    }
    return OK;
}

static enum error copy_cache(struct opening *opening, const struct store_cache *cache)
{
    opening->cache = *cache;
    if (!cache->folder)
        return OK;
    opening->cache.folder = opening->folder = strdup(cache->folder);
    return opening->folder ? OK : error_set_memory(strlen(cache->folder), "a folder's name");
}

static enum error take(struct opening *opening, struct store **ret_store)
{
    if (opening->report.code)
        return error_restore(&opening->report);
    *ret_store = opening->store;
    opening->store = NULL;
    return OK;
}

enum error store_open_apart(const char *uri, const struct store_cache *cache,
                            const char *const columns[], size_t count, struct store **ret_store)
{
    struct errand *errand = NULL;
    struct opening *opening = array_new(1, sizeof(*opening), "a store");
    if (!opening)
        return ERROR_MEMORY;
    opening->uri = strdup(uri);
    enum error error = opening->uri ? OK : error_set_memory(strlen(uri), "a store's URI");
    if (!error && cache)
        error = copy_cache(opening, cache);
    if (!error && count > 0)
        error = copy_columns(opening, columns, count);
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

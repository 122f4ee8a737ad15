/* SPDX-License-Identifier: MIT */
/* The sink and its context are the caller's: to leave, the caller takes the lock, which it cannot
 * get while the sink runs. The thread owns everything else that it uses. */
#include "loader/store/scan_apart.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/errand.h"

struct scanning {
    struct store *store; /* kept */
    enum scan_columns columns;
    store_sink *sink;
    void *context;
    pthread_mutex_t lock; /* held while the sink runs */
    bool is_left;         /* the caller has taken the sink back */
    struct error_report report;
};

static enum error pass_on(void *context, const struct store_block *block)
{
    struct scanning *scanning = context;
    pthread_mutex_lock(&scanning->lock);
    enum error error = scanning->is_left ? error_set(ERROR_CANCELLED, "nobody takes the rows")
                                         : scanning->sink(scanning->context, block);
    pthread_mutex_unlock(&scanning->lock);
    return error;
}

static void scan_it(void *context)
{
    struct scanning *scanning = context;
    enum error error = store_scan(scanning->store, scanning->columns, pass_on, scanning);
    error_report_take(error, &scanning->report);
}

static void release(void *context)
{
    struct scanning *scanning = context;
    store_close(scanning->store);
    pthread_mutex_destroy(&scanning->lock);
    free(scanning);
}

static void take_sink_back(struct scanning *scanning)
{
    pthread_mutex_lock(&scanning->lock);
    scanning->is_left = true;
    pthread_mutex_unlock(&scanning->lock);
}

enum error store_scan_apart(struct store *store, enum scan_columns columns, store_sink *sink,
                            void *context)
{
    struct errand *errand = NULL;
    struct scanning *scanning = array_new(1, sizeof(*scanning), "a scan");
    if (!scanning)
        return ERROR_MEMORY;
    *scanning =
        (struct scanning){.store = store, .columns = columns, .sink = sink, .context = context};
    store_keep(store);
    pthread_mutex_init(&scanning->lock, NULL);
    enum error error = errand_new(scan_it, release, scanning, &errand);
    if (error) {
        release(scanning);
        return error;
    }
    error = store_name_left(errand_run(errand, "tombola-scan", NULL), store_info(store)->uri);
    if (error)
        take_sink_back(scanning);
    else
        error = error_restore(&scanning->report);
    errand_leave(errand);
    return error;
}

enum error store_name_left(enum error error, const char *uri)
{
    bool may_hold_password =
        strstr(uri, "postgres") && (strchr(uri, '@') || strstr(uri, "password"));
    return error == ERROR_CANCELLED
               ? error_prefix(error, "%s: ", may_hold_password ? "the store" : uri)
               : error;
}

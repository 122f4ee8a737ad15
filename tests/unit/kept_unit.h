/* SPDX-License-Identifier: MIT */
/* What tests of row caches share: tables, caches of them in FOLDER/kept, and what is logged. */
#ifndef TESTS_UNIT_KEPT_UNIT_H
#define TESTS_UNIT_KEPT_UNIT_H

#include "tests/unit/store_unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/log.h"
#include "loader/cache/kept_store.h"

/* ---- what is logged ----------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    int warnings;
    char last[2048]; /* warning */
} logged = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline void take_message(int level, const char *message, void *context)
{
    (void)context;
    if (level < LOG_WARNING)
        return;
    pthread_mutex_lock(&logged.lock);
    logged.warnings++;
    snprintf(logged.last, sizeof(logged.last), "%s", message);
    pthread_mutex_unlock(&logged.lock);
}

static inline void forget_messages(void)
{
    logged.warnings = 0;
    logged.last[0] = '\0';
}

/* One since then, which names `what` and says `says`. */
static inline void check_warning(const char *what, const char *says)
{
    char last[sizeof(logged.last)];
    pthread_mutex_lock(&logged.lock);
    int warnings = logged.warnings;
    memcpy(last, logged.last, sizeof(last));
    pthread_mutex_unlock(&logged.lock);
    if (warnings != 1 || !strstr(last, what) || !strstr(last, says))
        fail_msg("%d warnings, the last is: %s", warnings, last);
    forget_messages();
}

static inline void check_no_warning(void)
{
    if (logged.warnings > 0)
        fail_msg("%d warnings, the last is: %s", logged.warnings, logged.last);
}

/* ---- caches ------------------------------------------------------------- */

static _Atomic int opened;                                 /* stores themselves */
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER; /* path_of() and uri_of() */

static inline enum error count_open(const char *uri, uint64_t cache_bytes,
                                    struct feature_recipe *recipe, struct store **ret_store)
{
    assert_null(recipe);
    opened++;
    return store_open_with(uri, &(struct store_open_options){.cache.bytes = cache_bytes},
                           ret_store);
}

/* A store of FOLDER/NAME kept in FOLDER/KEPT. */
static inline struct store *open_limited(const char *name, const char *query, uint64_t limit_bytes)
{
    struct cache_source source;
    struct store *store = NULL;
    char kept[512];
    struct kept_store_options options = {
        .folder = kept, .limit_bytes = limit_bytes, .cache_bytes = 0, .open = count_open};
    pthread_mutex_lock(&naming);
    snprintf(kept, sizeof(kept), "%s", path_of("kept"));
    assert_ok(cache_source_init(&source, uri_of("csv", name, query)));
    assert_ok(cache_source_add_parameters(&source, query));
    assert_ok(cache_source_add_file(&source, path_of(name)));
    pthread_mutex_unlock(&naming);
    assert_ok(kept_store_open(&source, &options, &store));
    return store;
}

static inline struct store *open_kept(const char *name, const char *query)
{
    return open_limited(name, query, 0);
}

/* Names in FOLDER/kept that end so; the first of them goes to *ret_path. */
static inline size_t count_files(const char *ending, char ret_path[600])
{
    size_t count = 0;
    DIR *names = opendir(path_of("kept"));
    for (struct dirent *name; names && (name = readdir(names));) {
        size_t length = strlen(name->d_name), end = strlen(ending);
        if (length < end || strcmp(name->d_name + length - end, ending) != 0)
            continue;
        if (count++ == 0 && ret_path)
            snprintf(ret_path, 600, "%s/%s", path_of("kept"), name->d_name);
    }
    if (names)
        closedir(names);
    return count;
}

static inline enum error pass_over(void *context, const struct store_block *block)
{
    *(size_t *)context += block->rows;
    return OK;
}

/* A scan is of the cache: until it is there, or will not be. */
static inline void await_cache(struct store *store)
{
    size_t rows = 0;
    assert_ok(store_scan(store, SCAN_FEATURES, pass_over, &rows));
    assert_int_equal(rows, store_info(store)->rows);
}

static inline void make_cache(const char *name, const char *query)
{
    struct store *store = open_kept(name, query);
    await_cache(store);
    store_close(store);
}

static inline void remove_caches(void)
{
    char path[600];
    while (count_files("", path) > 2) { /* . and .. */
        DIR *names = opendir(path_of("kept"));
        for (struct dirent *name; (name = readdir(names));) {
            snprintf(path, sizeof(path), "%s/%s", path_of("kept"), name->d_name);
            if (name->d_name[0] != '.')
                assert_int_equal(unlink(path), 0);
        }
        closedir(names);
    }
    opened = 0;
    forget_messages();
}

static inline void read_plain(const char *name, const char *query, struct rows *rows)
{
    struct store *plain = NULL;
    assert_ok(store_open(uri_of("csv", name, query), false, &plain));
    rows_scan(rows, plain, SCAN_FEATURES);
    store_close(plain);
}

/* 40 rows: ids far apart, three labels, two features, one of them `last`. */
static inline void write_table(const char *name, const char *last)
{
    char text[8192] = "id,label,w,g,a,b\n";
    for (int i = 0; i < 40; i++) {
        char line[128];
        snprintf(line, sizeof(line), "%d,%s,%d,g%d,%d,%s\n", 1000 - 7 * i, i % 3 ? "x" : "yes", i,
                 i % 2, i, i == 39 ? last : "5");
        strncat(text, line, sizeof(text) - strlen(text) - 1);
    }
    write_file(name, text);
}

static inline void write_whole(const char *path, const void *bytes, size_t length)
{
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, bytes, length), length);
    close(descriptor);
}

static const char table_query[] = "weight=w&group=g";

/* ---- the same rows ------------------------------------------------------ */

static inline void check_all(struct store *store, const struct rows *rows)
{
    struct rows scanned;
    check_fetch(store, rows, 7);
    rows_scan(&scanned, store, SCAN_FEATURES);
    for (size_t i = 0; i < rows->count; i++) {
        assert_int_equal(scanned.ids[i], rows->ids[i]);
        assert_string_equal(scanned.labels[i], rows->labels[i]);
        assert_true(scanned.weights[i] == rows->weights[i]);
        assert_true(scanned.values[i] == rows->values[i]);
        if (rows->groups[i])
            assert_string_equal(scanned.groups[i], rows->groups[i]);
    }
    assert_memory_equal(scanned.features, rows->features, rows->count * rows->row_bytes);
    rows_release(&scanned);
}

static inline int set_up(void **state)
{
    log_set_sink(take_message, NULL);
    return make_folder(state);
}

#endif

/* SPDX-License-Identifier: MIT */
#include "loader/cache/kept_rows.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/uri.h"
#include "loader/rows/rows_file.h"
#include "loader/rows/store_rows.h"
#include "loader/store/store_kinds.h"

#define LOCK_ATTEMPTS 20 /* a listing holds the lock for a moment */

/* Without the lock the cache may be removed while open, which does no harm. */
static void hold(int descriptor)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    for (int i = 0; i < LOCK_ATTEMPTS && flock(descriptor, LOCK_SH | LOCK_NB) != 0; i++)
        clock_sleep_ms(1);
    futimens(descriptor, times); /* only its owner may */
}

static enum error open_rows(const char *path, struct store **ret_store)
{
    struct uri uri = {.path = strdup(path)};
    enum error error = uri.path ? store_rows_ops.open(&uri, &(struct read_options){0}, ret_store)
                                : error_set_memory(strlen(path), "a file's name");
    uri_release(&uri);
    return error;
}

/* The file has the name and a valid header: does the key match? */
static enum error check_key(const struct rows_store *rows, const struct cache_key *key)
{
    const struct rows_header *header = &rows->header;
    if (rows_header_has(header, ROWS_KEPT) &&
        memcmp(header->head.key, key->bytes, sizeof(key->bytes)) == 0)
        return OK;
    return error_set(ERROR_INPUT, "%s holds other rows than its name says", rows->path);
}

/* Its URIs as one line. */
static char *name_of(const char *uri)
{
    char *name = strdup(uri);
    char *at = name ? strchr(name, '\n') : NULL;
    for (; at; at = strchr(at, '\n'))
        *at = ' ';
    return name;
}

static enum error open_store(const char *path, const struct cache_key *key, const char *uri,
                             struct store **ret_store)
{
    struct store *store = NULL;
    enum error error = open_rows(path, &store);
    if (error)
        return error;
    struct rows_store *rows = (struct rows_store *)store;
    store->ops = &store_rows_ops;
    rows->is_copy = true;
    error = check_key(rows, key);
    store->info.uri = error ? NULL : name_of(uri);
    if (!error && !store->info.uri)
        error = error_set_memory(strlen(uri), "a store's URI");
    if (error)
        store_close(store);
    else
        *ret_store = store;
    return error;
}

enum error kept_rows_open(const char *path, const struct cache_key *key, const char *uri,
                          struct kept_rows **ret_kept)
{
    int descriptor = -1;
    enum error error = file_open_own(path, O_RDONLY, &descriptor);
    if (error)
        return error;
    hold(descriptor);
    struct kept_rows *kept = array_new(1, sizeof(*kept), "a row cache");
    if (!kept) {
        close(descriptor);
        return ERROR_MEMORY;
    }
    kept->descriptor = descriptor;
    kept->path = strdup(path);
    error = kept->path ? open_store(path, key, uri, &kept->store)
                       : error_set_memory(strlen(path), "a file's name");
    if (error) {
        struct error_report report;
        error_report_take(error, &report);
        kept_rows_close(kept);
        return error_restore(&report);
    }
    *ret_kept = kept;
    return OK;
}

void kept_rows_close(struct kept_rows *kept)
{
    if (!kept)
        return;
    store_close(kept->store);
    flock(kept->descriptor, LOCK_UN); /* needed if a child of fork(2) has the descriptor */
    close(kept->descriptor);
    free(kept->path);
    free(kept);
}

void kept_rows_remove(const struct kept_rows *kept)
{
    struct stat held, named;
    if (fstat(kept->descriptor, &held) == 0 && stat(kept->path, &named) == 0 &&
        held.st_ino == named.st_ino && held.st_dev == named.st_dev)
        unlink(kept->path);
}

/* Looking does not count as use: if the read changed the access time, it is restored. */
static enum error look_into(const char *path, struct source_file *ret_file,
                            struct rows_header *ret_header)
{
    struct stat before, after;
    bool is_known = stat(path, &before) == 0;
    enum error error = rows_file_open(ret_file, path, ret_header);
    if (is_known && stat(path, &after) == 0 &&
        memcmp(&before.st_atim, &after.st_atim, sizeof(after.st_atim)) != 0) {
        const struct timespec times[2] = {before.st_atim, {.tv_nsec = UTIME_OMIT}};
        (void)utimensat(AT_FDCWD, path, times, 0); /* only its owner may */
    }
    return error;
}

enum error kept_facts_read(const char *path, struct kept_facts *ret_facts)
{
    struct source_file file;
    struct rows_header header;
    enum error error = look_into(path, &file, &header);
    if (error)
        return error;
    struct kept_facts facts = {.rows = (int64_t)header.head.rows,
                               .features = (size_t)header.head.features};
    memcpy(facts.key.bytes, header.head.key, sizeof(facts.key.bytes));
    if (!rows_header_has(&header, ROWS_KEPT))
        error = error_set(ERROR_INPUT, "%s is a row file, but no row cache", path);
    else if (!(facts.source = strdup(header.source)))
        error = error_set_memory(strlen(header.source), "a store's URI");
    rows_header_release(&header);
    source_file_close(&file);
    if (!error)
        *ret_facts = facts;
    return error;
}

void kept_facts_release(struct kept_facts *facts)
{
    free(facts->source);
    facts->source = NULL;
}

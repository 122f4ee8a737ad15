/* SPDX-License-Identifier: MIT */
#include "loader/tool/cache_survey.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/array.h"
#include "loader/store_open.h"

static const char *const worth_names[] = {
    [CACHE_CURRENT] = "current", [CACHE_STALE] = "stale",       [CACHE_UNKNOWN] = "unknown",
    [CACHE_DAMAGED] = "damaged", [CACHE_UNDONE] = "being made",
};

/* ---- is its source unchanged? ------------------------------------------- */

/* A relative path means another file for each program: is it in none of the URIs? */
static bool are_from_root(const char *uris)
{
    bool from_root = true;
    for (const char *at = uris; *at && from_root;) {
        size_t length = strcspn(at, "\n");
        const char *scheme = memchr(at, ':', length);
        from_root = length == 0 || at[0] == '/' || (scheme && scheme[1] == '/');
        at += length + (at[length] == '\n');
    }
    return from_root;
}

/* Any change of a file, including a rename, updates its ctime; it is part of the key. */
static bool is_older(const struct stat *status, int64_t made_ns)
{
    return (int64_t)status->st_ctim.tv_sec * 1000000000 + status->st_ctim.tv_nsec <= made_ns;
}

/* The first file must exist; others may be optional (an IDX file's labels). */
static bool are_older(const struct cache_source *source, int64_t made_ns)
{
    const char *first = source->files.data, *end = first + source->files.length;
    bool older = true;
    for (const char *path = first; path < end && older; path += strlen(path) + 1) {
        struct stat status;
        if (stat(path, &status) == 0)
            older = is_older(&status, made_ns);
        else if (path == first)
            older = errno != ENOENT;
    }
    return older;
}

static enum cache_worth judge_files(const struct cache_source *source,
                                    const struct surveyed_cache *cache)
{
    struct cache_key now;
    if (cache_key_make(source, &now))
        return CACHE_UNKNOWN;
    if (cache_key_equal(&now, &cache->facts.key))
        return CACHE_CURRENT;
    bool is_known = are_from_root(cache->facts.source);
    return is_known && !are_older(source, cache->entry->made_ns) ? CACHE_STALE : CACHE_UNKNOWN;
}

static enum error judge_source(struct surveyed_cache *cache)
{
    struct cache_source source;
    const char *uris = cache->facts.source;
    cache->worth = CACHE_UNKNOWN;
    enum error error = cache_source_init(&source, uris);
    if (error)
        return error;
    error = store_note_source(uris, &source);
    if (!error)
        cache->worth = judge_files(&source, cache);
    else if (error == ERROR_NOT_FOUND && are_from_root(uris))
        cache->worth = CACHE_STALE;
    cache_source_release(&source);
    return error == ERROR_MEMORY ? error : OK;
}

/* ---- one of them -------------------------------------------------------- */

static bool has_its_name(const struct surveyed_cache *cache)
{
    char text[CACHE_KEY_TEXT_BYTES];
    cache_key_text(&cache->facts.key, text);
    return strncmp(cache->entry->name, text, strlen(text)) == 0;
}

static enum error look_at(struct surveyed_cache *cache)
{
    const struct cache_entry *entry = cache->entry;
    cache->worth = CACHE_UNDONE;
    if (entry->state != CACHE_WHOLE)
        return OK;
    enum error error = kept_facts_read(entry->path, &cache->facts);
    if (!error && has_its_name(cache))
        return judge_source(cache);
    cache->worth = CACHE_DAMAGED;
    return error == ERROR_MEMORY ? error : OK;
}

enum error cache_survey_make(struct cache_survey *survey, const struct cache_folder *folder)
{
    *survey = (struct cache_survey){.entries = NULL};
    enum error error = cache_folder_list(folder, &survey->entries, &survey->count);
    if (error)
        return error;
    survey->caches = array_new(survey->count, sizeof(*survey->caches), "a list of row caches");
    if (!survey->caches)
        error = ERROR_MEMORY;
    for (size_t i = 0; i < survey->count && !error; i++) {
        struct surveyed_cache *cache = &survey->caches[i];
        cache->entry = &survey->entries[i];
        survey->bytes += cache->entry->bytes;
        error = look_at(cache);
        cache->state = cache->entry->state == CACHE_LEFT ? "left over" : worth_names[cache->worth];
    }
    if (error)
        cache_survey_release(survey);
    return error;
}

void cache_survey_release(struct cache_survey *survey)
{
    for (size_t i = 0; i < survey->count && survey->caches; i++)
        kept_facts_release(&survey->caches[i].facts);
    free(survey->caches);
    cache_entries_free(survey->entries, survey->count);
    *survey = (struct cache_survey){.entries = NULL};
}

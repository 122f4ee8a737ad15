/* SPDX-License-Identifier: MIT */
/*
 * Lists a folder of row caches (--cache DIR), and whether each cache's source is unchanged. Reads
 * only headers; nothing is made, removed, or locked for longer than a look takes.
 */
#ifndef LOADER_TOOL_CACHE_SURVEY_H
#define LOADER_TOOL_CACHE_SURVEY_H

#include <stddef.h>

#include "common/error.h"
#include "loader/cache/cache_folder.h"
#include "loader/cache/kept_rows.h"

enum cache_worth {
    CACHE_CURRENT, /* a program that opens its store now would use it */
    CACHE_STALE,   /* a file of its source is gone, or was written to since */
    CACHE_UNKNOWN, /* undetermined: a relative path, another version */
    CACHE_DAMAGED, /* no program would accept it */
    CACHE_UNDONE   /* being made, or left unfinished */
};

struct surveyed_cache {
    const struct cache_entry *entry; /* borrowed from the survey */
    struct kept_facts facts;         /* owned; zeros: CACHE_DAMAGED, CACHE_UNDONE */
    enum cache_worth worth;
    const char *state; /* for people: "current", "stale", "unknown", "damaged", "being made", "left
                        * over" */
};

struct cache_survey {
    struct cache_entry *entries;   /* owned; [count] */
    struct surveyed_cache *caches; /* owned; [count]; most recently used first */
    size_t count;
    uint64_t bytes; /* of all */
};

enum error cache_survey_make(struct cache_survey *survey,
                             const struct cache_folder *folder) MUST_CHECK;
/* Legal on a zeroed struct. */
void cache_survey_release(struct cache_survey *survey);

#endif

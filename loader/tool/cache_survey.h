/* SPDX-License-Identifier: MIT */
/*
 * What a folder of row caches (--cache DIR) holds, and of each whether its store is still what its
 * rows were read from. Only headers are read; nothing is made, removed or locked for longer than a
 * look takes.
 */
#ifndef LOADER_TOOL_CACHE_SURVEY_H
#define LOADER_TOOL_CACHE_SURVEY_H

#include <stddef.h>

#include "common/error.h"
#include "loader/cache/cache_folder.h"
#include "loader/cache/kept_rows.h"

enum cache_worth {
    CACHE_CURRENT, /* a program that names its store now would read it */
    CACHE_STALE,   /* a file of its store is gone, or was written to since */
    CACHE_UNKNOWN, /* neither can be said: a path that is not from the root, another version */
    CACHE_DAMAGED, /* no program would believe it */
    CACHE_UNDONE   /* it is being made, or was left so */
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
    struct surveyed_cache *caches; /* owned; [count]; the one that was used last in front */
    size_t count;
    uint64_t bytes; /* of all */
};

enum error cache_survey_make(struct cache_survey *survey,
                             const struct cache_folder *folder) MUST_CHECK;
/* Legal when it was zeroed. */
void cache_survey_release(struct cache_survey *survey);

#endif

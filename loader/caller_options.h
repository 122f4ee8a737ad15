/* SPDX-License-Identifier: MIT */
/*
 * The options of tombola_feed_open(): copied from a caller whose header may be older or newer,
 * checked, and completed with defaults. Any thread.
 */
#ifndef LOADER_CALLER_OPTIONS_H
#define LOADER_CALLER_OPTIONS_H

#include "common/error.h"
#include "loader/store_open.h"
#include "loader/tombola.h"

/* An older header's struct ends earlier: the rest is 0. Members of a newer one must be 0. Pointers
 * still point at the caller's data. ERROR_USAGE names the member, its value, what is right. */
enum error caller_options_take(const struct tombola_options *given,
                               struct tombola_options *ret_options) MUST_CHECK;

/* Where rows are kept. */
struct caller_caches {
    struct store_cache kept; /* in memory and in a file; `folder` borrowed, from the options or the
                              * environment */
    size_t reserve_bytes;    /* of memory, left free */
    uint64_t resident_bytes; /* on the device; FEED_RESIDENT_AUTO: as many as fit */
};

/* By the options, TOMBOLA_CACHE and TOMBOLA_CACHE_LIMIT, and what the machine has free. ERROR_USAGE
 * when that variable is no number. */
enum error caller_options_caches(const struct tombola_options *options,
                                 struct caller_caches *ret_caches) MUST_CHECK;

#endif

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
 * still refer to the caller's data. ERROR_USAGE names the member, its value and what is
 * expected. */
enum error caller_options_take(const struct tombola_options *given,
                               struct tombola_options *ret_options) MUST_CHECK;

/* Where rows are cached. */
struct caller_caches {
    struct store_cache kept; /* in memory and in a file; `folder` borrowed, from the options or the
                              * environment */
    size_t reserve_bytes;    /* of memory, to be left free */
    uint64_t resident_bytes; /* on the device; FEED_RESIDENT_AUTO: as many as fit */
};

/* From the options, TOMBOLA_CACHE, TOMBOLA_CACHE_LIMIT and the machine's free memory. ERROR_USAGE
 * if that variable is not a number. */
enum error caller_options_caches(const struct tombola_options *options,
                                 struct caller_caches *ret_caches) MUST_CHECK;

#endif

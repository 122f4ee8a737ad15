/* SPDX-License-Identifier: MIT */
/*
 * batching_next() piece by piece, for orders that skip positions: a batch of a sparse design covers
 * very many positions, which can only be counted. A search is a value: a copy may continue without
 * a lock, and be stored back.
 *
 * Not thread-safe.
 */
#ifndef SAMPLER_ORDER_BATCHING_SEARCH_H
#define SAMPLER_ORDER_BATCHING_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/order/batching.h"

struct batching_search {
    struct batching batching; /* its order is borrowed; size 0: no search in progress */
    int64_t position, size, limit;
    bool done;
    struct span span; /* up to `start`, or, if done, the batch */
    int64_t start;    /* of the positions counted in the current epoch */
    int64_t at;       /* examined up to here */
    int64_t seen;     /* units between `start` and there */
    int64_t reached;  /* end of the last unit needed; -1: not seen yet */
};

/* The batch of `batching` at `position`, and its part below `limit` (POSITION_LIMIT: all).
 * Continues an earlier search for the same batch. Examines about *budget positions, and subtracts
 * them. False: not found yet. An order that skips nothing is never searched. */
bool batching_search_next(struct batching_search *search, const struct batching *batching,
                          int64_t position, int64_t size, int64_t limit, int64_t *budget,
                          struct span *ret_span);
/* Continues the search; true: the batch is found. */
bool batching_search_run(struct batching_search *search, int64_t *budget);
/* Are both the same search, and is the second one further? */
bool batching_search_is_behind(const struct batching_search *search,
                               const struct batching_search *other);

#endif

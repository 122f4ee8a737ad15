/* SPDX-License-Identifier: MIT */
/*
 * batching_next() a piece at a time, for orders that skip positions: a batch of a rare design lies
 * in very many positions, and they can only be counted. A search is a value: a copy of it may go on
 * outside of a lock, and be put back.
 *
 * Not for several threads at once.
 */
#ifndef SAMPLER_ORDER_BATCHING_SEARCH_H
#define SAMPLER_ORDER_BATCHING_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/order/batching.h"

struct batching_search {
    struct batching batching; /* its order is borrowed; size 0: no search is under way */
    int64_t position, size, limit;
    bool done;
    struct span span; /* up to `start`, or when it is done the batch */
    int64_t start;    /* of the positions counted in the epoch it lies in */
    int64_t at;       /* looked at up to here */
    int64_t seen;     /* units from `start` to there */
    int64_t reached;  /* behind the last unit that was wanted; -1: not seen yet */
};

/* The batch of `cut` at `position`, and of it what is below `limit` (POSITION_LIMIT: all).
 * What the search found of the same batch is gone on with. Looks at *budget positions about, and
 * takes them off. False: not found yet. An order that skips nothing is never searched. */
bool batching_search_next(struct batching_search *search, const struct batching *batching,
                          int64_t position, int64_t size, int64_t limit, int64_t *budget,
                          struct span *ret_span);
/* Continues the search; true: the batch is found. */
bool batching_search_run(struct batching_search *search, int64_t *budget);
/* Both are the same search, and the second got further. */
bool batching_search_is_behind(const struct batching_search *search,
                               const struct batching_search *other);

#endif

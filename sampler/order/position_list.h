/* SPDX-License-Identifier: MIT */
/*
 * Positions found one by one, and how to end the search for them. The caller frees the array.
 */
#ifndef SAMPLER_ORDER_POSITION_LIST_H
#define SAMPLER_ORDER_POSITION_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "common/array.h"
#include "sampler/order/order.h"

#define POSITION_LIST_LIMIT ((size_t)1 << 24)
/* A search checks whether to end after this many positions, or passes: some milliseconds. */
#define POSITION_LIST_LOOK (1 << 20)
#define POSITION_LIST_LOOK_PASSES (1 << 14)

struct position_list {
    int64_t *positions;
    size_t count, capacity;
    const struct order_search *search; /* borrowed; NULL: runs to the end */
};

/* ERROR_CANCELLED: the result is no longer wanted. */
static inline enum error position_list_check(const struct position_list *list)
{
    if (list->search && list->search->is_over(list->search))
        return error_set(ERROR_CANCELLED, "the search for a unit's positions was stopped");
    return OK;
}

static inline enum error position_list_add(struct position_list *list, int64_t position)
{
    if (list->count == POSITION_LIST_LIMIT)
        return error_set(ERROR_USAGE,
                         "the unit comes more than %zu times in this epoch: too many to list",
                         POSITION_LIST_LIMIT);
    if (list->count == list->capacity) {
        enum error error = array_grow((void **)&list->positions, &list->capacity, list->count + 1,
                                      sizeof(*list->positions), "the positions of a unit");
        if (error)
            return error;
    }
    list->positions[list->count++] = position;
    return OK;
}

#endif

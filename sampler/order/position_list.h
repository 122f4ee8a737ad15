/* SPDX-License-Identifier: MIT */
/* Positions that are found one by one. The array is the caller's to free. */
#ifndef SAMPLER_ORDER_POSITION_LIST_H
#define SAMPLER_ORDER_POSITION_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "common/array.h"

struct position_list {
    int64_t *positions;
    size_t count, capacity;
};

static inline enum error position_list_add(struct position_list *list, int64_t position)
{
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

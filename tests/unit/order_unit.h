/* SPDX-License-Identifier: MIT */
/* What the tests of orders share. */
#ifndef TESTS_UNIT_ORDER_UNIT_H
#define TESTS_UNIT_ORDER_UNIT_H

#include <stdlib.h>

#include "sampler/order/order.h"

/* The rows at positions first ... first + positions - 1; how many they are. */
static inline size_t order_rows(const struct order *order, int64_t first, int64_t positions,
                                int64_t *ret_rows)
{
    int64_t *ids = malloc(((size_t)positions + 1) * sizeof(*ids));
    if (!ids)
        abort();
    size_t found = order_units(order, first, positions, ids, NULL, ret_rows);
    free(ids);
    return found;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A cache of tables of numbers, one per epoch, that take long to compute. All memory is allocated
 * at the start, so that borrowing never fails.
 *
 * Threads: any. A thread that wants a table in the making waits for it; a table in use is not
 * evicted.
 *
 * Dimensions: V numbers per table.
 */
#ifndef SAMPLER_DESIGN_EPOCH_TABLES_H
#define SAMPLER_DESIGN_EPOCH_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "sampler/order/design.h"

#define EPOCH_TABLES 4

struct epoch_tables;

/* `values` is V; `what` names the memory in a message. */
enum error epoch_tables_new(size_t values, const char *what,
                            struct epoch_tables **ret_tables) MUST_CHECK;
void epoch_tables_free(struct epoch_tables *tables);

/* Fills a table of an epoch: values[V]. */
typedef void epoch_table_fill(const struct order *order, const struct epoch *epoch,
                              int64_t *values);

/* The table of an epoch, computed by `fill` if it is not cached. Borrowed until epoch_tables_put();
 * a thread borrows one at a time. */
const int64_t *epoch_tables_borrow(struct epoch_tables *tables, const struct order *order,
                                   const struct epoch *epoch, epoch_table_fill *fill);
void epoch_tables_put(struct epoch_tables *tables, const int64_t *values);

/* Index of the last of values[0 ... count - 1] that is at most `wanted`; they ascend, and the first
 * one is. */
static inline int64_t epoch_table_find(const int64_t *values, int64_t count, int64_t wanted)
{
    int64_t low = 0;
    int64_t high = count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (values[middle] <= wanted)
            low = middle;
        else
            high = middle;
    }
    return low;
}

#endif

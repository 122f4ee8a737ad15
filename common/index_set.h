/* SPDX-License-Identifier: MIT */
/*
 * A set of batch numbers: sorted ranges that neither touch nor overlap. A set that holds nearly
 * everything up to some number, as in training, takes a few ranges.
 *
 * One thread at a time.
 */
#ifndef COMMON_INDEX_SET_H
#define COMMON_INDEX_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define INDEX_SET_LIMIT 1048576 /* ranges */

/* Batches first to end - 1. */
struct index_range {
    int64_t first, end;
};

/* Empty when zeroed. */
struct index_set {
    struct index_range *ranges; /* [count], ascending, owned */
    size_t count, capacity;
};

void index_set_release(struct index_set *set);
void index_set_clear(struct index_set *set);

/* Adds or removes `range` (first >= 0; an empty one changes nothing), whether or not all of it is
 * in the set. ERROR_MEMORY: nothing changed. */
enum error index_set_add(struct index_set *set, struct index_range range) MUST_CHECK;
enum error index_set_remove(struct index_set *set, struct index_range range) MUST_CHECK;
enum error index_set_copy(struct index_set *set, const struct index_set *from) MUST_CHECK;

bool index_set_has(const struct index_set *set, int64_t index);
/* The largest number + 1; 0 if empty. */
int64_t index_set_end(const struct index_set *set);
/* The count of numbers in the set. */
int64_t index_set_size(const struct index_set *set);
/* The first run of numbers in [from, end) that is not in the set; empty if there is none. */
struct index_range index_set_gap(const struct index_set *set, int64_t from, int64_t end);
/* Is every number of `set` in `other`? */
bool index_set_within(const struct index_set *set, const struct index_set *other);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Shared by the stores' fetch(): where rows go, and the rule that a row which is not ROW_OK is
 * zeroed and that this thread's final message describes the first of them. One call, one thread.
 * Allocates nothing.
 */
#ifndef LOADER_STORE_FETCH_CALL_H
#define LOADER_STORE_FETCH_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/store.h"

struct fetch_call {
    const int64_t *ids;
    uint8_t *features;
    size_t row_bytes, stride_bytes, unit_bytes; /* of F features, of a slot, of a feature */
    double *labels;                             /* NULL: not requested */
    int64_t *lengths; /* of rows that differ in length; NULL: pad them with zeros */
    enum row_status *status;
    size_t worst; /* the first index that is not ROW_OK; SIZE_MAX: none */
    struct error_report report;
};

void fetch_call_init(struct fetch_call *call, const struct reader *reader, const int64_t *ids,
                     void *features, size_t stride_bytes, double *labels, enum row_status *status);

/* Where the features of the row at `index` go. */
uint8_t *fetch_call_slot(const struct fetch_call *call, size_t index);
/* For a store whose rows differ in length, before fetch_call_set(): how many features the row at
 * `index` has, which are in its slot. */
void fetch_call_length(struct fetch_call *call, size_t index, size_t length);
/* Sets a row's status. Not ROW_OK: zeroes it; this thread's message says what is wrong with it. */
void fetch_call_set(struct fetch_call *call, size_t index, enum row_status status, double label);
/* No row of `store` (a name for messages) has the id at `index`. */
void fetch_call_miss(struct fetch_call *call, size_t index, const char *store);
/* The row at `to` is a repeated request for that at `from`; from < to. */
void fetch_call_copy(struct fetch_call *call, size_t from, size_t to);
/* Returns OK; if there is a bad row, the thread's message is now the first one's. */
enum error fetch_call_finish(const struct fetch_call *call) MUST_CHECK;

/* A requested row, for sorting by its place in the store. */
struct fetch_place {
    int64_t key; /* row number or id */
    size_t index;
};

/* Sorts by key, then by index. In place, unlike qsort(), which may allocate. */
void fetch_places_sort(struct fetch_place *places, size_t count);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Fills slots with a store's rows if their ids are consecutive: several threads, a reader each,
 * take parts in turn, in the store's order, and fetch them straight to their slots.
 */
#ifndef LOADER_STORE_RUN_FILL_H
#define LOADER_STORE_RUN_FILL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/row_slots.h"
#include "loader/store/store.h"

/* The first `rows` rows are in their slots, with further ones; `has_bad`: some of the latest are
 * marked as bad. Called by one thread at a time. Anything but OK ends all of them. */
typedef enum error run_sink(void *context, int64_t rows, bool has_bad);

struct run_fill {
    struct reader *reader; /* borrowed; reader_has_run() */
    int64_t first_id;
    struct row_slots *slots; /* borrowed; of rows that are alike; the map of bad rows is reserved */
    int64_t rows;            /* to fetch, from the first one on */
    _Atomic bool *cancelled; /* borrowed; ends waits for a failing store (common/stop.h) */
    run_sink *sink;
    void *context;
};

/* Uses the calling thread as well. Returns the first failure. */
enum error run_fill(const struct run_fill *fill) MUST_CHECK;

#endif

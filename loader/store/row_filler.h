/* SPDX-License-Identifier: MIT */
/*
 * Fills memory with a store's rows: a thread scans the store from its first row on, while others
 * already use what is there. It ends after the last row that fits, or when memory gets scarce: the
 * first rows then stay, and the rest is left to the store.
 */
#ifndef LOADER_STORE_ROW_FILLER_H
#define LOADER_STORE_ROW_FILLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/row_slots.h"
#include "loader/store/store.h"

struct row_filler;

/* The pace of the scan: is it about to end? Who needs a row then waits for it: fetching single rows
 * takes several times as long, and takes processors from the scan. */
#define FILL_PACE_SOON_NS INT64_C(500000000)
#define FILL_PACE_STILL_NS INT64_C(100000000) /* without rows for so long, it may hang */

struct fill_pace {
    int64_t started_ns; /* the scan; all times as of clock_now_ns() */
    int64_t moved_ns;   /* when it last brought rows */
    int64_t rows, room; /* that it has brought; that it will bring */
};

/* At its pace so far it ends within half a second, and it brought rows just now. */
static inline bool fill_pace_ends_soon(const struct fill_pace *pace, int64_t now_ns)
{
    if (pace->rows <= 0 || now_ns - pace->moved_ns > FILL_PACE_STILL_NS)
        return false;
    double ns_a_row = (double)(now_ns - pace->started_ns) / (double)pace->rows;
    return ns_a_row * (double)(pace->room - pace->rows) < (double)FILL_PACE_SOON_NS;
}

/* Allocates for the first `rows` rows of `inner`, which is borrowed until row_filler_stop(); if
 * rows differ in length, for as many of them as fit in `bytes`. Ends early if the machine or
 * container has less than `reserve_bytes` of free memory (0: never). */
enum error row_filler_start(struct store *inner, int64_t rows, uint64_t bytes,
                            uint64_t reserve_bytes, struct row_filler **ret_filler) MUST_CHECK;
/* Ends the scan at its next block. Waits for a call that hangs in the store. NULL is legal. */
void row_filler_stop(struct row_filler *filler);
/* Waits until the thread has finished: OK, or why it gave up. */
enum error row_filler_wait(struct row_filler *filler) MUST_CHECK;

/* Waits for these rows while the scan is about to end; afterwards some may still be
 * missing. Ends at once after stop_requested(). */
void row_filler_await(struct row_filler *filler, const int64_t ids[], size_t count);

/* The row with this id; -1: not there, or not yet. Any thread, without a lock. */
int64_t row_filler_find(const struct row_filler *filler, int64_t id);
/* Are all rows of the store there? */
bool row_filler_has_all(const struct row_filler *filler);
/* For a row that was found. */
bool row_filler_is_bad(const struct row_filler *filler, int64_t row);
const struct row_slots *row_filler_slots(const struct row_filler *filler);
/* OK, or what the scan found wrong with the store itself: a duplicate id, a changed file. */
enum error row_filler_check(const struct row_filler *filler) MUST_CHECK;

#endif

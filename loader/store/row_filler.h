/* SPDX-License-Identifier: MIT */
/*
 * Rows of a store on their way into memory: a thread scans the store from its first row on, while
 * others already take what is there. It ends behind the last row that there is room for, or when
 * memory gets scarce: then the first rows stay, and the rest is the store's.
 */
#ifndef LOADER_STORE_ROW_FILLER_H
#define LOADER_STORE_ROW_FILLER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/store/row_slots.h"
#include "loader/store/store.h"

struct row_filler;

/* Room for the first `rows` rows of `inner`, which is borrowed until row_filler_stop(); of rows
 * that differ in length for as many of them as `bytes` hold. It ends early where the machine or
 * container has less than `reserve_bytes` of free memory (0: never). */
enum error row_filler_start(struct store *inner, int64_t rows, uint64_t bytes,
                            uint64_t reserve_bytes, struct row_filler **ret_filler) MUST_CHECK;
/* Ends the scan at its next block. What the store hangs in, this waits for. NULL is legal. */
void row_filler_stop(struct row_filler *filler);
/* Until the thread is through: OK, or why it gave up. */
enum error row_filler_wait(struct row_filler *filler) MUST_CHECK;

/* Any thread, without a lock: the row with this id, -1: it is not there, or not yet. */
int64_t row_filler_find(const struct row_filler *filler, int64_t id);
/* Are all rows of the store there? */
bool row_filler_has_all(const struct row_filler *filler);
/* Of a row that was found. */
bool row_filler_is_bad(const struct row_filler *filler, int64_t row);
const struct row_slots *row_filler_slots(const struct row_filler *filler);
/* OK, or what is wrong with the store itself, which the scan met: two rows with one id, another
 * file than was opened. */
enum error row_filler_check(const struct row_filler *filler) MUST_CHECK;

#endif

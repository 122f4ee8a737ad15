/* SPDX-License-Identifier: MIT */
/*
 * A set of 64-bit numbers as sorted intervals that neither touch nor overlap: a worker's used seqs,
 * positions that are drawn first.
 *
 * Adding at the end and taking from the front cost O(1), lookup O(log n), adding in the middle
 * O(n). Adding needs room for one more interval: only intervals_reserve() can fail.
 *
 *     items   [ unused: front ][ in use: count ][ free ]        capacity
 *                               begin < end < begin of the next
 *
 * Taking from the front advances `front` instead of moving the items; intervals_reserve() moves
 * them back if that saves growing and costs no more than what was taken: amortized O(1) in any
 * order.
 *
 * Not thread-safe.
 */
#ifndef SAMPLER_LEDGER_INTERVALS_H
#define SAMPLER_LEDGER_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* begin, begin + 1, ..., end - 1; begin < end. */
struct interval {
    int64_t begin, end;
};

/* All zeros is the empty set. */
struct intervals {
    struct interval *items; /* owned; [front, front + count) are in use */
    size_t front;
    size_t count;
    size_t capacity;
    int64_t size; /* how many numbers are in the set */
};

void intervals_release(struct intervals *intervals);
void intervals_clear(struct intervals *intervals);

/* Room for `more` additional intervals. */
enum error intervals_reserve(struct intervals *intervals, size_t more) MUST_CHECK;

/* Adds [begin, end), begin < end. Room for one must be reserved. */
void intervals_add(struct intervals *intervals, int64_t begin, int64_t end);
/* Adds ascending, distinct numbers in O(n + count). Room for them must be reserved. */
void intervals_add_numbers(struct intervals *intervals, const int64_t *numbers, size_t count);
bool intervals_has(const struct intervals *intervals, int64_t number);

/* Index of the first interval that ends above `number`; `count`: none does. */
size_t intervals_find(const struct intervals *intervals, int64_t number);
/* The i-th interval, ascending; i < count. */
const struct interval *intervals_at(const struct intervals *intervals, size_t i);
/* Removes the part of the first interval below `number`, which it contains or ends at. */
void intervals_cut_front(struct intervals *intervals, int64_t number);
/* Removes all from `number` on. */
void intervals_cut_back(struct intervals *intervals, int64_t number);

#endif

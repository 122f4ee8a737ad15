/* SPDX-License-Identifier: MIT */
/*
 * The last acknowledged leases of a stream: who did what, for GET /where. A ring: the newest
 * replaces the oldest.
 *
 * Not thread-safe.
 */
#ifndef SAMPLER_LEDGER_LEASE_HISTORY_H
#define SAMPLER_LEDGER_LEASE_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define LEASE_HISTORY_LIMIT 65536

struct lease_done {
    int64_t first, positions;
    int64_t seq;
    uint32_t worker, attempt;
};

/* All zeros is empty. */
struct lease_history {
    struct lease_done *items; /* owned */
    size_t capacity;
    uint64_t count;   /* ever added; item i is at i % LEASE_HISTORY_LIMIT */
    uint64_t cleared; /* of these, no longer known */
};

void lease_history_release(struct lease_history *history);
void lease_history_clear(struct lease_history *history);

/* Room for `more`. */
enum error lease_history_reserve(struct lease_history *history, size_t more) MUST_CHECK;
void lease_history_add(struct lease_history *history, const struct lease_done *done);

/* Where lease_history_find() begins. */
#define LEASE_HISTORY_NEWEST UINT64_MAX
/* The newest item that holds the position, among the `most` before *number (counted from 0 in order
 * of addition); NULL: none of them does. Sets *number to where it stopped, 0: all were searched.
 * O(most), 20 us for 4,096 outside the cache. */
const struct lease_done *lease_history_find(const struct lease_history *history, int64_t position,
                                            size_t most, uint64_t *number);
/* How many were added before this one, which lease_history_at() returned. */
uint64_t lease_history_before(const struct lease_history *history, const struct lease_done *done);
/* The items kept, oldest first: [0, lease_history_kept()). */
size_t lease_history_kept(const struct lease_history *history);
const struct lease_done *lease_history_at(const struct lease_history *history, size_t i);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A stream's batches that are leased or waiting to be redelivered.
 *
 *   leased    a worker's, until its deadline: in the heap
 *   waiting   in the queue, whose first goes to the next pull: expired (still its worker's, who may
 *             ack it) or released (nobody's)
 *
 *   add, assign, start      leased
 *   wait                    expired
 *   disown, wait            released
 *   disown, assign, start   redelivered: leased again (a released one is disowned already)
 *   disown, remove          acked
 *
 * Indexed by (worker, seq) in a hash table, by position in a treap, by deadline in a heap, by
 * worker in a list: O(1), O(log n), O(log n) and O(1) for n leases; a million take about 120 MB. A
 * lease is a number, which keeps its value and its memory until lease_set_remove().
 *
 * Adding needs room: only lease_set_reserve() can fail. Not thread-safe.
 */
#ifndef SAMPLER_LEDGER_LEASE_SET_H
#define SAMPLER_LEDGER_LEASE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash_table.h"

#define LEASE_NONE HASH_TABLE_NONE
#define WORKER_NONE HASH_TABLE_NONE

/* The lists that a lease may be in: the waiting ones, and its worker's. */
enum lease_list_kind { LEASE_QUEUE, LEASE_WORKER };

struct lease_link {
    uint32_t before, after; /* LEASE_NONE: first, last */
};

struct lease {
    int64_t first; /* positions [first, first + positions) */
    int64_t positions;
    int64_t units;     /* at these positions; fewer if the design skips some */
    int64_t asked;     /* the size that the pull asked for */
    int64_t seq;       /* of its worker */
    int64_t leased_ms; /* when it was leased; -1: before this start of the server */
    int64_t deadline_ms;
    uint32_t worker;  /* WORKER_NONE: none */
    uint32_t attempt; /* how often it was leased */

    /* Private to the set: */
    uint32_t heap_at;           /* LEASE_NONE: not leased */
    uint32_t waits : 1;         /* in the queue */
    uint32_t priority : 31;     /* by position */
    struct lease_link links[2]; /* LEASE_QUEUE, LEASE_WORKER */
    uint32_t left, right;       /* by position; `right` links free ones */
};

/* One worker's leases, oldest first. */
struct lease_list {
    uint32_t first, last; /* LEASE_NONE: none */
};
#define LEASE_LIST_EMPTY ((struct lease_list){LEASE_NONE, LEASE_NONE})

struct lease_set {
    struct lease **chunks; /* owned: leases never move */
    size_t chunk_count, chunk_capacity;
    uint32_t used; /* numbers handed out so far */
    uint32_t free_first;
    uint32_t root;  /* of the tree by position */
    uint32_t *heap; /* [heap_count] by deadline: the leased ones */
    size_t heap_capacity;
    struct hash_table pairs; /* numbers by (worker, seq) */
    struct lease_list queue;
    size_t count;      /* of all leases */
    size_t heap_count; /* that are leased */
    size_t owned;      /* with a worker: leased or expired */
};

void lease_set_init(struct lease_set *set);
void lease_set_release(struct lease_set *set);

/* Room for one more. */
enum error lease_set_reserve(struct lease_set *set) MUST_CHECK;

struct lease *lease_set_get(const struct lease_set *set, uint32_t number);

/* Adds a batch without a worker, neither leased nor waiting. Room must be reserved; no other lease
 * holds its positions. */
uint32_t lease_set_add(struct lease_set *set, int64_t first, int64_t positions, int64_t units,
                       uint32_t attempt);
/* Assigns it to (worker, seq), which has no batch; `mine` is that worker's list. It must have no
 * worker (lease_set_disown()); removes it from the queue. */
void lease_set_assign(struct lease_set *set, uint32_t number, uint32_t worker, int64_t seq,
                      struct lease_list *mine);
void lease_set_disown(struct lease_set *set, uint32_t number, struct lease_list *mine);
/* Leases it until the deadline; removes it from the queue. */
void lease_set_start(struct lease_set *set, uint32_t number, int64_t leased_ms,
                     int64_t deadline_ms);
/* Ends the lease and appends it to the queue. */
void lease_set_wait(struct lease_set *set, uint32_t number);
/* Removes it from all indexes; it must have no worker. */
void lease_set_remove(struct lease_set *set, uint32_t number);

/* LEASE_NONE: none. */
uint32_t lease_set_find(const struct lease_set *set, uint32_t worker, int64_t seq);
uint32_t lease_set_at(const struct lease_set *set, int64_t position);
/* The last lease that starts before it. */
uint32_t lease_set_before(const struct lease_set *set, int64_t position);
/* The lease that starts there. */
uint32_t lease_set_starting(const struct lease_set *set, int64_t first);
/* The lease with the earliest deadline. */
uint32_t lease_set_earliest(const struct lease_set *set);
/* The first in the queue. */
uint32_t lease_set_waiting(const struct lease_set *set);

/* Calls `visit` for at most `most` leases that start at `first` or later, ascending by position;
 * returns the number of calls. */
size_t lease_set_some(const struct lease_set *set, int64_t first, size_t most,
                      void (*visit)(void *context, const struct lease *lease), void *context);
/* For all leases. */
void lease_set_each(const struct lease_set *set,
                    void (*visit)(void *context, const struct lease *lease), void *context);

#endif

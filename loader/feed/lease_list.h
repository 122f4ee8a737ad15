/* SPDX-License-Identifier: MIT */
/*
 * The leases that a feed holds or has to ack, found by seq: a fast caller puts back a thousand
 * between two ack requests.
 *
 * Threads: under the owner's lock.
 */
#ifndef LOADER_FEED_LEASE_LIST_H
#define LOADER_FEED_LEASE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash_table.h"

enum lease_state {
    LEASE_HELD,
    LEASE_DONE,   /* to be acked */
    LEASE_DROPPED /* not to be acked; forgotten when its last batch is put back */
};

struct lease {
    int64_t seq;    /* unique in the list */
    size_t pieces;  /* batches not yet put back */
    size_t trained; /* batches that were put back as trained */
    enum lease_state state;
    int64_t until_ns; /* it is ours until then at least, by clock_boot_ns() */
    bool lost;        /* the sampler reported it lost */
    bool out;         /* the caller has one of its batches, or had */
    bool due;         /* to be renewed in this round */
};

/* Empty when zeroed. */
struct lease_list {
    struct lease *leases; /* owned; [count] of [capacity], unordered */
    size_t count, capacity;
    struct hash_table numbers; /* indexes into `leases` by seq */
};

void lease_list_release(struct lease_list *list);
/* ERROR_MEMORY: nothing changed. */
enum error lease_list_add(struct lease_list *list, const struct lease *lease) MUST_CHECK;
/* Borrowed until the list changes; NULL: no lease has this seq. */
struct lease *lease_list_find(struct lease_list *list, int64_t seq);
/* Removes what lease_list_find() returned. The last lease moves into its place. */
void lease_list_remove(struct lease_list *list, struct lease *lease);

#endif

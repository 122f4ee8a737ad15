/* SPDX-License-Identifier: MIT */
/*
 * The leases that a feed holds or has to ack, found by their seq: a fast caller gives back a
 * thousand between two requests with acks.
 *
 * Threads: the owner's lock.
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
    LEASE_DROPPED /* not to be; forgotten when its last batch is given back */
};

struct lease {
    int64_t seq;   /* no other lease of the list has it */
    size_t pieces; /* batches that were not given back */
    enum lease_state state;
    bool lost; /* the sampler has said so */
    bool due;  /* to be renewed in this round */
};

/* All zeros is empty. */
struct lease_list {
    struct lease *leases; /* owned; [count] of [capacity], in no order */
    size_t count, capacity;
    struct hash_table numbers; /* places in `leases` by seq */
};

void lease_list_release(struct lease_list *list);
/* ERROR_MEMORY, nothing changed. */
enum error lease_list_add(struct lease_list *list, const struct lease *lease) MUST_CHECK;
/* Borrowed until the list is changed; NULL: no lease has this seq. */
struct lease *lease_list_find(struct lease_list *list, int64_t seq);
/* Takes out what lease_list_find() returned. The last lease moves to its place. */
void lease_list_remove(struct lease_list *list, struct lease *lease);

#endif

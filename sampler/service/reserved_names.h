/* SPDX-License-Identifier: MIT */
/*
 * The names of streams being created, which may take long (a split of many units), until they are
 * kept or undone. A second creation of the same name waits until the first has succeeded or failed;
 * other requests for the name are asked to retry until the stream is there. Thread-safe.
 */
#ifndef SAMPLER_SERVICE_RESERVED_NAMES_H
#define SAMPLER_SERVICE_RESERVED_NAMES_H

#include <stdbool.h>

#include "common/error.h"

/* A waiting creation; in the caller's storage until it is woken, once, by any thread. */
struct name_waiter {
    struct name_waiter *next;
    void (*wake)(struct name_waiter *waiter);
};

/* In the caller's storage while the name is reserved. */
struct reserved_name {
    struct reserved_name *next;
    const char *name; /* NULL: none is reserved */
    struct name_waiter *waiters;
};

struct reserved_names;

enum error reserved_names_new(struct reserved_names **ret_set) MUST_CHECK;
/* No name may be reserved any more. NULL is legal. */
void reserved_names_free(struct reserved_names *set);

/* True: the name is reserved; `name` must stay valid meanwhile. False: it is reserved already, and
 * `waiter` will be woken when it is released, possibly before this returns. */
bool reserved_names_enter(struct reserved_names *set, struct reserved_name *one, const char *name,
                          struct name_waiter *waiter);
/* Legal for one that never entered: all zeros. */
void reserved_names_leave(struct reserved_names *set, struct reserved_name *one);
bool reserved_names_has(struct reserved_names *set, const char *name);

#endif

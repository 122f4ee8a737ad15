/* SPDX-License-Identifier: MIT */
/*
 * The names of streams that are being made, which may take long (a split of many units). Who wants
 * to make another one of that name waits until the first is there, or failed; who asks for it is
 * told to come again. Safe from every thread.
 */
#ifndef SAMPLER_SERVICE_RESERVED_NAMES_H
#define SAMPLER_SERVICE_RESERVED_NAMES_H

#include <stdbool.h>

#include "common/error.h"

/* Who waits; in the caller's storage until it is woken, once, by whatever thread. */
struct name_waiter {
    struct name_waiter *next;
    void (*wake)(struct name_waiter *waiter);
};

/* In the caller's storage while the name is taken. */
struct reserved_name {
    struct reserved_name *next;
    const char *name; /* NULL: none is taken */
    struct name_waiter *waiters;
};

struct reserved_names;

enum error reserved_names_new(struct reserved_names **ret_set) MUST_CHECK;
/* None is taken any more. NULL is legal. */
void reserved_names_free(struct reserved_names *set);

/* True: the name is taken, and outlives that. False: somebody has it, and `waiter` will be woken
 * when he leaves it, maybe before this returns. */
bool reserved_names_enter(struct reserved_names *set, struct reserved_name *one, const char *name,
                          struct name_waiter *waiter);
/* Also of one that never entered: all zeros. */
void reserved_names_leave(struct reserved_names *set, struct reserved_name *one);
bool reserved_names_has(struct reserved_names *set, const char *name);

#endif

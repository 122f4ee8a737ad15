/* SPDX-License-Identifier: MIT */
/*
 * The names of streams under construction: opening a stream may take long, and a second POST for
 * the same name meanwhile gets 409. Safe from every thread.
 */
#ifndef SAMPLER_SERVICE_RESERVED_NAMES_H
#define SAMPLER_SERVICE_RESERVED_NAMES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* In the caller's storage while the name is taken. */
struct reserved_name {
    struct reserved_name *next;
    const char *name; /* NULL: none is taken */
    int64_t since_ns;
};

struct reserved_names {
    pthread_mutex_t mutex;
    struct reserved_name *first;
};

void reserved_names_init(struct reserved_names *set);
void reserved_names_release(struct reserved_names *set);

/* ERROR_CONFLICT: somebody makes a stream of that name. `name` outlives the reservation. */
enum error reserved_names_enter(struct reserved_names *set, struct reserved_name *one,
                                const char *name) MUST_CHECK;
/* Also of one that never entered: all zeros. */
void reserved_names_leave(struct reserved_names *set, struct reserved_name *one);

#endif

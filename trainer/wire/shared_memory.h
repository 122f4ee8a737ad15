/* SPDX-License-Identifier: MIT */
/*
 * Shared memory: gradients and values between a worker and a parameter server of one machine. The
 * worker creates a memory file and offers it; a server that can open it through /proc (same process
 * namespace, same user) and finds the offer's random key in it maps it. All others use TCP only.
 *
 * Frame headers still travel by TCP, and tell whose turn it is: the worker writes its gradient
 * before it sends a request and touches nothing until the answer, before which the server writes
 * the values. The file's size is sealed, so that no crash or mistake of a peer can remove pages.
 */
#ifndef TRAINER_WIRE_SHARED_MEMORY_H
#define TRAINER_WIRE_SHARED_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Empty: a zeroed struct. */
struct shared_memory {
    float *gradient, *values; /* [parameters] of a shard; NULL: empty */
    size_t parameters;
    int descriptor; /* of the creator, until it is taken; 0: none */
};

/* The payload of OFFER. */
struct shared_memory_offer {
    int64_t process;
    int64_t descriptor;
    uint64_t key[2];
};

/* Creates one. ERROR_MEMORY, ERROR_UNAVAILABLE. */
enum error shared_memory_make(struct shared_memory *memory, size_t parameters,
                              struct shared_memory_offer *ret_offer) MUST_CHECK;
/* Maps an offered one, also for `parameters`. ERROR_UNAVAILABLE: it cannot, or should not, be
 * used. */
enum error shared_memory_take(struct shared_memory *memory, size_t parameters,
                              const struct shared_memory_offer *offer) MUST_CHECK;
/* The creator closes its descriptor. */
void shared_memory_was_taken(struct shared_memory *memory);
void shared_memory_release(struct shared_memory *memory);

#endif

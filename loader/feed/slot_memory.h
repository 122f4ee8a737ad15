/* SPDX-License-Identifier: MIT */
/*
 * The memory of a ring's slots, allocated at once: one piece of host memory (page-locked as a
 * whole, in huge pages), in which the slots' rows follow each other, as do their ids and labels;
 * and targets in device memory, from which a slot's batch is delivered. On a GPU each slot has its
 * own target. On a CPU there may be fewer, which move from slot to slot, most recently used first,
 * so that floats, four times as large as their bytes, stay in the processor's cache while many
 * batches wait as bytes.
 *
 * Threads: under the ring's lock.
 */
#ifndef LOADER_FEED_SLOT_MEMORY_H
#define LOADER_FEED_SLOT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "loader/feed/ring.h"

struct slot_memory;

/* Fills in the constant parts of the `shape->slots` slots. `slots` and `device` are borrowed until
 * slot_memory_free(). ERROR_MEMORY names what did not fit. */
enum error slot_memory_new(const struct ring_shape *shape, struct device *device,
                           struct slot *slots, struct slot_memory **ret_memory) MUST_CHECK;
/* Waits for the caller's work with the slots. NULL is legal. */
void slot_memory_free(struct slot_memory *memory);

/* How many slots can have a target at a time. */
size_t slot_memory_targets(const struct slot_memory *memory);
size_t slot_memory_free_targets(const struct slot_memory *memory);
/* Gives the slot a target, of which one must be free. */
void slot_memory_bind(struct slot_memory *memory, struct slot *slot);
/* Frees the slot's target for others. */
void slot_memory_unbind(struct slot_memory *memory, struct slot *slot);

#endif

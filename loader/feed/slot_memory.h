/* SPDX-License-Identifier: MIT */
/*
 * The memory of a ring's slots, all allocated at once: one piece of host memory (page-locked at
 * once, in huge pages), where the rows of each slot lie behind those of the slot before, and so do
 * its ids and labels; and targets in device memory, where a slot's batch is handed out from. On a
 * GPU each slot has a target of its own. On a CPU there may be fewer, which go from slot to slot:
 * the one that was used last comes first, so that floats, four times the bytes that they are made
 * of, stay in the processor's cache while many batches wait as bytes.
 *
 * Threads: the ring's lock is held.
 */
#ifndef LOADER_FEED_SLOT_MEMORY_H
#define LOADER_FEED_SLOT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "loader/feed/ring.h"

struct slot_memory;

/* Fills in what is constant of the `shape->slots` slots. `slots` and `device` are borrowed until
 * slot_memory_free(). ERROR_MEMORY names what did not fit. */
enum error slot_memory_new(const struct ring_shape *shape, struct device *device,
                           struct slot *slots, struct slot_memory **ret_memory) MUST_CHECK;
/* Waits for the caller's work with the slots. NULL is legal. */
void slot_memory_free(struct slot_memory *memory);

/* How many slots can have a target at a time. */
size_t slot_memory_targets(const struct slot_memory *memory);
size_t slot_memory_free_targets(const struct slot_memory *memory);
/* Gives the slot a target. There is a free one. */
void slot_memory_bind(struct slot_memory *memory, struct slot *slot);
/* The slot's target is free for others. */
void slot_memory_unbind(struct slot_memory *memory, struct slot *slot);

#endif

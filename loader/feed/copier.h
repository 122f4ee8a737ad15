/* SPDX-License-Identifier: MIT */
/*
 * The copier: the thread that takes filled slots in order and brings them to the device: copies
 * them (if the device has its own memory), scales u8 to f32, normalizes, and makes one-hot rows of
 * labels there. On the CPU this thread does that ahead of the trainer; a trainer that only waits
 * for a batch takes part. Adjacent small batches are copied at once. If rows stay on the device
 * (resident_set.h), only new ones are copied, to their places, and each batch is gathered from
 * there, scaled and normalized in one pass.
 *
 * Before it writes a slot's device memory, the copier's queue waits for the event that feed_put()
 * recorded on the trainer's queue; after the copy it records the event for which feed_next() makes
 * the trainer's queue wait.
 */
#ifndef LOADER_FEED_COPIER_H
#define LOADER_FEED_COPIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/device/device.h"
#include "loader/feed/feature_moments.h"
#include "loader/feed/label_element.h"
#include "loader/feed/resident_set.h"
#include "loader/feed/ring.h"

struct copier_options {
    struct device *device; /* borrowed */
    size_t batch_rows;     /* B */
    size_t row_elements;   /* F */
    size_t row_bytes;      /* of a row as fetched */
    bool expand;           /* u8 to f32 */
    float scale;
    struct feature_moments moments; /* of floats; read at the start */
    enum label_element labels;
    size_t classes;                 /* of one-hot labels; otherwise 0 */
    const struct store_info *store; /* borrowed */
    struct resident_set *resident;  /* borrowed; NULL: no rows stay on the device */
    enum weight_element weights;
};

struct copier;

/* `ring` must outlive it. */
enum error copier_start(const struct copier_options *options, struct ring *ring,
                        struct copier **ret_copier) MUST_CHECK;
/* Joins the thread, frees everything. Stop the ring first. NULL is legal. */
void copier_stop(struct copier *copier);

/* Copies a slot that is COPYING and owned by the calling thread, on a CPU, whose queue any thread
 * may use. The slot is then COPIED, or the ring ends there. */
void copier_copy(struct copier *copier, struct slot *slot);

/* Time that host threads spent copying and scaling. */
int64_t copier_busy_ns(const struct copier *copier);

#endif

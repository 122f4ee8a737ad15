/* SPDX-License-Identifier: MIT */
/*
 * The copier: the thread that takes filled slots in their order and brings them to the device:
 * copies them (where the device has memory of its own), scales u8 to f32, normalizes, and makes
 * one-hot rows of labels there. On the CPU that is this thread's work, ahead of the trainer; a
 * trainer that has nothing else to do than to wait for a batch takes part. Small batches that wait
 * side by side are one copy.
 * Where rows stay on the device (resident_set.h), only new ones are copied, to their places, and
 * each batch is gathered from there, scaled and normalized in one pass.
 *
 * Before a slot's device memory is written, the copier's queue waits for the event that feed_put()
 * set on the trainer's queue; behind the copy it sets the event that feed_next() makes the
 * trainer's queue wait for.
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
    size_t row_bytes;      /* of a row as it is fetched */
    bool expand;           /* u8 to f32 */
    float scale;
    struct feature_moments moments; /* of floats; read when it starts */
    enum label_element labels;
    size_t classes;                 /* of one-hot labels; else 0 */
    const struct store_info *store; /* borrowed */
    struct resident_set *resident;  /* borrowed; NULL: no rows stay on the device */
    enum weight_element weights;
};

struct copier;

/* `ring` must outlive it. */
enum error copier_start(const struct copier_options *options, struct ring *ring,
                        struct copier **ret_copier) MUST_CHECK;
/* Joins the thread, frees everything. The ring must have been stopped before. NULL is legal. */
void copier_stop(struct copier *copier);

/* Copies a slot that is COPYING and the calling thread's, on a CPU, whose queue any thread may use.
 * COPIED then, or the ring has its end there. */
void copier_copy(struct copier *copier, struct slot *slot);

/* Time spent copying and scaling, as far as threads of the host did it. */
int64_t copier_busy_ns(const struct copier *copier);

#endif

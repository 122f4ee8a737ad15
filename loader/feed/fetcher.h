/* SPDX-License-Identifier: MIT */
/*
 * The fetchers: threads that take batches of ids out of the pull queue and fetch their rows from
 * the store into slots of the ring, each with a reader of its own. A fetcher takes a free slot
 * first and a batch then, so that a batch never waits for a slot while later ones have some.
 *
 * Of rows that stay on the device (resident_set.h) only those are fetched that are not there; their
 * batch's slot then has places, and in its memory the new rows alone. Of rows that are all in the
 * store's memory nothing is fetched but their places, where whoever makes floats of them takes them
 * from there.
 *
 * Rows that are missing or bad are handled here (enum bad_rows).
 */
#ifndef LOADER_FEED_FETCHER_H
#define LOADER_FEED_FETCHER_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/feed/feed.h"
#include "loader/feed/label_check.h"
#include "loader/feed/pull_queue.h"
#include "loader/feed/resident_set.h"
#include "loader/feed/ring.h"
#include "loader/store/row_attributes.h"

#define FETCHERS_LIMIT 64

struct fetcher_options {
    struct store *store;   /* borrowed */
    struct device *device; /* borrowed */
    size_t threads;        /* 1 to FETCHERS_LIMIT */
    size_t batch_rows;
    enum bad_rows bad_rows;
    const struct label_check *labels;        /* borrowed; NULL: labels are not compared */
    struct resident_set *resident;           /* borrowed; NULL: no rows stay on the device */
    bool finds;                              /* rows in the store's memory are left there */
    const struct row_attributes *attributes; /* borrowed; NULL: none are wanted */
    enum weight_element weights;             /* of them */
    bool wants_integers;                     /* as in feed.h */
};

struct fetchers;

/* Opens the readers and starts the threads. `queue` and `ring` must outlive them. */
enum error fetchers_start(const struct fetcher_options *options, struct pull_queue *queue,
                          struct ring *ring, struct fetchers **ret_fetchers) MUST_CHECK;
/* What the threads wait for in the store ends soon, as if a signal had come. NULL is legal. */
void fetchers_cancel(struct fetchers *fetchers);
/* Cancels, joins the threads, frees everything. Queue and ring must have been stopped before. NULL
 * is legal. */
void fetchers_stop(struct fetchers *fetchers);

/* Time spent fetching, summed over threads. */
int64_t fetchers_busy_ns(const struct fetchers *fetchers);

#endif

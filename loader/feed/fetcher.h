/* SPDX-License-Identifier: MIT */
/*
 * The fetchers: threads that take batches of ids from the pull queue and fetch their rows from the
 * store into slots of the ring, each with its own reader. A fetcher first takes a free slot, then a
 * batch, so a batch never waits for a slot while later ones have some.
 *
 * If rows stay on the device (resident_set.h), only missing ones are fetched; the batch's slot then
 * has places, and its memory only the new rows. If all rows are in the store's memory, only their
 * places are looked up, if whoever converts them to floats reads them from there.
 *
 * Missing and bad rows are handled here (enum bad_rows).
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
    bool finds;                              /* leave rows in the store's memory and use their
                                              * places */
    const struct row_attributes *attributes; /* borrowed; NULL: none requested */
    enum weight_element weights;             /* of them */
    bool wants_integers;                     /* as in feed.h */
};

struct fetchers;

/* Opens the readers and starts the threads. `queue` and `ring` must outlive them. */
enum error fetchers_start(const struct fetcher_options *options, struct pull_queue *queue,
                          struct ring *ring, struct fetchers **ret_fetchers) MUST_CHECK;
/* Ends the threads' waits in the store soon, as a signal would. NULL is legal. */
void fetchers_cancel(struct fetchers *fetchers);
/* Cancels, joins the threads, frees everything. Stop queue and ring first. NULL is legal. */
void fetchers_stop(struct fetchers *fetchers);

/* Time spent fetching, summed over threads. */
int64_t fetchers_busy_ns(const struct fetchers *fetchers);

#endif

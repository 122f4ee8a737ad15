/* SPDX-License-Identifier: MIT */
/*
 * The pullers: threads that request batches of ids from the sampler, ahead of all other stages, and
 * push them to the pull queue in the sampler's order.
 *
 * FEED_INDEX, FEED_GRANTED: one thread; each response holds many batches (pull_plan.h), so one
 * request is always far ahead. FEED_DRAW, FEED_LEASE: `connections` threads, each with a request in
 * flight, for one batch, or for the leases of several. Responses may overtake each other; one is
 * pushed once no request sent before it arrived can still bring an earlier position. When the
 * stream ends, or a request fails, outstanding responses are still taken: what was drawn is
 * delivered.
 *
 * The last thread to leave closes the queue and ends the ring, with the reason.
 */
#ifndef LOADER_FEED_PULLER_H
#define LOADER_FEED_PULLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/feed/feed.h"
#include "loader/feed/grant_queue.h"
#include "loader/feed/label_check.h"
#include "loader/feed/lease_keeper.h"
#include "loader/feed/pull_queue.h"
#include "loader/feed/rank_walk.h"
#include "loader/feed/ring.h"
#include "loader/feed/sampler_client.h"

#define PULLER_CONNECTIONS_LIMIT 64

struct puller_options {
    const char *url;
    const struct http_credentials *credentials;
    const char *stream; /* NULL: "default" */
    int64_t patience_ms;
    enum feed_pull pull;
    struct rank_walk walk;                 /* FEED_INDEX: which batches */
    const struct sampler_stream *expected; /* FEED_INDEX: what the stream must be; NULL: any */
    int64_t batches; /* requests, each counted as one batch; < 0: no end; not FEED_GRANTED */
    size_t batch_rows;
    size_t connections;             /* FEED_DRAW, FEED_LEASE: 1 to PULLER_CONNECTIONS_LIMIT */
    struct lease_keeper *leases;    /* FEED_LEASE; borrowed */
    size_t leases_at_once;          /* per request, 1 to SAMPLER_LEASES_AT_ONCE */
    struct label_check *labels;     /* borrowed; NULL: do not request the frame's labels */
    const struct store_info *store; /* borrowed; compared with the stream before the first draw */
    size_t bucket_window;           /* FEED_INDEX: pull_bucket.h; 0: the sampler's batches */
    struct store *lengths;          /* borrowed; for buckets: reports rows' lengths */
    bool fails_on_bad_rows;         /* end before a bad or a missing row comes */
};

struct puller;

/* Opens the clients (sends nothing) and starts the threads. `queue` and `ring` outlive it. */
enum error puller_start(const struct puller_options *options, struct pull_queue *queue,
                        struct ring *ring, struct puller **ret_puller) MUST_CHECK;
/* FEED_GRANTED: appends to the batches granted before. ERROR_USAGE: too many runs are pending. */
enum error puller_grant(struct puller *puller, struct grant grant) MUST_CHECK;
/* By index: the stream's description, once the sampler has sent it; else NULL. Any thread. */
const struct sampler_stream *puller_stream(const struct puller *puller);
/* By index: the epoch of the first batch of the round (rank_walk.h) in which this rank takes batch
 * `index`, which is of `epoch`: the same for all ranks, if the design allows it. For a batch
 * already received; any thread. */
int64_t puller_round_epoch(const struct puller *puller, int64_t index, int64_t epoch);
/* By index, once the ring has ended: the batch that would have come next. */
int64_t puller_next_index(const struct puller *puller);
/* The caller has taken the first `count` batches. Any thread; nearly free. */
void puller_handed(struct puller *puller, int64_t count);
/* Ends requests in flight; no more are sent. NULL is legal. */
void puller_cancel(struct puller *puller);
/* Cancels requests in flight, joins the threads, frees everything. Stop the queue first. NULL is
 * legal. */
void puller_stop(struct puller *puller);

/* Time spent in requests, summed over threads. */
int64_t puller_busy_ns(const struct puller *puller);

#endif

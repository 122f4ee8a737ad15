/* SPDX-License-Identifier: MIT */
/*
 * The pullers: threads that ask the sampler for batches of ids, ahead of everybody else, and push
 * them into the pull queue in the sampler's order.
 *
 * FEED_INDEX, FEED_GRANTED: one thread; each answer holds many batches (pull_plan.h), so that one
 * request is always far ahead. FEED_DRAW, FEED_LEASE: `connections` threads, each with a request in
 * flight, for one batch, or for the leases of several.
 * Answers may overtake each other on the way; an answer is pushed once no request that was sent
 * before it came can still bring an earlier position. When the stream ends, or a request fails, the
 * answers under way are still taken: what was drawn is delivered.
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
    const struct sampler_stream *expected; /* FEED_INDEX: what the stream must be; NULL: anything */
    int64_t batches; /* requests that count as one batch each; < 0: without end; not FEED_GRANTED */
    size_t batch_rows;
    size_t connections;             /* FEED_DRAW, FEED_LEASE: 1 to PULLER_CONNECTIONS_LIMIT */
    struct lease_keeper *leases;    /* FEED_LEASE; borrowed */
    size_t leases_at_once;          /* of a request, 1 to SAMPLER_LEASES_AT_ONCE */
    struct label_check *labels;     /* borrowed; NULL: the frame's labels are not asked for */
    const struct store_info *store; /* borrowed; compared with the stream before the first draw */
    size_t bucket_window;   /* FEED_INDEX: pull_bucket.h; 0: batches as the sampler cuts them */
    struct store *lengths;  /* borrowed; of buckets: says how long rows are */
    bool fails_on_bad_rows; /* it ends where a bad row will come, or where one is missing */
};

struct puller;

/* Opens the clients (sends nothing) and starts the threads. `queue` and `ring` outlive it. */
enum error puller_start(const struct puller_options *options, struct pull_queue *queue,
                        struct ring *ring, struct puller **ret_puller) MUST_CHECK;
/* FEED_GRANTED: these come behind those granted before. ERROR_USAGE: too many runs wait. */
enum error puller_grant(struct puller *puller, struct grant grant) MUST_CHECK;
/* By index: what the stream is, once the sampler has said so; else NULL. Any thread. */
const struct sampler_stream *puller_stream(const struct puller *puller);
/* By index: the epoch of the first batch of the round (rank_walk.h) in which this rank takes batch
 * `index`, which is of `epoch`: the same for all ranks, where the design allows to tell. Of a batch
 * that came; any thread. */
int64_t puller_round_epoch(const struct puller *puller, int64_t index, int64_t epoch);
/* By index, and once the ring has ended: the batch that would have come next. */
int64_t puller_next_index(const struct puller *puller);
/* The caller has had the first `count` batches. Any thread; costs next to nothing. */
void puller_handed(struct puller *puller, int64_t count);
/* Requests in flight end, and none is sent any more. NULL is legal. */
void puller_cancel(struct puller *puller);
/* Cancels requests in flight, joins the threads, frees everything. The queue must have been stopped
 * before. NULL is legal. */
void puller_stop(struct puller *puller);

/* Time spent asking, summed over threads. */
int64_t puller_busy_ns(const struct puller *puller);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A client of the sampler's HTTP interface, on one keep-alive connection: describes a stream and
 * gets batches of ids. While a sampler is away, silent, busy (429, 503; a gateway's 408, 502, 504)
 * or its disk is full (507), requests are retried with backoff for up to `patience_ms`; every
 * response is checked before any of it is used.
 *
 * Threads: one at a time, except for sampler_client_cancel(). In the steady state this code
 * allocates nothing (libcurl does).
 *
 * Errors of all requests: ERROR_TIMEOUT or ERROR_NETWORK at the end of patience; ERROR_USAGE if the
 * sampler refuses the request (400), with its reason; ERROR_NOT_FOUND for an unknown stream;
 * ERROR_CONFLICT if the stream is paused; ERROR_NETWORK for a response that no sampler sends;
 * ERROR_CANCELLED after sampler_client_cancel() or a signal.
 */
#ifndef LOADER_FEED_SAMPLER_CLIENT_H
#define LOADER_FEED_SAMPLER_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/http_client.h"
#include "loader/feed/sampler_batch.h"
#include "loader/feed/sampler_stream.h"

#define SAMPLER_WORKER_BYTES 129
/* About a million labels with their counts. */
#define SAMPLER_LABELS_BYTES_LIMIT ((size_t)64 << 20)

struct sampler_client;

/* Copies all texts; `stream` NULL is "default". Sends nothing yet. ERROR_USAGE: not a URL of a
 * server, not a stream's name, not a token. */
enum error sampler_client_open(const char *url, const struct http_credentials *credentials,
                               const char *stream, int64_t patience_ms,
                               struct sampler_client **ret_client) MUST_CHECK;
void sampler_client_close(struct sampler_client *client);

/* Allocates for responses of `rows` units, so that not even the first one has to. */
enum error sampler_client_reserve(struct sampler_client *client, size_t rows) MUST_CHECK;

/* For later requests. */
void sampler_client_set_patience(struct sampler_client *client, int64_t patience_ms);

/* Later requests that are retried are not logged: the caller does that. */
void sampler_client_mute(struct sampler_client *client);

/* For requests that are in flight when they are cancelled: http_client.h. */
void sampler_client_set_grace(struct sampler_client *client, int64_t grace_ms);

/* The sampler's URL, as given; for messages. */
const char *sampler_client_url(const struct sampler_client *client);
/* The stream's name; the same. */
const char *sampler_client_stream(const struct sampler_client *client);

/* From another thread: the request in progress and all later ones end with ERROR_CANCELLED. */
void sampler_client_cancel(struct sampler_client *client);

/* Describes the stream. May allocate. */
enum error sampler_client_describe(struct sampler_client *client,
                                   struct sampler_stream *ret_stream) MUST_CHECK;

/* The labels of the stream's frame as JSON, into `body` (GET /labels); batches hold their numbers
 * in this list. *ret_given false: the sampler refuses them (401, 403, 404) or they exceed
 * SAMPLER_LABELS_BYTES_LIMIT; error_message() says which. */
enum error sampler_client_labels(struct sampler_client *client, struct buffer *body,
                                 bool *ret_given) MUST_CHECK;

/* Draws the stream's next batch, which moves the stream. It may hold more than `size` units: an
 * expired lease of another worker is redelivered whole, with its lease.attempt. ERROR_END: the
 * stream has ended. The batch is borrowed until the next request for one. */
enum error sampler_client_draw(struct sampler_client *client, size_t size,
                               struct sampler_batch *ret_batch) MUST_CHECK;

/* The same as leases: repeating (worker, seq) returns the same batch. One request is for up to
 * `most` batches, 1 to SAMPLER_LEASES_AT_ONCE, of seq and the numbers after it; *ret_count, 1 or
 * more, are in ret_batches[most]. ERROR_UNAVAILABLE: everything left is leased; this function does
 * not retry. ERROR_CONFLICT, error_kind() SAMPLER_PAIR_LOST: the sampler leased a batch as `seq`,
 * its response was lost, and so is the lease by now: ask for the next seq. */
#define SAMPLER_PAIR_LOST "pair-lost"
#define SAMPLER_LEASES_AT_ONCE 64
enum error sampler_client_lease(struct sampler_client *client, size_t size, size_t most,
                                const char *worker, int64_t seq, struct sampler_batch ret_batches[],
                                size_t *ret_count) MUST_CHECK;

/* POST /ack, /extend or /release (no seqs) for a worker's leases; `what` is "ack" and so on.
 * *ret_expires_ms: for an extension. ERROR_CONFLICT: one of them is no longer the worker's, and
 * nothing was done; error_kind() SAMPLER_NEVER_LENT: the sampler knows nothing of it;
 * SAMPLER_PAIR_ACKED, of an extension: it was acked. */
#define SAMPLER_NEVER_LENT "never-lent"
#define SAMPLER_PAIR_ACKED "pair-acked"
enum error sampler_client_settle(struct sampler_client *client, const char *what,
                                 const char *worker, const int64_t seqs[], size_t count,
                                 int64_t *ret_expires_ms) MUST_CHECK;

/* Batch number `index` of size `size`; nothing moves. The sampler lists the process as a reader
 * (HOST-PID), unless it does not support that. ERROR_END beyond the stream's end. */
enum error sampler_client_index(struct sampler_client *client, size_t size, int64_t index,
                                struct sampler_batch *ret_batch) MUST_CHECK;

/* Since the stream was last described, or its description refused (ERROR_USAGE), did any request,
 * whatever its status, open a new connection or take several tries (a gateway keeps connections
 * while it answers for a sampler that is away)? Then another sampler may have responded: describe
 * the stream again. */
bool sampler_client_disturbed(const struct sampler_client *client);
/* Did the last request open a new connection? */
bool sampler_client_reconnected(const struct sampler_client *client);
/* Does the last batch belong to the order of `stream`? Every answer names its order, so that a
 * stream which is deleted and created again is noticed at once, on any connection; OK if the
 * sampler does not name it (an older one). ERROR_CONFLICT names both. */
enum error sampler_client_check_order(const struct sampler_client *client,
                                      const struct sampler_stream *stream) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A client of the sampler's HTTP interface, on one keep-alive connection: facts about a stream, and
 * batches of ids. A sampler that is not there, is silent or busy (429, 503; a gateway's 408, 502,
 * 504) is asked again with backoff until `patience_ms` is over; every answer is checked before
 * anything of it is used.
 *
 * Threads: one at a time, except sampler_client_cancel(). In the steady state nothing here
 * allocates (libcurl does for its own).
 *
 * Errors of all requests: ERROR_TIMEOUT or ERROR_NETWORK when patience is over; ERROR_USAGE when
 * the sampler refuses the request (400), with its reason; ERROR_NOT_FOUND for an unknown stream;
 * ERROR_CONFLICT when the stream is paused; ERROR_NETWORK for an answer that no sampler gives;
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

#define SAMPLER_NAME_BYTES 65
#define SAMPLER_WORKER_BYTES 129
/* About a million labels with their counts. */
#define SAMPLER_LABELS_BYTES_LIMIT ((size_t)64 << 20)

#define SAMPLER_EPOCHS_ANY (-1) /* to sampler_stream_compare() */

/* What GET /streams/NAME says: its order. */
struct sampler_stream {
    char name[SAMPLER_NAME_BYTES];
    char digest[SAMPLER_NAME_BYTES]; /* of the frame */
    char design[SAMPLER_NAME_BYTES];
    char tail[SAMPLER_NAME_BYTES];  /* "keep", "drop", "span" */
    char order[SAMPLER_NAME_BYTES]; /* of all that decides which unit comes where */
    bool replacement;
    bool mixes_splits;   /* draws training, validation and test rows alike */
    int64_t seed;        /* 0 to 2^63-1, exact */
    int64_t units;       /* N */
    int64_t epochs;      /* E; 0: without end */
    int64_t epoch_draws; /* M */
    int64_t position;    /* of what is drawn next, when it was asked; no part of the order */
};

struct sampler_client;

/* Copies all texts; `stream` NULL is "default". Nothing is sent yet. ERROR_USAGE for what is no URL
 * of a server, no name of a stream, no token. */
enum error sampler_client_open(const char *url, const struct http_credentials *credentials,
                               const char *stream, int64_t patience_ms,
                               struct sampler_client **ret_client) MUST_CHECK;
void sampler_client_close(struct sampler_client *client);

/* Room for answers of `rows` units, so that the first of them need not allocate. */
enum error sampler_client_reserve(struct sampler_client *client, size_t rows) MUST_CHECK;

/* For later requests. */
void sampler_client_set_patience(struct sampler_client *client, int64_t patience_ms);

/* For requests that are under way when they are cancelled: http_client.h. */
void sampler_client_set_grace(struct sampler_client *client, int64_t grace_ms);

/* The sampler's, as it was given; for messages. */
const char *sampler_client_url(const struct sampler_client *client);

/* From another thread: the request in progress and all later ones end with ERROR_CANCELLED. */
void sampler_client_cancel(struct sampler_client *client);

/* What the stream is. May allocate. */
enum error sampler_client_describe(struct sampler_client *client,
                                   struct sampler_stream *ret_stream) MUST_CHECK;

/* The labels of the stream's frame as JSON, into `body` (GET /labels); batches hold their numbers
 * in this list. *ret_given false: the sampler refuses them (401, 403, 404) or they are more than
 * SAMPLER_LABELS_BYTES_LIMIT; error_message() then says which. */
enum error sampler_client_labels(struct sampler_client *client, struct buffer *body,
                                 bool *ret_given) MUST_CHECK;

/* The stream's next batch; the stream moves. It may hold more than `size` units: a batch that was
 * leased to another worker and expired is redelivered whole. ERROR_END when the stream has ended.
 * The batch is borrowed until the next request for one. */
enum error sampler_client_draw(struct sampler_client *client, size_t size,
                               struct sampler_batch *ret_batch) MUST_CHECK;

/* The same as leases: (worker, seq) asked again brings the same batch. One request is for up to
 * `most` batches, 1 to SAMPLER_LEASES_AT_ONCE, of seq and the numbers after it; *ret_count, 1 and
 * more, come into ret_batches[most]. ERROR_UNAVAILABLE: nothing is left but what is lent; it is not
 * asked again here. */
#define SAMPLER_LEASES_AT_ONCE 64
enum error sampler_client_lease(struct sampler_client *client, size_t size, size_t most,
                                const char *worker, int64_t seq, struct sampler_batch ret_batches[],
                                size_t *ret_count) MUST_CHECK;

/* POST /ack, /extend or /release (no seqs) of a worker's leases; `what` is "ack" and so on.
 * *ret_expires_ms of an extension. ERROR_CONFLICT: one of them is not the worker's any more, and
 * nothing was done. */
enum error sampler_client_settle(struct sampler_client *client, const char *what,
                                 const char *worker, const int64_t seqs[], size_t count,
                                 int64_t *ret_expires_ms) MUST_CHECK;

/* Batch number `index` of size `size`; nothing moves. The sampler lists the process as a reader
 * (HOST-PID), unless it is one that refuses this. ERROR_END beyond the stream's end. */
enum error sampler_client_index(struct sampler_client *client, size_t size, int64_t index,
                                struct sampler_batch *ret_batch) MUST_CHECK;

/* Did the last request open a new connection? Then another sampler may have answered it than the
 * one before: describe it again. */
bool sampler_client_reconnected(const struct sampler_client *client);
/* Did it take several tries, on whatever connection? */
bool sampler_client_repeated(const struct sampler_client *client);
/* Does the last batch by index belong to the order of `stream`? Every answer names its order, so
 * that a stream which is deleted and created again is noticed at once, on any connection; OK if the
 * sampler does not name it (an older one). ERROR_CONFLICT names both. */
enum error sampler_client_check_order(const struct sampler_client *client,
                                      const struct sampler_stream *stream) MUST_CHECK;

/* OK when both have the same order, cut in the same way (digest, design, replacement, seed,
 * order, tail, M, epochs), else ERROR_CONFLICT naming the first difference. */
enum error sampler_stream_compare(const struct sampler_stream *before,
                                  const struct sampler_stream *now) MUST_CHECK;

/* A stream's description out of the body of an answer (NUL-terminated); `what` names it in
 * messages. ERROR_INPUT names the member that is missing or not what it should be. */
enum error sampler_stream_parse(const char *text, size_t length, const char *what,
                                struct sampler_stream *ret_stream) MUST_CHECK;

#endif

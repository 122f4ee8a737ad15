/* SPDX-License-Identifier: MIT */
/*
 * The leases of a feed: from the sampler's answer until the batch was given back. A thread renews
 * them, acks those whose batches were given back, several at once, and at the end releases the
 * rest, so that the next puller need not wait until they expire. What this process does not ack,
 * however it ends, is lent to somebody else.
 *
 * An answer may be cut into several batches: it is acked when all of them were given back.
 *
 * Threads: every call from every thread, except start and stop.
 */
#ifndef LOADER_FEED_LEASE_KEEPER_H
#define LOADER_FEED_LEASE_KEEPER_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/feed/sampler_client.h"

struct lease_keeper;

/* `worker`: 1 to 128 of [A-Za-z0-9._:-], nobody else's; NULL or "": HOST-PID and some digits. */
enum error lease_keeper_start(const char *url, const struct http_credentials *credentials,
                              const char *stream, const char *worker, int64_t patience_ms,
                              struct lease_keeper **ret_keeper) MUST_CHECK;
/* Acks what was given back, releases the rest, ends the thread. NULL is legal. */
void lease_keeper_stop(struct lease_keeper *keeper);

const char *lease_keeper_worker(const struct lease_keeper *keeper);
/* The first of `count` numbers for draws to come, each given once. */
int64_t lease_keeper_next_seqs(struct lease_keeper *keeper, int64_t count);
/* It came, as `pieces` batches. */
enum error lease_keeper_add(struct lease_keeper *keeper, const struct sampler_lease *lease,
                            size_t pieces) MUST_CHECK;
/* One of its batches was given back, trained or (drop) not: then it is not acked nor renewed. */
void lease_keeper_done(struct lease_keeper *keeper, int64_t seq);
void lease_keeper_drop(struct lease_keeper *keeper, int64_t seq);
/* Nothing is left but what is lent, to us perhaps: acks go out at once. Waits until `wait_ms` are
 * over, or some were acked. */
void lease_keeper_await_acks(struct lease_keeper *keeper, int64_t wait_ms);

/* Leases that ran out before their batches were given back: somebody else got them, too. */
int64_t lease_keeper_lost(const struct lease_keeper *keeper);

#endif

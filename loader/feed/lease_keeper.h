/* SPDX-License-Identifier: MIT */
/*
 * A feed's leases, from the sampler's response until the batch is put back. A thread renews them,
 * acks those whose batches were put back, several at once, and at the end releases the rest, so
 * that the next puller need not wait until they expire. Unacked batches are redelivered, however
 * this process ends.
 *
 * A response may be cut into several batches: it is acked when all of them were put back, and a
 * warning says at the end how many were put back in part.
 *
 * Threads: any, except for start and stop.
 */
#ifndef LOADER_FEED_LEASE_KEEPER_H
#define LOADER_FEED_LEASE_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/feed/sampler_client.h"

struct lease_keeper;

/* `worker`: 1 to 128 of [A-Za-z0-9._:-], unique; NULL: HOST-PID and some digits. `patience_ms`: as
 * in sampler_client.h, for acks. ERROR_USAGE: not such a name, or another feed of this process has
 * it. */
enum error lease_keeper_start(const char *url, const struct http_credentials *credentials,
                              const char *stream, const char *worker, int64_t patience_ms,
                              struct lease_keeper **ret_keeper) MUST_CHECK;
/* Keeps *unacked equal to the number of leases whose batches were put back and that are not acked
 * yet, until the keeper's thread has ended. */
void lease_keeper_watch(struct lease_keeper *keeper, _Atomic size_t *unacked);
/* No more batches are handed out: renews only leases whose batches are out, so that others get the
 * rest, even if the last of those is put back late or never. NULL is legal. */
void lease_keeper_leave(struct lease_keeper *keeper);
/* Acks what was put back, releases the rest, ends the thread. NULL is legal. */
void lease_keeper_stop(struct lease_keeper *keeper);

const char *lease_keeper_worker(const struct lease_keeper *keeper);
/* Reserves `count` seqs for future draws and returns the first; each is returned once. */
int64_t lease_keeper_next_seqs(struct lease_keeper *keeper, int64_t count);
/* Adds a received lease, delivered as `pieces` batches; asked for at `asked_ns`
 * (clock_boot_ns()) or later. */
enum error lease_keeper_add(struct lease_keeper *keeper, const struct sampler_lease *lease,
                            size_t pieces, int64_t asked_ns) MUST_CHECK;
/* May the caller get one of its batches? False: others get it, since another batch of the lease was
 * dropped, or the sampler no longer has it as ours. If it may have expired, it is renewed first:
 * waits for that, at most a second, and is true if nothing is known by then. */
bool lease_keeper_hands_out(struct lease_keeper *keeper, int64_t seq);
/* One of its batches was put back: trained, or (drop) not, in which case the lease is neither acked
 * nor renewed. */
void lease_keeper_done(struct lease_keeper *keeper, int64_t seq);
void lease_keeper_drop(struct lease_keeper *keeper, int64_t seq);
/* Was a lease dropped that has not expired yet? Nobody gets its batch before. */
bool lease_keeper_has_dropped(struct lease_keeper *keeper);
/* Only leased batches are left, perhaps our own: sends acks at once. Waits until `wait_ms` are
 * over, or some were acked. */
void lease_keeper_await_acks(struct lease_keeper *keeper, int64_t wait_ms);
/* The error of acks that were refused twice in a row, or failed for as long as patience lasts,
 * though draws may succeed (a gateway without POST): what is trained would be redelivered again and
 * again. */
enum error lease_keeper_check_acks(struct lease_keeper *keeper) MUST_CHECK;

/* How many leases the sampler no longer had as ours (expired, withdrawn, forgotten) before their
 * batches were acked, so that others may get them too. */
int64_t lease_keeper_lost(const struct lease_keeper *keeper);

#endif

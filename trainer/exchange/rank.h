/* SPDX-License-Identifier: MIT */
/*
 * A rank: a worker's side of a training whose GPUs exchange gradients by NCCL (--exchange nccl).
 * Each has all parameters; server 0 says who belongs to a group, and each rank knows from its place
 * which batches of every step are its own: the places rank, rank + R, ... of the step's N.
 *
 * A group that loses a rank, or that another worker joins, is over: each of it stops, aborts what
 * hangs, and joins anew. The next group begins with what its foremost member has made.
 *
 * Threads: one, that of the model; a thread of its own speaks to server 0 meanwhile (rank_watch.h).
 */
#ifndef TRAINER_EXCHANGE_RANK_H
#define TRAINER_EXCHANGE_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "loader/feed/feed.h"

struct exchange;
struct rank;

/* Of an exchange that knows engine and model (exchange_begin()): loads NCCL and joins a group of a
 * training whose stream has so many batches (INT64_MAX: no end). ERROR_USAGE when the engine's
 * device is no GPU; ERROR_UNAVAILABLE when NCCL is not there; ERROR_CONFLICT when another rank has
 * the same GPU; ERROR_END. */
enum error rank_open(struct exchange *exchange, int64_t batches, struct rank **ret_rank) MUST_CHECK;
/* Leaves the group; rank 0 sends what it has made once more when the program is to stop. NULL is
 * legal. */
void rank_close(struct rank *rank);

/* As the functions of these names of exchange.h. */
enum error rank_refill(struct rank *rank, struct feed *feed) MUST_CHECK;
bool rank_take(struct rank *rank, int64_t batch);
enum error rank_push(struct rank *rank, size_t rows) MUST_CHECK;
enum error rank_end_stream(const struct rank *rank, int64_t end) MUST_CHECK;

#endif

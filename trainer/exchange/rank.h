/* SPDX-License-Identifier: MIT */
/*
 * A rank: a worker's side of a training whose GPUs exchange gradients by NCCL (--exchange nccl).
 * Each rank has all parameters; server 0 assigns the members of a group, and a rank's number
 * determines its batches: places rank, rank + R, ... of each step's N.
 *
 * When a member is lost, or another worker joins, the group ends: its ranks stop, abort what hangs,
 * and join again. The next group starts from the last step of its most advanced member.
 *
 * Threads: the model's thread only; a thread of the rank's own talks to server 0 (rank_watch.h).
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

/* Loads NCCL and joins a group. Call after exchange_begin() has set engine and model. `batches`:
 * the length of the stream (INT64_MAX: no end). ERROR_USAGE: the engine's device is no GPU;
 * ERROR_UNAVAILABLE: NCCL cannot be loaded; ERROR_CONFLICT: another rank uses the same GPU;
 * ERROR_END: the training is over. */
enum error rank_open(struct exchange *exchange, int64_t batches, struct rank **ret_rank) MUST_CHECK;
/* Leaves the group; after a signal, rank 0 sends its state to server 0 first. NULL is legal. */
void rank_close(struct rank *rank);

/* The functions of these names in exchange.h. */
enum error rank_refill(struct rank *rank, struct feed *feed) MUST_CHECK;
bool rank_take(struct rank *rank, int64_t batch);
enum error rank_push(struct rank *rank, size_t rows) MUST_CHECK;
enum error rank_end_stream(const struct rank *rank, int64_t end) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Which batches of a stream one rank of W takes: from batch number `first` on, batches go to ranks
 * 0, 1, ... W - 1 in turn; W is torch.distributed's world size. All ranks take equally many steps,
 * or one would wait for the others forever: batches at the stream's end that are too few for a
 * round of all ranks are left out or, with `pad`, the round is filled up with the stream's first
 * batches. A rank's batches may be divided among several feeds, its parts, each of which takes
 * every parts-th of them; none is left out. Pure arithmetic.
 */
#ifndef LOADER_FEED_RANK_WALK_H
#define LOADER_FEED_RANK_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/index_set.h"
#include "loader/feed/grant_queue.h"

/* Of a stream's batches; no sum of two numbers of them overflows. */
#define RANK_WALK_BATCHES_LIMIT (INT64_MAX / 4)

struct rank_walk {
    int64_t first;       /* 0 to RANK_WALK_BATCHES_LIMIT */
    int64_t rank, world; /* 0 <= rank < world */
    int64_t part, parts; /* 0 <= part < parts; parts 0: 1 */
    bool pad;
    const struct index_set *done; /* steps of this part to leave out; NULL: none */
    /* Private. */
    int64_t batches; /* of the stream; INT64_MAX: no end */
    int64_t step;    /* the next */
};

/* ERROR_USAGE: there is no such place; world and parts 0: 1. */
enum error rank_walk_check(int64_t rank, int64_t world, int64_t part, int64_t parts) MUST_CHECK;

/* `batches`: of the whole stream, as from pull_plan_batches(). ERROR_USAGE: only the sampler knows
 * them, and there are several ranks. */
enum error rank_walk_begin(struct rank_walk *walk, int64_t batches) MUST_CHECK;
/* How many steps this part of each rank takes from `first` on; INT64_MAX: no end. */
int64_t rank_walk_steps(const struct rank_walk *walk);
/* How many of these, without those done, are in rounds that begin before batch `end`; INT64_MAX:
 * all; no end. */
int64_t rank_walk_steps_before(const struct rank_walk *walk, int64_t end);
/* Batches after the last step of all ranks, without `pad`. */
int64_t rank_walk_left_out(const struct rank_walk *walk);
/* The next run of this part's batches, at most `most` (< 0: any number). False: there is none. */
bool rank_walk_next(struct rank_walk *walk, int64_t most, struct grant *ret_grant);
/* The batch of a step. */
int64_t rank_walk_batch(const struct rank_walk *walk, int64_t step);
/* Rank 0's batch of the round in which this rank takes `batch`. */
int64_t rank_walk_round(const struct rank_walk *walk, int64_t batch);

#endif

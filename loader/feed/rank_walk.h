/* SPDX-License-Identifier: MIT */
/*
 * Which batches of a stream one rank of W takes: of the batches from number `first` on each in turn
 * goes to rank 0, 1, ... W - 1; W is the world, as of torch.distributed. All ranks take equally
 * many steps, or those of one would wait for the others' for ever: of the batches that are too few
 * for a round of all, at the stream's end, no rank takes any, or with `pad` the first of the stream
 * fill the round up. What a rank takes may be divided among several feeds, its parts, each of which
 * has every parts-th of its batches; none of those is left out. Pure arithmetic.
 */
#ifndef LOADER_FEED_RANK_WALK_H
#define LOADER_FEED_RANK_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/index_set.h"
#include "loader/feed/grant_queue.h"

struct rank_walk {
    int64_t first;
    int64_t rank, world; /* 0 <= rank < world */
    int64_t part, parts; /* 0 <= part < parts; parts 0: 1 */
    bool pad;
    const struct index_set *done; /* steps of this part that are not taken; NULL: none */
    /* Its own. */
    int64_t batches; /* of the stream; INT64_MAX: without end */
    int64_t step;    /* the next */
};

/* ERROR_USAGE when there is no such place; world and parts 0: 1. */
enum error rank_walk_check(int64_t rank, int64_t world, int64_t part, int64_t parts) MUST_CHECK;

/* `batches`: of the whole stream, as pull_plan_batches() says. ERROR_USAGE: only the sampler knows
 * them, and there are several ranks. */
enum error rank_walk_begin(struct rank_walk *walk, int64_t batches) MUST_CHECK;
/* How many steps this part of each rank takes from `first` on; INT64_MAX: without end. */
int64_t rank_walk_steps(const struct rank_walk *walk);
/* Batches that lie behind the last step of all ranks, without `pad`. */
int64_t rank_walk_left_out(const struct rank_walk *walk);
/* The next run of batches of this part, at most `most` (< 0: any number). False: there is none. */
bool rank_walk_next(struct rank_walk *walk, int64_t most, struct grant *ret_grant);
/* The batch of a step. */
int64_t rank_walk_batch(const struct rank_walk *walk, int64_t step);
/* Rank 0's batch of the round in which this rank takes `batch`. */
int64_t rank_walk_round(const struct rank_walk *walk, int64_t batch);

#endif

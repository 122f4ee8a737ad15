/* SPDX-License-Identifier: MIT */
/*
 * How far one rank of a feed by index is: its steps (rank_walk.h) whose batches were given back,
 * not those that were fetched ahead. As text it is a stream_position.h: the batches of all ranks up
 * to the first step that is not done, and this rank's own beyond it. So the text of one rank serves
 * all of them, and any other number of ranks, where ranks save after the same step and have given
 * everything back; else each rank goes on from its own.
 *
 * Threads: one at a time.
 */
#ifndef LOADER_FEED_RANK_STATE_H
#define LOADER_FEED_RANK_STATE_H

#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/index_set.h"
#include "loader/feed/sampler_client.h"

struct rank_state {
    int64_t first, rank, world; /* as those of the walk; of parts, their places among all */
    int64_t batch_rows, bucket_window;
    struct index_set begun; /* steps that were done when this feed began */
    struct index_set done;  /* all that are, with those */
};

/* Sets `first`, `begun` and `done` to what the text says; its order is *ret_stream. ERROR_CONFLICT
 * when it is of batches of another size or other buckets, ERROR_INPUT when it is no such text. */
enum error rank_state_parse(struct rank_state *state, const char *text,
                            struct sampler_stream *ret_stream) MUST_CHECK;
/* The batch that the feed handed out as number `sequence`, from 0 on, was given back. */
enum error rank_state_add(struct rank_state *state, int64_t sequence) MUST_CHECK;
enum error rank_state_print(const struct rank_state *state, const struct sampler_stream *stream,
                            struct buffer *out) MUST_CHECK;
void rank_state_release(struct rank_state *state);

#endif

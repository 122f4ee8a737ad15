/* SPDX-License-Identifier: MIT */
/*
 * The progress of one rank of a feed by index: its steps (rank_walk.h) whose batches were put back,
 * without those fetched ahead. As text it is a stream_position.h: the batches of all ranks up to
 * the first step that is not done, and this rank's own beyond it, none of them behind the stream's
 * end. So if all ranks save after the same step with everything put back, one rank's text serves
 * all of them, and any other number of ranks; otherwise each rank continues from its own.
 *
 * One thread at a time.
 */
#ifndef LOADER_FEED_RANK_STATE_H
#define LOADER_FEED_RANK_STATE_H

#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/index_set.h"
#include "loader/feed/sampler_stream.h"

struct rank_state {
    int64_t first, rank, world; /* as those of the walk; with parts, their places among all */
    int64_t batch_rows, bucket_window;
    struct index_set begun; /* steps that were done when this feed began */
    struct index_set done;  /* all that are done, including those */
};

/* Sets `first`, `begun` and `done` from the text; its order is *ret_stream, of any number of epochs
 * unless a batch that is done would be longer with more. ERROR_CONFLICT: another
 * batch size or other buckets; ERROR_INPUT: not such a text. */
enum error rank_state_parse(struct rank_state *state, const char *text,
                            struct sampler_stream *ret_stream) MUST_CHECK;
/* The batch that the feed delivered as number `sequence`, from 0 on, was put back. */
enum error rank_state_add(struct rank_state *state, int64_t sequence) MUST_CHECK;
enum error rank_state_print(const struct rank_state *state, const struct sampler_stream *stream,
                            struct buffer *out) MUST_CHECK;
void rank_state_release(struct rank_state *state);

#endif

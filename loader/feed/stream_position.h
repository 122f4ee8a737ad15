/* SPDX-License-Identifier: MIT */
/*
 * A stream position: which order of the sampler is being trained, and how far. The order is named
 * by the stream's frame digest, design, seed, replacement, tail and `order`; how far is the set of
 * batches of `batch_rows` units that are done (`GET /batch?size=B&index=K` is a pure function). A
 * checkpoint holds both, so that what follows a restart is exactly what would have followed.
 */
#ifndef LOADER_FEED_STREAM_POSITION_H
#define LOADER_FEED_STREAM_POSITION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/index_set.h"
#include "loader/feed/sampler_client.h"

struct stream_position {
    struct sampler_stream stream;
    int64_t batch_rows; /* B, at least 1 */
    int64_t
        bucket_window; /* of a feed with buckets (feed.h): its batches hold other units; 0: none */
    bool ended; /* no batch behind those that are done is trained, and there are steps left */
};

/* Appends it as a JSON object: the members of GET /streams/NAME that matter, batch_size, next_index
 * (the last batch of `done`, and one), `ended` if it has and, if there are any, holes, a list of
 * [first, end] that are not done before it. Reads it back, adding to `done`; `what` names the text
 * in messages. */
enum error stream_position_print(const struct stream_position *position,
                                 const struct index_set *done, struct buffer *out) MUST_CHECK;
enum error stream_position_parse(const char *text, const char *what,
                                 struct stream_position *ret_position,
                                 struct index_set *done) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A stream position: which order of the sampler is being trained, and how far. The order is
 * identified by the stream's frame digest, design, seed, replacement, tail and `order`; the
 * progress is the set of finished batches of `batch_rows` units (`GET /batch?size=B&index=K` is a
 * pure function). A checkpoint holds both, so training after a restart continues exactly as it
 * would have.
 */
#ifndef LOADER_FEED_STREAM_POSITION_H
#define LOADER_FEED_STREAM_POSITION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/index_set.h"
#include "loader/feed/sampler_stream.h"

struct stream_position {
    struct sampler_stream stream;
    int64_t batch_rows;    /* B, at least 1 */
    int64_t bucket_window; /* of a feed with buckets (feed.h), whose batches hold other units; 0:
                            * none */
    bool ended;            /* no batch after those done is trained, and there are steps left */
    bool stopped;          /* `ended` by early stopping, not by the end of the stream */
};

/* Appends it as a JSON object: the relevant members of GET /streams/NAME, batch_size, next_index
 * (the last batch of `done`, plus one), `ended` and `stopped` if so and, if there are any, holes, a
 * list of [first, end] that are not done before it. The other function reads it back, adding to
 * `done`; `what` names the text in messages. */
enum error stream_position_print(const struct stream_position *position,
                                 const struct index_set *done, struct buffer *out) MUST_CHECK;
enum error stream_position_parse(const char *text, const char *what,
                                 struct stream_position *ret_position,
                                 struct index_set *done) MUST_CHECK;

/* Is the last batch of its epochs done, and was it cut short by the stream's end, as with tail
 * `span`? With more epochs it is longer, so that rows would be left out. */
bool stream_position_has_cut_batch(const struct stream_position *position,
                                   const struct index_set *done);

#endif

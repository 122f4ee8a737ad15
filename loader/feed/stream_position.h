/* SPDX-License-Identifier: MIT */
/*
 * A stream position: which order of the sampler is being trained, and how far. The order is named
 * by the stream's frame digest, design, seed, replacement, tail and `order`; how far is the set of
 * batches of `batch_rows` units that are done (`GET /batch?size=B&index=K` is a pure function). A
 * checkpoint holds both, so that what follows a restart is exactly what would have followed.
 */
#ifndef TRAINER_CHECKPOINT_STREAM_POSITION_H
#define TRAINER_CHECKPOINT_STREAM_POSITION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "loader/feed/sampler_client.h"
#include "trainer/ledger/index_set.h"

struct stream_position {
    struct sampler_stream stream;
    int64_t batch_rows; /* B, at least 1 */
    bool ended; /* no batch behind those that are done is trained, and there are steps left */
};

/* Asks the sampler at `url` what `stream` is, for up to `patience_ms`. Errors as those of
 * sampler_client_describe(). */
enum error stream_position_fetch(const char *url, const char *stream, int64_t patience_ms,
                                 struct sampler_stream *ret_stream) MUST_CHECK;

/* As stream_position_fetch(), but one try of less than half a second that logs nothing: for what is
 * asked again soon. */
enum error stream_position_peek(const char *url, const char *stream,
                                struct sampler_stream *ret_stream) MUST_CHECK;

/* OK when `theirs` has the same order in the same batches as `ours`, however far each is; else
 * ERROR_CONFLICT naming the first difference with both values: "CALLED is of another order: its
 * seed is 7, the sampler's is 9", and what would mend it. `called` names `theirs`. */
enum error stream_position_compare(const struct stream_position *theirs, const char *called,
                                   const struct stream_position *ours) MUST_CHECK;
/* The last part of it: are batches of `batch_rows` those of `theirs`? */
enum error stream_position_compare_size(const struct stream_position *theirs, const char *called,
                                        int64_t batch_rows) MUST_CHECK;

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

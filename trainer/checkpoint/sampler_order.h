/* SPDX-License-Identifier: MIT */
/*
 * Does the sampler still give the order that a model was trained on? And in which words a person
 * hears that it does not.
 */
#ifndef TRAINER_CHECKPOINT_SAMPLER_ORDER_H
#define TRAINER_CHECKPOINT_SAMPLER_ORDER_H

#include <stdint.h>

#include "common/error.h"
#include "loader/feed/stream_position.h"

/* Asks the sampler at `url` what `stream` is, for up to `patience_ms`. Errors as those of
 * sampler_client_describe(). */
enum error sampler_order_fetch(const char *url, const char *stream, int64_t patience_ms,
                               struct sampler_stream *ret_stream) MUST_CHECK;

/* As sampler_order_fetch(), but one try of less than half a second that logs nothing: for what is
 * asked again soon. */
enum error sampler_order_peek(const char *url, const char *stream,
                              struct sampler_stream *ret_stream) MUST_CHECK;

/* OK when `theirs` has the same order in the same batches as `ours`, however far each is; else
 * ERROR_CONFLICT naming the first difference with both values: "CALLED belongs to another order:
 * its seed is 7, the sampler's is 9", and what would mend it. `called` names `theirs`. */
enum error sampler_order_compare(const struct stream_position *theirs, const char *called,
                                 const struct stream_position *ours) MUST_CHECK;
/* The last part of it: are batches of `batch_rows` those of `theirs`? */
enum error sampler_order_compare_size(const struct stream_position *theirs, const char *called,
                                      int64_t batch_rows) MUST_CHECK;

#endif

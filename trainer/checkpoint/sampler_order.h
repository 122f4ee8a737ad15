/* SPDX-License-Identifier: MIT */
/*
 * Checks whether the sampler still gives the order that a model was trained on, and words the error
 * message if it does not.
 */
#ifndef TRAINER_CHECKPOINT_SAMPLER_ORDER_H
#define TRAINER_CHECKPOINT_SAMPLER_ORDER_H

#include <stdint.h>

#include "common/error.h"
#include "loader/feed/stream_position.h"

/* Asks the sampler at `url` for a description of `stream`, for up to `patience_ms`. Errors as
 * sampler_client_describe(). */
enum error sampler_order_fetch(const char *url, const char *stream, int64_t patience_ms,
                               struct sampler_stream *ret_stream) MUST_CHECK;

/* As sampler_order_fetch(), but one attempt of less than half a second that logs nothing: for
 * periodic checks. */
enum error sampler_order_peek(const char *url, const char *stream,
                              struct sampler_stream *ret_stream) MUST_CHECK;

/* OK if `theirs` has the same order in the same batches as `ours`, whatever their progress; else
 * ERROR_CONFLICT naming the first difference with both values: "CALLED belongs to another order:
 * its seed is 7, the sampler's is 9", and a remedy. `called` names `theirs`. */
enum error sampler_order_compare(const struct stream_position *theirs, const char *called,
                                 const struct stream_position *ours) MUST_CHECK;
/* Its last check: are batches of `batch_rows` those of `theirs`? */
enum error sampler_order_compare_size(const struct stream_position *theirs, const char *called,
                                      int64_t batch_rows) MUST_CHECK;

/* ERROR_CONFLICT: the last batch of the epochs of `reached` is short, and done. With another number
 * of `epochs` (0, INT64_MAX: no end) it holds other rows, which nobody would train. `called` and
 * `verb` begin the message: "the training has reached". */
enum error sampler_order_check_epochs(const struct stream_position *reached,
                                      const struct index_set *done, const char *called,
                                      const char *verb, int64_t epochs) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A stream as the sampler describes it (GET /streams/NAME): what decides its order, and whether two
 * descriptions are of the same one.
 */
#ifndef LOADER_FEED_SAMPLER_STREAM_H
#define LOADER_FEED_SAMPLER_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define SAMPLER_NAME_BYTES 65
#define SAMPLER_EPOCHS_ANY (-1) /* for sampler_stream_compare() */

/* The order of a stream, from GET /streams/NAME. */
struct sampler_stream {
    char name[SAMPLER_NAME_BYTES];
    char digest[SAMPLER_NAME_BYTES]; /* of the frame */
    char design[SAMPLER_NAME_BYTES];
    char tail[SAMPLER_NAME_BYTES];  /* "keep", "drop", "span" */
    char order[SAMPLER_NAME_BYTES]; /* of everything that decides which unit comes where */
    bool replacement;
    bool mixes_splits;   /* draws training, validation and test rows alike */
    int64_t seed;        /* 0 to 2^63-1, exact */
    int64_t units;       /* N */
    int64_t epochs;      /* E; 0: no end */
    int64_t epoch_draws; /* M */
    int64_t batch_units; /* of each batch, if the design decides that (pxk); else 0 */
    int64_t position;    /* of the next draw, at the time of the request; not part of the order */
    bool goes_on;        /* it had not ended then; false if that is not said */
};

/* Parses a stream's description from a response's body (NUL-terminated); `what` names it in
 * messages. ERROR_INPUT names the member that is missing or invalid. */
enum error sampler_stream_parse(const char *text, size_t length, const char *what,
                                struct sampler_stream *ret_stream) MUST_CHECK;

/* OK if both have the same order, cut in the same way (digest, design, replacement, seed, order,
 * tail, M, epochs), else ERROR_CONFLICT naming the first difference. */
enum error sampler_stream_compare(const struct sampler_stream *before,
                                  const struct sampler_stream *now) MUST_CHECK;
/* The same without tail and epochs, which may change while a stream is drawn from. */
enum error sampler_stream_compare_orders(const struct sampler_stream *before,
                                         const struct sampler_stream *now) MUST_CHECK;
/* OK if a batch that begins at `first` is of `epoch`, else ERROR_NETWORK. */
enum error sampler_stream_check_epoch(const struct sampler_stream *stream, int64_t first,
                                      int64_t epoch) MUST_CHECK;
/* ERROR_CONFLICT: "the sampler's stream is another one than it was: its `what` was ...". */
enum error sampler_stream_differs(const char *what, const char *before, const char *now) MUST_CHECK;

#endif

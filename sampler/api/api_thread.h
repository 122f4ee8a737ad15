/* SPDX-License-Identifier: MIT */
/*
 * The sampler's part of an HTTP thread: room for the units of a batch, so that a draw allocates
 * nothing once the thread is warm, and the last parsed query of /batch.
 *
 * Threads: its HTTP thread. Dimensions: B units per batch.
 */
#ifndef SAMPLER_API_API_THREAD_H
#define SAMPLER_API_API_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "sampler/batch/batch_request.h"
#include "sampler/stream/stream.h"

struct api_thread {
    size_t capacity; /* of the four arrays below, in units */
    int64_t *ids;
    uint32_t *labels;
    int64_t *scratch_ids;
    uint32_t *scratch_labels;
    size_t weights_capacity; /* of the two arrays for weights=1, in units */
    int64_t *rows;
    double *probabilities;
    struct stream_batch drawn[STREAM_DRAWS_AT_ONCE]; /* of a request, until they are formatted */
    struct batch_request batch; /* parsed from the target given to request_remember() */
};

/* Frees the arrays. */
void api_thread_release(struct api_thread *thread);

/* Room for B units in the arrays, including those for weights=1 if `weights`. */
enum error api_thread_reserve(struct api_thread *thread, size_t size, bool weights) MUST_CHECK;

#endif

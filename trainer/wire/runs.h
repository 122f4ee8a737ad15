/* SPDX-License-Identifier: MIT */
/*
 * Runs: where a shard's gradient is not zero. An input that is zero for a whole batch (a pixel at
 * the border, a category that nobody has) has a row of zeros in the gradient of the first layer's
 * weights, which need not travel.
 *
 * The payload of such a PUSH is its runs, and behind them, unless they lie in shared memory, their
 * floats.
 */
#ifndef TRAINER_WIRE_RUNS_H
#define TRAINER_WIRE_RUNS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/model/model_shape.h"
#include "trainer/wire/shard.h"

#define RUNS_LIMIT 64

/* As it is sent. */
struct run {
    uint32_t first, count; /* parameters, from the first of the shard's */
};

struct runs {
    size_t count; /* 0: the whole gradient is sent */
    struct run list[RUNS_LIMIT];
    size_t offsets[RUNS_LIMIT]; /* where each begins in the gradient of all parameters */
    size_t floats;              /* of all runs */
};

/* Of the shard's part of gradient[layout->parameters]; short gaps belong to a run. None where most
 * rows are not zero, or there would be too many. */
void runs_find(const struct shard *shard, const struct model_layout *layout, const float *gradient,
               struct runs *ret_runs);

/* The first `count` (1 to RUNS_LIMIT) of a payload, without offsets. ERROR_INPUT: it is shorter, or
 * they do not ascend within `parameters`. */
enum error runs_read(const void *payload, size_t bytes, size_t count, size_t parameters,
                     struct runs *ret_runs) MUST_CHECK;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Runs: the parts of a shard's gradient that are not zero. An input that is zero for a whole batch
 * (a pixel at the border, an unused category) has a row of zeros in the gradient of the first
 * layer's weights, which need not be sent.
 *
 * The payload of such a PUSH is its runs, followed by their floats unless these are in shared
 * memory.
 */
#ifndef TRAINER_WIRE_RUNS_H
#define TRAINER_WIRE_RUNS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/model/model_shape.h"
#include "trainer/wire/shard.h"

#define RUNS_LIMIT 64

/* As sent. */
struct run {
    uint32_t first, count; /* parameters, from the shard's first */
};

struct runs {
    size_t count; /* 0: the whole gradient is sent */
    struct run list[RUNS_LIMIT];
    size_t offsets[RUNS_LIMIT]; /* start of each in the gradient of all parameters */
    size_t floats;              /* of all runs */
};

/* Finds those of the shard's part of gradient[layout->parameters]; a run includes short gaps. None
 * if most rows are not zero, or there would be too many. */
void runs_find(const struct shard *shard, const struct model_layout *layout, const float *gradient,
               struct runs *ret_runs);

/* Parses the first `count` (1 to RUNS_LIMIT) of a payload, without offsets. ERROR_INPUT: it is
 * shorter, or they do not ascend within `parameters`. */
enum error runs_read(const void *payload, size_t bytes, size_t count, size_t parameters,
                     struct runs *ret_runs) MUST_CHECK;

#endif

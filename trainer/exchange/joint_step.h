/* SPDX-License-Identifier: MIT */
/*
 * A joint step: what GPUs that train together do on each of them. Gradients of this GPU's batches
 * are added up, then those of all GPUs, by NCCL; the mean updates the model's parameters, which all
 * of them have. All of it is enqueued, and the host waits for nothing.
 *
 * A sum that another rank's death leaves hanging is ended by an abort, with garbage in it. So the
 * update happens only if, by then, joint_step_stop() was not called, which always comes before an
 * abort: the GPU reads that once a step, and what it decides holds for all of the update. What
 * joint_step_made() says once the queue is done is what the parameters have learnt from, exactly.
 *
 * Threads: one, that of the model; joint_step_stop() and joint_step_made() from any.
 */
#ifndef TRAINER_EXCHANGE_JOINT_STEP_H
#define TRAINER_EXCHANGE_JOINT_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/compute/engine.h"
#include "trainer/compute/nccl.h"
#include "trainer/model/model.h"

/* Page-locked memory that the GPU and the host share. */
struct joint_board {
    _Atomic int32_t stop;
    _Atomic int64_t made;
};

struct joint_step {
    const struct engine *engine; /* borrowed, as the model */
    struct model *model;
    float *sum; /* [P + 1], device memory: of gradients, then how many they are */
    int32_t *makes;
    struct joint_board *board;
    size_t gradients; /* of this GPU in the step of now */
    bool is_begun;
};

/* joint_step_release() in any case. */
enum error joint_step_init(struct joint_step *step, const struct engine *engine,
                           struct model *model) MUST_CHECK;
void joint_step_release(struct joint_step *step);

/* The parameters are those after step `made`; nothing is in the queue. */
void joint_step_begin(struct joint_step *step, int64_t made);
/* Adds the model's gradient. */
enum error joint_step_add(struct joint_step *step) MUST_CHECK;
/* The sum of all ranks, and the update: the model's step + 1. Errors of nccl_sum(). */
enum error joint_step_make(struct joint_step *step, struct nccl *nccl) MUST_CHECK;

/* No update from now on, whatever is in the queue. */
void joint_step_stop(struct joint_step *step);
bool joint_step_is_stopped(const struct joint_step *step);
/* The latest step that was made. */
int64_t joint_step_made(const struct joint_step *step);

#endif

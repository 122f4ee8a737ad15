/* SPDX-License-Identifier: MIT */
/*
 * A joint step, on each GPU of a group: sums the gradients of this GPU's batches, then those of all
 * GPUs by NCCL, and updates the model's parameters with the mean. Everything is enqueued; the host
 * does not wait.
 *
 * If another rank dies, the sum hangs until it is aborted, and then holds garbage.
 * joint_step_stop() always precedes an abort: the GPU reads its word once per step, after the sum,
 * and all of the update follows what it read. Once the queue has drained, the parameters are
 * exactly those of step joint_step_made().
 *
 * Threads: the model's thread only; joint_step_stop() and joint_step_made() from any.
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
    float *sum; /* [P + 1], device memory: the sum of gradients, then their number */
    int32_t *makes;
    struct joint_board *board;
    size_t gradients; /* of this GPU in the current step */
    bool is_begun;
};

/* joint_step_release() in any case. */
enum error joint_step_init(struct joint_step *step, const struct engine *engine,
                           struct model *model) MUST_CHECK;
void joint_step_release(struct joint_step *step);

/* The parameters are those of step `made`, and the queue is empty. */
void joint_step_begin(struct joint_step *step, int64_t made);
/* Adds the model's gradient. */
enum error joint_step_add(struct joint_step *step) MUST_CHECK;
/* Sums over all ranks and updates: the model's step + 1. Errors as nccl_sum(). */
enum error joint_step_make(struct joint_step *step, struct nccl *nccl) MUST_CHECK;

/* Suppresses every update from now on, also those in the queue. */
void joint_step_stop(struct joint_step *step);
bool joint_step_is_stopped(const struct joint_step *step);
/* The last step made. */
int64_t joint_step_made(const struct joint_step *step);

#endif

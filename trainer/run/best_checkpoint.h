/* SPDX-License-Identifier: MIT */
/*
 * An evaluator's selection among the checkpoints of a cluster: copies the one with the lowest loss
 * to the logdir's best model, which rotation does not remove, and counts later ones that were no
 * better.
 *
 * Threads: one.
 */
#ifndef TRAINER_RUN_BEST_CHECKPOINT_H
#define TRAINER_RUN_BEST_CHECKPOINT_H

#include <stdint.h>

#include "common/error.h"
#include "trainer/checkpoint/checkpoint.h"

struct best_checkpoint {
    const char *logdir; /* borrowed */
    double loss;        /* INFINITY: none yet */
    int64_t step;
    int64_t worse; /* checkpoints since */
};

/* `loss`: of the logdir's best model; INFINITY: there is none. */
void best_checkpoint_init(struct best_checkpoint *best, const char *logdir, double loss,
                          int64_t step);
/* Considers this checkpoint with this loss. A failed copy is logged, and retried with the next
 * checkpoint that is better than the one copied. */
void best_checkpoint_consider(struct best_checkpoint *best, const struct checkpoint *checkpoint,
                              double loss);
/* Logs which step the best model is of, and how to use it. */
void best_checkpoint_say(int64_t step, double loss);

#endif

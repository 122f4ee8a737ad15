/* SPDX-License-Identifier: MIT */
/*
 * What an evaluator makes of the checkpoints of a cluster: the one with the lowest loss is copied
 * to the logdir's best model, under which rotation does not touch it, and those that came since and
 * were no better are counted.
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
    double loss;        /* INFINITY: there is none yet */
    int64_t step;
    int64_t worse; /* checkpoints since */
};

/* `loss`: of the best model that the logdir has; INFINITY: there is none. */
void best_checkpoint_init(struct best_checkpoint *best, const char *logdir, double loss,
                          int64_t step);
/* This checkpoint has this loss. A copy that fails is tried again with the next that is better than
 * what was copied; the log says so. */
void best_checkpoint_consider(struct best_checkpoint *best, const struct checkpoint *checkpoint,
                              double loss);

#endif

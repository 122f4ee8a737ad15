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
    int64_t worse;             /* checkpoints since */
    struct checkpoint *unkept; /* that one, until it is copied; NULL: it is */
};

/* `loss`: of the logdir's best model; INFINITY: there is none. */
void best_checkpoint_init(struct best_checkpoint *best, const char *logdir, double loss,
                          int64_t step);
/* NULL members are legal, as in a struct of zeros. */
void best_checkpoint_release(struct best_checkpoint *best);
/* Considers this checkpoint with this loss; takes it if it is the best so far, and sets *checkpoint
 * to NULL. */
void best_checkpoint_consider(struct best_checkpoint *best, struct checkpoint **checkpoint,
                              double loss);
/* Copies the best one to the logdir, unless that is done. After an error call it again: an open
 * checkpoint can be read even after rotation has removed it. */
enum error best_checkpoint_keep(struct best_checkpoint *best) MUST_CHECK;
/* Logs which step the best model is of, and how to use it. */
void best_checkpoint_say(int64_t step, double loss);

#endif

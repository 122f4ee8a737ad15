/* SPDX-License-Identifier: MIT */
/*
 * The best model of a training: the state with the lowest loss on the test set, in a separate file
 * beside the checkpoints (logdir.h).
 *
 * A better state is copied to memory, and written right before the next checkpoint: if a kill loses
 * it, the training has lost those steps, too, and finds it again.
 *
 * Threads: the training's.
 */
#ifndef TRAINER_RUN_BEST_MODEL_H
#define TRAINER_RUN_BEST_MODEL_H

#include <stdint.h>

#include "common/error.h"
#include "trainer/checkpoint/logdir.h"
#include "trainer/run/test_set.h"

struct best_model;

/* Starts from the logdir's best model, if any, scored on `tests` by `model`, whose state is the
 * same afterwards. Logdir and facts are borrowed until best_model_close(). */
enum error best_model_open(const struct logdir *logdir, const struct checkpoint_facts *facts,
                           struct test_set *tests, struct model *model,
                           struct best_model **ret_best) MUST_CHECK;
/* NULL is legal, here and below. */
void best_model_close(struct best_model *best);

/* `model` has this loss: keeps its state if it is the lowest. Waits for the device. */
enum error best_model_consider(struct best_model *best, struct model *model,
                               double loss) MUST_CHECK;

/* The snapshot to be written, which the caller owns; NULL: none. */
struct checkpoint_snapshot *best_model_take(struct best_model *best);
/* Returns one that could not be written. NULL is legal. */
void best_model_put(struct best_model *best, struct checkpoint_snapshot *snapshot);
/* Writes it now. */
enum error best_model_save(struct best_model *best) MUST_CHECK;

/* -1: none yet. */
int64_t best_model_step(const struct best_model *best);
double best_model_loss(const struct best_model *best);

#endif

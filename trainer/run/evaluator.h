/* SPDX-License-Identifier: MIT */
/*
 * An evaluator: the process of a cluster that scores new checkpoints of the training on
 * --test-store, so that no worker has to. It reads the logdir and takes no part in the exchange.
 *
 *   standard output   a line of JSON a checkpoint: its step, and what `evaluate --format json` says
 *   logdir/eval       test_loss and test_accuracy as events, a run of its own for TensorBoard
 *   of a cluster      the checkpoint with the lowest loss is kept as the logdir's best model
 *                     (best_checkpoint.h); --early-stopping ends the training by asking server 0
 *
 * If checkpoints come faster than it can score them, it takes the newest. One thread.
 */
#ifndef TRAINER_RUN_EVALUATOR_H
#define TRAINER_RUN_EVALUATOR_H

#include "common/error.h"
#include "trainer/run/training.h"

/* Runs until the training is over and its last checkpoint is scored. ERROR_USAGE without a test
 * store; ERROR_CANCELLED after a signal. */
enum error evaluator_run(const struct training_options *options) MUST_CHECK;

#endif

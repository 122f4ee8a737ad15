/* SPDX-License-Identifier: MIT */
/*
 * The summaries of a training, as events beside its checkpoints (trainer/events): what it came to
 * since the last summary, by time rather than by step.
 *
 *   loss, accuracy            of training batches before their step; loss is the mean a row
 *   test_loss, test_accuracy  of the latest test, likewise
 *   rows_per_s                of this process
 *   steps_per_s               of all
 *   wait_for_data             the share of time
 *   learning_rate             of the summary's step
 *   staleness                 in a cluster: steps of others between values and their gradient
 *
 * and histograms of the parameters. A step is never in two summaries, not after a restart either:
 * TensorBoard forgets what a killed run wrote beyond the checkpoint from which the next goes on.
 *
 * A NULL summary is legal everywhere, and does nothing. The training's thread.
 */
#ifndef TRAINER_RUN_SUMMARY_H
#define TRAINER_RUN_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/model/model.h"

struct summary_options {
    const char *folder;                /* made when there is none */
    double seconds;                    /* between two summaries; after a step, when they are over */
    int64_t step;                      /* that training begins with */
    bool has_accuracy;                 /* a classifier */
    bool has_staleness;                /* a worker of several, asynchronous */
    const struct optimizer *optimizer; /* borrowed: its learning rate */
};

/* One batch was trained. */
struct summary_step {
    int64_t before, step; /* the global steps of the values and of those after the update */
    int64_t rows;
    int64_t judged_rows;      /* of the batch that the following is of; 0: of none */
    double loss;              /* a row */
    int64_t correct, wait_ns; /* all waits for data until now */
};

struct summary;

/* ERROR_MEMORY; a folder that cannot be written only brings a warning. */
enum error summary_open(const struct summary_options *options,
                        struct summary **ret_summary) MUST_CHECK;
/* Writes what there is since the last summary. */
void summary_close(struct summary *summary);

void summary_step(struct summary *summary, const struct summary_step *step);
/* `loss` a row. */
void summary_test(struct summary *summary, int64_t step, double loss, double accuracy);
void summary_checkpoint(struct summary *summary, int64_t step, const char *path);
/* Histograms of the values that the model has now: waits for the device and copies them. `kernel`
 * is the model's. */
void summary_parameters(struct summary *summary, struct kernel *kernel, struct model *model);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The summaries of a training, as events beside its checkpoints (trainer/events): each covers the
 * time since the last summary, and is due by time rather than by step.
 *
 *   loss, accuracy            of training batches before their step; loss is the mean a row
 *   test_loss, test_accuracy  of the latest test, likewise
 *   rows_per_s                of this process
 *   steps_per_s               of all
 *   wait_for_data             the share of time
 *   learning_rate             of the summary's step
 *   staleness                 in a cluster: steps of others between values and their gradient
 *
 * and histograms of the parameters. A step is never in two summaries, even after a restart:
 * TensorBoard discards what a killed run wrote beyond the checkpoint from which the next one
 * resumes.
 *
 * A NULL summary is legal everywhere, and does nothing. Threads: the training's.
 */
#ifndef TRAINER_RUN_SUMMARY_H
#define TRAINER_RUN_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/model/model.h"

struct summary_options {
    const char *folder;                /* created if missing */
    bool below;                        /* the logdir, not itself */
    double seconds;                    /* between two summaries; written after the next step */
    int64_t step;                      /* at which training starts */
    bool has_accuracy;                 /* a classifier */
    bool has_staleness;                /* a worker of several, asynchronous */
    const struct optimizer *optimizer; /* borrowed: its learning rate */
};

/* One batch was trained. */
struct summary_step {
    int64_t before, step; /* the global steps of the values and after the update */
    int64_t rows;
    int64_t judged_rows;      /* of the batch that the following describes; 0: none */
    double loss;              /* per row */
    int64_t correct, wait_ns; /* all waits for data so far */
};

struct summary;

/* ERROR_MEMORY; a folder that cannot be written only causes a warning. */
enum error summary_open(const struct summary_options *options,
                        struct summary **ret_summary) MUST_CHECK;
/* Writes a summary of the time since the last one. */
void summary_close(struct summary *summary);

void summary_step(struct summary *summary, const struct summary_step *step);
/* `loss` is per row. */
void summary_test(struct summary *summary, int64_t step, double loss, double accuracy);
void summary_checkpoint(struct summary *summary, int64_t step, const char *path);
/* Histograms of the model's current values: waits for the device and copies them. `kernel` is the
 * model's. */
void summary_parameters(struct summary *summary, struct kernel *kernel, struct model *model);

#endif

/* SPDX-License-Identifier: MIT */
/* Evaluation: scores a trained model on all rows of a store. */
#ifndef TRAINER_RUN_EVALUATION_H
#define TRAINER_RUN_EVALUATION_H

#include "common/error.h"
#include "trainer/run/baseline.h"
#include "trainer/run/confusion.h"
#include "trainer/run/trained_model.h"

struct evaluation {
    int64_t rows;
    double loss;     /* per row: cross entropy in nats, or squared error */
    double baseline; /* the same for a constant answer: the labels' shares, or the targets' mean */
    double accuracy; /* for a classifier */
    struct confusion confusion; /* likewise */
};

/* Every label must be known to the model. ERROR_INPUT if there are no rows. The caller calls
 * evaluation_release() in any case. */
enum error evaluation_run(struct trained_model *trained, const struct trained_model_source *source,
                          struct evaluation *ret_evaluation) MUST_CHECK;
void evaluation_release(struct evaluation *evaluation);

#endif

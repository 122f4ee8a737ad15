/* SPDX-License-Identifier: MIT */
/* Evaluation: how good a trained model is on all rows of a store. */
#ifndef TRAINER_RUN_EVALUATION_H
#define TRAINER_RUN_EVALUATION_H

#include "common/error.h"
#include "trainer/run/trained_model.h"

struct evaluation {
    struct model_score score;
    double loss;     /* the model's own: sum or mean over the rows */
    double accuracy; /* of a classifier */
    double squared;  /* mean squared error, of a regression */
};

/* Every label must be one that the model knows. A store without rows is ERROR_INPUT. */
enum error evaluation_run(struct trained_model *trained, const char *store_uri,
                          struct evaluation *ret_evaluation) MUST_CHECK;

#endif

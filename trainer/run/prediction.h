/* SPDX-License-Identifier: MIT */
/*
 * Prediction: a trained model's output for each row of a store, as CSV.
 *
 *   classifier   id,label,predicted,p0,p1,...   predicted is the label of the largest probability,
 *                                               the first of equals; where classes are not 0, 1,
 *                                               ... the columns are p_<class>
 *   regression   id,label,predicted
 *
 * Labels are written as the store has them, and empty where it has none; they need not be known to
 * the model. Numbers are written with as many digits as give the same 32-bit float back.
 */
#ifndef TRAINER_RUN_PREDICTION_H
#define TRAINER_RUN_PREDICTION_H

#include "common/output.h"
#include "trainer/run/trained_model.h"

/* Flushed at the end; ERROR_IO when `out` does not take it. */
enum error prediction_run(struct trained_model *trained, const struct trained_model_source *source,
                          struct output *out) MUST_CHECK;

#endif

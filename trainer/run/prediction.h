/* SPDX-License-Identifier: MIT */
/*
 * Prediction: a trained model's output for each row of a store, as CSV.
 *
 *   classifier   id,label,predicted,p0,p1,...   predicted is the label of the largest probability,
 *                                               the first of equals; where classes are not 0, 1,
 *                                               ... the columns are p_<class>
 *   regression   id,label,predicted
 *
 * Labels are written as in the store, and empty if it has none or the row is bad and was replaced;
 * they need not be known to the model. Numbers have enough digits to read back as the same 32-bit
 * float.
 */
#ifndef TRAINER_RUN_PREDICTION_H
#define TRAINER_RUN_PREDICTION_H

#include "common/output.h"
#include "trainer/run/trained_model.h"

/* Flushes at the end; ERROR_IO if `out` cannot be written. */
enum error prediction_run(struct trained_model *trained, const struct trained_model_source *source,
                          struct output *out) MUST_CHECK;

#endif

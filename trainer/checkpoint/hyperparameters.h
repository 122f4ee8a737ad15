/* SPDX-License-Identifier: MIT */
/*
 * Hyperparameters: the numbers by which a model learns, as texts under their names: learning_rate,
 * warmup_steps, dropout, ... A checkpoint keeps those that are not the defaults as metadata; a
 * training that goes on may change them, and the log says so; the processes of a cluster must have
 * the same.
 */
#ifndef TRAINER_CHECKPOINT_HYPERPARAMETERS_H
#define TRAINER_CHECKPOINT_HYPERPARAMETERS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "trainer/model/model_shape.h"

#define HYPERPARAMETERS 17
#define HYPERPARAMETER_BYTES 32

/* "learning_rate", for numbers below HYPERPARAMETERS. */
const char *hyperparameter_name(size_t number);
/* Its value in `model` into `out`, which is returned: the shortest text that reads back as it. */
const char *hyperparameter_text(size_t number, const struct model_options *model,
                                char out[HYPERPARAMETER_BYTES]);
/* Is it what `model` has where nobody chooses? So is its learning rate always. */
bool hyperparameter_is_default(size_t number, const struct model_options *model);
/* Sets it. ERROR_INPUT: `text` is no value of its type; model_options_check() knows its range. */
enum error hyperparameter_set(size_t number, const char *text,
                              struct model_options *model) MUST_CHECK;

/* The number of the first that differs; HYPERPARAMETERS: none does. */
size_t hyperparameters_difference(const struct model_options *one,
                                  const struct model_options *other);

/* What `now` has in place of what `before` had, to the log. */
void hyperparameters_log_changes(const struct model_options *before,
                                 const struct model_options *now);

#endif

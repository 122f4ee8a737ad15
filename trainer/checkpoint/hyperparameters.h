/* SPDX-License-Identifier: MIT */
/*
 * Hyperparameters: the numbers that control learning, as texts by name: learning_rate,
 * warmup_steps, dropout, ... A checkpoint stores those that differ from the defaults as metadata; a
 * resumed training may change them, which is logged; the processes of a cluster must have the same.
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
/* Writes its value in `model` to `out`, and returns that: the shortest text that reads back
 * exactly. */
const char *hyperparameter_text(size_t number, const struct model_options *model,
                                char out[HYPERPARAMETER_BYTES]);
/* Is it the default of `model`? Its learning rate always counts as that. */
bool hyperparameter_is_default(size_t number, const struct model_options *model);
/* Sets it. ERROR_INPUT: `text` is not a value of its type; model_options_check() checks the
 * range. */
enum error hyperparameter_set(size_t number, const char *text,
                              struct model_options *model) MUST_CHECK;

/* The number of the first that differs; HYPERPARAMETERS: none. */
size_t hyperparameters_difference(const struct model_options *one,
                                  const struct model_options *other);

/* Logs the values in `now` that differ from `before`. */
void hyperparameters_log_changes(const struct model_options *before,
                                 const struct model_options *now);

#endif

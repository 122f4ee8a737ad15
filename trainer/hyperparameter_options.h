/* SPDX-License-Identifier: MIT */
/* The options of `train` that say how a model learns. */
#ifndef TRAINER_HYPERPARAMETER_OPTIONS_H
#define TRAINER_HYPERPARAMETER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/command/option.h"
#include "common/error.h"
#include "trainer/model/model_shape.h"

/* The options' values. */
struct hyperparameter_options {
    const char *optimizer, *schedule;
    double learning_rate, decay_rate, end_rate;
    int64_t warmup_steps, decay_steps;
    double momentum, beta1, beta2, epsilon, initial_accumulator;
    double weight_decay, l2, clip_norm, clip_value, dropout;
    bool nesterov;
    bool decay_rate_given, end_rate_given, decay_steps_given, momentum_given, beta1_given,
        beta2_given, epsilon_given, initial_accumulator_given;
};

#define HYPERPARAMETER_OPTIONS 16

/* The defaults, which --help shows. */
void hyperparameter_options_init(struct hyperparameter_options *options);

/* The options' rows for a command's table, except --optimizer and --learning-rate. */
void hyperparameter_options_list(struct hyperparameter_options *options,
                                 struct option ret_table[HYPERPARAMETER_OPTIONS]);

/* Sets optimizer, clip and dropout of `model`, whose kind is known; schedules without an explicit
 * end run for `train_steps`. ERROR_USAGE: a number is out of its range, or belongs to another
 * optimizer, schedule or model. */
enum error hyperparameter_options_choose(const struct hyperparameter_options *options,
                                         int64_t train_steps,
                                         struct model_options *model) MUST_CHECK;

#endif

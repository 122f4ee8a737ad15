/* SPDX-License-Identifier: MIT */
/*
 * Optimizers: their constants, and the slots they keep beside each parameter.
 *
 * Updates in float32, element by element, in this order (g gradient, var parameter, lr learning
 * rate, t the number of this update from 1):
 *   sgd        var -= lr * g
 *   momentum   slot = momentum * slot + g;  var -= lr * slot
 *   adagrad    slot += g * g;  var -= lr * g * (1 / sqrt(slot))          no epsilon
 *   adam       m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g g
 *              var -= lr_t * m / (sqrt(v) + epsilon),
 *              lr_t = lr * sqrt(1 - beta2^t) / (1 - beta1^t)
 * These are the semantics of the classic framework's optimizers of the same names. The operations
 * are not contracted, so that every device and CPU gives the same bits from the same gradient.
 */
#ifndef TRAINER_COMPUTE_OPTIMIZER_H
#define TRAINER_COMPUTE_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_MOMENTUM, OPTIMIZER_ADAGRAD, OPTIMIZER_ADAM };

#define OPTIMIZER_SLOTS_LIMIT 2

struct optimizer {
    enum optimizer_kind kind;
    float learning_rate;
    float momentum;            /* momentum: 0.9 */
    float initial_accumulator; /* adagrad: 0.1, must be positive */
    float beta1, beta2;        /* adam: 0.9, 0.999 */
    float epsilon;             /* adam: 1e-8 */
};

/* `name`: "sgd", "momentum", "adagrad", "adam", with the constants above. ERROR_USAGE for an
 * unknown name (naming those that exist) or a learning rate that is not positive and finite. */
enum error optimizer_init(struct optimizer *optimizer, const char *name,
                          double learning_rate) MUST_CHECK;

/* ERROR_USAGE when a constant is out of its range; the message names it and its value. */
enum error optimizer_check(const struct optimizer *optimizer) MUST_CHECK;

/* "adagrad" */
const char *optimizer_name(const struct optimizer *optimizer);

/* How many slots a parameter has: 0, 1, 1, 2. */
size_t optimizer_slots(const struct optimizer *optimizer);

/* The slot's name behind the parameter's: "Momentum", "Adagrad", "Adam" (m), "Adam_1" (v); so
 * hid_w/Adagrad. */
const char *optimizer_slot_name(const struct optimizer *optimizer, size_t slot);

/* What the slot's elements start from. */
float optimizer_slot_initial(const struct optimizer *optimizer, size_t slot);

/* The rate that update number `t` (from 1) multiplies with: lr, for adam lr_t. The same bits on
 * every machine. */
float optimizer_rate(const struct optimizer *optimizer, int64_t t);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Optimizers: their constants, and the slots they keep for each parameter.
 *
 * Updates in float32, element by element, in this order (g gradient, var parameter, lr learning
 * rate, t the number of this update from 1; lr by schedule.h, of t - 1):
 *   weight decay  var *= 1 - lr * weight_decay          decoupled: not part of g, nor of a slot
 *   l2            g += l2 * var                         the gradient of l2 / 2 * sum of var^2
 * each only where it is not 0, and then
 *   sgd        var -= lr * g
 *   momentum   slot = momentum * slot + g;  var -= lr * slot
 *     nesterov                              var -= lr * (g + momentum * slot)
 *   adagrad    slot += g * g;  var -= lr * g * (1 / sqrt(slot))          no epsilon
 *   adam       m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g g
 *              var -= lr_t * m / (sqrt(v) + epsilon),
 *              lr_t = lr * sqrt(1 - beta2^t) / (1 - beta1^t)
 * These are the semantics of the classic framework's optimizers of the same names. Weight decay is
 * that of torch.optim.AdamW, for all four (with sgd it equals l2), l2 the weight_decay of
 * torch.optim's SGD, Adagrad and Adam; as there, all parameters decay, biases too. The operations
 * are not contracted, so that every device and CPU gives the same bits from the same gradient.
 */
#ifndef TRAINER_COMPUTE_OPTIMIZER_H
#define TRAINER_COMPUTE_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "trainer/compute/schedule.h"

enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_MOMENTUM, OPTIMIZER_ADAGRAD, OPTIMIZER_ADAM };

#define OPTIMIZER_SLOTS_LIMIT 2

struct optimizer {
    enum optimizer_kind kind;
    float learning_rate; /* initial, as the schedule starts */
    struct schedule schedule;
    float weight_decay, l2;    /* at least 0 */
    float momentum;            /* momentum: 0.9 */
    bool nesterov;             /* momentum */
    float initial_accumulator; /* adagrad: 0.1, must be positive */
    float beta1, beta2;        /* adam: 0.9, 0.999 */
    float epsilon;             /* adam: 1e-8 */
};

/* `name`: "sgd", "momentum", "adagrad", "adam", with the constants above. ERROR_USAGE for an
 * unknown name (naming the existing ones) or a learning rate that is not positive and finite. */
enum error optimizer_init(struct optimizer *optimizer, const char *name,
                          double learning_rate) MUST_CHECK;

/* ERROR_USAGE if a constant is out of its range; the message names it and its value. */
enum error optimizer_check(const struct optimizer *optimizer) MUST_CHECK;

/* Does an update with a gradient of 0 leave a parameter and its slots unchanged? */
bool optimizer_keeps(const struct optimizer *optimizer);

/* "adagrad" */
const char *optimizer_name(const struct optimizer *optimizer);

/* Number of slots per parameter: 0, 1, 1, 2. */
size_t optimizer_slots(const struct optimizer *optimizer);

/* The slot's name, appended to the parameter's: "Momentum", "Adagrad", "Adam" (m), "Adam_1" (v); so
 * hid_w/Adagrad. */
const char *optimizer_slot_name(const struct optimizer *optimizer, size_t slot);

/* The initial value of the slot's elements. */
float optimizer_slot_initial(const struct optimizer *optimizer, size_t slot);

/* The learning rate of update number `t` (from 1), and the factor that this update uses: the same,
 * but lr_t for adam. The same bits on every machine. */
float optimizer_learning_rate(const struct optimizer *optimizer, int64_t t);
float optimizer_rate(const struct optimizer *optimizer, int64_t t);

/* The factor by which weight decay shrinks a parameter in that update: 1 without. */
float optimizer_decay(const struct optimizer *optimizer, int64_t t);

#endif

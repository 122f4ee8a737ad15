/* SPDX-License-Identifier: MIT */
#include "trainer/compute/optimizer.h"

#include <math.h>
#include <string.h>

#include "trainer/compute/portable_math.h"

struct kind {
    const char *name;
    size_t slots;
    const char *slot_names[OPTIMIZER_SLOTS_LIMIT];
};

static const struct kind kinds[] = {
    [OPTIMIZER_SGD] = {"sgd", 0, {NULL}},
    [OPTIMIZER_MOMENTUM] = {"momentum", 1, {"Momentum"}},
    [OPTIMIZER_ADAGRAD] = {"adagrad", 1, {"Adagrad"}},
    [OPTIMIZER_ADAM] = {"adam", 2, {"Adam", "Adam_1"}},
};

enum error optimizer_init(struct optimizer *optimizer, const char *name, double learning_rate)
{
    struct optimizer made = {
        .learning_rate = (float)learning_rate,
        .momentum = 0.9f,
        .initial_accumulator = 0.1f,
        .beta1 = 0.9f,
        .beta2 = 0.999f,
        .epsilon = 1e-8f,
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strcmp(name, kinds[i].name) != 0)
            continue;
        made.kind = (enum optimizer_kind)i;
        enum error error = optimizer_check(&made);
        if (!error)
            *optimizer = made;
        return error;
    }
    return error_set(ERROR_USAGE,
                     "optimizer \"%.60s\" is unknown; it must be sgd, momentum, adagrad or adam",
                     name);
}

static enum error check(bool right, const char *constant, double value, const char *wanted)
{
    if (right)
        return OK;
    return error_set(ERROR_USAGE, "%s is %g; it must be %s", constant, value, wanted);
}

enum error optimizer_check(const struct optimizer *optimizer)
{
    const struct optimizer *o = optimizer;
    enum error error = check(o->learning_rate > 0 && isfinite(o->learning_rate), "learning rate",
                             o->learning_rate, "a positive finite number");
    if (!error)
        error = schedule_check(&o->schedule);
    if (!error)
        error = check(o->weight_decay >= 0 && isfinite(o->weight_decay), "weight decay",
                      o->weight_decay, "at least 0 and finite");
    if (!error)
        error = check(o->l2 >= 0 && isfinite(o->l2), "l2", o->l2, "at least 0 and finite");
    if (!error && o->kind == OPTIMIZER_MOMENTUM)
        error = check(o->momentum >= 0 && o->momentum < 1, "momentum", o->momentum,
                      "at least 0 and below 1");
    if (!error && o->kind == OPTIMIZER_ADAGRAD)
        error = check(o->initial_accumulator > 0 && isfinite(o->initial_accumulator),
                      "initial accumulator", o->initial_accumulator, "a positive finite number");
    if (error || o->kind != OPTIMIZER_ADAM)
        return error;
    error = check(o->beta1 >= 0 && o->beta1 < 1, "beta1", o->beta1, "at least 0 and below 1");
    if (!error)
        error = check(o->beta2 >= 0 && o->beta2 < 1, "beta2", o->beta2, "at least 0 and below 1");
    if (!error)
        error = check(o->epsilon > 0 && isfinite(o->epsilon), "epsilon", o->epsilon,
                      "a positive finite number");
    return error;
}

bool optimizer_keeps(const struct optimizer *optimizer)
{
    return (optimizer->kind == OPTIMIZER_SGD || optimizer->kind == OPTIMIZER_ADAGRAD) &&
           optimizer->weight_decay == 0 && optimizer->l2 == 0;
}

const char *optimizer_name(const struct optimizer *optimizer)
{
    return kinds[optimizer->kind].name;
}

size_t optimizer_slots(const struct optimizer *optimizer)
{
    return kinds[optimizer->kind].slots;
}

const char *optimizer_slot_name(const struct optimizer *optimizer, size_t slot)
{
    return kinds[optimizer->kind].slot_names[slot];
}

float optimizer_slot_initial(const struct optimizer *optimizer, size_t slot)
{
    return optimizer->kind == OPTIMIZER_ADAGRAD && slot == 0 ? optimizer->initial_accumulator : 0;
}

float optimizer_learning_rate(const struct optimizer *optimizer, int64_t t)
{
    const struct schedule *schedule = &optimizer->schedule;
    return (float)schedule_rate(schedule, (double)optimizer->learning_rate, t - 1);
}

float optimizer_rate(const struct optimizer *optimizer, int64_t t)
{
    float rate = optimizer_learning_rate(optimizer, t);
    if (optimizer->kind != OPTIMIZER_ADAM)
        return rate;
    double corrected =
        sqrt(1 - portable_power(optimizer->beta2, t)) / (1 - portable_power(optimizer->beta1, t));
    return (float)(rate * corrected);
}

float optimizer_decay(const struct optimizer *optimizer, int64_t t)
{
    if (optimizer->weight_decay == 0)
        return 1;
    return (float)(1 - (double)optimizer_learning_rate(optimizer, t) * optimizer->weight_decay);
}

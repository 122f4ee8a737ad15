/* SPDX-License-Identifier: MIT */
/* What the trainer's unit tests share: numbers at random, and the optimizers' formulas. */
#ifndef TESTS_UNIT_TRAINER_UNIT_H
#define TESTS_UNIT_TRAINER_UNIT_H

#include <math.h>

#include "tests/unit/unit.h"
#include "trainer/compute/dropout.h"
#include "trainer/compute/optimizer.h"

/* In [-1, 1), the same sequence in every run. */
static inline float random_float(void)
{
    static uint32_t now = 1;
    now = now * 1664525 + 1013904223;
    return (float)(now >> 8) / 8388608.0f - 1;
}

/* Not zero in `density` of 100 cases. */
static inline float random_sparse(unsigned density)
{
    float value = random_float();
    return fabsf(random_float()) * 100 < (float)density ? value : 0;
}

/* The definition of dropout.h, a value at a time. */
static inline bool is_dropped(const struct dropout_mask *mask, size_t value)
{
    uint64_t block = value / DROPOUT_VALUES * DROPOUT_BLOCKS + value % DROPOUT_BLOCKS;
    unsigned word = value % DROPOUT_VALUES / DROPOUT_BLOCKS;
    assert_int_equal(dropout_value(block, word), value);
    return dropout_block(mask, block).word[word] < mask->threshold;
}

/* optimizer.h in scalar C, one rounding an operation: every device must give these bits. */
static inline void update_one(const struct optimizer *o, float rate, float g, float *var, float *s0,
                              float *s1)
{
    volatile float t, u;
    if (o->l2 != 0) {
        t = o->l2 * *var;
        g = g + t;
    }
    switch (o->kind) {
    case OPTIMIZER_SGD:
        t = rate * g;
        *var -= t;
        break;
    case OPTIMIZER_MOMENTUM:
        t = o->momentum * *s0;
        *s0 = t + g;
        t = o->momentum * *s0;
        u = g + t;
        t = rate * (o->nesterov ? u : *s0);
        *var -= t;
        break;
    case OPTIMIZER_ADAGRAD:
        t = g * g;
        *s0 += t;
        u = 1 / sqrtf(*s0);
        t = rate * g;
        t = t * u;
        *var -= t;
        break;
    case OPTIMIZER_ADAM:
        t = o->beta1 * *s0;
        u = (1 - o->beta1) * g;
        *s0 = t + u;
        t = g * g;
        u = (1 - o->beta2) * t;
        t = o->beta2 * *s1;
        *s1 = t + u;
        u = sqrtf(*s1);
        u = u + o->epsilon;
        t = rate * *s0;
        t = t / u;
        *var -= t;
        break;
    }
}

#endif

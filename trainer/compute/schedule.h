/* SPDX-License-Identifier: MIT */
/*
 * Schedules: the learning rate as a pure function of the global step, with the same bits on every
 * machine. With s steps made, W warm-up steps and D decay steps:
 *
 *   s < W         rate (s + 1) / W             torch LinearLR(start_factor=1/W, total_iters=W-1)
 *   then, with d = s - W:
 *   constant      rate
 *   step          rate G^floor(d / D)          torch StepLR(D, G), tf ExponentialDecay(staircase)
 *   exponential   rate G^(d / D)               tf ExponentialDecay; torch ExponentialLR(G) at D 1
 *   cosine        end + (rate - end) (1 + cos(pi min(d, D) / D)) / 2
 *                                              torch CosineAnnealingLR(D, end), tf CosineDecay
 *   linear        end + (rate - end) (1 - min(d, D) / D)
 *                                              tf PolynomialDecay(power=1), torch LinearLR
 */
#ifndef TRAINER_COMPUTE_SCHEDULE_H
#define TRAINER_COMPUTE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

enum schedule_kind {
    SCHEDULE_CONSTANT,
    SCHEDULE_STEP,
    SCHEDULE_EXPONENTIAL,
    SCHEDULE_COSINE,
    SCHEDULE_LINEAR
};

/* All zeros: constant, without warm-up. Fields that a kind does not use are 0. */
struct schedule {
    enum schedule_kind kind;
    int64_t warmup_steps; /* W, at least 0 */
    int64_t decay_steps;  /* D, at least 1; not for constant */
    float decay_rate;     /* G, above 0: for step and exponential */
    float end_rate;       /* at least 0: for cosine and linear */
};

/* "constant", "step", ... <-> kind; ERROR_USAGE naming the existing ones. */
enum error schedule_by_name(const char *name, enum schedule_kind *ret_kind) MUST_CHECK;
const char *schedule_name(enum schedule_kind kind);

/* Does the kind have a factor G? Does it have an end? */
bool schedule_has_factor(enum schedule_kind kind);
bool schedule_has_end(enum schedule_kind kind);

/* ERROR_USAGE if a number is out of its range; the message names it and its value. */
enum error schedule_check(const struct schedule *schedule) MUST_CHECK;

/* The learning rate of the update after `step` others; `rate` is the schedule's initial one. */
double schedule_rate(const struct schedule *schedule, double rate, int64_t step);

#endif

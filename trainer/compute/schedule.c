/* SPDX-License-Identifier: MIT */
#include "trainer/compute/schedule.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "trainer/compute/portable_math.h"

static const char *const names[] = {
    [SCHEDULE_CONSTANT] = "constant",       [SCHEDULE_STEP] = "step",
    [SCHEDULE_EXPONENTIAL] = "exponential", [SCHEDULE_COSINE] = "cosine",
    [SCHEDULE_LINEAR] = "linear",
};

enum error schedule_by_name(const char *name, enum schedule_kind *ret_kind)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret_kind = (enum schedule_kind)i;
            return OK;
        }
    }
    return error_set(ERROR_USAGE,
                     "learning rate schedule \"%.60s\" is unknown; it must be constant, step, "
                     "exponential, cosine or linear",
                     name);
}

const char *schedule_name(enum schedule_kind kind)
{
    return names[kind];
}

bool schedule_has_factor(enum schedule_kind kind)
{
    return kind == SCHEDULE_STEP || kind == SCHEDULE_EXPONENTIAL;
}

bool schedule_has_end(enum schedule_kind kind)
{
    return kind == SCHEDULE_COSINE || kind == SCHEDULE_LINEAR;
}

enum error schedule_check(const struct schedule *schedule)
{
    const struct schedule *s = schedule;
    if (s->warmup_steps < 0)
        return error_set(ERROR_USAGE, "%" PRId64 " warm-up steps; it must be at least 0",
                         s->warmup_steps);
    if (s->kind != SCHEDULE_CONSTANT && s->decay_steps < 1)
        return error_set(ERROR_USAGE, "%" PRId64 " decay steps; it must be at least 1",
                         s->decay_steps);
    if (schedule_has_factor(s->kind) && !(s->decay_rate > 0 && isfinite(s->decay_rate)))
        return error_set(ERROR_USAGE, "decay rate is %g; it must be a positive finite number",
                         (double)s->decay_rate);
    if (schedule_has_end(s->kind) && !(s->end_rate >= 0 && isfinite(s->end_rate)))
        return error_set(ERROR_USAGE, "end learning rate is %g; it must be at least 0 and finite",
                         (double)s->end_rate);
    return OK;
}

/* A power with the quotient's integer part: so `step` and `exponential` agree at each multiple of
 * D. */
static double factor(const struct schedule *schedule, int64_t step)
{
    int64_t whole = step / schedule->decay_steps, rest = step % schedule->decay_steps;
    double result = portable_power((double)schedule->decay_rate, whole);
    if (schedule->kind == SCHEDULE_STEP || rest == 0)
        return result;
    double part = (double)rest / (double)schedule->decay_steps;
    return result * portable_exponential(part * portable_logarithm((double)schedule->decay_rate));
}

/* The remaining part of the way from `rate` to the end, 1 to 0. */
static double share_left(const struct schedule *schedule, int64_t step)
{
    if (step >= schedule->decay_steps)
        return 0;
    double gone = (double)step / (double)schedule->decay_steps, cosine, sine;
    if (schedule->kind == SCHEDULE_LINEAR)
        return 1 - gone;
    portable_cosine_sine(gone / 2, &cosine, &sine);
    return (1 + cosine) / 2;
}

double schedule_rate(const struct schedule *schedule, double rate, int64_t step)
{
    double end = (double)schedule->end_rate;
    if (step < schedule->warmup_steps)
        return rate * (double)(step + 1) / (double)schedule->warmup_steps;
    if (schedule->kind == SCHEDULE_CONSTANT)
        return rate;
    step -= schedule->warmup_steps;
    if (schedule_has_factor(schedule->kind))
        return rate * factor(schedule, step);
    return end + (rate - end) * share_left(schedule, step);
}

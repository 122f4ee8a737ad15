/* SPDX-License-Identifier: MIT */
/* Covers trainer/compute/schedule. */
#include "tests/unit/unit.h"

#include <math.h>

#include "trainer/compute/optimizer.h"
#include "trainer/compute/schedule.h"

#define STEPS 12

/* Of torch 2.15 in double, from a rate of 0.5: optimizer.param_groups[0]["lr"] before each step. */
static const struct {
    const char *what;
    struct schedule schedule;
    double rates[STEPS];
} torch_rates[] = {
    {"StepLR(4, gamma=0.3)",
     {SCHEDULE_STEP, 0, 4, 0.3f, 0},
     {0.5, 0.5, 0.5, 0.5, 0.15, 0.15, 0.15, 0.15, 0.045, 0.045, 0.045, 0.045}},
    {"ExponentialLR(0.3 ** (1 / 4))",
     {SCHEDULE_EXPONENTIAL, 0, 4, 0.3f, 0},
     {0.5, 0.370041402246143, 0.273861278752583, 0.202680023221055, 0.15, 0.111012420673843,
      0.0821583836257749, 0.0608040069663165, 0.045, 0.0333037262021528, 0.0246475150877325,
      0.018241202089895}},
    /* CosineAnnealingLR goes up again behind T_max; what stays at the end is tf's CosineDecay. */
    {"CosineAnnealingLR(8, eta_min=0.05)",
     {SCHEDULE_COSINE, 0, 8, 0, 0.05f},
     {0.5, 0.48287289481504, 0.434099025766973, 0.361103772282145, 0.275, 0.188896227717855,
      0.115900974233027, 0.0671271051849605, 0.05, 0.05, 0.05, 0.05}},
    {"LinearLR(1, 0.1, total_iters=8)",
     {SCHEDULE_LINEAR, 0, 8, 0, 0.05f},
     {0.5, 0.44375, 0.3875, 0.33125, 0.275, 0.21875, 0.1625, 0.10625, 0.05, 0.05, 0.05, 0.05}},
    {"SequentialLR([LinearLR(1 / 4, 1, total_iters=3), CosineAnnealingLR(8, 0.05)], [4])",
     {SCHEDULE_COSINE, 4, 8, 0, 0.05f},
     {0.125, 0.25, 0.375, 0.5, 0.5, 0.48287289481504, 0.434099025766973, 0.361103772282145, 0.275,
      0.188896227717855, 0.115900974233027, 0.0671271051849605}},
};

static void test_rates_are_those_of_torch(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(torch_rates) / sizeof(*torch_rates); i++) {
        const struct schedule *schedule = &torch_rates[i].schedule;
        assert_ok(schedule_check(schedule));
        for (int64_t step = 0; step < STEPS; step++) {
            double rate = schedule_rate(schedule, 0.5, step), wanted = torch_rates[i].rates[step];
            /* 0.3 and 0.05 are floats here. */
            if (fabs(rate / wanted - 1) > 1e-6)
                fail_msg("%s: step %d %.15g, not %.15g", torch_rates[i].what, (int)step, rate,
                         wanted);
        }
    }
}

/* The formulas, by the math library. */
static double formula(const struct schedule *s, double rate, double step)
{
    double d = step - (double)s->warmup_steps, D = (double)s->decay_steps;
    double left = d < D ? d / D : 1, end = (double)s->end_rate;
    if (d < 0)
        return rate * (step + 1) / (double)s->warmup_steps;
    switch (s->kind) {
    case SCHEDULE_CONSTANT:
        return rate;
    case SCHEDULE_STEP:
        return rate * pow((double)s->decay_rate, floor(d / D));
    case SCHEDULE_EXPONENTIAL:
        return rate * pow((double)s->decay_rate, d / D);
    case SCHEDULE_COSINE:
        return end + (rate - end) * (1 + cos(acos(-1) * left)) / 2;
    case SCHEDULE_LINEAR:
        return end + (rate - end) * (1 - left);
    }
    return NAN;
}

static void test_formulas_hold_at_every_step(void **state)
{
    (void)state;
    static const int64_t steps[] = {0, 1, 2, 6, 7, 8, 99, 100, 106, 107, 700, 999999, 1000007};
    static const struct schedule numbers[] = {
        {0, 0, 1, 0.5f, 0}, {0, 7, 100, 0.9f, 0.001f}, {0, 100, 1000000, 1.5f, 2}};
    for (int kind = SCHEDULE_CONSTANT; kind <= SCHEDULE_LINEAR; kind++) {
        for (size_t n = 0; n < 3; n++) {
            struct schedule schedule = numbers[n];
            schedule.kind = (enum schedule_kind)kind;
            for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
                if (n == 0 && steps[i] > 1000)
                    continue; /* 0.5 to that power is no double any more */
                double rate = schedule_rate(&schedule, 0.25, steps[i]);
                double wanted = formula(&schedule, 0.25, (double)steps[i]);
                assert_true(fabs(rate - wanted) <= 1e-11 * fabs(wanted) + 1e-16);
            }
        }
    }
}

static void test_the_ends_are_exact(void **state)
{
    (void)state;
    struct schedule cosine = {SCHEDULE_COSINE, 5, 20, 0, 0.125f};
    struct schedule linear = {SCHEDULE_LINEAR, 5, 20, 0, 0.125f};
    assert_true(schedule_rate(&cosine, 0.75, 4) == 0.75 && schedule_rate(&linear, 0.75, 4) == 0.75);
    assert_true(schedule_rate(&cosine, 0.75, 5) == 0.75 && schedule_rate(&linear, 0.75, 5) == 0.75);
    static const int64_t late[] = {25, 26, 1000, INT64_MAX};
    for (size_t i = 0; i < 4; i++) {
        assert_true(schedule_rate(&cosine, 0.75, late[i]) == 0.125);
        assert_true(schedule_rate(&linear, 0.75, late[i]) == 0.125);
    }
    struct schedule plain = {.kind = SCHEDULE_CONSTANT};
    assert_true(schedule_rate(&plain, 0.75, 0) == 0.75);
    assert_true(schedule_rate(&plain, 0.75, INT64_MAX) == 0.75);
    struct schedule fast = {SCHEDULE_STEP, 0, 1, 0.5f, 0};
    assert_true(schedule_rate(&fast, 0.75, INT64_MAX) == 0);
}

/* Update t is behind t - 1 steps; Adam's correction comes on top, and weight decay follows. */
static void test_updates_take_the_rate_of_their_step(void **state)
{
    (void)state;
    struct optimizer optimizer;
    assert_ok(optimizer_init(&optimizer, "sgd", 0.5));
    optimizer.schedule = (struct schedule){SCHEDULE_LINEAR, 2, 4, 0, 0};
    static const float rates[] = {0.25f, 0.5f, 0.5f, 0.375f, 0.25f, 0.125f, 0, 0};
    optimizer.weight_decay = 0.5f;
    for (int64_t t = 1; t <= 8; t++) {
        assert_true(optimizer_learning_rate(&optimizer, t) == rates[t - 1]);
        assert_true(optimizer_rate(&optimizer, t) == rates[t - 1]);
        assert_true(optimizer_decay(&optimizer, t) == 1 - rates[t - 1] / 2);
    }
    optimizer.kind = OPTIMIZER_ADAM;
    double corrected = 0.375 * sqrt(1 - pow((double)0.999f, 4)) / (1 - pow((double)0.9f, 4));
    assert_true(optimizer_learning_rate(&optimizer, 4) == 0.375f);
    assert_true(fabs(optimizer_rate(&optimizer, 4) / corrected - 1) < 1e-6);
    assert_true(optimizer_decay(&optimizer, 4) == 1 - 0.375f / 2);
}

static void test_names(void **state)
{
    (void)state;
    for (int kind = SCHEDULE_CONSTANT; kind <= SCHEDULE_LINEAR; kind++) {
        enum schedule_kind found;
        assert_ok(schedule_by_name(schedule_name((enum schedule_kind)kind), &found));
        assert_int_equal(found, kind);
    }
    enum schedule_kind kept = SCHEDULE_LINEAR;
    assert_fails(schedule_by_name("poly", &kept), ERROR_USAGE, "constant, step, exponential");
    assert_int_equal(kept, SCHEDULE_LINEAR);
}

static void test_bad_numbers_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct schedule schedule;
        const char *says;
    } bad[] = {{{SCHEDULE_CONSTANT, -1, 0, 0, 0}, "-1 warm-up steps"},
               {{SCHEDULE_STEP, 0, 0, 0.5f, 0}, "0 decay steps"},
               {{SCHEDULE_LINEAR, 0, -3, 0, 0}, "-3 decay steps"},
               {{SCHEDULE_STEP, 0, 1, 0, 0}, "decay rate is 0"},
               {{SCHEDULE_EXPONENTIAL, 0, 1, NAN, 0}, "decay rate is"},
               {{SCHEDULE_EXPONENTIAL, 0, 1, INFINITY, 0}, "decay rate is inf"},
               {{SCHEDULE_COSINE, 0, 1, 0, -0.5f}, "end learning rate is -0.5"},
               {{SCHEDULE_LINEAR, 0, 1, 0, INFINITY}, "end learning rate is inf"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_fails(schedule_check(&bad[i].schedule), ERROR_USAGE, bad[i].says);
    struct optimizer optimizer;
    assert_ok(optimizer_init(&optimizer, "sgd", 0.5));
    optimizer.schedule = bad[1].schedule;
    assert_fails(optimizer_check(&optimizer), ERROR_USAGE, bad[1].says);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_rates_are_those_of_torch),
    cmocka_unit_test(test_formulas_hold_at_every_step),
    cmocka_unit_test(test_the_ends_are_exact),
    cmocka_unit_test(test_updates_take_the_rate_of_their_step),
    cmocka_unit_test(test_names),
    cmocka_unit_test(test_bad_numbers_are_refused),
};

UNIT_MAIN(tests)

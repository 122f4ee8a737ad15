/* SPDX-License-Identifier: MIT */
/* Covers trainer/compute/optimizer. */
#include "tests/unit/unit.h"

#include <math.h>

#include "trainer/compute/kernel.h"
#include "trainer/compute/optimizer.h"

/* Ten updates of one parameter with these gradients; 0 and a sign change among them. */
static const float gradients[10] = {0.5f, -1.25f, 0, 3, 1e-3f, -1e-3f, 0.25f, 100, -7.5f, 0.125f};

static struct device *device;
static struct device_queue *queue;
static struct kernel *kernel;

static int open_kernel(void **state)
{
    (void)state;
    const struct kernel_options options = {.blas = "plain"};
    assert_ok(device_open("cpu", &device));
    assert_ok(device_queue_new(device, &queue));
    assert_ok(kernel_open(device, queue, &options, &kernel));
    return 0;
}

static int close_kernel(void **state)
{
    (void)state;
    kernel_close(kernel);
    device_queue_free(device, queue);
    device_close(device);
    return 0;
}

/* The parameter, from 1, after each of the ten updates. */
static void run(const struct optimizer *optimizer, float ret_values[10])
{
    float parameter = 1, gradient, slots[OPTIMIZER_SLOTS_LIMIT];
    assert_ok(optimizer_check(optimizer));
    for (size_t i = 0; i < optimizer_slots(optimizer); i++)
        slots[i] = optimizer_slot_initial(optimizer, i);
    struct kernel_update update = {.count = 1,
                                   .gradient = &gradient,
                                   .parameters = &parameter,
                                   .slots = {&slots[0], &slots[1]}};
    for (int t = 1; t <= 10; t++) {
        gradient = gradients[t - 1];
        assert_ok(kernel_update(kernel, optimizer, t, &update));
        ret_values[t - 1] = parameter;
    }
}

static void expect_of(const struct optimizer *optimizer, const char *name,
                      const double expected[10])
{
    float values[10];
    run(optimizer, values);
    for (int i = 0; i < 10; i++) {
        if (fabs(values[i] - expected[i]) > 2e-6 * fmax(1, fabs(expected[i])))
            fail_msg("%s: after update %d %.9g, not %.9g", name, i + 1, (double)values[i],
                     expected[i]);
    }
}

/* The expected values were computed in Python with 50 decimal digits from the formulas in
 * optimizer.h, so float's rounding is the only difference. */
static void expect(const char *name, double learning_rate, const double expected[10])
{
    struct optimizer optimizer;
    assert_ok(optimizer_init(&optimizer, name, learning_rate));
    expect_of(&optimizer, name, expected);
}

static void test_sgd(void **state)
{
    (void)state;
    static const double expected[10] = {
        0.995000000112, 1.007499999832, 1.007499999832,  0.977500000503, 0.977490000503,
        0.977500000503, 0.975000000559, -0.024999977089, 0.050000021234, 0.048750021262};
    expect("sgd", 0.01, expected);
}

static void test_momentum(void **state)
{
    (void)state;
    static const double expected[10] = {
        0.995000000112, 1.003000000052, 1.010199999808,  0.986680000087,  0.965502000898,
        0.946451802134, 0.926806623756, -0.090874013964, -0.931786565325, -1.689857841473};
    expect("momentum", 0.01, expected);
}

static void test_adagrad(void **state)
{
    (void)state;
    static const double expected[10] = {
        0.991548457660, 1.000587226530, 1.000587226530, 0.991505694550, 0.991502667372,
        0.991505694550, 0.990751058245, 0.980756541456, 0.981504033141, 0.981491574956};
    expect("adagrad", 0.01, expected);
}

static void test_adam(void **state)
{
    (void)state;
    static const double expected[10] = {
        0.990000006548, 0.994422158180, 0.997840494148, 0.993683072337, 0.990167443090,
        0.987139015362, 0.984117387911, 0.979074921755, 0.974976603358, 0.971312909938};
    expect("adam", 0.01, expected);
}

/* Of torch 2.15 in double: torch.optim with lr 0.01 and what `what` says, on the same gradients.
 * Adam with an epsilon that is too small to matter, since torch adds it elsewhere. */
static const struct {
    const char *what, *name;
    float momentum, accumulator, beta1, beta2, decay, l2;
    bool nesterov;
    double values[10];
} torch_values[] = {
    {"SGD(weight_decay=0.1)", "sgd", .l2 = 0.1f,
     .values = {0.994, 1.005506, 1.004500494, 0.973495993506, 0.972512497512, 0.971549985015,
                0.968078435030, -0.032889643405, 0.042143246238, 0.040851102992}},
    {"SGD(momentum=0.8, weight_decay=0.1)", "momentum", .momentum = 0.8f, .l2 = 0.1f,
     .values = {0.994, 1.000706, 1.005070094, 0.977556299106, 0.954557706892, 0.935214275413,
                0.916304315955, -0.099739955927, -0.837475633477, -1.428076699884}},
    {"SGD(momentum=0.8, nesterov=True)", "momentum", .momentum = 0.8f, .nesterov = true,
     .values = {0.991, 1.0103, 1.01574, 0.966092, 0.9503556, 0.93779248, 0.923233984, -0.8864128128,
                -1.39913025024, -1.871554200192}},
    {"Adagrad(initial_accumulator_value=0.5, eps=0, weight_decay=0.1)", "adagrad",
     .accumulator = 0.5f, .l2 = 0.1f,
     .values = {0.993530033608, 1.001316079040, 1.000640071704, 0.991617123031, 0.991325719309,
                0.991040335315, 0.990030281387, 0.980036237226, 0.980773254443, 0.980751042676}},
    {"Adam(betas=(0.8, 0.99), weight_decay=0.1)", "adam", .beta1 = 0.8f, .beta2 = 0.99f, .l2 = 0.1f,
     .values = {0.99, 0.994055708504, 0.996443278705, 0.990934291189, 0.986400972967,
                0.982580899598, 0.978817710141, 0.972040453834, 0.967017037056, 0.962882370858}},
    {"AdamW(betas=(0.8, 0.99), weight_decay=0.1)", "adam", .beta1 = 0.8f, .beta2 = 0.99f,
     .decay = 0.1f,
     .values = {0.989, 0.992962464519, 0.995557463251, 0.989530445993, 0.984576951511,
                0.980421057073, 0.976374722510, 0.968641695546, 0.962673951068, 0.957603272051}},
    {"SGD(weight_decay=0.1), which is the decoupled one too", "sgd", .decay = 0.1f,
     .values = {0.994, 1.005506, 1.004500494, 0.973495993506, 0.972512497512, 0.971549985015,
                0.968078435030, -0.032889643405, 0.042143246238, 0.040851102992}},
};

static void test_options_are_those_of_torch(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(torch_values) / sizeof(*torch_values); i++) {
        struct optimizer optimizer;
        assert_ok(optimizer_init(&optimizer, torch_values[i].name, 0.01));
        optimizer.momentum = torch_values[i].momentum;
        optimizer.nesterov = torch_values[i].nesterov;
        optimizer.initial_accumulator = torch_values[i].accumulator;
        optimizer.beta1 = torch_values[i].beta1;
        optimizer.beta2 = torch_values[i].beta2;
        optimizer.epsilon = 1e-30f;
        optimizer.weight_decay = torch_values[i].decay;
        optimizer.l2 = torch_values[i].l2;
        expect_of(&optimizer, torch_values[i].what, torch_values[i].values);
    }
}

static void test_adagrad_without_a_gradient_changes_nothing(void **state)
{
    (void)state;
    struct optimizer optimizer;
    assert_ok(optimizer_init(&optimizer, "adagrad", 0.01));
    float parameters[40], slots[40], gradient[40] = {0};
    for (int i = 0; i < 40; i++) {
        parameters[i] = (float)i - 20;
        slots[i] = 0.1f;
    }
    float before[40];
    memcpy(before, parameters, sizeof(before));
    struct kernel_update update = {
        .count = 40, .gradient = gradient, .parameters = parameters, .slots = {slots}};
    assert_ok(kernel_update(kernel, &optimizer, 1, &update));
    assert_memory_equal(before, parameters, sizeof(before));
    for (int i = 0; i < 40; i++)
        assert_true(slots[i] == 0.1f);
}

static void test_names_and_slots(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t slots;
        const char *first, *second;
        float initial;
    } expected[] = {{"sgd", 0, NULL, NULL, 0},
                    {"momentum", 1, "Momentum", NULL, 0},
                    {"adagrad", 1, "Adagrad", NULL, 0.1f},
                    {"adam", 2, "Adam", "Adam_1", 0}};
    for (size_t i = 0; i < 4; i++) {
        struct optimizer optimizer;
        assert_ok(optimizer_init(&optimizer, expected[i].name, 0.5));
        assert_string_equal(optimizer_name(&optimizer), expected[i].name);
        assert_int_equal(optimizer_slots(&optimizer), expected[i].slots);
        if (expected[i].first)
            assert_string_equal(optimizer_slot_name(&optimizer, 0), expected[i].first);
        if (expected[i].second)
            assert_string_equal(optimizer_slot_name(&optimizer, 1), expected[i].second);
        if (expected[i].slots)
            assert_true(optimizer_slot_initial(&optimizer, 0) == expected[i].initial);
        assert_true(optimizer.learning_rate == 0.5f);
    }
}

static void test_the_rate_of_adam(void **state)
{
    (void)state;
    struct optimizer optimizer;
    assert_ok(optimizer_init(&optimizer, "adam", 0.001));
    double beta1 = (double)0.9f, beta2 = (double)0.999f;
    static const int64_t times[] = {1, 2, 3, 10, 1000, 1000000, INT64_C(1) << 40};
    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
        double t = (double)times[i];
        double expected = 0.001 * sqrt(1 - pow(beta2, t)) / (1 - pow(beta1, t));
        assert_true(fabs(optimizer_rate(&optimizer, times[i]) / expected - 1) < 1e-6);
    }
    assert_ok(optimizer_init(&optimizer, "sgd", 0.25));
    assert_true(optimizer_rate(&optimizer, 5) == 0.25f);
}

static void test_bad_constants_are_refused(void **state)
{
    (void)state;
    struct optimizer optimizer;
    assert_fails(optimizer_init(&optimizer, "rmsprop", 0.1), ERROR_USAGE, "sgd, momentum");
    static const double bad_rates[] = {0, -0.1, INFINITY, NAN, 1e300, 1e-300};
    assert_ok(optimizer_init(&optimizer, "adam", 0.5));
    for (size_t i = 0; i < sizeof(bad_rates) / sizeof(*bad_rates); i++)
        assert_fails(optimizer_init(&optimizer, "sgd", bad_rates[i]), ERROR_USAGE, "learning rate");
    assert_string_equal(optimizer_name(&optimizer), "adam"); /* as it was */
    assert_true(optimizer.learning_rate == 0.5f);
    assert_ok(optimizer_init(&optimizer, "adagrad", 0.1));
    optimizer.initial_accumulator = 0;
    assert_fails(optimizer_check(&optimizer), ERROR_USAGE, "initial accumulator is 0");
    assert_ok(optimizer_init(&optimizer, "momentum", 0.1));
    optimizer.momentum = 1;
    assert_fails(optimizer_check(&optimizer), ERROR_USAGE, "momentum is 1");
    assert_ok(optimizer_init(&optimizer, "adam", 0.1));
    optimizer.beta2 = 1;
    assert_fails(optimizer_check(&optimizer), ERROR_USAGE, "beta2 is 1");
    optimizer.beta1 = -0.5f;
    assert_fails(optimizer_check(&optimizer), ERROR_USAGE, "beta1 is -0.5");
    assert_ok(optimizer_init(&optimizer, "adam", 0.1));
    optimizer.epsilon = 0;
    assert_fails(optimizer_check(&optimizer), ERROR_USAGE, "epsilon is 0");
    assert_ok(optimizer_init(&optimizer, "sgd", 0.1));
    optimizer.weight_decay = -1;
    assert_fails(optimizer_check(&optimizer), ERROR_USAGE, "weight decay is -1");
    optimizer.weight_decay = 0;
    optimizer.l2 = NAN;
    assert_fails(optimizer_check(&optimizer), ERROR_USAGE, "l2 is");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_sgd),
    cmocka_unit_test(test_momentum),
    cmocka_unit_test(test_adagrad),
    cmocka_unit_test(test_adam),
    cmocka_unit_test(test_options_are_those_of_torch),
    cmocka_unit_test(test_adagrad_without_a_gradient_changes_nothing),
    cmocka_unit_test(test_names_and_slots),
    cmocka_unit_test(test_the_rate_of_adam),
    cmocka_unit_test(test_bad_constants_are_refused),
};

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_kernel, close_kernel);
}

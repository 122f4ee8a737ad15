/* SPDX-License-Identifier: MIT */
/* Covers trainer/run/baseline. */
#include "tests/unit/unit.h"

#include <math.h>

#include "trainer/run/baseline.h"

static void test_the_entropy_of_classes(void **state)
{
    const int32_t classes[] = {0, 2, 2, 2};
    struct baseline baseline;

    (void)state;
    assert_ok(baseline_init(&baseline, 3));
    assert_true(baseline_loss(&baseline) == 0);
    baseline_add(&baseline, classes, NULL, 1);
    assert_true(baseline_loss(&baseline) == 0); /* one class alone is always right */
    baseline_add(&baseline, classes + 1, NULL, 3);
    double right = -0.25 * log(0.25) - 0.75 * log(0.75);
    assert_true(fabs(baseline_loss(&baseline) - right) < 1e-15);
    assert_int_equal(baseline.rows, 4);
    baseline_release(&baseline);
}

/* Large targets that differ little: squares of them would leave no digit of it. */
static void test_the_variance_of_targets(void **state)
{
    struct baseline baseline;
    float targets[1000];

    (void)state;
    assert_ok(baseline_init(&baseline, 0));
    for (int i = 0; i < 1000; i++)
        targets[i] = 1e6f + (float)(i % 4);
    baseline_add(&baseline, NULL, targets, 600);
    baseline_add(&baseline, NULL, targets + 600, 400);
    assert_true(fabs(baseline_loss(&baseline) - 1.25) < 1e-9);
    baseline_release(&baseline);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_entropy_of_classes),
    cmocka_unit_test(test_the_variance_of_targets),
};

UNIT_MAIN(tests)

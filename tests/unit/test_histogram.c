/* SPDX-License-Identifier: MIT */
/* Covers trainer/events/histogram. */
#include "tests/unit/unit.h"

#include <float.h>
#include <math.h>

#include "trainer/events/histogram.h"

static struct histogram histogram;

static double total(void)
{
    double sum = 0;
    for (size_t i = 0; i < histogram.buckets; i++)
        sum += histogram.bucket[i];
    return sum;
}

static void test_a_few_values(void **state)
{
    static const float values[] = {-1, 0, 0, 2, NAN, INFINITY, -INFINITY};
    (void)state;
    histogram_count(&histogram, values, sizeof(values) / sizeof(values[0]));
    assert_true(histogram.count == 4 && histogram.sum == 1 && histogram.sum_of_squares == 5);
    assert_true(histogram.minimum == -1 && histogram.maximum == 2);
    assert_int_equal(histogram.buckets, 6);
    static const double found[] = {0, 1, 0, 2, 0, 1};
    assert_memory_equal(histogram.bucket, found, sizeof(found));
    assert_true(histogram.limit[0] <= -1 && histogram.limit[1] > -1);
    assert_true(histogram.limit[2] == 0 && histogram.limit[3] == 1e-12);
    assert_true(histogram.limit[4] <= 2 && histogram.limit[5] > 2);
}

static void test_nothing_and_the_ends(void **state)
{
    static const float odd[] = {NAN}, ends[] = {-FLT_MAX, FLT_MAX}, limits[] = {0.0f, -0.0f};
    (void)state;
    histogram_count(&histogram, odd, 1);
    assert_true(histogram.count == 0 && histogram.buckets == 0 && histogram.maximum == 0);
    histogram_count(&histogram, ends, 2);
    assert_true(total() == 2 && histogram.limit[histogram.buckets - 1] == DBL_MAX);
    assert_true(histogram.limit[0] == -DBL_MAX && histogram.bucket[0] == 0);
    histogram_count(&histogram, limits, 2);
    assert_int_equal(histogram.buckets, 2);
    assert_true(histogram.limit[0] == 0 && histogram.limit[1] == 1e-12 && histogram.bucket[1] == 2);
}

static uint64_t chance;

static double draw(void)
{
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(chance >> 11) / 9007199254740992.0;
}

/* How many values are in [low, high): by looking at each. */
static double count_between(const float *values, size_t count, double low, double high)
{
    double found = 0;
    for (size_t i = 0; i < count; i++)
        found += values[i] >= low && values[i] < high;
    return found;
}

static void test_each_bucket_holds_what_is_between_its_limits(void **state)
{
    static float values[500];
    size_t count = sizeof(values) / sizeof(values[0]);
    (void)state;
    chance = unit_seed();
    for (int round = 0; round < 50 / UNIT_LESS; round++) {
        double spread = 60 * draw();
        for (size_t i = 0; i < count; i++)
            values[i] = (float)((draw() < 0.5 ? -1 : 1) * exp(spread * (draw() - 0.6)));
        histogram_count(&histogram, values, count);
        assert_true(histogram.count == (double)count && total() == (double)count);
        for (size_t i = 0; i < histogram.buckets; i++) {
            double low = i > 0 ? histogram.limit[i - 1] : -INFINITY;
            assert_true(low < histogram.limit[i]);
            assert_true(histogram.bucket[i] ==
                        count_between(values, count, low, histogram.limit[i]));
            /* Buckets with something in them are narrow. */
            assert_true(histogram.bucket[i] == 0 || low == 0 || histogram.limit[i] == 0 ||
                        fabs(histogram.limit[i] / low - 1) < 0.1001);
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_few_values),
    cmocka_unit_test(test_nothing_and_the_ends),
    cmocka_unit_test(test_each_bucket_holds_what_is_between_its_limits),
};

UNIT_MAIN(tests)

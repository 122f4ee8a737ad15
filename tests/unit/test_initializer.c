/* SPDX-License-Identifier: MIT */
/* Covers trainer/compute/initializer. */
#include "tests/unit/unit.h"

#include <math.h>

#include "trainer/compute/initializer.h"

#define COUNT 400000

static float *draw(float stddev, uint64_t seed, uint32_t tensor)
{
    float *values = malloc(COUNT * sizeof(*values));
    assert_non_null(values);
    initializer_truncated_normal(values, COUNT, stddev, seed, tensor);
    return values;
}

static void test_moments_are_those_of_the_truncated_normal(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        float *values = draw(0.5f, seed, 3);
        double sum = 0, squares = 0, cubes = 0, fourths = 0;
        for (size_t i = 0; i < COUNT; i++) {
            double z = values[i] / 0.5;
            assert_true(fabs(z) < 2.0000001);
            sum += z;
            squares += z * z;
            cubes += z * z * z;
            fourths += z * z * z * z;
        }
        /* Variance 1 - 4 phi(2) / (2 Phi(2) - 1); standard errors of the means below 0.0025. */
        assert_true(fabs(sum / COUNT) < 0.007);
        assert_true(fabs(squares / COUNT - 0.773741) < 0.007);
        assert_true(fabs(cubes / COUNT) < 0.015);
        assert_true(fabs(fourths / COUNT - 1.4161) < 0.03);
        free(values);
    }
}

/* Phi(x) by erfc, truncated to (-2, 2). */
static double cumulative(double x)
{
    double low = erfc(2 / sqrt(2.0)) / 2;
    return (erfc(-x / sqrt(2.0)) / 2 - low) / (1 - 2 * low);
}

static void test_the_whole_distribution_fits(void **state)
{
    (void)state;
    enum { CELLS = 40 };
    float *values = draw(1, 99, 0);
    size_t counts[CELLS] = {0};
    for (size_t i = 0; i < COUNT; i++) {
        int cell = (int)floor((values[i] + 2) * (CELLS / 4.0));
        counts[cell < 0 ? 0 : cell >= CELLS ? CELLS - 1 : cell]++;
    }
    double chi_square = 0;
    for (int i = 0; i < CELLS; i++) {
        double expected =
            COUNT * (cumulative(-2 + (i + 1) * 4.0 / CELLS) - cumulative(-2 + i * 4.0 / CELLS));
        chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    assert_true(fabs(chi_square - (CELLS - 1)) < 4 * sqrt(2.0 * (CELLS - 1)));
    free(values);
}

static void test_a_seed_gives_the_same_bits(void **state)
{
    (void)state;
    float *first = draw(0.25f, 7, 1), *second = draw(0.25f, 7, 1);
    assert_memory_equal(first, second, COUNT * sizeof(*first));
    /* An element depends on its index alone, not on how many are drawn. */
    float some[17];
    initializer_truncated_normal(some, 17, 0.25f, 7, 1);
    assert_memory_equal(first, some, sizeof(some));
    free(first);
    free(second);
}

static void test_seeds_and_tensors_differ(void **state)
{
    (void)state;
    float *base = draw(1, 7, 1);
    const struct {
        uint64_t seed;
        uint32_t tensor;
    } others[] = {{8, 1}, {7, 2}, {7 + (UINT64_C(1) << 32), 1}, {7, 0}};
    for (size_t o = 0; o < sizeof(others) / sizeof(*others); o++) {
        float *other = draw(1, others[o].seed, others[o].tensor);
        size_t equal = 0;
        double product = 0;
        for (size_t i = 0; i < COUNT; i++) {
            equal += base[i] == other[i];
            product += (double)base[i] * (double)other[i];
        }
        assert_true(equal < 10);
        assert_true(fabs(product / COUNT) < 4 * 0.774 / sqrt(COUNT));
        free(other);
    }
    free(base);
}

/* Computed in Python from the definition: Philox4x32-10 (checked there against its published known
 * answers), math.log, math.cos and math.sin in double, rounded to float at the end. */
static void test_bits_are_the_same_everywhere(void **state)
{
    (void)state;
    static const uint32_t expected[8] = {0x3f17f0a9, 0xbee1b04d, 0x3ff560e3, 0x3fb09a0c,
                                         0x3f58bfb4, 0x3f94d4a1, 0x3fc32b7f, 0xbf5fad7f};
    float values[8];
    initializer_truncated_normal(values, 8, 1, 12345, 1);
    for (size_t i = 0; i < 8; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof(bits));
        assert_int_equal(bits, expected[i]);
    }
}

static void test_constant(void **state)
{
    (void)state;
    float values[5] = {0};
    initializer_constant(values, 4, 0.1f);
    for (size_t i = 0; i < 4; i++)
        assert_true(values[i] == 0.1f);
    assert_true(values[4] == 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_moments_are_those_of_the_truncated_normal),
    cmocka_unit_test(test_the_whole_distribution_fits),
    cmocka_unit_test(test_a_seed_gives_the_same_bits),
    cmocka_unit_test(test_seeds_and_tensors_differ),
    cmocka_unit_test(test_bits_are_the_same_everywhere),
    cmocka_unit_test(test_constant),
};

UNIT_MAIN(tests)

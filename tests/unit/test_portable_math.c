/* SPDX-License-Identifier: MIT */
/* Covers trainer/compute/portable_math: against the math library, whose last bit may be another. */
#include "tests/unit/unit.h"

#include <math.h>

#include "trainer/compute/portable_math.h"

static void assert_close(double got, double wanted, double allowed, double x)
{
    if (!(fabs(got - wanted) <= allowed))
        fail_msg("of %.17g: %.17g, not %.17g", x, got, wanted);
}

static void test_logarithm_and_exponential(void **state)
{
    (void)state;
    for (double x = 1e-300; x < 1e300; x *= 1.37) {
        assert_close(portable_logarithm(x), log(x), 2e-15 * fabs(log(x)) + 1e-16, x);
    }
    for (double x = -700; x < 700; x += 0.173)
        assert_close(portable_exponential(x), exp(x), 1e-13 * exp(x), x);
    for (double x = -1; x < 1; x += 0.00173)
        assert_close(portable_exponential(x), exp(x), 1e-15 * exp(x), x);
    assert_true(portable_exponential(0) == 1 && portable_exponential(-1e6) == 0);
    assert_true(portable_exponential(1e6) == INFINITY && portable_exponential(-INFINITY) == 0);
    assert_true(isnan(portable_exponential(NAN)));
}

static void test_powers(void **state)
{
    (void)state;
    for (int64_t exponent = 0; exponent < 70; exponent++)
        assert_true(portable_power(0.5, exponent) == ldexp(1, -(int)exponent));
    for (int64_t exponent = 0; exponent < 20000; exponent += 1 + exponent / 7) {
        double wanted = pow(0.97, (double)exponent);
        assert_close(portable_power(0.97, exponent), wanted,
                     (2e-16 * (double)exponent + 1e-15) * wanted, (double)exponent);
    }
    assert_true(portable_power(0.5, INT64_MAX) == 0 && portable_power(2, INT64_MAX) == INFINITY);
}

static void test_cosine_and_sine(void **state)
{
    (void)state;
    for (double turns = 0; turns <= 1; turns += 1.0 / 4096) {
        double cosine, sine, angle = turns * 2 * acos(-1);
        portable_cosine_sine(turns, &cosine, &sine);
        assert_close(cosine, cos(angle), 1e-15, turns);
        assert_close(sine, sin(angle), 1e-15, turns);
    }
    double cosine, sine;
    portable_cosine_sine(0.5, &cosine, &sine);
    assert_true(cosine == -1 && sine == 0);
}

/* Computed in Python from the series, in double. */
static void test_bits(void **state)
{
    (void)state;
    double cosine, sine;
    portable_cosine_sine(0.3, &cosine, &sine);
    assert_true(portable_logarithm(0.1) == -0x1.26bb1bbb55515p+1 &&
                portable_exponential(-0.7) == 0x1.fc80db9dd5542p-2);
    assert_true(cosine == -0x1.3c6ef372fe94ep-2 && sine == 0x1.e6f0e13445500p-1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_logarithm_and_exponential),
    cmocka_unit_test(test_powers),
    cmocka_unit_test(test_cosine_and_sine),
    cmocka_unit_test(test_bits),
};

UNIT_MAIN(tests)

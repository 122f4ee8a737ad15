/* SPDX-License-Identifier: MIT */
/* Covers common/clock: The clock stands still at what the test says: linked with --wrap. */
#include "tests/unit/unit.h"

#include "common/clock.h"

#define SECOND INT64_C(1000000000)

static int64_t monotonic_ns, wall_ns;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    assert_true(clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME);
    *ret_time = clock_timespec(clock == CLOCK_MONOTONIC ? monotonic_ns : wall_ns);
    return 0;
}

static void test_the_wall_clock_has_microseconds(void **state)
{
    (void)state;
    wall_ns = 1700000000 * SECOND + 999999999;
    assert_true(clock_wall_seconds() == 1700000000.0 + 999999 * 1e-6);
    wall_ns = 1700000000 * SECOND + 999;
    assert_true(clock_wall_seconds() == 1700000000.0);
}

static void test_deadlines(void **state)
{
    (void)state;
    monotonic_ns = 7 * SECOND + 999999999;
    assert_int_equal(clock_now_ns(), monotonic_ns);
    assert_int_equal(clock_deadline_ns(0), monotonic_ns);
    assert_int_equal(clock_deadline_ns(2500), monotonic_ns + 5 * SECOND / 2);
}

static void test_a_deadline_that_never_comes(void **state)
{
    (void)state;
    monotonic_ns = SECOND;
    assert_int_equal(clock_deadline_ns(-1), INT64_MAX);
    assert_int_equal(clock_deadline_ns(INT64_MAX), INT64_MAX);
    assert_int_equal(clock_left_ms(INT64_MAX), INT64_MAX);
}

static void test_what_is_left_is_rounded_up(void **state)
{
    (void)state;
    static const struct {
        int64_t left_ns, left_ms;
    } cases[] = {{-SECOND, 0}, {-1, 0},      {0, 0},       {1, 1},
                 {999999, 1},  {1000000, 1}, {1000001, 2}, {SECOND, 1000}};
    monotonic_ns = 5 * SECOND;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_int_equal(clock_left_ms(monotonic_ns + cases[i].left_ns), cases[i].left_ms);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_wall_clock_has_microseconds),
    cmocka_unit_test(test_deadlines),
    cmocka_unit_test(test_a_deadline_that_never_comes),
    cmocka_unit_test(test_what_is_left_is_rounded_up),
};

UNIT_MAIN(tests)

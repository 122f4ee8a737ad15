/* SPDX-License-Identifier: MIT */
/* Covers common/decimal: strtod in the C locale, which the test runs in, is the reference. */
#include "tests/unit/store_unit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/decimal.h"
#include "tests/unit/guarded_unit.h"

/* 64 bits hold 54 and four fives: of smaller powers none is halfway. */
enum { ROUNDS = 200000 / UNIT_LESS, TEXT_BYTES = 64, TIES = -4 };

/* Is it decided? Then it must be right. */
static bool check(uint64_t mantissa, int exponent, bool negative)
{
    char text[TEXT_BYTES];
    struct decimal decimal;
    double value = -1;
    snprintf(text, sizeof(text), "%s%" PRIu64 "e%d", negative ? "-" : "", mantissa, exponent);
    assert_true(decimal_scan(text, strlen(text), &decimal));
    assert_true(decimal.exact && decimal.negative == negative);
    assert_true(decimal.mantissa == mantissa && decimal.exponent == exponent);
    if (!decimal_to_double(&decimal, &value))
        return false;
    double expected = strtod(text, NULL);
    assert_memory_equal(&value, &expected, sizeof(value));
    return true;
}

static void test_every_length_and_power_rounds_as_strtod(void **state)
{
    (void)state;
    uint64_t seed = 5;
    size_t undecided = 0;
    for (size_t i = 0; i < ROUNDS; i++) {
        uint64_t mantissa = dice(&seed) >> dice_below(&seed, 64);
        int exponent = (int)dice_below(&seed, 111) - 55;
        bool decided = check(mantissa, exponent, dice_below(&seed, 2));
        bool may_tie = exponent < 0 && exponent >= TIES;
        undecided += !decided && !may_tie;
    }
    assert_true(undecided == 0); /* one in 2^70 */
}

/* Halfway between two doubles, and one more or less in the last digit. */
static void test_ties_go_to_even_or_are_left_alone(void **state)
{
    (void)state;
    uint64_t seed = 6;
    uint64_t fives = 1;
    for (int power = 0; power <= -TIES; power++, fives *= 5) {
        for (size_t i = 0; i < 1000; i++) {
            uint64_t tie = (UINT64_C(1) << 53 | dice(&seed) >> 11 | 1) * fives;
            bool decided = check(tie, -power, false);
            assert_true(decided == (power == 0));
            assert_true(check(tie + 1, -power, false));
            assert_true(check(tie - 1, -power, false));
        }
    }
}

/* An odd integer of 54 bits, written with zeros cut off: a tie with a power above 1. */
static void test_ties_above_one_are_decided(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int power = 1; power <= 22; power++) {
        uint64_t fives = 1;
        for (int i = 0; i < power; i++)
            fives *= 5;
        for (size_t i = 0; i < 1000; i++) {
            /* mantissa * 5^power is odd and has 54 bits */
            uint64_t least = ((UINT64_C(1) << 53) + fives - 1) / fives;
            uint64_t most = ((UINT64_C(1) << 54) - 1) / fives;
            uint64_t mantissa = least + dice(&seed) % (most - least + 1);
            assert_true(check(mantissa | 1, power, false));
        }
    }
}

static void test_what_is_out_of_reach_is_left(void **state)
{
    (void)state;
    static const int exponents[] = {-56, 56, -400, 400};
    struct decimal long_one;
    double value;
    for (size_t i = 0; i < sizeof(exponents) / sizeof(exponents[0]); i++) {
        assert_false(check(UINT64_C(1) << 60, exponents[i], false));
        assert_true(check(0, exponents[i], true)); /* -0 has no size */
    }
    /* 20 digits: the last numbers of 64 bits, and the first that are none. */
    static const char *const whole[] = {"18446744073709551615", "18446744073709551616",
                                        "18446744073709551619", "18446744073709551625",
                                        "19999999999999999999", "20496382304121724017",
                                        "20496382304121724020", "99999999999999999999"};
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        errno = 0;
        uint64_t mantissa = strtoull(whole[i], NULL, 10);
        assert_true(decimal_scan(whole[i], 20, &long_one));
        assert_true(!long_one.exact || (errno == 0 && long_one.mantissa == mantissa));
    }
    assert_true(decimal_scan("0.12345678901234567890123", 25, &long_one));
    assert_false(long_one.exact);
    assert_false(decimal_to_double(&long_one, &value));
}

static void test_other_text_is_no_decimal(void **state)
{
    (void)state;
    static const char *const bad[] = {"",   "-",  "+",   ".",  "-.",  "e5", ".e5",
                                      "1e", "1-", "1e+", "1x", "0x1", " 1", "1 "};
    struct decimal decimal;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(decimal_scan(bad[i], strlen(bad[i]), &decimal));
}

/* Behind each text lies a page that nobody may read; at the end of nothing, too. */
static void test_nothing_behind_a_text_is_read(void **state)
{
    (void)state;
    static const char *const texts[] = {"-1.5e-7", "+.25E+3", "12345", "-"};
    char *end = guarded_pages();
    struct decimal decimal;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        for (size_t length = 0; length <= strlen(texts[i]); length++) {
            memcpy(end - length, texts[i], length);
            const char *stopped = decimal_read(end - length, length, &decimal);
            assert_true(!stopped || (stopped > end - length && stopped <= end));
        }
    }
}

/* Only the text counts, not what memory holds behind it. */
static void test_a_text_of_nothing_in_front_of_a_number(void **state)
{
    (void)state;
    struct decimal decimal;
    assert_null(decimal_read("7", 0, &decimal));
    assert_null(decimal_read("-7", 1, &decimal));
    assert_null(decimal_read("1e7", 2, &decimal));
    assert_null(decimal_read("1e-7", 3, &decimal));
    const char *text = "1.57";
    assert_ptr_equal(decimal_read(text, 3, &decimal), text + 3);
    assert_true(decimal.mantissa == 15 && decimal.exponent == -1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_length_and_power_rounds_as_strtod),
    cmocka_unit_test(test_ties_go_to_even_or_are_left_alone),
    cmocka_unit_test(test_ties_above_one_are_decided),
    cmocka_unit_test(test_what_is_out_of_reach_is_left),
    cmocka_unit_test(test_other_text_is_no_decimal),
    cmocka_unit_test(test_nothing_behind_a_text_is_read),
    cmocka_unit_test(test_a_text_of_nothing_in_front_of_a_number),
};

UNIT_MAIN(tests)

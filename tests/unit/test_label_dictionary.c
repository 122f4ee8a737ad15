/* SPDX-License-Identifier: MIT */
/* Covers loader/column/label_dictionary. */
#include "tests/unit/store_unit.h"

#include "loader/column/label_dictionary.h"

static enum label_kind kind_of(const char *const texts[])
{
    struct label_kinds kinds = {.integers = false};
    for (; *texts; texts++)
        label_kind_add(&kinds, *texts, strlen(*texts));
    return label_kind_of(&kinds);
}

#define KIND(...) kind_of((const char *const[]){__VA_ARGS__, NULL})

static void test_kinds(void **state)
{
    (void)state;
    assert_int_equal(KIND("0", "1", "-1"), LABEL_INTEGER);
    assert_int_equal(KIND("9007199254740992", "-9007199254740992"), LABEL_INTEGER);
    assert_int_equal(KIND("9007199254740993"), LABEL_TEXT);
    assert_int_equal(KIND("99999999999999999999"), LABEL_TEXT);
    assert_int_equal(KIND("-0"), LABEL_REAL);
    assert_int_equal(KIND("01"), LABEL_TEXT);
    assert_int_equal(KIND("-01"), LABEL_TEXT);
    assert_int_equal(KIND("+00"), LABEL_TEXT);
    assert_int_equal(KIND("1", "12345", "01234"), LABEL_TEXT);
    assert_int_equal(KIND("01", "1.5"), LABEL_TEXT);
    assert_int_equal(KIND("00.5"), LABEL_REAL);
    assert_int_equal(KIND("0.0"), LABEL_REAL);
    assert_int_equal(KIND("1", "1.5"), LABEL_REAL);
    assert_int_equal(KIND("1.5", "x", "1"), LABEL_TEXT);
    assert_int_equal(KIND("-"), LABEL_TEXT);
    assert_int_equal(KIND("+1"), LABEL_REAL);
    assert_int_equal(KIND("nan"), LABEL_TEXT);
}

static void test_integers_of_64_bits(void **state)
{
    static const char *const whole[] = {"-9223372036854775808", "9223372036854775807", "0"};
    static const char *const zeros[] = {"1", "01"};
    static const char *const large[] = {"1", "9223372036854775808"};
    static const char *const real[] = {"1.0"};
    (void)state;
    assert_true(labels_are_integers(whole, 3));
    assert_false(labels_are_integers(zeros, 2));
    assert_false(labels_are_integers(large, 2));
    assert_false(labels_are_integers(real, 1));
}

static void check_value(enum label_kind kind, const char *text, bool right, double expected)
{
    struct label_dictionary dictionary = {.kind = kind};
    double value = -77;
    assert_int_equal(label_value(&dictionary, text, strlen(text), &value), right);
    if (right)
        assert_true(value == expected);
}

static void test_values_of_numbers(void **state)
{
    (void)state;
    check_value(LABEL_NONE, "anything", true, 0);
    check_value(LABEL_INTEGER, "-12", true, -12);
    check_value(LABEL_INTEGER, "012", false, 0);
    check_value(LABEL_INTEGER, "1.0", false, 0);
    check_value(LABEL_INTEGER, "9007199254740993", false, 0);
    check_value(LABEL_REAL, "2.5", true, 2.5);
    check_value(LABEL_REAL, "007", true, 7);
    check_value(LABEL_REAL, "x", false, 0);
    check_value(LABEL_TEXT, "x", false, 0);
}

static void test_many_texts(void **state)
{
    enum { TEXTS = 5000 };
    struct label_dictionary dictionary = {.kind = LABEL_TEXT};
    char text[32];
    double value;
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < TEXTS; i++) {
            uint32_t number = 0;
            int length = snprintf(text, sizeof(text), "text %d", i);
            assert_ok(text_set_add(&dictionary.found, text, (size_t)length, &number));
            assert_int_equal(number, i);
        }
    }
    label_dictionary_finish(&dictionary);
    assert_int_equal(dictionary.count, TEXTS);
    for (size_t i = 1; i < TEXTS; i++)
        assert_true(strcmp(dictionary.texts[i - 1], dictionary.texts[i]) < 0);
    for (size_t i = 0; i < TEXTS; i++) {
        assert_true(
            label_value(&dictionary, dictionary.texts[i], strlen(dictionary.texts[i]), &value));
        assert_true(value == (double)i);
    }
    assert_false(label_value(&dictionary, "text", 4, &value));
    assert_false(label_value(&dictionary, "text 1x", 7, &value));
    assert_false(label_value(&dictionary, "", 0, &value));
    label_dictionary_release(&dictionary);
}

static void test_long_texts_and_prefixes(void **state)
{
    struct label_dictionary dictionary = {.kind = LABEL_TEXT};
    char *text = malloc(200000);
    double value;
    (void)state;
    memset(text, 'a', 200000);
    for (size_t length = 1; length < 200000; length = length * 3 + 1)
        assert_ok(text_set_add(&dictionary.found, text, length, NULL));
    assert_ok(text_set_add(&dictionary.found, "", 0, NULL));
    label_dictionary_finish(&dictionary);
    assert_true(label_value(&dictionary, "", 0, &value) && value == 0);
    assert_true(label_value(&dictionary, text, 1, &value) && value == 1);
    assert_true(label_value(&dictionary, text, 4, &value) && value == 2);
    assert_false(label_value(&dictionary, text, 3, &value));
    label_dictionary_release(&dictionary);
    free(text);
}

/* ---- the set of texts below it (common/text_set.h) ---------------------- */

static void test_numbers_in_the_order_of_appearance(void **state)
{
    enum { STEPS = 20000, TEXTS = 700 };
    static uint32_t expected[TEXTS];
    struct text_set set = {.texts = NULL};
    uint32_t known = 0, number, state_of = 5;
    char text[16];
    (void)state;
    memset(expected, 0xff, sizeof(expected));
    for (int i = 0; i < STEPS; i++) {
        state_of = state_of * 1664525 + 1013904223;
        uint32_t which = (state_of >> 16) % TEXTS;
        int length = snprintf(text, sizeof(text), "%x", which);
        assert_ok(text_set_add(&set, text, (size_t)length, &number));
        if (expected[which] == UINT32_MAX)
            expected[which] = known++;
        assert_int_equal(number, expected[which]);
        assert_int_equal(set.count, known);
        assert_string_equal(set.texts[number].data, text); /* a copy */
    }
    text_set_release(&set);
}

static void test_any_bytes_are_a_text(void **state)
{
    static const struct text texts[] = {{"", 0}, {"\0", 1}, {"a", 1}, {"a\0", 2}, {"a\0b", 3}};
    struct text_set set = {.texts = NULL};
    uint32_t number;
    (void)state;
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 5; i++) {
            assert_ok(text_set_add(&set, texts[i].data, texts[i].length, &number));
            assert_int_equal(number, i);
        }
    }
    text_set_release(&set);
}

static void test_borrowed_texts(void **state)
{
    static const char text[] = "abcabc";
    struct text_set set = {.texts = NULL};
    uint32_t number;
    (void)state;
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 6; i++) {
            assert_ok(text_set_borrow(&set, text + i, 1, &number));
            assert_int_equal(number, i % 3);
        }
        assert_int_equal(set.count, 3);
        assert_ptr_equal(set.texts[2].data, text + 2); /* where it came first */
        text_set_clear(&set);
        assert_int_equal(set.count, 0);
    }
    text_set_release(&set);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_kinds),
    cmocka_unit_test(test_integers_of_64_bits),
    cmocka_unit_test(test_values_of_numbers),
    cmocka_unit_test(test_many_texts),
    cmocka_unit_test(test_long_texts_and_prefixes),
    cmocka_unit_test(test_numbers_in_the_order_of_appearance),
    cmocka_unit_test(test_any_bytes_are_a_text),
    cmocka_unit_test(test_borrowed_texts),
};

UNIT_MAIN(tests)

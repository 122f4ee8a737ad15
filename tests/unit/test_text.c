/* SPDX-License-Identifier: MIT */
/* Covers common/text. */
#include "tests/unit/unit.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>

#include "common/text.h"

static bool parse_integer(const char *text, int64_t *ret_value)
{
    return text_parse_integer(text, strlen(text), INT64_MIN, INT64_MAX, ret_value);
}

static void test_integers_are_exact(void **state)
{
    (void)state;
    static const int64_t values[] = {0,
                                     1,
                                     -1,
                                     9,
                                     10,
                                     99,
                                     100,
                                     -100,
                                     INT32_MAX,
                                     INT32_MIN,
                                     INT64_MAX,
                                     INT64_MIN,
                                     (INT64_C(1) << 53) + 1};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char text[32];
        int64_t value;
        snprintf(text, sizeof(text), "%" PRId64, values[i]);
        assert_true(parse_integer(text, &value));
        assert_true(value == values[i]);
    }
}

static void test_sizes_with_units(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } cases[] = {{"4096", 4096},           {"4K", 4096},
                 {"1M", 1 << 20},          {"3G", INT64_C(3) << 30},
                 {"1T", INT64_C(1) << 40}, {"8388607T", INT64_C(8388607) << 40}};
    static const char *const wrong[] = {"4095", "3K",  "",     "K",        "-4K",
                                        "4k",   "4KB", "4.5K", "8388608T", "1P"};
    int64_t bytes;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(text_parse_bytes(cases[i].text, 4096, &bytes));
        assert_true(bytes == cases[i].bytes);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (text_parse_bytes(wrong[i], 4096, &bytes))
            fail_msg("\"%s\" was taken", wrong[i]);
}

static void test_bad_integers_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1.0",
                                      "0x10",
                                      "1e3",
                                      "--1",
                                      "1-",
                                      "abc",
                                      "1_000",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999999999",
                                      "\xd9\xa1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t value = 42;
        assert_false(parse_integer(bad[i], &value));
        assert_int_equal(value, 42);
    }
}

static void test_json_integers(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"-0", 0},
                {"0.000e5", 0},
                {"7.0", 7},
                {"1e3", 1000},
                {"1.5E+1", 15},
                {"1200e-2", 12},
                {"9223372036854775807.0", INT64_MAX},
                {"-9.223372036854775808e18", INT64_MIN},
                {"0e99999999999999999999", 0},
                {"92233720368547758070e-1", INT64_MAX}};
    static const char *const bad[] = {"0.5",
                                      "1e-1",
                                      "15e-1",
                                      "9223372036854775808",
                                      "1e19",
                                      "1e99999999999",
                                      "1e-99999999999999999999",
                                      "-9223372036854775809.0"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        int64_t value = 42;
        assert_true(text_parse_json_integer(good[i].text, strlen(good[i].text), &value));
        assert_true(value == good[i].value);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t value = 42;
        assert_false(text_parse_json_integer(bad[i], strlen(bad[i]), &value));
        assert_int_equal(value, 42);
    }
}

static void test_integer_bounds_and_length(void **state)
{
    (void)state;
    int64_t value = 0;
    assert_true(text_parse_integer("100", 3, 1, 100, &value));
    assert_false(text_parse_integer("101", 3, 1, 100, &value));
    assert_false(text_parse_integer("0", 1, 1, 100, &value));
    assert_true(text_parse_integer("12345", 2, 0, 100, &value));
    assert_int_equal(value, 12);
    assert_false(text_parse_integer("1\0002", 3, 0, 100, &value));
}

static void check_written(int64_t value)
{
    char expected[32];
    char written[TEXT_INTEGER_BYTES + 1];
    memset(written, '#', sizeof(written));
    char *end = text_write_integer(written, value);
    *end = '\0';
    snprintf(expected, sizeof(expected), "%" PRId64, value);
    assert_string_equal(written, expected);
}

static void test_written_integers_equal_printf(void **state)
{
    (void)state;
    check_written(INT64_MIN);
    check_written(INT64_MAX);
    for (int64_t value = -12000; value <= 12000; value++)
        check_written(value);
    for (int64_t power = 1; power <= INT64_MAX / 10; power *= 10) {
        for (int64_t near = -2; near <= 2; near++) {
            check_written(power + near);
            check_written(-power + near);
        }
    }
}

/* strtod in the C locale is the reference, which is what the test program runs in. */
static void check_real(const char *text)
{
    double value = -1;
    assert_true(text_parse_real(text, strlen(text), &value));
    double expected = strtod(text, NULL);
    assert_memory_equal(&value, &expected, sizeof(value));
}

static void test_reals_round_as_strtod(void **state)
{
    (void)state;
    static const char *const good[] = {"0",
                                       "-0",
                                       "1",
                                       "-1.5",
                                       ".5",
                                       "5.",
                                       "1e3",
                                       "1E+3",
                                       "1e-3",
                                       "0.1",
                                       "0.3",
                                       "1e22",
                                       "1e23",
                                       "123456789012345678",
                                       "9007199254740993",
                                       "9007199254740992.5",
                                       "1.7976931348623157e308",
                                       "4.9e-324",
                                       "1e-400",
                                       "2.2250738585072011e-308",
                                       "0.000000000000000000000000000001",
                                       "3.14159265358979323846264338327950288",
                                       "1e0",
                                       "00012.5000",
                                       "8.5e-22",
                                       "123e-25",
                                       "+4",
                                       "+.5e+1"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        check_real(good[i]);
    uint64_t random = 88172645463325252u;
    int rounds = unit_is_long() ? 2000000 : 50000;
    for (int i = 0; i < rounds; i++) {
        char text[64];
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        snprintf(text, sizeof(text), "%.*ge%d", 1 + (int)(random % 19),
                 (double)(random >> 11) / 4096.0, (int)((random >> 3) % 60) - 30);
        if (strchr(text, 'e') == strrchr(text, 'e'))
            check_real(text);
    }
}

static void test_reals_are_written_as_short_as_they_can(void **state)
{
    static const struct {
        double value;
        const char *text;
    } known[] = {{1.1, "1.1"},
                 {0.032, "0.032"},
                 {2.989, "2.989"},
                 {31536000, "31536000"},
                 {0, "0"},
                 {-0.1, "-0.1"},
                 {1e300, "1e+300"},
                 {0.1 + 0.2, "0.30000000000000004"},
                 {2.0 / 3, "0.6666666666666666"},
                 {-2.2250738585072014e-308, "-2.2250738585072014e-308"}};
    char text[TEXT_REAL_BYTES];
    uint64_t random = 88172645463325252u;
    (void)state;
    assert_string_equal(text_of_float(0.1f, text), "0.1");
    assert_string_equal(text_of_float(0.100000024f, text), "0.100000024");
    assert_string_equal(text_of_float(1e-30f, text), "1e-30");
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        assert_string_equal(text_of_real(known[i].value, text), known[i].text);
    for (int i = 0; i < 20000; i++) {
        double value;
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        memcpy(&value, &random, sizeof(value));
        if (isfinite(value))
            assert_true(strtod(text_of_real(value, text), NULL) == value);
        assert_in_range(strlen(text), 1, TEXT_REAL_BYTES - 1);
    }
}

static void test_bad_reals_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",    "-",   ".",   "-.",   "e5",  "1e",    "1e+",   "+",  "+-1",           " 1", "1 ",
        "1,5", "nan", "inf", "-inf", "0x1", "1.2.3", "1e5e5", "1f", "1e99999999999", "--1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        double value = 42;
        assert_false(text_parse_real(bad[i], strlen(bad[i]), &value));
        assert_true(value == 42);
    }
    char endless[3000];
    memset(endless, '1', sizeof(endless));
    double value;
    assert_false(text_parse_real(endless, sizeof(endless), &value));
}

static void test_what_is_written_like_a_real(void **state)
{
    (void)state;
    static const char *const reals[] = {"1e400", "-1e400", "1e99999999999", "0", ".5", "1e-400"};
    static const char *const others[] = {"", "1e400x", "inf", "nan", "1e", "--1", "1,5"};
    for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++)
        assert_true(text_is_real(reals[i], strlen(reals[i])));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(text_is_real(others[i], strlen(others[i])));
}

/* A locale whose decimal point is ',', with nothing else in it: to make all of de_DE takes seconds. */
static void use_decimal_comma(const char *folder)
{
    char command[1024];
    snprintf(command, sizeof(command),
             "printf 'LC_NUMERIC\\ndecimal_point \",\"\\nthousands_sep \".\"\\ngrouping 3;3\\n"
             "END LC_NUMERIC\\n' >%s/comma; localedef -c -i %s/comma -f ANSI_X3.4-1968 "
             "%s/xx_XX >/dev/null 2>&1",
             folder, folder, folder);
    assert_true(system(command) >= 0); /* it warns of what is not in it */
    setenv("LOCPATH", folder, 1);
    assert_non_null(setlocale(LC_ALL, "xx_XX"));
    assert_string_equal(localeconv()->decimal_point, ",");
}

static void test_reals_ignore_the_locale(void **state)
{
    (void)state;
    double value = 0;
    char text[TEXT_REAL_BYTES], folder[256];
    unit_folder_make(folder);
    use_decimal_comma(folder);
    assert_true(text_parse_real("1.25e300", 8, &value));
    assert_true(value == 1.25e300);
    assert_true(text_parse_real("1.2345678901234567890123", 24, &value));
    assert_true(fabs(value - 1.2345678901234567) < 1e-15);
    assert_string_equal(text_of_real(-1.5e300, text), "-1.5e+300");
    assert_string_equal(text_of_float(0.1f, text), "0.1");
    assert_string_equal(text_of_number(0.5, false, text), "0.5");
    assert_string_equal(text_of_number((double)0.1f, true, text), "0.1");
    assert_string_equal(text_of_number(-2000000, true, text), "-2000000");
    assert_string_equal(text_of_number(0x1p53, false, text), "9007199254740992");
    assert_string_equal(text_of_number(1e300, false, text), "1e+300");
    setlocale(LC_ALL, "C");
    unit_folder_remove(folder);
}

static void test_booleans(void **state)
{
    (void)state;
    bool value = false;
    assert_true(text_parse_boolean("yes", 3, &value) && value);
    assert_true(text_parse_boolean("0", 1, &value) && !value);
    assert_true(text_parse_boolean("true", 4, &value) && value);
    assert_true(text_parse_boolean("off", 3, &value) && !value);
    assert_false(text_parse_boolean("", 0, &value));
    assert_false(text_parse_boolean("Yes", 3, &value));
    assert_false(text_parse_boolean("y", 1, &value));
    assert_false(text_parse_boolean("yesno", 5, &value));
}

static bool is_utf8(const char *text)
{
    return text_is_utf8(text, strlen(text));
}

static void test_utf8(void **state)
{
    (void)state;
    assert_true(is_utf8("") && is_utf8("abc") && is_utf8("\xc3\xa9\xe2\x82\xac\xf0\x9f\x8e\xb2"));
    assert_true(is_utf8("\xf4\x8f\xbf\xbf"));
    static const char *const bad[] = {"\xff",         "\xc3",
                                      "\xc0\xaf",     "\xe0\x80\x80",
                                      "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                      "\x80",         "\xf0\x80\x80\x80",
                                      "a\xe2\x82"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(is_utf8(bad[i]));
    assert_false(text_is_utf8("a\0b", 3));
}

static const char *quoted(const char *text)
{
    static char out[TEXT_QUOTE_BYTES];
    return text_quote(out, sizeof(out), text, strlen(text));
}

static void test_quote_is_printable_and_bounded(void **state)
{
    (void)state;
    assert_string_equal(quoted(""), "\"\"");
    assert_string_equal(quoted("a\tb\x1b[1m\x7f"), "\"a?b?[1m?\"");
    assert_string_equal(quoted("\xc3\xa9\xff\xc2\x85"), "\"\xc3\xa9??\"");
    char longest[1000];
    memset(longest, 'a', 60);
    longest[60] = '\0';
    assert_int_equal(strlen(quoted(longest)), 62);
    strcpy(longest + 60, "b");
    assert_int_equal(strlen(quoted(longest)), 65);
    assert_string_equal(quoted(longest) + 61, "...\"");
    for (size_t i = 0; i < 249; i++)
        memcpy(longest + 4 * i, "\xf0\x9f\x8e\xb2", 5);
    assert_true(strlen(quoted(longest)) < TEXT_QUOTE_BYTES);
    assert_true(is_utf8(quoted(longest)));
}

static void test_quote_never_writes_beyond(void **state)
{
    (void)state;
    const char *text = "\xe2\x82\xac\xe2\x82\xac-some text that is rather long";
    for (size_t bytes = 0; bytes < 80; bytes++) {
        char *out = malloc(bytes + 1); /* exactly: the sanitizer watches */
        out[bytes] = '#';
        text_quote(out, bytes, text, strlen(text));
        assert_int_equal(out[bytes], '#');
        if (bytes > 0)
            assert_true(strnlen(out, bytes) < bytes);
        free(out);
    }
}

static void test_nearest(void **state)
{
    (void)state;
    static const char *const names[] = {"listen", "seed", "design", "replacement"};
    assert_string_equal(text_nearest("lisen", names, 4), "listen");
    assert_string_equal(text_nearest("seed", names, 4), "seed");
    assert_string_equal(text_nearest("replacment", names, 4), "replacement");
    assert_null(text_nearest("x", names, 4));
    static const char *const keys[] = {"table", "label", "element"};
    assert_string_equal(text_nearest("lable", keys, 3), "label"); /* letters that changed places */
    assert_string_equal(text_nearest("abel", keys, 3), "label");
    assert_string_equal(text_nearest("tabel", keys, 3), "table");
    assert_string_equal(text_nearest("elmeent", keys, 3), "element");
    assert_null(text_nearest("banana", names, 4));
    assert_null(text_nearest("listen", names, 0));
    char endless[500];
    memset(endless, 's', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    assert_null(text_nearest(endless, names, 4));
}

static void test_a_sorted_list(void **state)
{
    const char *const texts[] = {"", "a", "ab", "abc", "b", "\xc3\xa4"};
    const size_t count = sizeof(texts) / sizeof(texts[0]);
    (void)state;
    for (size_t some = 0; some <= count; some++) {
        for (size_t i = 0; i < count; i++)
            assert_int_equal(text_find(texts[i], strlen(texts[i]), texts, some),
                             i < some ? i : some);
    }
    assert_int_equal(text_find("abcd", 2, texts, count), 2); /* of its first two bytes */
    assert_int_equal(text_find("abcd", 4, texts, count), count);
    assert_int_equal(text_find("aa", 2, texts, count), count);
    assert_int_equal(text_find("c", 1, texts, count), count);
    static const char padded[8] = "ab";
    static const char *const only[] = {padded};
    assert_int_equal(text_find("ab\0", 3, only, 1), 1);
    assert_int_equal(text_find(padded, 2, only, 1), 0);
}

static void test_one_is_not_many(void **state)
{
    (void)state;
    assert_string_equal(text_plural(1, "batch", "batches"), "batch");
    assert_string_equal(text_plural(0, "batch", "batches"), "batches");
    assert_string_equal(text_plural(2, "batch", "batches"), "batches");
    assert_string_equal(text_plural(INT64_MAX, "batch", "batches"), "batches");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_integers_are_exact),
    cmocka_unit_test(test_sizes_with_units),
    cmocka_unit_test(test_bad_integers_are_refused),
    cmocka_unit_test(test_json_integers),
    cmocka_unit_test(test_integer_bounds_and_length),
    cmocka_unit_test(test_written_integers_equal_printf),
    cmocka_unit_test(test_reals_round_as_strtod),
    cmocka_unit_test(test_bad_reals_are_refused),
    cmocka_unit_test(test_reals_are_written_as_short_as_they_can),
    cmocka_unit_test(test_what_is_written_like_a_real),
    cmocka_unit_test(test_reals_ignore_the_locale),
    cmocka_unit_test(test_booleans),
    cmocka_unit_test(test_utf8),
    cmocka_unit_test(test_quote_is_printable_and_bounded),
    cmocka_unit_test(test_quote_never_writes_beyond),
    cmocka_unit_test(test_nearest),
    cmocka_unit_test(test_a_sorted_list),
    cmocka_unit_test(test_one_is_not_many),
};

UNIT_MAIN(tests)

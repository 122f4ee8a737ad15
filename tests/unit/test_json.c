/* SPDX-License-Identifier: MIT */
/* Covers common/json. */
#include "tests/unit/unit.h"

#include <float.h>

#include "common/json.h"

static enum error parse(const char *text, cJSON **ret_json)
{
    return json_parse(text, strlen(text), "the text", ret_json);
}

static void test_values_come_back(void **state)
{
    (void)state;
    cJSON *json = NULL;
    int64_t integer = 0;
    const char *text = NULL;
    const cJSON *array = NULL;
    assert_ok(parse("{\"i\":-9007199254740992,\"r\":2.5e-3,\"t\":\"\\u00e9\\ud83c\\udfb2\","
                    "\"a\":[1,2,3]}",
                    &json));
    assert_ok(json_get_integer(json, "i", "x", &integer));
    assert_true(integer == -(INT64_C(1) << 53));
    assert_true(cJSON_GetObjectItem(json, "r")->valuedouble == 2.5e-3);
    assert_ok(json_get_text(json, "t", "x", &text));
    assert_string_equal(text, "\xc3\xa9\xf0\x9f\x8e\xb2");
    assert_ok(json_get_array(json, "a", "x", &array));
    assert_int_equal(cJSON_GetArraySize(array), 3);
    cJSON_Delete(json);
}

static void test_integers_are_exact(void **state)
{
    (void)state;
    cJSON *json = NULL;
    int64_t value = 0;
    assert_ok(
        parse("{\"1\\\"2\":[-9223372036854775808,{\"-5\":\"7\\\\\",\"x\":9223372036854775807}],"
              "\"a\":9007199254740993,\"b\":-0,\"c\":1e3,\"d\":12.0,\"e\":0,"
              "\"f\":9007199254740993.0,\"g\":107789336025877.0,\"h\":90071992547409930e-1,"
              "\"i\":999999999999e6,\"j\":1e16,\"k\":-0.0000000100e+9,"
              "\"l\":0e-99999999999,\"m\":-9.223372036854775808e18}",
              &json));
    const cJSON *array = cJSON_GetObjectItem(json, "1\"2");
    assert_true(json_integer(cJSON_GetArrayItem(array, 0), &value) && value == INT64_MIN);
    const cJSON *inner = cJSON_GetArrayItem(array, 1);
    assert_true(json_integer(cJSON_GetObjectItem(inner, "x"), &value) && value == INT64_MAX);
    assert_false(json_integer(cJSON_GetObjectItem(inner, "-5"), &value));
    const struct {
        const char *key;
        int64_t value;
    } wanted[] = {{"a", 9007199254740993},
                  {"b", 0},
                  {"c", 1000},
                  {"d", 12},
                  {"e", 0},
                  {"f", 9007199254740993},
                  {"g", 107789336025877},
                  {"h", 9007199254740993},
                  {"i", 999999999999000000},
                  {"j", 10000000000000000},
                  {"k", -10},
                  {"l", 0},
                  {"m", INT64_MIN}};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        assert_ok(json_get_integer(json, wanted[i].key, "x", &value));
        assert_true(value == wanted[i].value);
    }
    cJSON_Delete(json);
}

/* Their doubles are integers. */
static void test_no_number_is_rounded_to_an_integer(void **state)
{
    (void)state;
    static const char *const texts[] = {"9007199254740993.1",
                                        "-9007199254740992.1",
                                        "9007199254740991.5",
                                        "4503599627370497.25",
                                        "0.99999999999999999",
                                        "90071992547409935e-1",
                                        "1e-400",
                                        "-0.000000001e8"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        cJSON *json = NULL;
        int64_t value = 0;
        assert_ok(parse(texts[i], &json));
        assert_false(json_integer(json, &value));
        cJSON_Delete(json);
    }
}

static void test_wrong_members_are_named(void **state)
{
    (void)state;
    cJSON *json = NULL;
    int64_t integer;
    const char *text;
    const cJSON *array;
    assert_ok(parse("{\"f\":1.5,\"big\":9223372036854775808,\"huge\":1e99,\"far\":1."
                    "00000000000000005e19,\"t\":\"5\",\"n\":null}",
                    &json));
    assert_fails(json_get_integer(json, "f", "x.json", &integer), ERROR_INPUT,
                 "\"f\" in x.json is 1.5, must be an integer");
    assert_fails(json_get_integer(json, "big", "x", &integer), ERROR_INPUT,
                 "\"big\" in x is 9223372036854775808, must be an integer within -2^63");
    assert_fails(json_get_integer(json, "far", "x", &integer), ERROR_INPUT,
                 "\"far\" in x is 1.00000000000000005e19, must be an integer within -2^63");
    assert_fails(json_get_integer(json, "huge", "x", &integer), ERROR_INPUT, "is 1e99, must");
    assert_fails(json_get_integer(json, "t", "x", &integer), ERROR_INPUT,
                 "\"t\" in x is a text, must be an integer");
    assert_fails(json_get_text(json, "f", "x", &text), ERROR_INPUT, "is a number, must be a text");
    assert_fails(json_get_array(json, "n", "x", &array), ERROR_INPUT, "is null, must be an array");
    assert_fails(json_get_array(json, "none", "x", &array), ERROR_INPUT, "x has no \"none\"");
    assert_fails(json_get_integer(json, "F", "x", &integer), ERROR_INPUT, "x has no \"F\"");
    cJSON_Delete(json);
}

static void test_numbers_that_a_double_does_not_hold(void **state)
{
    (void)state;
    cJSON *json = NULL;
    char text[600] = "{\"f\":";
    assert_fails(
        parse("{\"a\":1,\n \"f\":1e400}", &json), ERROR_INPUT,
        "line 2, column 6: the number \"1e400\" is out of range, from -1.8e308 to 1.8e308");
    assert_fails(parse("[-1E+999]", &json), ERROR_INPUT, "the number \"-1E+999\" is out of range");
    assert_fails(parse("[1e99999999999999999999]", &json), ERROR_INPUT, "out of range");
    size_t length = strlen(text);
    memset(text + length, '9', 400);
    strcpy(text + length + 400, "}");
    assert_fails(parse(text, &json), ERROR_INPUT, "out of range");
    assert_ok(parse("{\"f\":1.7976931348623157e308,\"g\":1e-400}", &json));
    assert_true(cJSON_GetObjectItem(json, "f")->valuedouble == DBL_MAX);
    assert_true(cJSON_GetObjectItem(json, "g")->valuedouble == 0);
    cJSON_Delete(json);
}

static void test_everything_that_is_no_json_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "}",
                                      "[",
                                      "[1,",
                                      "[1,]",
                                      "[,1]",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{a:1}",
                                      "{'a':1}",
                                      "{\"a\":1}}",
                                      "1 2",
                                      "tru",
                                      "TRUE",
                                      "nul",
                                      "nan",
                                      "Infinity",
                                      "-",
                                      "01",
                                      "+1",
                                      "1.",
                                      ".5",
                                      "1e",
                                      "0x1",
                                      "--1",
                                      "\"",
                                      "\"a",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\u12g4\"",
                                      "\"\\ud800\"",
                                      "\"\\ud800\\u0041\"",
                                      "\"\\udc00\"",
                                      "\"\\u0000\"",
                                      "\"\n\"",
                                      "\"\t\"",
                                      "\"\x01\"",
                                      "\"\xff\"",
                                      "\"\xc3\"",
                                      "\xef\xbb\xbf{}",
                                      "// c\n1",
                                      "[1 2]",
                                      "{\"a\" 1}",
                                      "{\"a\":1 \"b\":2}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cJSON *json = NULL;
        if (parse(bad[i], &json) != ERROR_INPUT)
            fail_msg("taken as JSON: %s", bad[i]);
        assert_null(json);
        assert_non_null(strstr(error_message(), "the text"));
    }
    cJSON *json = NULL;
    assert_int_equal(json_parse("1\0", 2, "the text", &json), ERROR_INPUT);
}

static void test_places_are_named(void **state)
{
    (void)state;
    cJSON *json = NULL;
    assert_fails(parse("{\n \"a\": 1,\n \"b\": x}", &json), ERROR_INPUT, "line 3, column 7");
    assert_fails(parse("{\n \"a\": 1", &json), ERROR_INPUT, "ends at line 2, column 8");
    assert_fails(parse("1\n\n 2", &json), ERROR_INPUT, "line 3, column 2: the end was expected");
}

static void test_key_twice_is_refused(void **state)
{
    (void)state;
    cJSON *json = NULL;
    assert_fails(parse("{\"a\":1,\"b\":2,\"a\":3}", &json), ERROR_INPUT, "\"a\" twice");
    assert_fails(parse("[{\"x\":{\"k\":1,\"k\":1}}]", &json), ERROR_INPUT, "\"k\" twice");
    assert_fails(parse("{\"a\":1,\"\\u0061\":3}", &json), ERROR_INPUT, "\"a\" twice");
    assert_ok(parse("[{\"a\":1},{\"a\":1,\"A\":2}]", &json));
    cJSON_Delete(json);
}

static void test_depth_is_bounded(void **state)
{
    (void)state;
    cJSON *json = NULL;
    char text[300000];
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    text[128] = '\0';
    assert_ok(parse(text, &json));
    cJSON_Delete(json);
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    text[130] = '\0';
    assert_fails(parse(text, &json), ERROR_INPUT, "deeper than 64");
    memset(text, '[', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_fails(parse(text, &json), ERROR_INPUT, "deeper than 64");
}

static void test_length_counts_not_the_nul(void **state)
{
    (void)state;
    cJSON *json = NULL;
    char *exact = malloc(7); /* exactly: the sanitizer watches */
    memcpy(exact, "{\"a\":1}", 7);
    assert_ok(json_parse(exact, 7, "the text", &json));
    cJSON_Delete(json);
    memcpy(exact, "1234567", 7);
    assert_ok(json_parse(exact, 7, "the text", &json));
    assert_true(json->valuedouble == 1234567);
    cJSON_Delete(json);
    assert_ok(json_parse(exact, 3, "the text", &json));
    assert_true(json->valuedouble == 123);
    cJSON_Delete(json);
    free(exact);
}

static void test_written_strings_come_back(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(4096);
    char every[300];
    size_t length = 0;
    for (int letter = 1; letter < 128; letter++)
        every[length++] = (char)letter;
    strcpy(every + length, "\xc3\xa9\xf0\x9f\x8e\xb2");
    assert_ok(json_add_string(&buffer, every));
    cJSON *json = NULL;
    assert_ok(json_parse(buffer.data, buffer.length, "the text", &json));
    assert_string_equal(json->valuestring, every);
    cJSON_Delete(json);
    buffer_clear(&buffer);
    assert_ok(json_add_string(&buffer, "a\"b\\c\n\x01"));
    assert_string_equal(buffer.data, "\"a\\\"b\\\\c\\n\\u0001\"");
    buffer_clear(&buffer);
    assert_ok(json_add_string(&buffer, "caf\xc3\xa9"));
    assert_string_equal(buffer.data, "\"caf\xc3\xa9\"");
    buffer_clear(&buffer);
    assert_ok(json_add_string(&buffer, "caf\xe9.csv")); /* a file's name in Latin-1 */
    assert_string_equal(buffer.data, "\"caf\\ufffd.csv\"");
    buffer_clear(&buffer);
    assert_ok(json_add_string(&buffer, ""));
    assert_string_equal(buffer.data, "\"\"");
    buffer_release(&buffer);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_values_come_back),
    cmocka_unit_test(test_integers_are_exact),
    cmocka_unit_test(test_no_number_is_rounded_to_an_integer),
    cmocka_unit_test(test_wrong_members_are_named),
    cmocka_unit_test(test_numbers_that_a_double_does_not_hold),
    cmocka_unit_test(test_everything_that_is_no_json_is_refused),
    cmocka_unit_test(test_places_are_named),
    cmocka_unit_test(test_key_twice_is_refused),
    cmocka_unit_test(test_depth_is_bounded),
    cmocka_unit_test(test_length_counts_not_the_nul),
    cmocka_unit_test(test_written_strings_come_back),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/* Covers sampler/api/json_body. */
#include "tests/unit/unit.h"

#include "sampler/api/json_body.h"

static struct body opened(const char *text)
{
    struct body body;
    assert_ok(body_open(text, strlen(text), false, &body));
    return body;
}

static void test_fields_come_back(void **state)
{
    (void)state;
    struct body body = opened("{\"t\":\"x\",\"i\":9223372036854775807,\"r\":0.5,\"b\":true,"
                              "\"l\":[0,9007199254740993,3]}");
    const char *text;
    int64_t integer;
    int64_t *list;
    size_t count;
    double real;
    bool truth;
    assert_ok(body_text(&body, "t", NULL, &text));
    assert_string_equal(text, "x");
    assert_ok(body_integer(&body, "i", 0, INT64_MAX, -1, &integer));
    assert_true(integer == INT64_MAX);
    assert_ok(body_real(&body, "r", 0, 1, -1, &real));
    assert_true(real == 0.5);
    assert_ok(body_boolean(&body, "b", false, &truth));
    assert_true(truth);
    assert_ok(body_integers(&body, "l", 0, INT64_MAX, &list, &count));
    assert_int_equal(count, 3);
    assert_true(list[1] == 9007199254740993);
    free(list);
    assert_ok(body_finish(&body));
    body_close(&body);
}

static void test_absent_fields(void **state)
{
    (void)state;
    struct body body = opened("{}");
    const char *text;
    int64_t integer;
    int64_t *list;
    size_t count;
    double real;
    bool truth;
    assert_ok(body_text(&body, "t", "fallback", &text));
    assert_string_equal(text, "fallback");
    assert_ok(body_integer(&body, "i", 0, 5, 3, &integer));
    assert_int_equal(integer, 3);
    assert_ok(body_real(&body, "r", 0, 1, 0.25, &real));
    assert_true(real == 0.25);
    assert_ok(body_boolean(&body, "b", true, &truth));
    assert_true(truth);
    assert_fails(body_integers(&body, "l", 0, 1, &list, &count), ERROR_INPUT, "has no \"l\"");
    assert_fails(body_require(&body, "t"), ERROR_INPUT, "has no \"t\"");
    assert_ok(body_finish(&body));
    body_close(&body);
}

static void test_wrong_fields_are_named(void **state)
{
    (void)state;
    struct body body =
        opened("{\"t\":5,\"i\":\"7\",\"big\":9223372036854775808,\"half\":1.5,\"low\":-1,"
               "\"r\":2,\"b\":1,\"l\":[1,\"2\"],\"m\":{},\"n\":[5,-1]}");
    const char *text;
    int64_t integer;
    int64_t *list;
    size_t count;
    double real;
    bool truth;
    assert_fails(body_text(&body, "t", NULL, &text), ERROR_INPUT,
                 "\"t\" is a number, must be a text");
    assert_fails(body_integer(&body, "i", 0, 9, 0, &integer), ERROR_INPUT, "\"i\" is a text");
    assert_fails(body_integer(&body, "big", 0, INT64_MAX, 0, &integer), ERROR_INPUT,
                 "\"big\" is 9223372036854775808");
    assert_fails(body_integer(&body, "half", 0, 9, 0, &integer), ERROR_INPUT, "\"half\" is 1.5");
    assert_fails(body_integer(&body, "low", 0, 9, 0, &integer), ERROR_INPUT, "from 0 to 9");
    assert_fails(body_real(&body, "r", 0, 1, 0, &real), ERROR_INPUT, "\"r\" is 2");
    assert_fails(body_boolean(&body, "b", true, &truth), ERROR_INPUT, "must be true or false");
    assert_fails(body_integers(&body, "l", 0, 9, &list, &count), ERROR_INPUT, "\"l\" is a text");
    assert_fails(body_integers(&body, "m", 0, 9, &list, &count), ERROR_INPUT,
                 "\"m\" is an object, must be an array");
    assert_fails(body_integers(&body, "n", 0, 9, &list, &count), ERROR_INPUT, "\"n\" is -1");
    body_close(&body);
}

static void test_bodies_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "empty"},         {"[]", "an array, must be an object"},
        {"null", "null"},      {"{\"a\":1}x", "the end"},
        {"{\"a\":1,}", "key"}, {"{\"a\":1,\"a\":2}", "twice"},
        {"\"x\"", "a text"},   {"{\"a\":\xff}", "UTF-8"},
        {" ", "JSON value"},   {"{\"a\":1}{}", "the end"},
    };
    struct body body;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_fails(body_open(cases[i].text, strlen(cases[i].text), false, &body), ERROR_INPUT,
                     cases[i].message);
    assert_fails(body_open("{\"a\":1}\0", 8, false, &body), ERROR_INPUT, "UTF-8");
    assert_ok(body_open("", 0, true, &body));
    assert_ok(body_finish(&body));
    body_close(&body);
}

static void test_unknown_fields(void **state)
{
    (void)state;
    int64_t position;
    struct body body = opened("{\"position\":1,\"positon\":2}");
    assert_ok(body_integer(&body, "position", 0, 9, 0, &position));
    assert_fails(body_finish(&body), ERROR_INPUT,
                 "unknown field \"positon\"; those that exist: position");
    body_drop_known(&body);
    assert_string_equal(body.json->child->string, "positon");
    assert_null(body.json->child->next);
    body_close(&body);
    body = opened("{\"x\":1}");
    assert_fails(body_finish(&body), ERROR_INPUT, "there are none here");
    body_close(&body);
}

static void test_content_types(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        bool right;
    } cases[] = {
        {NULL, true},
        {"application/json", true},
        {"Application/JSON ; Charset=UTF-8", true},
        {"application/json;charset=\"utf-8\"", true},
        {"application/json; charset=latin1", false},
        {"application/json; x=y", true},
        {"application/x-www-form-urlencoded", true},
        {"text/plain", false},
        {"text/json", false},
        {"application/jsonx", false},
        {"", false},
        {"multipart/form-data; boundary=x", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (body_type_is_right(cases[i].type) != cases[i].right)
            fail_msg("%s", cases[i].type);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_fields_come_back),       cmocka_unit_test(test_absent_fields),
    cmocka_unit_test(test_wrong_fields_are_named), cmocka_unit_test(test_bodies_that_are_none),
    cmocka_unit_test(test_unknown_fields),         cmocka_unit_test(test_content_types),
};

UNIT_MAIN(tests)

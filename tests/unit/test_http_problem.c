/* SPDX-License-Identifier: MIT */
/* Covers common/http/http_problem. */
#include "tests/unit/unit.h"

#include "common/http/http_problem.h"
#include "common/json.h"

static void test_a_problem_is_json_whatever_its_text(void **state)
{
    (void)state;
    static const char *const details[] = {"", "plain", "a \"quote\" and a \\", "line\nand tab\t",
                                          "\xc3\xa9t\xc3\xa9 \x01"};
    for (size_t i = 0; i < sizeof(details) / sizeof(details[0]); i++) {
        struct buffer body = BUFFER_INIT(4096);
        cJSON *json = NULL;
        const char *text;
        int64_t status;
        assert_ok(http_problem_add(&body, 404, NULL, details[i]));
        assert_ok(json_parse(body.data, body.length, "problem", &json));
        assert_ok(json_get_integer(json, "status", "problem", &status));
        assert_int_equal(status, 404);
        assert_ok(json_get_text(json, "title", "problem", &text));
        assert_string_equal(text, "Not Found");
        assert_ok(json_get_text(json, "type", "problem", &text));
        assert_string_equal(text, "about:blank");
        assert_ok(json_get_text(json, "detail", "problem", &text));
        assert_string_equal(text, details[i]);
        cJSON_Delete(json);
        buffer_release(&body);
    }
}

static void test_a_kind_is_its_type(void **state)
{
    (void)state;
    struct buffer body = BUFFER_INIT(4096);
    cJSON *json = NULL;
    const char *text;
    assert_ok(http_problem_add(&body, 409, "paused", "why"));
    assert_ok(json_parse(body.data, body.length, "problem", &json));
    assert_ok(json_get_text(json, "type", "problem", &text));
    assert_string_equal(text, "/problems/paused");
    assert_ok(json_get_text(json, "title", "problem", &text));
    assert_string_equal(text, "Conflict");
    cJSON_Delete(json);
    buffer_release(&body);
}

static void test_a_limit_is_kept(void **state)
{
    (void)state;
    struct buffer body = BUFFER_INIT(40);
    assert_int_equal(http_problem_add(&body, 400, NULL, "longer than forty bytes"), ERROR_MEMORY);
    buffer_release(&body);
}

static void test_statuses(void **state)
{
    (void)state;
    static const struct {
        enum error error;
        int status;
    } cases[] = {
        {ERROR_USAGE, 400},     {ERROR_INPUT, 400},    {ERROR_NOT_FOUND, 404},
        {ERROR_CONFLICT, 409},  {ERROR_NO_SPACE, 507}, {ERROR_IO, 503},
        {ERROR_TIMEOUT, 503},   {ERROR_MEMORY, 503},   {ERROR_UNAVAILABLE, 503},
        {ERROR_CANCELLED, 503}, {ERROR_NETWORK, 500},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(http_status_of_error(cases[i].error), cases[i].status);
    assert_string_equal(http_status_title(507), "Insufficient Storage");
    assert_string_equal(http_status_title(299), "Error");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_problem_is_json_whatever_its_text),
    cmocka_unit_test(test_a_kind_is_its_type),
    cmocka_unit_test(test_a_limit_is_kept),
    cmocka_unit_test(test_statuses),
};

UNIT_MAIN(tests)

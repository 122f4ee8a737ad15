/* SPDX-License-Identifier: MIT */
/* Covers trainer/run/tf_config. */
#include "tests/unit/unit.h"

#include "trainer/run/tf_config.h"

static void test_a_process_alone_is_accepted(void **state)
{
    static const char *const accepted[] = {
        "",
        "{}",
        "{\"environment\":\"cloud\"}",
        "{\"cluster\":{},\"task\":{\"type\":\"worker\",\"index\":0}}",
        "{\"task\":{\"type\":\"worker\",\"index\":\"0\"}}",
        "{\"cluster\":{\"worker\":[]}}",
        "{\"cluster\":{\"chief\":[\"a:1\"]},\"task\":{\"type\":\"chief\",\"index\":0}}",
        "{\"cluster\":{\"ps\":[],\"worker\":[\"a:1\"]},\"task\":{\"type\":\"worker\",\"index\":0}}",
    };

    (void)state;
    assert_ok(tf_config_check_local(NULL));
    for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++)
        assert_ok(tf_config_check_local(accepted[i]));
}

static void test_all_else_is_refused_with_a_reason(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"worker", "TF_CONFIG"},
        {"[]", "TF_CONFIG is not"},
        {"{\"cluster\":[]}", "TF_CONFIG is not"},
        {"{\"task\":3}", "TF_CONFIG is not"},
        {"{\"task\":{\"type\":3}}", "TF_CONFIG is not"},
        {"{\"task\":{\"type\":\"ps\"}}", "task type must be"},
        {"{\"task\":{\"index\":1}}", "task index must be 0"},
        {"{\"task\":{\"index\":-1}}", "non-negative"},
        {"{\"task\":{\"index\":\"x\"}}", "non-negative"},
        {"{\"task\":{\"index\":0.5}}", "non-negative"},
        {"{\"cluster\":{\"worker\":\"a:1\"}}", "no list"},
        {"{\"cluster\":{\"ps\":[\"a:1\"]},\"task\":{\"type\":\"ps\",\"index\":0}}", "alone"},
        {"{\"cluster\":{\"worker\":[\"a:1\"]}}", "only one"},
        {"{\"cluster\":{\"worker\":[\"a:1\"]},\"task\":{\"type\":\"worker\",\"index\":1}}",
         "only one"},
        {"{\"cluster\":{\"worker\":[\"a:1\",\"b:1\"]},\"task\":{\"type\":\"worker\",\"index\":0}}",
         "a cluster of 2 tasks"},
        {"{\"cluster\":{\"ps\":[\"a:1\"],\"worker\":{\"0\":\"b:1\"}},"
         "\"task\":{\"type\":\"worker\",\"index\":0}}",
         "a cluster of 2 tasks"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_fails(tf_config_check_local(cases[i].text), ERROR_USAGE, cases[i].message);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_process_alone_is_accepted),
    cmocka_unit_test(test_all_else_is_refused_with_a_reason),
};

UNIT_MAIN(tests)

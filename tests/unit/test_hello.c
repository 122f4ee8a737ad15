/* SPDX-License-Identifier: MIT */
/* Covers trainer/wire/hello. */
#include "tests/unit/unit.h"

#include "trainer/wire/hello.h"

static const struct hello hello = {.role = "worker",
                                   .index = 4,
                                   .server = 1,
                                   .servers = 3,
                                   .aggregate = 5,
                                   .staleness = -1,
                                   .train_steps = 1000000,
                                   .was_saved = true,
                                   .is_grouped = true,
                                   .round_robin = true,
                                   .bad_rows = BAD_ROWS_REPLACE,
                                   .generation = 0xfedcba9876543210};

static enum error read_with(const char *theirs, const char *ours, struct hello *ret_hello)
{
    struct buffer text = BUFFER_INIT(1000);
    setenv("TOMBOLA_TOKEN", theirs, 1);
    assert_ok(hello_print(&hello, &text));
    if (ours)
        setenv("TOMBOLA_TOKEN", ours, 1);
    else
        unsetenv("TOMBOLA_TOKEN");
    enum error error = hello_parse(text.data, text.length, ret_hello);
    buffer_release(&text);
    return error;
}

static void test_what_was_said_is_heard(void **state)
{
    (void)state;
    struct hello heard;
    assert_ok(read_with("a \"quoted\" one", "a \"quoted\" one", &heard));
    assert_string_equal(heard.role, "worker");
    assert_int_equal(heard.index, 4);
    assert_int_equal(heard.server, 1);
    assert_int_equal(heard.servers, 3);
    assert_int_equal(heard.aggregate, 5);
    assert_int_equal(heard.staleness, -1);
    assert_int_equal(heard.train_steps, 1000000);
    assert_true(heard.was_saved);
    assert_true(heard.is_grouped);
    assert_true(heard.round_robin);
    assert_int_equal(heard.bad_rows, BAD_ROWS_REPLACE);
    assert_true(heard.generation == 0xfedcba9876543210);
    assert_ok(read_with("one", "", &heard)); /* a server without a password */
    assert_ok(read_with("one", NULL, &heard));
}

static void test_another_password_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"secre", "secret ", "Secret", "secreT", "x"};
    struct hello heard;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_fails(read_with(wrong[i], "secret", &heard), ERROR_CONFLICT, "another");
    assert_fails(read_with("", "secret", &heard), ERROR_CONFLICT, "no TOMBOLA_TOKEN");
}

static void test_nonsense_is_refused(void **state)
{
    (void)state;
#define HELLO(role, index, generation)                                                   \
    "{\"role\":" role ",\"index\":" index ",\"server\":0,\"servers\":1,\"aggregate\":0," \
    "\"staleness\":-1,\"train_steps\":10,\"saved\":0,\"grouped\":0,\"round_robin\":0,"   \
    "\"bad_rows\":0,\"generation\":" generation ",\"token\":\"\"}"
    static const char *const wrong[] = {
        "",
        "{}",
        "[]",
        HELLO("5", "0", "\"0\""),
        HELLO("\"worker\"", "-1", "\"0\""),
        HELLO("\"worker\"", "0.5", "\"0\""),
        HELLO("\"worker\"", "0", "\"0g\""),
        HELLO("\"a role of too many characters\"", "0", "\"0\""),
        HELLO("\"bystander\"", "0", "\"0\""),
        HELLO("\"a\\\",\\\"b\"", "0", "\"0\""), /* would come out of /status as members */
    };
    struct hello heard;
    unsetenv("TOMBOLA_TOKEN");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_fails(hello_parse(wrong[i], strlen(wrong[i]), &heard), ERROR_INPUT, "");
    const char *right = HELLO("\"worker\"", "0", "\"0\"");
    assert_ok(hello_parse(right, strlen(right), &heard));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_what_was_said_is_heard),
    cmocka_unit_test(test_another_password_is_refused),
    cmocka_unit_test(test_nonsense_is_refused),
};

UNIT_MAIN(tests)

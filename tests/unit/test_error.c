/* SPDX-License-Identifier: MIT */
/* Covers common/error. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>

static void test_set_returns_code_and_keeps_message(void **state)
{
    (void)state;
    assert_fails(error_set(ERROR_INPUT, "row %d of %s", 7, "a.csv"), ERROR_INPUT, "row 7 of a.csv");
    assert_string_equal(error_message(), "row 7 of a.csv");
}

static void test_old_message_may_be_an_argument(void **state)
{
    (void)state;
    error_set(ERROR_INPUT, "inner");
    error_set(ERROR_IO, "outer (%s)", error_message());
    assert_string_equal(error_message(), "outer (inner)");
}

static void test_prefix_goes_in_front(void **state)
{
    (void)state;
    error_set(ERROR_INPUT, "100%% sure");
    assert_int_equal(error_prefix(ERROR_NETWORK, "%s: ", "here"), ERROR_NETWORK);
    assert_string_equal(error_message(), "here: 100% sure");
}

/* What a peer sends may be part of a message: it clears no screen and writes no second line. */
static void test_control_characters_are_not_kept(void **state)
{
    (void)state;
    error_set(ERROR_INPUT, "the order is %s",
              "\x1b[2Jx\r\nerror: \xc2\x9b"
              "31m\x7f\xc3\xa9");
    assert_string_equal(error_message(), "the order is ?[2Jx  error: ??31m?\xc3\xa9");
    error_prefix(ERROR_INPUT, "%s: ", "\x07peer");
    assert_string_equal(error_message(), "?peer: the order is ?[2Jx  error: ??31m?\xc3\xa9");
}

static void test_long_message_is_cut(void **state)
{
    (void)state;
    char text[3 * ERROR_MESSAGE_BYTES];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    error_set(ERROR_IO, "%s", text);
    assert_int_equal(strlen(error_message()), ERROR_MESSAGE_BYTES - 1);
    error_prefix(ERROR_IO, "%s", text);
    assert_int_equal(strlen(error_message()), ERROR_MESSAGE_BYTES - 1);
    error_set(ERROR_IO, "short");
    error_prefix(ERROR_IO, "%.*s", ERROR_MESSAGE_BYTES - 3, text);
    assert_int_equal(strlen(error_message()), ERROR_MESSAGE_BYTES - 1);
}

static void test_errno_decides_the_code(void **state)
{
    (void)state;
    static const struct {
        int number;
        enum error code;
    } cases[] = {{ENOSPC, ERROR_NO_SPACE}, {EDQUOT, ERROR_NO_SPACE}, {ENOENT, ERROR_NOT_FOUND},
                 {ENOMEM, ERROR_MEMORY},   {EIO, ERROR_IO},          {EACCES, ERROR_IO},
                 {ECONNREFUSED, ERROR_IO}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_fails(error_set_errno(ERROR_IO, cases[i].number, "cannot do %d", 3), cases[i].code,
                     "cannot do 3: ");
    assert_non_null(strstr(error_message(), strerror(ECONNREFUSED)));
}

static void test_memory_names_bytes_and_use(void **state)
{
    (void)state;
    assert_fails(error_set_memory(4096, "the ring"), ERROR_MEMORY, "4096 bytes for the ring");
}

static void *fail_on_thread(void *context)
{
    error_set(ERROR_TIMEOUT, "from the other thread");
    error_report_take(ERROR_TIMEOUT, context);
    return NULL;
}

static void test_messages_belong_to_threads(void **state)
{
    (void)state;
    struct error_report report;
    pthread_t thread;
    error_set(ERROR_INPUT, "mine");
    assert_int_equal(pthread_create(&thread, NULL, fail_on_thread, &report), 0);
    pthread_join(thread, NULL);
    assert_string_equal(error_message(), "mine");
    assert_int_equal(error_restore(&report), ERROR_TIMEOUT);
    assert_string_equal(error_message(), "from the other thread");
}

static void test_a_kind_goes_with_its_message(void **state)
{
    (void)state;
    struct error_report report;
    assert_int_equal(error_set_kind(error_set(ERROR_CONFLICT, "paused"), "kind"), ERROR_CONFLICT);
    assert_string_equal(error_kind(), "kind");
    error_prefix(ERROR_CONFLICT, "there: ");
    assert_string_equal(error_kind(), "kind");
    error_report_take(ERROR_CONFLICT, &report);
    error_set(ERROR_INPUT, "another");
    assert_null(error_kind());
    error_set_kind(ERROR_INPUT, "other");
    error_set_errno(ERROR_IO, EIO, "a third");
    assert_null(error_kind());
    assert_int_equal(error_restore(&report), ERROR_CONFLICT);
    assert_string_equal(error_kind(), "kind");
    error_set_memory(1, "nothing");
    assert_null(error_kind());
}

static void test_exit_statuses_of_the_contract(void **state)
{
    (void)state;
    assert_int_equal(error_exit_status(OK), 0);
    assert_int_equal(error_exit_status(ERROR_END), 0);
    for (int code = ERROR_CONFLICT; code <= ERROR_USAGE; code++)
        assert_int_equal(error_exit_status((enum error)code), 2);
    for (int code = ERROR_CANCELLED; code <= ERROR_IO; code++)
        assert_int_equal(error_exit_status((enum error)code), 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_set_returns_code_and_keeps_message),
    cmocka_unit_test(test_old_message_may_be_an_argument),
    cmocka_unit_test(test_prefix_goes_in_front),
    cmocka_unit_test(test_control_characters_are_not_kept),
    cmocka_unit_test(test_long_message_is_cut),
    cmocka_unit_test(test_errno_decides_the_code),
    cmocka_unit_test(test_memory_names_bytes_and_use),
    cmocka_unit_test(test_messages_belong_to_threads),
    cmocka_unit_test(test_a_kind_goes_with_its_message),
    cmocka_unit_test(test_exit_statuses_of_the_contract),
};

UNIT_MAIN(tests)

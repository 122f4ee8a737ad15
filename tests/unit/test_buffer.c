/* SPDX-License-Identifier: MIT */
/* Covers common/buffer. */
#include "tests/unit/unit.h"

#include <wchar.h>

#include "common/array.h"
#include "common/buffer.h"

static void test_grows_and_stays_a_string(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(1 << 20);
    for (int i = 0; i < 10000; i++) {
        assert_ok(buffer_print(&buffer, "%d,", i % 10));
        assert_int_equal(buffer.data[buffer.length], '\0');
    }
    assert_int_equal(buffer.length, 20000);
    assert_int_equal(strlen(buffer.data), 20000);
    assert_memory_equal(buffer.data + 18, "9,0,", 4);
    buffer_release(&buffer);
    assert_null(buffer.data);
}

static void test_limit_is_exact(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(1000);
    char bytes[1001];
    memset(bytes, 'x', sizeof(bytes));
    assert_ok(buffer_add(&buffer, bytes, 999));
    assert_ok(buffer_add_text(&buffer, "y"));
    assert_fails(buffer_add_text(&buffer, "z"), ERROR_MEMORY, "limit of 1000 bytes");
    assert_int_equal(buffer.length, 1000);
    assert_string_equal(buffer.data + 998, "xy");
    buffer_clear(&buffer);
    assert_fails(buffer_add(&buffer, bytes, 1001), ERROR_MEMORY, "limit of 1000 bytes");
    buffer_clear(&buffer);
    assert_fails(buffer_reserve(&buffer, SIZE_MAX), ERROR_MEMORY, "limit");
    buffer_clear(&buffer);
    assert_ok(buffer_add(&buffer, bytes, 1000));
    assert_fails(buffer_print(&buffer, "%s", "!"), ERROR_MEMORY, "limit");
    buffer_release(&buffer);
}

static void test_no_limit_is_still_checked(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(SIZE_MAX);
    assert_int_equal(buffer_reserve(&buffer, 10), ERROR_MEMORY); /* no room for the NUL */
    buffer_clear(&buffer);
    buffer.limit_bytes = SIZE_MAX - 1;
    assert_ok(buffer_add_text(&buffer, "ok"));
    assert_fails(buffer_reserve(&buffer, SIZE_MAX - 8), ERROR_MEMORY, "");
    assert_string_equal(buffer.data, "ok");
    buffer_release(&buffer);
}

/* A text of many parts is checked once, at its end. */
static void test_first_failure_stays(void **state)
{
    (void)state;
    char *text = NULL;
    struct buffer buffer = BUFFER_INIT(10);
    assert_ok(buffer_add_text(&buffer, "12345678"));
    assert_fails(buffer_add_text(&buffer, "9ab"), ERROR_MEMORY, "limit of 10 bytes");
    assert_int_equal(buffer_add_text(&buffer, ""), ERROR_MEMORY);
    assert_int_equal(buffer_print(&buffer, "%d", 9), ERROR_MEMORY);
    assert_int_equal(buffer_reserve(&buffer, 1), ERROR_MEMORY);
    assert_string_equal(buffer.data, "12345678");
    assert_int_equal(buffer_take(&buffer, &text), ERROR_MEMORY);
    assert_null(text);
    assert_null(buffer.data);
    assert_ok(buffer_add_text(&buffer, "again"));
    assert_ok(buffer_take(&buffer, &text));
    assert_string_equal(text, "again");
    assert_null(buffer.data);
    free(text);
}

static void test_text_that_cannot_be_printed_is_a_failure(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(100);
    assert_ok(buffer_add_text(&buffer, "["));
    assert_fails(buffer_print(&buffer, "%lc", (wint_t)0xd800), ERROR_MEMORY, "%lc");
    assert_int_equal(buffer_add_text(&buffer, "]"), ERROR_MEMORY);
    assert_string_equal(buffer.data, "[");
    buffer_release(&buffer);
}

static void test_csv_is_quoted_where_it_has_to_be(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(1000);
    static const char *const fields[] = {"plain", "", "a,b", "say \"x\"", "two\nlines"};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        assert_ok(buffer_add_csv(&buffer, fields[i]));
        assert_ok(buffer_add_text(&buffer, ";"));
    }
    assert_string_equal(buffer.data, "plain;;\"a,b\";\"say \"\"x\"\"\";\"two\nlines\";");
    buffer_release(&buffer);
}

static void test_a_shell_takes_a_word_as_it_is(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(1000);
    static const char *const words[] = {"plain", "", "it's $HOME", "\\'"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        assert_ok(buffer_add_shell(&buffer, words[i]));
        assert_ok(buffer_add_text(&buffer, ";"));
    }
    assert_string_equal(buffer.data, "'plain';'';'it'\\''s $HOME';'\\'\\''';");
    buffer_release(&buffer);
}

static void test_clear_keeps_the_memory(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(4096);
    assert_ok(buffer_add_text(&buffer, "first"));
    char *data = buffer.data;
    buffer_clear(&buffer);
    assert_int_equal(buffer.length, 0);
    assert_string_equal(buffer.data, "");
    assert_ok(buffer_add_text(&buffer, "next"));
    assert_ptr_equal(buffer.data, data);
    buffer_release(&buffer);
    buffer_clear(&buffer);
    buffer_release(&buffer);
}

static void test_reserved_room_may_be_written(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(100000);
    assert_ok(buffer_reserve(&buffer, 5000));
    memset(buffer.data, 'r', 5000);
    buffer.length += 5000;
    assert_ok(buffer_add_text(&buffer, "."));
    assert_int_equal(strlen(buffer.data), 5001);
    buffer_release(&buffer);
}

static void test_array_is_zeroed_and_checked(void **state)
{
    (void)state;
    int *numbers = array_new(1000, sizeof(*numbers), "numbers");
    assert_non_null(numbers);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(numbers[i], 0);
    free(numbers);
    void *none = array_new(0, 8, "nothing");
    assert_non_null(none);
    free(none);
    assert_null(array_new(SIZE_MAX / 4, 8, "too much"));
    assert_non_null(strstr(error_message(), "too much"));
    assert_null(array_new((size_t)1 << 62, 1, "the universe"));
    assert_non_null(strstr(error_message(), "the universe"));
}

static void test_array_grows_by_doubling(void **state)
{
    (void)state;
    void *array = NULL;
    size_t capacity = 0;
    size_t moves = 0;
    for (size_t i = 0; i < 100000; i++) {
        size_t before = capacity;
        assert_ok(array_grow(&array, &capacity, i + 1, sizeof(uint32_t), "numbers"));
        moves += capacity != before;
        ((uint32_t *)array)[i] = (uint32_t)i;
    }
    assert_true(moves < 20);
    for (size_t i = 0; i < 100000; i++)
        assert_int_equal(((uint32_t *)array)[i], i);
    size_t kept = capacity;
    assert_fails(array_grow(&array, &capacity, SIZE_MAX / 2, 8, "numbers"), ERROR_MEMORY,
                 "numbers");
    assert_int_equal(capacity, kept);
    assert_int_equal(((uint32_t *)array)[99999], 99999);
    free(array);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_grows_and_stays_a_string),
    cmocka_unit_test(test_limit_is_exact),
    cmocka_unit_test(test_no_limit_is_still_checked),
    cmocka_unit_test(test_first_failure_stays),
    cmocka_unit_test(test_text_that_cannot_be_printed_is_a_failure),
    cmocka_unit_test(test_csv_is_quoted_where_it_has_to_be),
    cmocka_unit_test(test_a_shell_takes_a_word_as_it_is),
    cmocka_unit_test(test_clear_keeps_the_memory),
    cmocka_unit_test(test_reserved_room_may_be_written),
    cmocka_unit_test(test_array_is_zeroed_and_checked),
    cmocka_unit_test(test_array_grows_by_doubling),
};

UNIT_MAIN(tests)

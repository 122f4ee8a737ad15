/* SPDX-License-Identifier: MIT */
/* Covers loader/postgres/postgres_row: a server's binary COPY, cut at every byte or malformed. */
#include "tests/unit/unit.h"

#include "loader/postgres/postgres_row.h"

#define MAGIC "PGCOPY\n\xff\r\n\0"

/* The bytes after `at` of a copy of exactly `length`: a sanitizer sees reads behind it. */
static enum error read_head(const char *bytes, size_t length, size_t *at)
{
    uint8_t *exact = malloc(length ? length : 1);
    memcpy(exact, bytes, length);
    enum error error = postgres_copy_head(exact, length, at);
    free(exact);
    return error;
}

static void test_head(void **state)
{
    static const char head[] = "x" MAGIC "\0\0\0\0\0\0\0\3ext";
    size_t whole = sizeof(head) - 1;
    (void)state;
    for (size_t length = 1; length < whole; length++) {
        size_t at = 1;
        assert_int_equal(read_head(head, length, &at), ERROR_NETWORK);
        assert_int_equal(at, 1);
    }
    size_t at = 1;
    assert_ok(read_head(head, whole, &at));
    assert_int_equal(at, whole);
    at = 0;
    assert_ok(read_head(MAGIC "\0\0\0\0\0\0\0\0\377\377", 21, &at));
    assert_int_equal(at, 19);
}

static void test_heads_that_are_none(void **state)
{
    size_t at = 0;
    (void)state;
    assert_fails(read_head("PGCOPY\n\xff\r\n!\0\0\0\0\0\0\0\0", 19, &at), ERROR_NETWORK,
                 "binary COPY");
    assert_fails(read_head(MAGIC "\0\0\0\1\0\0\0\0", 19, &at), ERROR_NETWORK, "flags (1)");
    assert_fails(read_head(MAGIC "\0\0\0\0\377\377\377\377", 19, &at), ERROR_NETWORK, "cut off");
    assert_int_equal(at, 0);
}

enum { COUNT = 3 };

/* A row at byte 1: NULL, an empty value, one of two bytes that ends where the row does. */
static const char row[] = "x\0\3\377\377\377\377\0\0\0\0\0\0\0\2ab";

static enum error read_row(size_t length, size_t count, size_t *at, struct postgres_value *values)
{
    static uint8_t bytes[sizeof(row)];
    bool is_end = true;
    memcpy(bytes, row, length);
    enum error error = postgres_copy_row(bytes, length, at, count, values, &is_end);
    assert_true(error || !is_end);
    return error;
}

static void test_row(void **state)
{
    struct postgres_value values[COUNT];
    size_t whole = sizeof(row) - 1;
    (void)state;
    for (size_t length = 1; length < whole; length++) {
        size_t at = 1;
        assert_fails(read_row(length, COUNT, &at, values), ERROR_NETWORK, "cut off");
    }
    size_t at = 1;
    assert_ok(read_row(whole, COUNT, &at, values));
    assert_int_equal(at, whole);
    assert_null(values[0].bytes);
    assert_int_equal(values[0].length, 0);
    assert_non_null(values[1].bytes);
    assert_int_equal(values[1].length, 0);
    assert_int_equal(values[2].length, 2);
    assert_memory_equal(values[2].bytes, "ab", 2);
    at = 1;
    assert_fails(read_row(whole, COUNT + 1, &at, values), ERROR_NETWORK,
                 "3 values, but asked for were 4");
}

static void test_the_end(void **state)
{
    struct postgres_value value;
    bool is_end = false;
    size_t at = 1;
    (void)state;
    assert_ok(postgres_copy_row((const uint8_t *)"x\377\377", 3, &at, 1, &value, &is_end));
    assert_true(is_end);
    assert_int_equal(at, 3);
    at = 1;
    assert_fails(
        postgres_copy_row((const uint8_t *)"x\0\1\377\377\377\376", 7, &at, 1, &value, &is_end),
        ERROR_NETWORK, "cut off");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_head),
    cmocka_unit_test(test_heads_that_are_none),
    cmocka_unit_test(test_row),
    cmocka_unit_test(test_the_end),
};

UNIT_MAIN(tests)

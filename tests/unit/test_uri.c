/* SPDX-License-Identifier: MIT */
/* Covers common/uri. */
#include "tests/unit/unit.h"

#include "common/uri.h"

static void test_query_pairs_are_decoded(void **state)
{
    (void)state;
    struct uri_query query;
    assert_ok(
        uri_query_init(&query, "size=100&name=a%20b%26c&empty=&flag&plus=1+1&%C3%A9=%e2%82%ac"));
    assert_int_equal(query.count, 6);
    assert_string_equal(uri_query_get(&query, "size"), "100");
    assert_string_equal(uri_query_get(&query, "name"), "a b&c");
    assert_string_equal(uri_query_get(&query, "empty"), "");
    assert_string_equal(uri_query_get(&query, "flag"), "");
    assert_string_equal(uri_query_get(&query, "plus"), "1+1");
    assert_string_equal(uri_query_get(&query, "\xc3\xa9"), "\xe2\x82\xac");
    assert_null(uri_query_get(&query, "none"));
    assert_ok(uri_query_finish(&query));
    uri_query_release(&query);
}

static void test_empty_queries(void **state)
{
    (void)state;
    struct uri_query query;
    assert_ok(uri_query_init(&query, ""));
    assert_int_equal(query.count, 0);
    uri_query_release(&query);
    assert_ok(uri_query_init(&query, NULL));
    assert_int_equal(query.count, 0);
    uri_query_release(&query);
}

static void test_bad_queries_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"a=1&a=2", "\"a\" is given twice"},
        {"a=1&%61=2", "\"a\" is given twice"},
        {"a=%", "parameter \"a\": \"%\""},
        {"a=%4", "hex digits"},
        {"password=50%off", "parameter \"password\": it must be UTF-8, with two hex digits"},
        {"b=1&a=%zz", "parameter \"a\""},
        {"%g0=1", "hex digits"},
        {"a=%00", "without NUL"},
        {"b=1&a=%ff", "parameter \"a\""},
        {"a=%c0%af", "UTF-8"},
        {"=5", "without a name"},
        {"a=1&&b=2", "without a name"},
        {"a=1&", "without a name"},
        {"a=\xff", "UTF-8"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct uri_query query;
        assert_fails(uri_query_init(&query, cases[i].text), ERROR_USAGE, cases[i].message);
    }
}

static void test_too_many_parameters_are_refused(void **state)
{
    (void)state;
    struct uri_query query;
    char text[1024] = "";
    for (int i = 0; i <= URI_PARAMETERS_LIMIT; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%sk%d=%d", i ? "&" : "", i, i);
    assert_fails(uri_query_init(&query, text), ERROR_USAGE, "more than 64");
    *strrchr(text, '&') = '\0';
    assert_ok(uri_query_init(&query, text));
    uri_query_release(&query);
}

static void test_unknown_parameter_is_named_with_the_known(void **state)
{
    (void)state;
    struct uri_query query;
    assert_ok(uri_query_init(&query, "size=1&sise=2"));
    uri_query_get(&query, "size");
    uri_query_get(&query, "stream");
    uri_query_get(&query, "size");
    assert_fails(uri_query_finish(&query), ERROR_USAGE, "\"sise\" (did you mean size?)");
    assert_non_null(strstr(error_message(), "size, stream"));
    uri_query_release(&query);
    assert_ok(uri_query_init(&query, "x=1"));
    assert_fails(uri_query_finish(&query), ERROR_USAGE, "none is allowed");
    uri_query_release(&query);
}

static void test_integers_and_booleans(void **state)
{
    (void)state;
    struct uri_query query;
    int64_t value = 0;
    bool flag = false;
    assert_ok(
        uri_query_init(&query, "size=100&bad=1e3&big=99999999999999999999&empty=&yes=on&no=x"));
    assert_ok(uri_query_integer(&query, "size", 1, 100, 7, &value));
    assert_int_equal(value, 100);
    assert_ok(uri_query_integer(&query, "none", 1, 100, 7, &value));
    assert_int_equal(value, 7);
    assert_fails(uri_query_integer(&query, "size", 1, 99, 7, &value), ERROR_USAGE,
                 "size is \"100\", must be an integer from 1 to 99");
    assert_fails(uri_query_integer(&query, "bad", 1, 99, 7, &value), ERROR_USAGE, "\"1e3\"");
    assert_fails(uri_query_integer(&query, "big", 0, INT64_MAX, 7, &value), ERROR_USAGE, "big is");
    assert_fails(uri_query_integer(&query, "empty", 0, 9, 7, &value), ERROR_USAGE, "empty is \"\"");
    assert_int_equal(value, 7);
    assert_ok(uri_query_boolean(&query, "yes", false, &flag));
    assert_true(flag);
    assert_ok(uri_query_boolean(&query, "absent", true, &flag));
    assert_true(flag);
    assert_fails(uri_query_boolean(&query, "no", false, &flag), ERROR_USAGE, "no is \"x\"");
    assert_ok(uri_query_finish(&query));
    uri_query_release(&query);
}

static void check_uri(const char *text, const char *scheme, const char *path, size_t parameters)
{
    struct uri uri;
    assert_ok(uri_init(&uri, text));
    assert_string_equal(uri.scheme, scheme);
    assert_string_equal(uri.path, path);
    assert_int_equal(uri.query.count, parameters);
    uri_release(&uri);
}

static void test_uris_of_stores(void **state)
{
    (void)state;
    check_uri("csv:train.csv", "csv", "train.csv", 0);
    check_uri("csv:/data/a%20b%3F.csv?label=0&header=no", "csv", "/data/a b?.csv", 2);
    check_uri("sqlite:x.db?table=samples", "sqlite", "x.db", 1);
    check_uri("range:1000000000?labels=10", "range", "1000000000", 1);
    check_uri("postgresql://u:p%40@host:5432/db?table=samples", "postgresql",
              "//u:p%40@host:5432/db", 1);
    check_uri("postgres://host/db?table=samples", "postgresql", "//host/db", 1);
    check_uri("csv:a?", "csv", "a", 0);
}

static void test_bare_paths_keep_their_characters(void **state)
{
    (void)state;
    check_uri("train.csv", "", "train.csv", 0);
    check_uri("100%.csv", "", "100%.csv", 0);
    check_uri("what?.csv", "", "what?.csv", 0);
    check_uri("what?.csv?label=0", "", "what?.csv", 1);
    check_uri("C:odd.csv", "", "C:odd.csv", 0);
    check_uri("csvx:odd.csv", "", "csvx:odd.csv", 0);
    check_uri("./csv:a", "", "./csv:a", 0);
}

static void test_bad_uris_are_refused(void **state)
{
    (void)state;
    struct uri uri;
    assert_fails(uri_init(&uri, ""), ERROR_USAGE, "names nothing");
    assert_fails(uri_init(&uri, "csv:"), ERROR_USAGE, "names nothing");
    assert_fails(uri_init(&uri, "csv:?label=0"), ERROR_USAGE, "names nothing");
    assert_fails(uri_init(&uri, "csv:a%zz"), ERROR_USAGE, "hex digits");
    assert_fails(uri_init(&uri, "csv:a?x=1&x=2"), ERROR_USAGE, "twice");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_query_pairs_are_decoded),
    cmocka_unit_test(test_empty_queries),
    cmocka_unit_test(test_bad_queries_are_refused),
    cmocka_unit_test(test_too_many_parameters_are_refused),
    cmocka_unit_test(test_unknown_parameter_is_named_with_the_known),
    cmocka_unit_test(test_integers_and_booleans),
    cmocka_unit_test(test_uris_of_stores),
    cmocka_unit_test(test_bare_paths_keep_their_characters),
    cmocka_unit_test(test_bad_uris_are_refused),
};

UNIT_MAIN(tests)

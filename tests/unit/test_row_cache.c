/* SPDX-License-Identifier: MIT */
/* Covers loader/store/row_cache. */
#include "tests/unit/store_unit.h"

#include <pthread.h>

#include "loader/csv/store_csv.h"
#include "loader/store/row_cache.h"

static struct store *open_inner(const char *text, const char *query)
{
    struct store *store = NULL;
    assert_ok(open_csv(text, query, &store));
    return store;
}

/* The rows that opening kept, and the facts it found, are those of two passes. */
static void check_kept(const char *query, uint64_t cache_bytes, bool kept)
{
    struct store *kept_store = NULL;
    struct store *plain = NULL;
    struct store *cache = NULL;
    struct rows rows;
    assert_ok(store_open(uri_of("csv", "rows.csv", query), false, &plain));
    assert_ok(store_open_cached(uri_of("csv", "rows.csv", query), cache_bytes, &kept_store));
    const struct store_info *a = store_info(plain);
    const struct store_info *b = store_info(kept_store);
    assert_int_equal(((struct csv_store *)kept_store)->fill.slots.memory != NULL, kept);
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->element, b->element);
    assert_int_equal(a->label_kind, b->label_kind);
    assert_int_equal(a->label_text_count, b->label_text_count);
    assert_int_equal(a->bad_rows, b->bad_rows);
    assert_int_equal(a->first_bad_row == NULL, b->first_bad_row == NULL);
    if (a->first_bad_row)
        assert_string_equal(a->first_bad_row, b->first_bad_row);
    for (size_t i = 0; i < a->label_text_count; i++)
        assert_string_equal(a->label_texts[i], b->label_texts[i]);
    assert_ok(row_cache_open(kept_store, UINT64_MAX, &cache));
    assert_null(((struct csv_store *)kept_store)->fill.slots.memory);
    rows_scan(&rows, plain, SCAN_FEATURES | SCAN_BAD_ROWS);
    check_fetch(cache, &rows, 3);
    check_fetch(kept_store, &rows, 4);
    store_close(cache);
    assert_ok(row_cache_open(kept_store, UINT64_MAX, &cache)); /* a second one reads the file */
    check_fetch(cache, &rows, 5);
    rows_release(&rows);
    store_close(cache);
    store_close(kept_store);
    store_close(plain);
}

static void check_cache(const char *text, const char *query)
{
    struct store *inner = open_inner(text, query);
    struct store *cache = NULL;
    struct rows rows;
    check_kept(query, UINT64_MAX, true);
    check_kept(query, row_cache_bytes(store_info(inner)), true);
    check_kept(query, row_cache_bytes(store_info(inner)) - 1, false);
    check_kept(query, 1, false);
    assert_ok(row_cache_open(inner, UINT64_MAX, &cache));
    assert_string_equal(store_info(cache)->uri, store_info(inner)->uri);
    rows_scan(&rows, inner, SCAN_FEATURES | SCAN_BAD_ROWS);
    check_fetch(cache, &rows, 1);
    rows_release(&rows);
    rows_scan(&rows, cache, SCAN_FEATURES | SCAN_BAD_ROWS); /* its own scan is the inner one's */
    check_fetch(inner, &rows, 2);
    rows_release(&rows);
    store_close(cache);
    store_close(inner);
}

static void test_rows_are_those_of_the_store(void **state)
{
    (void)state;
    check_cache("label,a,b,c\n1,2,3,4\n5,6,7,8\n9,10,11,12\n", "");
    check_cache("label,a,b\nx,0.5,3\ny,-6,7\nx,1,1e-5\n", "");
    check_cache("id,label,a\n900,x,1\n5,y,2\n77,x,3\n", "");
    check_cache("id,label,a\n5,x,1\n6,y,2\n7,x,3\n", "");
    check_cache("id,label\n5,x\n900,y\n", "");
    check_cache("a\n5\n6\n", "");
}

static enum error scan_of_two(struct store *store, enum scan_columns columns, store_sink *sink,
                              void *context)
{
    static const double labels[] = {1, 2};
    static const uint8_t features[] = {3, 4};
    (void)store;
    (void)columns;
    return sink(context,
                &(struct store_block){.rows = 2, .label_values = labels, .features = features});
}

/* Rows that a store said it has, and does not give, are no zeros. */
static void test_a_store_that_gives_fewer_rows(void **state)
{
    static const struct store_ops ops = {.scheme = "two", .scan = scan_of_two};
    static char uri[] = "two:";
    struct store inner = {.ops = &ops,
                          .info = {.uri = uri, .rows = 3, .features = 1, .element = ELEMENT_U8}};
    struct store *cache = NULL;
    (void)state;
    assert_fails(row_cache_open(&inner, UINT64_MAX, &cache), ERROR_INPUT, "2 rows of 3");
    inner.info.rows = 2;
    assert_ok(row_cache_open(&inner, row_cache_bytes(&inner.info), &cache));
    store_close(cache);
    assert_fails(row_cache_open(&inner, row_cache_bytes(&inner.info) - 1, &cache), ERROR_MEMORY,
                 "the limit is");
}

/* Each changes what rows are kept as, behind rows that were kept already. */
static void test_rows_change_their_form(void **state)
{
    (void)state;
    check_cache("label,a,b\n1,2,3\n4,5,0.5\n7,8,9\n", "");
    check_cache("label,a,b\n1,2,3\nx,5,6\ny,8,9\nx,1,1\n", "");
    check_cache("label,a,b\n1,2,3\nx,5,256\ny,8,9\n1,1,1\n", "");
    check_cache("label,a,b\n1,2,3\n1.5,5,6\n-2e3,8,-1\n", "");
    check_cache("label,a,b\n9007199254740993,2,3\n1,5,6\n", "");
    check_cache("label,a,b\nx,2,?\ny,,1\nx,0.5,6\nz,1,2\n", "");
    check_cache("label,a,b\nx,1,2\ny,0.5,?\nx,3,6\n", "");
}

/* Which row a line is cannot be told where lines are blank or rows are several lines. */
static void test_lines_are_not_rows(void **state)
{
    struct store *inner =
        open_inner("label,a,g\n\n\n1,2,x\n\r\n  \n3,4,\"y\nz\n\"\n5,6,w\n\n", "features=a");
    struct rows rows;
    (void)state;
    rows_scan(&rows, inner, SCAN_FEATURES);
    assert_int_equal(rows.count, 3);
    rows_release(&rows);
    store_close(inner);
    check_kept("features=a", UINT64_MAX, true);
}

/* Files of several blocks, that several threads read, with all that may happen in the middle. */
static void check_large(const char *first_label, const char *odd_row, int blank_each)
{
    enum { LARGE_ROWS = 2000, LARGE_FEATURES = 1500 };
    char *text = malloc((size_t)LARGE_ROWS * (LARGE_FEATURES * 4 + 20));
    size_t length = 0;
    for (int i = 0; i < LARGE_ROWS; i++) {
        if (i == LARGE_ROWS - 700 && odd_row) {
            length += (size_t)sprintf(text + length, "%s", odd_row);
            for (int k = 1; k < LARGE_FEATURES; k++)
                length += (size_t)sprintf(text + length, ",%d", k % 7);
            text[length++] = '\n';
            continue;
        }
        length += (size_t)sprintf(text + length, "%s%d", first_label, i % 37);
        for (int k = 0; k < LARGE_FEATURES; k++)
            length += (size_t)sprintf(text + length, ",%d", (i * 31 + k * k) % 256);
        text[length++] = '\n';
        if (blank_each && i % blank_each == 0)
            text[length++] = '\n';
    }
    text[length] = '\0';
    write_file("rows.csv", text);
    free(text);
    check_kept("header=no&label=0", UINT64_MAX, true);
}

static void test_large_files(void **state)
{
    (void)state;
    check_large("", "seven,12", 50);
    check_large("class ", "seven,12.5", 1);
    if (unit_is_for_threads())
        return; /* the others are the same to them */
    check_large("", NULL, 0);
    check_large("", NULL, 100);
    check_large("", "7,0.25", 0);
    check_large("class ", "seven,none", 0);
}

static void test_bad_and_missing_rows_keep_their_words(void **state)
{
    struct store *inner = open_inner("label,a\n1,2\n3,x\n5,6\n", "");
    struct store *cache = NULL;
    struct reader *reader = NULL;
    int64_t ids[] = {2, 1, -4, 0};
    uint8_t features[4] = {9, 9, 9, 9};
    double labels[4];
    enum row_status status[4];
    (void)state;
    assert_ok(row_cache_open(inner, UINT64_MAX, &cache));
    assert_ok(reader_open(cache, &reader));
    assert_ok(reader_fetch(reader, ids, 4, features, 1, labels, status));
    assert_int_equal(status[0], ROW_OK);
    assert_int_equal(status[1], ROW_BAD);
    assert_int_equal(status[2], ROW_MISSING);
    assert_int_equal(status[3], ROW_OK);
    assert_memory_equal(features, "\x06\0\0\x02", 4);
    assert_true(labels[0] == 5 && labels[1] == 0 && labels[3] == 1);
    assert_non_null(strstr(error_message(), "line 3 (id 1): column \"a\" is \"x\""));
    assert_ok(reader_fetch(reader, ids + 2, 2, features, 1, labels, status));
    assert_non_null(strstr(error_message(), "no row with the id -4"));
    reader_close(reader);
    store_close(cache);
    store_close(inner);
}

static void test_the_limit_is_kept(void **state)
{
    struct store *inner = open_inner("label,a\n1,2\n3,4\n5,6\n", "");
    struct store *cache = NULL;
    uint64_t bytes = row_cache_bytes(store_info(inner));
    (void)state;
    assert_int_equal(bytes, 3 * 16);
    assert_fails(row_cache_open(inner, bytes - 1, &cache), ERROR_MEMORY, "the limit is");
    assert_ok(row_cache_open(inner, bytes, &cache));
    store_close(cache);
    store_close(inner);
}

static void test_the_file_may_go_once_it_is_cached(void **state)
{
    struct store *inner = open_inner("label,a\n1,2\n3,4\n", "");
    struct store *cache = NULL;
    struct reader *reader = NULL;
    int64_t id = 1;
    uint8_t feature;
    double label;
    enum row_status status;
    (void)state;
    assert_ok(row_cache_open(inner, UINT64_MAX, &cache));
    unlink(path_of("rows.csv"));
    assert_ok(reader_open(cache, &reader));
    assert_ok(reader_fetch(reader, &id, 1, &feature, 1, &label, &status));
    assert_int_equal(feature, 4);
    reader_close(reader);
    store_close(cache);
    store_close(inner);
}

enum { THREADS = 4, ROWS = 5000, FEATURES = 40 };

static void *fetch_much(void *argument)
{
    struct store *cache = argument;
    struct reader *reader = NULL;
    uint64_t seed = (uint64_t)(uintptr_t)&reader;
    int64_t ids[50];
    uint8_t features[50 * FEATURES];
    double labels[50];
    enum row_status status[50];
    if (reader_open(cache, &reader))
        return NULL;
    void *right = cache;
    for (int round = 0; round < 200 && right; round++) {
        for (int i = 0; i < 50; i++)
            ids[i] = (int64_t)dice_below(&seed, ROWS);
        if (reader_fetch(reader, ids, 50, features, FEATURES, labels, status))
            right = NULL;
        for (int i = 0; i < 50; i++) {
            if (labels[i] != (double)(ids[i] % 10) ||
                features[i * FEATURES + 7] != (ids[i] + 7) % 256)
                right = NULL;
        }
    }
    reader_close(reader);
    return right;
}

static void test_many_threads_read_at_once(void **state)
{
    struct store *cache = NULL;
    pthread_t threads[THREADS];
    char *text = malloc(ROWS * FEATURES * 5);
    size_t length = 0;
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        length += (size_t)sprintf(text + length, "%d", i % 10);
        for (int k = 0; k < FEATURES; k++)
            length += (size_t)sprintf(text + length, ",%d", (i + k) % 256);
        text[length++] = '\n';
    }
    text[length] = '\0';
    struct store *inner = open_inner(text, "header=no&label=0");
    free(text);
    assert_ok(row_cache_open(inner, UINT64_MAX, &cache));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fetch_much, cache), 0);
    for (int i = 0; i < THREADS; i++) {
        void *right = NULL;
        pthread_join(threads[i], &right);
        assert_ptr_equal(right, cache);
    }
    store_close(cache);
    store_close(inner);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_rows_are_those_of_the_store, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_rows_change_their_form, make_folder, remove_folder),
    cmocka_unit_test(test_a_store_that_gives_fewer_rows),
    cmocka_unit_test_setup_teardown(test_lines_are_not_rows, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_large_files, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_bad_and_missing_rows_keep_their_words, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_the_limit_is_kept, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_the_file_may_go_once_it_is_cached, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_many_threads_read_at_once, make_folder, remove_folder),
};

UNIT_MAIN(tests)

#include "tests/unit/store_unit.h"

#include <pthread.h>

#include "loader/row_cache.h"

static struct store *open_inner(const char *text, const char *query)
{
    struct store *store = NULL;
    assert_ok(open_csv(text, query, &store));
    return store;
}

static void check_cache(const char *text, const char *query)
{
    struct store *inner = open_inner(text, query);
    struct store *cache = NULL;
    struct rows rows;
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
    cmocka_unit_test_setup_teardown(test_bad_and_missing_rows_keep_their_words, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_the_limit_is_kept, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_the_file_may_go_once_it_is_cached, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_many_threads_read_at_once, make_folder, remove_folder),
};

UNIT_MAIN(tests)

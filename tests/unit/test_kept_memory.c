/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/cache/cache_builder: each allocation of a kept store, of the thread that makes its
 * cache and of who reads that fails once. Rows are right or there is an error, nothing half made is
 * left, and what lies in the folder afterwards is a cache or nothing.
 */
#include "tests/unit/kept_unit.h"

#include <errno.h>

#include "tests/unit/failing_allocator.h"

/* What it gives is freed by ours, so that it counts; else a block that is lost would be set off. */
char *__real_realpath(const char *path, char *out);
char *__wrap_realpath(const char *path, char *out);

char *__wrap_realpath(const char *path, char *out)
{
    if (allocation_fails()) {
        errno = ENOMEM;
        return NULL;
    }
    char *real = __real_realpath(path, out);
    return out ? real : counted(real);
}

static struct rows right; /* of the table */

static enum error open_it(struct store **ret_store)
{
    struct cache_source source;
    char kept[512];
    struct kept_store_options options = {.folder = kept, .open = count_open};
    snprintf(kept, sizeof(kept), "%s", path_of("kept"));
    enum error error = cache_source_init(&source, uri_of("csv", "t.csv", table_query));
    if (!error)
        error = cache_source_add_parameters(&source, table_query);
    if (!error)
        error = cache_source_add_file(&source, path_of("t.csv"));
    if (error)
        cache_source_release(&source);
    return error ? error : kept_store_open(&source, &options, ret_store);
}

static enum error take_rows(void *context, const struct store_block *block)
{
    size_t *seen = context;
    const uint8_t *wanted = right.features + *seen * right.row_bytes;
    for (size_t i = 0; i < block->rows; i++)
        assert_int_equal(block->ids[i], right.ids[*seen + i]);
    assert_memory_equal(block->features, wanted, block->rows * right.row_bytes);
    *seen += block->rows;
    return OK;
}

/* Three rows of those that are there. */
static enum error fetch_some(struct store *store)
{
    enum { COUNT = 3 };
    static const size_t which[COUNT] = {39, 0, 20};
    struct reader *reader = NULL;
    int64_t ids[COUNT];
    uint8_t features[COUNT * 8];
    double labels[COUNT];
    enum row_status status[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        ids[i] = right.ids[which[i]];
    enum error error = reader_open(store, &reader);
    if (!error)
        error = reader_fetch(reader, ids, COUNT, features, right.row_bytes, labels, status);
    for (size_t i = 0; i < COUNT && !error; i++) {
        assert_int_equal(status[i], ROW_OK);
        assert_true(labels[i] == right.values[which[i]]);
        assert_memory_equal(features + i * right.row_bytes,
                            right.features + which[i] * right.row_bytes, right.row_bytes);
    }
    reader_close(reader);
    return error;
}

/* From the store, then from the cache that is there by then, or not. */
static enum error use_once(void)
{
    struct store *store = NULL;
    size_t rows = 0;
    enum error error = open_it(&store);
    if (!error)
        error = fetch_some(store);
    if (!error)
        error = store_scan(store, SCAN_FEATURES, take_rows, &rows);
    if (!error)
        assert_int_equal(rows, right.count);
    if (!error)
        error = fetch_some(store);
    store_close(store);
    return error;
}

static enum error make_and_use(void)
{
    remove_caches();
    enum error error = use_once();
    return error ? error : use_once();
}

static enum error use_a_cache(void)
{
    return use_once();
}

static void check(long nth, enum error error)
{
    if (error && error != ERROR_MEMORY)
        fail_msg("allocation %ld failed and the answer was %d, %s", nth, error, error_message());
    size_t names = count_files("", NULL), caches = count_files(".rows", NULL);
    if (names > 0 && names != 2 + caches) /* . and .. */
        fail_msg("allocation %ld failed, and %zu files are left beside %zu caches", nth,
                 names - 2 - caches, caches);
    forget_messages();
    assert_ok(use_once());
    check_no_warning();
}

static void test_each_allocation_of_who_makes_it(void **state)
{
    (void)state;
    fail_each(make_and_use, check);
}

static void test_each_allocation_of_who_finds_it(void **state)
{
    (void)state;
    make_cache("t.csv", table_query);
    fail_each(use_a_cache, check);
    assert_int_equal(count_files(".rows", NULL), 1); /* no failure made anybody remove it */
}

static int set_up_rows(void **state)
{
    int failed = set_up(state);
    write_table("t.csv", "6");
    read_plain("t.csv", table_query, &right);
    return failed;
}

static int remove_rows(void **state)
{
    rows_release(&right);
    return remove_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_allocation_of_who_makes_it),
        cmocka_unit_test(test_each_allocation_of_who_finds_it),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, set_up_rows, remove_rows);
}

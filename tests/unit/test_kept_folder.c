/* SPDX-License-Identifier: MIT */
/* Covers loader/cache/cache_folder: with cache_builder; who makes a cache, and what makes room. */
#include "tests/unit/kept_unit.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/clock.h"
#include "loader/cache/cache_folder.h"
#include "loader/cache/kept_rows.h"
#include "loader/store/row_cache.h"

/* ---- folders ------------------------------------------------------------ */

static void test_no_folder(void **state)
{
    struct rows rows;
    (void)state;
    remove_caches();
    rmdir(path_of("kept"));
    write_file("kept", "a file");
    write_table("t.csv", "6");
    read_plain("t.csv", table_query, &rows);
    struct store *store = open_kept("t.csv", table_query);
    check_fetch(store, &rows, 3);
    check_warning("kept", "rows are not kept there");
    store_close(store);
    unlink(path_of("kept"));
    rows_release(&rows);
}

static void test_rows_that_cannot_be_kept(void **state)
{
    (void)state;
    remove_caches();
    write_file("t.csv", "label,a\nx,1\ny,\nz,3\n");
    struct store *store = open_kept("t.csv", "");
    assert_int_equal(store_info(store)->bad_rows, 1);
    check_warning("t.csv", "line 3");
    store_close(store);
    write_file("t.csv", "label\nx\ny\n");
    store = open_kept("t.csv", "");
    store_close(store);
    check_no_warning();
    assert_int_equal(count_files(".rows", NULL), 0);
}

/* Of three there is room for two: the one that was opened last stays. */
static void test_a_limit(void **state)
{
    static const char *const names[] = {"a.csv", "b.csv", "c.csv"};
    char path[600];
    struct stat status;
    (void)state;
    remove_caches();
    for (size_t i = 0; i < 3; i++)
        write_table(names[i], "6");
    make_cache("a.csv", table_query);
    assert_int_equal(count_files(".rows", path), 1);
    assert_int_equal(stat(path, &status), 0);
    uint64_t limit = (uint64_t)status.st_size * 5 / 2;
    make_cache("b.csv", table_query);
    clock_sleep_ms(20);
    store_close(open_kept("a.csv", table_query));
    clock_sleep_ms(20);
    struct store *store = open_limited("c.csv", table_query, limit);
    await_cache(store);
    store_close(store);
    assert_int_equal(count_files(".rows", NULL), 2);
    opened = 0;
    store_close(open_kept("a.csv", table_query));
    store_close(open_kept("c.csv", table_query));
    assert_int_equal(opened, 0);
    check_no_warning();
}

/* What is open stays, whatever the limit, and who finds no room does without. */
static void test_caches_that_are_open(void **state)
{
    char path[600];
    struct stat status;
    struct rows rows;
    (void)state;
    remove_caches();
    write_table("a.csv", "6");
    write_table("t.csv", "7");
    make_cache("a.csv", table_query);
    assert_int_equal(count_files(".rows", path), 1);
    assert_int_equal(stat(path, &status), 0);
    struct store *first = open_kept("a.csv", table_query);
    read_plain("t.csv", table_query, &rows);
    struct store *store = open_limited("t.csv", table_query, (uint64_t)status.st_size * 3 / 2);
    await_cache(store);
    check_fetch(store, &rows, 3);
    check_warning(path_of("kept"), "--cache-limit");
    assert_int_equal(access(path, F_OK), 0);
    store_close(first);
    store_close(store);
    assert_int_equal(count_files(".rows", NULL), 1);
    rows_release(&rows);
}

/* One that was closed makes room, although a child has its descriptor. */
static void test_a_child_keeps_no_cache_open(void **state)
{
    char path[600];
    int ends[2], status;
    struct stat file;
    (void)state;
    remove_caches();
    write_table("a.csv", "6");
    write_table("t.csv", "7");
    make_cache("a.csv", table_query);
    assert_int_equal(count_files(".rows", path), 1);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(pipe(ends), 0);
    struct store *first = open_kept("a.csv", table_query);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        _exit(read(ends[0], path, 1) != 0); /* until the parent closes its end */
    }
    close(ends[0]);
    store_close(first);
    struct store *store = open_limited("t.csv", table_query, (uint64_t)file.st_size * 3 / 2);
    await_cache(store);
    store_close(store);
    close(ends[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(count_files(".rows", NULL), 1);
    assert_int_not_equal(access(path, F_OK), 0);
    check_no_warning();
}

static void test_what_killed_programs_left(void **state)
{
    static const char *const left[] = {"0123456789abcdef0123456789abcdef.lock",
                                       "0123456789abcdef0123456789abcdef.rows.tmp.7.1"};
    char path[600], others[700];
    struct cache_folder folder_of = {.path = path, .limit_bytes = 0};
    (void)state;
    remove_caches();
    write_table("t.csv", "6");
    make_cache("t.csv", table_query);
    snprintf(path, sizeof(path), "%s", path_of("kept"));
    for (size_t i = 0; i < 2; i++) {
        snprintf(others, sizeof(others), "%s/%s", path, left[i]);
        write_whole(others, "x", 1);
    }
    snprintf(others, sizeof(others), "%s/notes.txt", path);
    write_whole(others, "x", 1);
    assert_ok(cache_folder_make_room(&folder_of, 0));
    assert_int_equal(count_files("", NULL), 4); /* the cache and the notes */
}

static void test_a_list(void **state)
{
    char path[600];
    struct cache_folder folder_of = {.path = path, .limit_bytes = 0};
    struct cache_entry *entries = NULL;
    size_t count = 0;
    (void)state;
    remove_caches();
    write_table("t.csv", "6");
    make_cache("t.csv", table_query);
    snprintf(path, sizeof(path), "%s", path_of("kept"));
    struct store *store = open_kept("t.csv", table_query);
    assert_ok(cache_folder_list(&folder_of, &entries, &count));
    assert_int_equal(count, 1);
    assert_true(entries[0].is_open && entries[0].bytes > 1000);
    struct kept_facts facts;
    assert_ok(kept_facts_read(entries[0].path, &facts));
    assert_string_equal(facts.source, store_info(store)->uri);
    assert_int_equal(facts.rows, store_info(store)->rows);
    assert_int_equal(facts.features, store_info(store)->features);
    kept_facts_release(&facts);
    cache_entries_free(entries, count);
    store_close(store);
    assert_ok(cache_folder_list(&folder_of, &entries, &count));
    assert_false(entries[0].is_open);
    cache_entries_free(entries, count);
}

/* ---- several at once ---------------------------------------------------- */

/* Somebody else has the lock: rows come from the store, and the cache from whoever is next. */
static void test_a_lock_of_another(void **state)
{
    char path[600];
    struct rows rows;
    (void)state;
    remove_caches();
    write_table("t.csv", "6");
    read_plain("t.csv", table_query, &rows);
    make_cache("t.csv", table_query);
    assert_int_equal(count_files(".rows", path), 1);
    assert_int_equal(unlink(path), 0);
    memcpy(path + strlen(path) - 5, ".lock", 5);
    int lock = -1;
    assert_ok(cache_lock_take(path, &lock));
    struct store *store = open_kept("t.csv", table_query);
    check_fetch(store, &rows, 3);
    clock_sleep_ms(300);
    assert_int_equal(count_files(".rows", NULL), 0);
    cache_lock_put(path, lock);
    await_cache(store);
    check_fetch(store, &rows, 4);
    assert_int_equal(count_files(".rows", NULL), 1);
    store_close(store);
    /* Closing does not wait for a lock. */
    remove_caches();
    assert_ok(cache_lock_take(path, &lock));
    store = open_kept("t.csv", table_query);
    store_close(store);
    cache_lock_put(path, lock);
    rows_release(&rows);
    check_no_warning();
}

struct user {
    pthread_t thread;
    const struct rows *rows;
};

static void *use(void *context)
{
    struct user *user = context;
    struct store *store = open_kept("t.csv", table_query);
    check_fetch(store, user->rows, 3);
    await_cache(store);
    check_fetch(store, user->rows, 4);
    store_close(store);
    return NULL;
}

static void test_many_at_once(void **state)
{
    enum { USERS = 8 };
    struct user users[USERS];
    struct rows rows;
    (void)state;
    remove_caches();
    write_table("t.csv", "6");
    read_plain("t.csv", table_query, &rows);
    for (size_t i = 0; i < USERS; i++) {
        users[i].rows = &rows;
        assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
    }
    for (size_t i = 0; i < USERS; i++)
        pthread_join(users[i].thread, NULL);
    assert_int_equal(count_files(".rows", NULL), 1);
    assert_int_equal(count_files("", NULL), 3);
    rows_release(&rows);
    check_no_warning();
}

/* In memory as well: the store is read once for both. */
static void test_with_a_cache_in_memory(void **state)
{
    struct rows rows;
    (void)state;
    remove_caches();
    write_table("t.csv", "6");
    read_plain("t.csv", table_query, &rows);
    for (int i = 0; i < 2; i++) {
        struct store *cache = NULL;
        struct store *store = open_kept("t.csv", table_query);
        assert_ok(row_cache_open(store, UINT64_MAX, 0, &cache));
        check_fetch(cache, &rows, 3);
        assert_ok(row_cache_wait(cache));
        check_fetch(cache, &rows, 4);
        store_close(cache);
        store_close(store);
    }
    assert_int_equal(opened, 1);
    rows_release(&rows);
    check_no_warning();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_folder),
        cmocka_unit_test(test_rows_that_cannot_be_kept),
        cmocka_unit_test(test_a_limit),
        cmocka_unit_test(test_caches_that_are_open),
        cmocka_unit_test(test_a_child_keeps_no_cache_open),
        cmocka_unit_test(test_what_killed_programs_left),
        cmocka_unit_test(test_a_list),
        cmocka_unit_test(test_a_lock_of_another),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_with_a_cache_in_memory),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, set_up, remove_folder);
}

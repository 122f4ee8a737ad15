/* SPDX-License-Identifier: MIT */
/* Covers loader/cache/kept_store: rows of a store that is kept, whatever becomes of store and cache. */
#include "tests/unit/kept_unit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "loader/rows/rows_header.h"
#include "loader/store/row_slots.h"

/* ---- the same rows ------------------------------------------------------ */

static void check_info(const struct store_info *a, const struct store_info *b)
{
    assert_string_equal(a->uri, b->uri);
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->features, b->features);
    assert_int_equal(a->element, b->element);
    assert_int_equal(a->label_kind, b->label_kind);
    assert_int_equal(a->label_text_count, b->label_text_count);
    for (size_t i = 0; i < a->label_text_count; i++)
        assert_string_equal(a->label_texts[i], b->label_texts[i]);
    for (size_t i = 0; i < a->features; i++)
        assert_string_equal(a->feature_names[i], b->feature_names[i]);
    assert_int_equal(a->id_column == NULL, b->id_column == NULL);
}

static void check_kept(const char *text, const char *query)
{
    struct rows rows;
    remove_caches();
    write_file("t.csv", text);
    read_plain("t.csv", query, &rows);
    struct store *store = open_kept("t.csv", query);
    check_all(store, &rows); /* some from the store, some from the cache */
    await_cache(store);
    check_all(store, &rows);
    struct store *later = open_kept("t.csv", query);
    assert_int_equal(opened, 1); /* the store itself was not needed */
    check_info(store_info(later), store_info(store));
    check_all(later, &rows);
    store_close(later);
    store_close(store);
    later = open_kept("t.csv", query);
    check_all(later, &rows);
    store_close(later);
    assert_int_equal(opened, 1);
    assert_int_equal(count_files(".rows", NULL), 1);
    assert_int_equal(count_files("", NULL), 3); /* no lock, and nothing half made */
    check_no_warning();
    rows_release(&rows);
}

static void test_rows_are_those_of_the_store(void **state)
{
    (void)state;
    check_kept("label,a,b,c\n1,2,3,4\n5,6,7,8\n9,10,11,12\n", "");
    check_kept("label,a,b\nx,0.5,3\ny,-6,7\nx,1,1e-5\n", "");
    check_kept("label,a,b\n1.5,0.5,3\n2,-6,7\n-3e4,1,1e-5\n", "");
    check_kept("id,label,a,w,g\n900,x,1,2,u\n5,y,2,1,v\n77,x,3,0,u\n", "weight=w&group=g");
    check_kept("id,label,a\n5,x,1\n6,y,2\n7,x,3\n", "");
    check_kept("a\n5\n6\n", "");
}

static void test_a_row_that_is_not_there(void **state)
{
    struct reader *reader = NULL;
    int64_t id = 3;
    uint8_t features[2];
    double label;
    enum row_status status;
    (void)state;
    remove_caches();
    write_table("t.csv", "6");
    make_cache("t.csv", table_query);
    struct store *store = open_kept("t.csv", table_query);
    assert_ok(reader_open(store, &reader));
    assert_ok(reader_fetch(reader, &id, 1, features, sizeof(features), &label, &status));
    assert_int_equal(status, ROW_MISSING);
    assert_non_null(strstr(error_message(), "t.csv?weight=w&group=g has no row with the id 3"));
    reader_close(reader);
    store_close(store);
}

/* By the URI, as programs open it; a shape is kept, and several files are one store. */
static void test_whatever_a_uri_names(void **state)
{
    static const uint8_t idx[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 9, 8, 7, 6};
    char kept[512], uris[2048];
    struct store_open_options options = {.cache.folder = kept};
    struct store *store = NULL;
    (void)state;
    remove_caches();
    snprintf(kept, sizeof(kept), "%s", path_of("kept"));
    write_bytes("s.idx", idx, sizeof(idx));
    for (int i = 0; i < 2; i++) {
        assert_ok(store_open_with(uri_of("idx", "s.idx", ""), &options, &store));
        await_cache(store);
        assert_int_equal(store_info(store)->dimensions, 2);
        assert_int_equal(store_info(store)->shape[0], 2);
        assert_int_equal(store_info(store)->shape[1], 1);
        store_close(store);
    }
    write_file("one.csv", "id,a\n1,2\n3,4\n");
    write_file("two.csv", "id,a\n7,2\n5,4\n");
    snprintf(uris, sizeof(uris), "%s\n%s", uri_of("csv", "one.csv", ""),
             uri_of("csv", "two.csv", ""));
    for (int i = 0; i < 2; i++) {
        assert_ok(store_open_with(uris, &options, &store));
        await_cache(store);
        assert_int_equal(store_info(store)->rows, 4);
        assert_null(strchr(store_info(store)->uri, '\n'));
        store_close(store);
    }
    assert_int_equal(count_files(".rows", NULL), 2);
    check_no_warning();
    assert_ok(store_open_with("range:9?labels=3", &options, &store));
    assert_int_equal(store_info(store)->rows, 9);
    store_close(store);
    check_warning("range", "do not come from a file");
}

/* ---- another source ----------------------------------------------------- */

/* After any change the rows are the new ones. */
static void check_change(const char *query)
{
    struct rows rows;
    int before = opened;
    read_plain("t.csv", query, &rows);
    struct store *store = open_kept("t.csv", query);
    assert_int_equal(opened, before + 1);
    check_all(store, &rows);
    store_close(store);
    rows_release(&rows);
}

static void test_a_store_that_changed(void **state)
{
    struct stat status;
    (void)state;
    remove_caches();
    write_table("t.csv", "6");
    make_cache("t.csv", table_query);
    check_change("weight=w&group=g&features=a");
    check_change("weight=w&group=g&features=b");
    write_table("t.csv", "7");
    check_change(table_query);
    /* In its place, of the same length, with the times of before. */
    assert_int_equal(stat(path_of("t.csv"), &status), 0);
    struct timespec times[2] = {status.st_atim, status.st_mtim};
    int descriptor = open(path_of("t.csv"), O_WRONLY);
    assert_int_equal(pwrite(descriptor, "8", 1, status.st_size - 2), 1);
    assert_int_equal(futimens(descriptor, times), 0);
    close(descriptor);
    check_change(table_query);
}

/* Who has the cache open keeps what he has. */
static void test_a_store_that_changes_meanwhile(void **state)
{
    struct rows rows;
    (void)state;
    remove_caches();
    write_table("t.csv", "6");
    make_cache("t.csv", table_query);
    read_plain("t.csv", table_query, &rows);
    struct store *store = open_kept("t.csv", table_query);
    write_table("t.csv", "9");
    check_all(store, &rows);
    store_close(store);
    rows_release(&rows);
    check_no_warning();
}

/* ---- damage ------------------------------------------------------------- */

static void read_whole(const char *path, struct buffer *ret_bytes)
{
    *ret_bytes = (struct buffer)BUFFER_INIT((size_t)1 << 20);
    assert_ok(file_read_whole(path, ret_bytes));
}

/* Whatever stands in the file now: the rows are those of the store, and if one of its bytes had to
 * be believed for that, one warning names it. */
static void check_damaged(const char *path, const struct rows *rows, bool is_told)
{
    struct store *store = open_kept("t.csv", table_query);
    check_fetch(store, rows, 3);
    await_cache(store);
    check_fetch(store, rows, 4);
    store_close(store);
    if (is_told)
        check_warning(path, "");
    else
        forget_messages();
}

static void test_damage_anywhere(void **state)
{
    char path[600];
    struct buffer bytes;
    struct rows rows;
    (void)state;
    remove_caches();
    write_table("t.csv", "6");
    make_cache("t.csv", table_query);
    assert_int_equal(count_files(".rows", path), 1);
    read_plain("t.csv", table_query, &rows);
    read_whole(path, &bytes);
    forget_messages();
    for (size_t at = 0; at < bytes.length; at += unit_is_for_threads() ? 97 : 11) {
        bytes.data[at] ^= (char)(1 << at % 8);
        write_whole(path, bytes.data, bytes.length);
        check_damaged(path, &rows, true);
        bytes.data[at] ^= (char)(1 << at % 8);
    }
    for (size_t length = 0; length < bytes.length; length += 101) {
        write_whole(path, bytes.data, length);
        check_damaged(path, &rows, true);
    }
    write_whole(path, bytes.data, bytes.length);
    check_damaged(path, &rows, false);
    rows_release(&rows);
    buffer_release(&bytes);
}

/* Cut off, overwritten by zeros, and by another cache of the same form, in the same file. */
static void check_meanwhile(const char *path, const struct buffer *now, const struct rows *rows)
{
    struct reader *reader = NULL;
    uint8_t features[2];
    double label;
    enum row_status status;
    make_cache("t.csv", table_query);
    int before = opened;
    struct store *store = open_kept("t.csv", table_query);
    assert_int_equal(opened, before);
    assert_ok(reader_open(store, &reader));
    assert_ok(reader_fetch(reader, &rows->ids[39], 1, features, 2, &label, &status));
    assert_memory_equal(features, rows->features + 2 * 39, 2);
    write_whole(path, now->data, now->length);
    assert_ok(reader_fetch(reader, &rows->ids[39], 1, features, 2, &label, &status));
    assert_int_equal(status, ROW_OK);
    assert_memory_equal(features, rows->features + 2 * 39, 2);
    check_warning(path, "it was removed, rows come from");
    check_fetch(store, rows, 5);
    reader_close(reader);
    store_close(store);
    assert_int_equal(access(path, F_OK), -1);
    check_no_warning();
}

static void test_damage_meanwhile(void **state)
{
    char path[600];
    struct buffer whole, now = BUFFER_INIT((size_t)1 << 20);
    struct rows rows;
    (void)state;
    remove_caches();
    write_table("other.csv", "200");
    make_cache("other.csv", table_query);
    assert_int_equal(count_files(".rows", path), 1);
    read_whole(path, &whole);
    remove_caches();
    write_table("t.csv", "6");
    read_plain("t.csv", table_query, &rows);
    make_cache("t.csv", table_query);
    assert_int_equal(count_files(".rows", path), 1);
    check_meanwhile(path, &whole, &rows); /* sound rows with these very ids, but others */
    check_meanwhile(path, &now, &rows);
    while (now.length < whole.length)
        buffer_add(&now, "\0", 1);
    check_meanwhile(path, &now, &rows);
    rows_release(&rows);
    buffer_release(&whole);
    buffer_release(&now);
}

static char kept_path[600];
static bool cannot_open; /* the next reader */

enum error __real_reader_open(struct store *store, struct reader **ret_reader);
enum error __wrap_reader_open(struct store *store, struct reader **ret_reader);
enum error __wrap_reader_open(struct store *store, struct reader **ret_reader)
{
    if (!cannot_open)
        return __real_reader_open(store, ret_reader);
    cannot_open = false;
    return error_set(ERROR_IO, "%s: too many open files", kept_path);
}

/* What one process cannot read stays for the others. */
static void test_a_cache_that_cannot_be_read(void **state)
{
    struct reader *reader = NULL;
    struct rows rows;
    uint8_t features[2];
    double label;
    enum row_status status;
    (void)state;
    remove_caches();
    write_table("t.csv", "6");
    read_plain("t.csv", table_query, &rows);
    make_cache("t.csv", table_query);
    assert_int_equal(count_files(".rows", kept_path), 1);
    struct store *store = open_kept("t.csv", table_query);
    assert_ok(reader_open(store, &reader));
    cannot_open = true;
    assert_ok(reader_fetch(reader, &rows.ids[39], 1, features, 2, &label, &status));
    assert_memory_equal(features, rows.features + 2 * 39, 2);
    check_warning(kept_path, "too many open files; rows come from");
    check_fetch(store, &rows, 6);
    reader_close(reader);
    store_close(store);
    assert_int_equal(count_files(".rows", kept_path), 1);
    check_no_warning();
    rows_release(&rows);
}

/* As a disk does it: the file's time stays. */
static void damage_quietly(const char *path, const struct buffer *bytes)
{
    struct stat status;
    int descriptor = open(path, O_WRONLY);
    assert_int_equal(fstat(descriptor, &status), 0);
    assert_int_equal(pwrite(descriptor, bytes->data, bytes->length, 0), bytes->length);
    struct timespec times[2] = {status.st_atim, status.st_mtim};
    assert_int_equal(futimens(descriptor, times), 0);
    close(descriptor);
}

/* A scan that meets damage goes on in the store, and hands out no row twice. */
static void test_a_scan_that_meets_damage(void **state)
{
    char path[600];
    struct buffer bytes;
    struct rows rows, scanned;
    struct rows_head head;
    (void)state;
    remove_caches();
    write_table("t.csv", "6");
    make_cache("t.csv", table_query);
    assert_int_equal(count_files(".rows", path), 1);
    read_plain("t.csv", table_query, &rows);
    read_whole(path, &bytes);
    memcpy(&head, bytes.data, sizeof(head));
    for (size_t row = 0; row < 40; row += 13) {
        struct store *store = open_kept("t.csv", table_query);
        await_cache(store);
        bytes.data[head.rows_at + row * head.row_bytes + 17] ^= 1;
        damage_quietly(path, &bytes);
        forget_messages();
        rows_scan(&scanned, store, SCAN_FEATURES);
        assert_memory_equal(scanned.features, rows.features, rows.count * rows.row_bytes);
        rows_release(&scanned);
        check_warning(path, "is damaged");
        check_all(store, &rows);
        bytes.data[head.rows_at + row * head.row_bytes + 17] ^= 1;
        store_close(store);
    }
    rows_release(&rows);
    buffer_release(&bytes);
}

/* The cache is fine, and belongs to another store. */
static void test_a_file_in_anothers_place(void **state)
{
    char path[600], other[600];
    struct rows rows;
    (void)state;
    remove_caches();
    write_table("other.csv", "200");
    make_cache("other.csv", table_query);
    assert_int_equal(count_files(".rows", other), 1);
    snprintf(path, sizeof(path), "%s", path_of("away.rows"));
    assert_int_equal(rename(other, path), 0);
    write_table("t.csv", "6");
    make_cache("t.csv", table_query);
    assert_int_equal(count_files(".rows", other), 1);
    assert_int_equal(rename(path, other), 0);
    read_plain("t.csv", table_query, &rows);
    forget_messages();
    struct store *store = open_kept("t.csv", table_query);
    check_fetch(store, &rows, 3);
    check_warning(other, "holds other rows than its name says");
    store_close(store);
    /* A link is followed nowhere. */
    remove_caches();
    make_cache("t.csv", table_query);
    assert_int_equal(count_files(".rows", other), 1);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(symlink(path, other), 0);
    store = open_kept("t.csv", table_query);
    check_fetch(store, &rows, 3);
    store_close(store);
    rows_release(&rows);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_those_of_the_store),
        cmocka_unit_test(test_a_row_that_is_not_there),
        cmocka_unit_test(test_whatever_a_uri_names),
        cmocka_unit_test(test_a_store_that_changed),
        cmocka_unit_test(test_a_store_that_changes_meanwhile),
        cmocka_unit_test(test_damage_anywhere),
        cmocka_unit_test(test_damage_meanwhile),
        cmocka_unit_test(test_a_cache_that_cannot_be_read),
        cmocka_unit_test(test_a_scan_that_meets_damage),
        cmocka_unit_test(test_a_file_in_anothers_place),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, set_up, remove_folder);
}

/* SPDX-License-Identifier: MIT */
/* Covers loader/cache/kept_store: with cache_builder, cache_folder, cache_key and kept_rows. */
#include "tests/unit/store_unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/log.h"
#include "loader/cache/cache_folder.h"
#include "loader/cache/kept_rows.h"
#include "loader/cache/kept_store.h"
#include "loader/rows/rows_header.h"
#include "loader/store/id_index.h"
#include "loader/store/row_cache.h"
#include "loader/store/row_slots.h"

/* ---- what is logged ----------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    int warnings;
    char last[2048]; /* warning */
} logged = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void take_message(int level, const char *message, void *context)
{
    (void)context;
    if (level < LOG_WARNING)
        return;
    pthread_mutex_lock(&logged.lock);
    logged.warnings++;
    snprintf(logged.last, sizeof(logged.last), "%s", message);
    pthread_mutex_unlock(&logged.lock);
}

static void forget_messages(void)
{
    logged.warnings = 0;
    logged.last[0] = '\0';
}

/* One since then, which names `what` and says `says`. */
static void check_warning(const char *what, const char *says)
{
    char last[sizeof(logged.last)];
    pthread_mutex_lock(&logged.lock);
    int warnings = logged.warnings;
    memcpy(last, logged.last, sizeof(last));
    pthread_mutex_unlock(&logged.lock);
    if (warnings != 1 || !strstr(last, what) || !strstr(last, says))
        fail_msg("%d warnings, the last is: %s", warnings, last);
    forget_messages();
}

static void check_no_warning(void)
{
    if (logged.warnings > 0)
        fail_msg("%d warnings, the last is: %s", logged.warnings, logged.last);
}

/* ---- caches ------------------------------------------------------------- */

static _Atomic int opened;                                 /* stores themselves */
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER; /* path_of() and uri_of() */

static enum error count_open(const char *uri, uint64_t cache_bytes, struct store **ret_store)
{
    opened++;
    return store_open_cached(uri, cache_bytes, ret_store);
}

/* A store of FOLDER/NAME kept in FOLDER/KEPT. */
static struct store *open_limited(const char *name, const char *query, uint64_t limit_bytes)
{
    struct cache_source source;
    struct store *store = NULL;
    char kept[512];
    struct kept_store_options options = {
        .folder = kept, .limit_bytes = limit_bytes, .cache_bytes = 0, .open = count_open};
    pthread_mutex_lock(&naming);
    snprintf(kept, sizeof(kept), "%s", path_of("kept"));
    assert_ok(cache_source_init(&source, uri_of("csv", name, query)));
    assert_ok(cache_source_add_parameters(&source, query));
    assert_ok(cache_source_add_file(&source, path_of(name)));
    pthread_mutex_unlock(&naming);
    assert_ok(kept_store_open(&source, &options, &store));
    return store;
}

static struct store *open_kept(const char *name, const char *query)
{
    return open_limited(name, query, 0);
}

/* Names in FOLDER/kept that end so; the first of them goes to *ret_path. */
static size_t count_files(const char *ending, char ret_path[600])
{
    size_t count = 0;
    DIR *names = opendir(path_of("kept"));
    for (struct dirent *name; names && (name = readdir(names));) {
        size_t length = strlen(name->d_name), end = strlen(ending);
        if (length < end || strcmp(name->d_name + length - end, ending) != 0)
            continue;
        if (count++ == 0 && ret_path)
            snprintf(ret_path, 600, "%s/%s", path_of("kept"), name->d_name);
    }
    if (names)
        closedir(names);
    return count;
}

static enum error pass_over(void *context, const struct store_block *block)
{
    *(size_t *)context += block->rows;
    return OK;
}

/* A scan is of the cache: until it is there, or will not be. */
static void await_cache(struct store *store)
{
    size_t rows = 0;
    assert_ok(store_scan(store, SCAN_FEATURES, pass_over, &rows));
    assert_int_equal(rows, store_info(store)->rows);
}

static void make_cache(const char *name, const char *query)
{
    struct store *store = open_kept(name, query);
    await_cache(store);
    store_close(store);
}

static void remove_caches(void)
{
    char path[600];
    while (count_files("", path) > 2) { /* . and .. */
        DIR *names = opendir(path_of("kept"));
        for (struct dirent *name; (name = readdir(names));) {
            snprintf(path, sizeof(path), "%s/%s", path_of("kept"), name->d_name);
            if (name->d_name[0] != '.')
                assert_int_equal(unlink(path), 0);
        }
        closedir(names);
    }
    opened = 0;
    forget_messages();
}

static void read_plain(const char *name, const char *query, struct rows *rows)
{
    struct store *plain = NULL;
    assert_ok(store_open(uri_of("csv", name, query), false, &plain));
    rows_scan(rows, plain, SCAN_FEATURES);
    store_close(plain);
}

/* 40 rows: ids far apart, three labels, two features, one of them `last`. */
static void write_table(const char *name, const char *last)
{
    char text[8192] = "id,label,w,g,a,b\n";
    for (int i = 0; i < 40; i++) {
        char line[128];
        snprintf(line, sizeof(line), "%d,%s,%d,g%d,%d,%s\n", 1000 - 7 * i, i % 3 ? "x" : "yes", i,
                 i % 2, i, i == 39 ? last : "5");
        strncat(text, line, sizeof(text) - strlen(text) - 1);
    }
    write_file(name, text);
}

static const char table_query[] = "weight=w&group=g";

/* ---- the same rows ------------------------------------------------------ */

static void check_all(struct store *store, const struct rows *rows)
{
    struct rows scanned;
    check_fetch(store, rows, 7);
    rows_scan(&scanned, store, SCAN_FEATURES);
    for (size_t i = 0; i < rows->count; i++) {
        assert_int_equal(scanned.ids[i], rows->ids[i]);
        assert_string_equal(scanned.labels[i], rows->labels[i]);
        assert_true(scanned.weights[i] == rows->weights[i]);
        assert_true(scanned.values[i] == rows->values[i]);
        if (rows->groups[i])
            assert_string_equal(scanned.groups[i], rows->groups[i]);
    }
    assert_memory_equal(scanned.features, rows->features, rows->count * rows->row_bytes);
    rows_release(&scanned);
}

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
    struct store_cache cache = {.folder = kept};
    struct store *store = NULL;
    (void)state;
    remove_caches();
    snprintf(kept, sizeof(kept), "%s", path_of("kept"));
    write_bytes("s.idx", idx, sizeof(idx));
    for (int i = 0; i < 2; i++) {
        assert_ok(store_open_kept(uri_of("idx", "s.idx", ""), &cache, &store));
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
        assert_ok(store_open_kept(uris, &cache, &store));
        await_cache(store);
        assert_int_equal(store_info(store)->rows, 4);
        assert_null(strchr(store_info(store)->uri, '\n'));
        store_close(store);
    }
    assert_int_equal(count_files(".rows", NULL), 2);
    check_no_warning();
    assert_ok(store_open_kept("range:9?labels=3", &cache, &store));
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

static void write_whole(const char *path, const void *bytes, size_t length)
{
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, bytes, length), length);
    close(descriptor);
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
    char *source = kept_rows_source(entries[0].path);
    assert_string_equal(source, store_info(store)->uri);
    free(source);
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

static int set_up(void **state)
{
    log_set_sink(take_message, NULL);
    return make_folder(state);
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
        cmocka_unit_test(test_a_scan_that_meets_damage),
        cmocka_unit_test(test_a_file_in_anothers_place),
        cmocka_unit_test(test_no_folder),
        cmocka_unit_test(test_rows_that_cannot_be_kept),
        cmocka_unit_test(test_a_limit),
        cmocka_unit_test(test_caches_that_are_open),
        cmocka_unit_test(test_what_killed_programs_left),
        cmocka_unit_test(test_a_list),
        cmocka_unit_test(test_a_lock_of_another),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_with_a_cache_in_memory),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, set_up, remove_folder);
}

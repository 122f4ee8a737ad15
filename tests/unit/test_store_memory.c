/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/store/store: Every allocation of the stores fails once: the program is linked with
 * --wrap, so that the Nth call of malloc and its relatives from our objects answers NULL, and so
 * do SQLite's. The answer must be ERROR_MEMORY or what it is where nothing fails; what was
 * allocated is given back (the sanitizer's leak check looks), and no file is left.
 */
#include "tests/unit/packed_unit.h"
#include "tests/unit/store_unit.h"

#include <dirent.h>
#include <sqlite3.h>

#include "loader/store/label_counts.h"
#include "loader/store/row_cache.h"
#include "tests/unit/failing_allocator.h"

static int entries_before;
static char right[100]; /* what the store is where nothing fails */

/* ---- SQLite's memory ---------------------------------------------------- */

static sqlite3_mem_methods sqlite_memory;
static _Atomic uint64_t sqlite_asked; /* since a run began, from a number of the day on */

/* AddressSanitizer's build takes each third of SQLite's, from another one each day: a call of SQLite
 * makes several, and whichever fails, what we see of it is the same. The plain build takes all. */
static bool sqlite_fails(void)
{
#ifdef __SANITIZE_ADDRESS__
    if (!unit_is_long() && sqlite_asked++ % 3 != 0)
        return false;
#endif
    return allocation_fails();
}

static void *sqlite_allocate(int bytes)
{
    return sqlite_fails() ? NULL : sqlite_memory.xMalloc(bytes);
}

static void *sqlite_reallocate(void *block, int bytes)
{
    return sqlite_fails() ? NULL : sqlite_memory.xRealloc(block, bytes);
}

/* SQLite asks for its methods before its first use only. */
__attribute__((constructor)) static void take_sqlite_memory(void)
{
    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_memory);
    sqlite3_mem_methods ours = sqlite_memory;
    ours.xMalloc = sqlite_allocate;
    ours.xRealloc = sqlite_reallocate;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &ours);
}

/* ---- use ---------------------------------------------------------------- */

static int entries(void)
{
    DIR *open = opendir(folder);
    int count = 0;
    while (readdir(open))
        count++;
    closedir(open);
    return count;
}

/* A failed realloc that only gives memory back is no failure. */
static void check(long nth, enum error error)
{
    if (error && error != ERROR_MEMORY)
        fail_msg("allocation %ld failed and the answer was %d, %s", nth, error, error_message());
    sqlite_asked = unit_seed();
    unlink(path_of("out.db")); /* whole, when all that failed came after it */
    if (error)
        assert_int_equal(entries(), entries_before);
}

static void fail_each_allocation(enum error (*work)(void))
{
    entries_before = entries();
    sqlite_asked = unit_seed();
    right[0] = '\0';
    fail_each(work, check);
}

static enum error ignore(void *context, const struct store_block *block)
{
    (void)context;
    (void)block;
    return OK;
}

static enum error fetch_some(struct store *store)
{
    struct reader *reader = NULL;
    int64_t ids[] = {5, 900, 7, 6};
    uint8_t features[64];
    double labels[4];
    int64_t lengths[4];
    enum row_status status[4];
    enum error error = reader_open(store, &reader);
    if (!error)
        error = reader_fetch(reader, ids, 4, features, 16, labels, status);
    if (!error)
        error = reader_lengths(reader, ids, 4, lengths);
    if (!error) { /* also where an allocation failed: nothing may be missing for it */
        assert_int_equal(status[1], ROW_OK);
        assert_int_equal(status[2], ROW_OK);
    }
    reader_close(reader);
    return error;
}

static void check_info(const struct store_info *info)
{
    char found[sizeof(right)];
    snprintf(found, sizeof(found), "%lld rows of %zu features, %s, labels %s",
             (long long)info->rows, info->features, element_names[info->element],
             label_kind_names[info->label_kind]);
    if (!right[0])
        memcpy(right, found, sizeof(right));
    assert_string_equal(found, right);
}

static const char *opened; /* the URI of what the works below use */

static enum error use_all(void)
{
    struct store *store = NULL;
    enum error error = store_open(opened, false, &store);
    if (!error)
        check_info(store_info(store));
    if (!error)
        error = store_scan(store, SCAN_FEATURES | SCAN_BAD_ROWS, ignore, NULL);
    if (!error)
        error = store_scan(store, SCAN_KEYS, ignore, NULL);
    if (!error)
        error = fetch_some(store);
    store_close(store);
    return error;
}

static enum error use_keys(void)
{
    struct store *store = NULL;
    enum error error = store_open(opened, true, &store);
    if (!error)
        error = store_scan(store, SCAN_KEYS, ignore, NULL);
    store_close(store);
    return error;
}

/* One after the other, since a failure costs as much as all that comes before it. */
static void fail_each_use(const char *uri)
{
    opened = uri;
    fail_each_allocation(use_all);
    fail_each_allocation(use_keys);
}

static const char query[] = "weight=w&group=g";

static void write_rows(void)
{
    write_file("in.csv", "id,label,w,g,a,b\n900,x,1,u,1,2.5\n5,\"y\nz\",2,v,bad,4\n7,x,3,u,5,6\n"
                         "6,w,1,u,7,8\n");
    write_file("good.csv", "id,label,w,g,a,b\n900,x,1,u,1,2.5\n5,\"y\nz\",2,v,3,4\n7,x,3,u,5,6\n");
}

/* A view without a key is refused as one, and never taken for a table. */
static enum error refuse_view(void)
{
    struct store *store = NULL;
    enum error error = store_open(uri_of("sqlite", "good.db", "table=sums"), false, &store);
    assert_int_not_equal(error, OK);
    if (error != ERROR_INPUT)
        return error;
    assert_non_null(strstr(error_message(), "\"sums\" is a view"));
    return OK;
}

static enum error fill_cache_of(const char *uri)
{
    struct store *inner = NULL;
    struct store *cache = NULL;
    enum error error = store_open(uri, false, &inner);
    if (!error)
        error = row_cache_open(inner, UINT64_MAX, 0, &cache);
    if (!error)
        error = fetch_some(cache);
    store_close(cache);
    store_close(inner);
    return error;
}

static enum error use_cache(void)
{
    return fill_cache_of(uri_of("csv", "in.csv", query));
}

static enum error import_from(const char *uri, const struct store_writer_ops *ops)
{
    struct store *store = NULL;
    enum error error = store_open(uri, false, &store);
    if (!error)
        error = try_import(ops, store, path_of("out.db"));
    store_close(store);
    return error;
}

static enum error use_import(void)
{
    enum error error = import_from(uri_of("csv", "good.csv", query), &store_writer_sqlite_ops);
    if (!error)
        error = try_place(&store_writer_sqlite_ops, path_of("good.db"), "samples");
    return error == ERROR_CONFLICT ? OK : error; /* it has a view by now */
}

static enum error import_into_rows(void)
{
    enum error error = import_from(uri_of("csv", "good.csv", query), &store_writer_rows_ops);
    return error ? error : try_place(&store_writer_rows_ops, path_of("good.rows"), NULL);
}

static void make_row_file(void)
{
    struct store *store = NULL;
    write_rows();
    assert_ok(store_open(uri_of("csv", "good.csv", query), false, &store));
    import_rows(store, path_of("good.rows"));
    store_close(store);
}

static void make_database(void)
{
    struct store *store = NULL;
    write_rows();
    assert_ok(store_open(uri_of("csv", "good.csv", query), false, &store));
    import_store(store, path_of("good.db"));
    store_close(store);
    sqlite3 *database = NULL;
    assert_int_equal(sqlite3_open(path_of("good.db"), &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database,
                                  "CREATE VIEW sums AS SELECT id + 1 AS id, label FROM samples",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(database);
}

static enum error open_without_rows(void)
{
    struct store *store = NULL;
    enum error error = store_open(opened, false, &store);
    assert_null(store);
    return store_is_without_rows(error) ? OK : error;
}

static void test_csv(void **state)
{
    (void)state;
    write_rows();
    fail_each_use(uri_of("csv", "in.csv", query));
    write_file("header.csv", "id,label,a\n");
    opened = uri_of("csv", "header.csv", "");
    fail_each_allocation(open_without_rows);
}

/* The last row in a member or frame of its own. */
static void test_packed(void **state)
{
    static const char rows[] =
        "id,label,w,g,a,b\n900,x,1,u,1,2.5\n5,\"y\nz\",2,v,bad,4\n7,x,3,u,5,6\n";
    static const char row[] = "6,w,1,u,7,8\n";
    struct packed_bytes packed = {.data = NULL};
    (void)state;
    add_gzip_member(&packed, rows, strlen(rows), 6, 20);
    add_gzip_member(&packed, row, strlen(row), 6, 0);
    write_bytes("in.csv.gz", packed.data, packed.length);
    packed.length = 0;
    add_zstd_frame(&packed, rows, strlen(rows), 3, 0);
    add_zstd_frame(&packed, row, strlen(row), 3, 0);
    write_bytes("in.csv.zst", packed.data, packed.length);
    free(packed.data);
    fail_each_use(uri_of("csv", "in.csv.gz", query));
    fail_each_use(uri_of("csv", "in.csv.zst", query));
}

/* 901 rows of two bytes, and their labels. */
static void test_packed_idx(void **state)
{
    enum { ROWS = 901 };
    static char images[12 + 2 * ROWS] = {0, 0, 8, 2, 0, 0, ROWS >> 8, (char)(ROWS & 255),
                                         0, 0, 0, 2};
    static char labels[8 + ROWS] = {0, 0, 8, 1, 0, 0, ROWS >> 8, (char)(ROWS & 255)};
    struct packed_bytes packed = {.data = NULL};
    (void)state;
    add_gzip_member(&packed, images, sizeof(images), 6, 0);
    write_bytes("a-images-idx2-ubyte.gz", packed.data, packed.length);
    packed.length = 0;
    add_gzip_member(&packed, labels, sizeof(labels), 6, 0);
    write_bytes("labels.gz", packed.data, packed.length);
    free(packed.data);
    char labels_of[512];
    snprintf(labels_of, sizeof(labels_of), "labels=%s", path_of("labels.gz"));
    fail_each_use(uri_of("idx", "a-images-idx2-ubyte.gz", labels_of));
}

static void test_sqlite(void **state)
{
    (void)state;
    make_database();
    fail_each_use(uri_of("sqlite", "good.db", ""));
    fail_each_use(uri_of("sqlite", "good.db", "label=&features=features"));
    fail_each_allocation(refuse_view);
}

static void test_rows(void **state)
{
    (void)state;
    make_row_file();
    fail_each_use(uri_of("rows", "good.rows", ""));
    fail_each_allocation(import_into_rows);
}

/* Rows that differ in length. */
static const char varying[] = "weight=w&group=g&longest=any";

static enum error import_varying_rows(void)
{
    return import_from(uri_of("csv", "vary.csv", varying), &store_writer_rows_ops);
}

static enum error use_varying_cache(void)
{
    return fill_cache_of(path_of("vary.rows"));
}

static void test_rows_that_differ_in_length(void **state)
{
    struct store *store = NULL;
    (void)state;
    write_file("vary.csv", "id,label,w,g\n900,x,1,u,1,2.5,3\n5,\"y\nz\",2,v\n7,x,3,u,5\n"
                           "6,w,1,u,\"7\",8\n");
    assert_ok(store_open(uri_of("csv", "vary.csv", varying), false, &store));
    import_rows(store, path_of("vary.rows"));
    import_store(store, path_of("vary.db"));
    store_close(store);
    fail_each_use(uri_of("csv", "vary.csv", varying));
    fail_each_use(uri_of("rows", "vary.rows", ""));
    fail_each_use(uri_of("sqlite", "vary.db", ""));
    fail_each_use(uri_of("sqlite", "vary.db", "longest=3&element=f32"));
    fail_each_allocation(use_varying_cache);
    fail_each_allocation(import_varying_rows);
}

static void test_cache(void **state)
{
    (void)state;
    write_rows();
    fail_each_allocation(use_cache);
}

static void test_import(void **state)
{
    (void)state;
    make_database();
    fail_each_allocation(use_import);
}

/* 100 labels, each twice: all are counted, or none. */
static enum error use_label_counts(void)
{
    struct label_counts counts = {.counts = NULL};
    struct text labels[200];
    char texts[200][8];
    for (size_t i = 0; i < 200; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%zu", i % 100);
        labels[i] = (struct text){texts[i], strlen(texts[i])};
    }
    enum error error =
        label_counts_add(&counts, &(struct store_block){.rows = 200, .labels = labels});
    for (size_t i = 0; !error && i < 100; i++)
        assert_int_equal(counts.counts[i].rows, 2);
    label_counts_release(&counts);
    return error;
}

static void test_label_counts(void **state)
{
    (void)state;
    fail_each_allocation(use_label_counts);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_csv, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_packed, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_packed_idx, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_sqlite, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_rows, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_rows_that_differ_in_length, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_cache, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_import, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_label_counts, make_folder, remove_folder),
};

UNIT_MAIN(tests)

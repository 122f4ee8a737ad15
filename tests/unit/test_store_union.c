/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/store/store_union: Several stores as one give what one store with all their rows
 * gives.
 */
#include "tests/unit/store_unit.h"

#include <sys/stat.h>

enum { PARTS = 4 };

/* A row of a kind: u8 or fractions, bad now and then. */
static void add_row(FILE *file, const char *id, const char *label, uint64_t *state, int part)
{
    fprintf(file, "%s%s,%zu,%g\n", id, label, dice_below(state, 256),
            part == 2 ? 0.25 : (double)dice_below(state, 256));
}

/* PARTS files part-0.csv ... and whole.csv with all of their rows. `labels` by part. */
static void write_parts(bool with_ids, const char *const labels[PARTS], bool plain_bytes)
{
    uint64_t state = 7;
    char name[32], id[32], label[32];
    FILE *whole = fopen(path_of("whole.csv"), "w");
    fprintf(whole, "%slabel,a,b\n", with_ids ? "id," : "");
    for (int part = 0, row = 0; part < PARTS; part++) {
        snprintf(name, sizeof(name), "part-%d.csv", part);
        FILE *file = fopen(path_of(name), "w");
        fprintf(file, "%slabel,a,b\n", with_ids ? "id," : "");
        for (int i = 0; i < 50 + 30 * part; i++, row++) {
            uint64_t other = state;
            snprintf(id, sizeof(id), "%d,", row * 7919 % 1000);
            id[with_ids ? strlen(id) : 0] = '\0';
            snprintf(label, sizeof(label), "%s%zu", labels[part], dice_below(&other, 4));
            state = other;
            add_row(file, id, label, &other, plain_bytes ? 0 : part);
            add_row(whole, id, label, &state, plain_bytes ? 0 : part);
            state = other;
        }
        fclose(file);
    }
    fclose(whole);
}

static void check_same(struct store *one, struct store *other)
{
    const struct store_info *a = store_info(one), *b = store_info(other);
    struct rows rows[2];
    assert_true(a->rows == b->rows && a->features == b->features);
    assert_int_equal(a->element, b->element);
    assert_int_equal(a->label_kind, b->label_kind);
    assert_int_equal(a->label_text_count, b->label_text_count);
    for (size_t i = 0; i < a->label_text_count; i++)
        assert_string_equal(a->label_texts[i], b->label_texts[i]);
    rows_scan(&rows[0], one, SCAN_FEATURES);
    rows_scan(&rows[1], other, SCAN_FEATURES);
    for (size_t i = 0; i < rows[0].count; i++) {
        assert_true(rows[0].ids[i] == rows[1].ids[i]);
        assert_string_equal(rows[0].labels[i], rows[1].labels[i]);
        assert_true(rows[0].values[i] == rows[1].values[i]);
    }
    assert_memory_equal(rows[0].features, rows[1].features, rows[0].count * rows[0].row_bytes);
    check_fetch(one, &rows[1], 3);
    rows_release(&rows[0]);
    rows_release(&rows[1]);
}

static void test_parts_are_one_store(void **state)
{
    static const char *const labels[][PARTS] = {{"1", "2", "3", "4"},
                                                {"x", "y", "a", "b"},
                                                {"1", "cat", "2", "dog"},
                                                {"1", "2.", "3", "4"}};
    (void)state;
    for (int with_ids = 0; with_ids < 2; with_ids++) {
        for (size_t l = 0; l < sizeof(labels) / sizeof(labels[0]); l++) {
            for (int plain_bytes = 0; plain_bytes < 2; plain_bytes++) {
                struct store *whole, *parts;
                write_parts(with_ids, labels[l], plain_bytes);
                assert_ok(store_open(uri_of("csv", "whole.csv", ""), false, &whole));
                assert_ok(store_open(uri_of("csv", "part-*.csv", ""), false, &parts));
                check_same(parts, whole);
                store_close(whole);
                store_close(parts);
            }
        }
    }
}

/* Lines, a folder and files of other kinds. */
static void test_ways_to_name_them(void **state)
{
    static const char *const labels[PARTS] = {"1", "2", "1", "3"};
    struct store *whole, *parts, *part;
    char text[4096] = "";
    (void)state;
    write_parts(true, labels, true);
    assert_ok(store_open(uri_of("csv", "whole.csv", ""), false, &whole));
    for (int i = 0; i < PARTS; i++) {
        char name[32], uri[600];
        snprintf(name, sizeof(name), "part-%d.csv", i);
        snprintf(uri, sizeof(uri), "%s\n", uri_of("csv", name, ""));
        strcat(text, uri);
    }
    assert_ok(store_open(text, false, &parts));
    check_same(parts, whole);
    store_close(parts);
    assert_int_equal(mkdir(path_of("folder"), 0777), 0);
    for (int i = 0; i < PARTS; i++) {
        char name[32], to[64];
        snprintf(name, sizeof(name), "part-%d.csv", i);
        snprintf(to, sizeof(to), "folder/part-%d.csv", i);
        assert_int_equal(rename(path_of(name), path_of(to)), 0);
    }
    write_file("folder/_SUCCESS", "");
    write_file("folder/.part-0.csv.crc", "x");
    write_file("folder/.hidden.csv", "x");
    assert_ok(store_open(uri_of("csv", "folder", ""), false, &parts));
    check_same(parts, whole);
    store_close(parts);
    /* One of the files as SQLite, which is by id: a set of rows, then. */
    assert_ok(store_open(uri_of("csv", "folder/part-3.csv", ""), false, &part));
    import_store(part, path_of("three.db"));
    store_close(part);
    snprintf(text, sizeof(text), "%s\n%s", uri_of("csv", "folder/part-[0-2].csv", ""),
             uri_of("sqlite", "three.db", ""));
    assert_ok(store_open(text, false, &parts));
    assert_true(store_info(parts)->rows == store_info(whole)->rows);
    struct rows rows;
    rows_scan(&rows, whole, SCAN_FEATURES);
    check_fetch(parts, &rows, 5);
    rows_release(&rows);
    store_close(parts);
    store_close(whole);
}

static void refuse(const char *first, const char *second, enum error code, const char *says,
                   const char *query)
{
    struct store *store;
    char text[2048];
    write_file("one.csv", first);
    write_file("two.csv", second);
    snprintf(text, sizeof(text), "%s\n\n%s\n", uri_of("csv", "one.csv", query),
             uri_of("csv", "two.csv", query));
    assert_fails(store_open(text, false, &store), code, says);
}

static void refuse_list(const char *first, const char *second, const char *says)
{
    struct store *store = NULL;
    char list[1200];
    snprintf(list, sizeof(list), "%s\n%s", first, second);
    assert_fails(store_open(list, false, &store), ERROR_INPUT, says);
    assert_fails(store_open(list, true, &store), ERROR_INPUT, says);
    assert_null(store);
}

static void test_a_file_that_is_given_twice(void **state)
{
    char path[600], linked[600];
    (void)state;
    write_file("twice.csv", "label,a\n1,2\n");
    snprintf(path, sizeof(path), "%s", path_of("twice.csv"));
    snprintf(linked, sizeof(linked), "%s", path_of("twice-more.csv"));
    assert_int_equal(symlink(path, linked), 0);
    refuse_list(path, path, "twice.csv is given twice");
    refuse_list(path, uri_of("csv", "twice.csv", ""), "twice.csv is given twice");
    refuse_list(path, linked, "are the same file");
    refuse_list(uri_of("csv", "twice*.csv", ""), "", "are the same file");
}

static void test_files_that_do_not_belong_together(void **state)
{
    struct store *store;
    char text[2048];
    (void)state;
    refuse("label,a\n1,2\n", "label,b\n1,2\n", ERROR_INPUT, "two.csv", "");
    refuse("label,a\n1,2\n", "label,b\n1,2\n", ERROR_INPUT, "one.csv", "");
    refuse("label,a\n1,2\n", "label,b\n1,2\n", ERROR_INPUT,
           "the column 2 is \"a\" in the first and \"b\" in the second", "");
    refuse("label,a\n1,2\n", "label,a,b\n1,2,3\n", ERROR_INPUT, "column 3 is none in the first",
           "");
    refuse("1,2\n", "1,2,3\n", ERROR_INPUT, "column 3", "header=no");
    refuse("id,a\n1,2\n5,2\n", "id,a\n7,2\n5,3\n", ERROR_INPUT, "one.csv, line 3 and in ", "");
    refuse("id,a\n1,2\n5,2\n", "id,a\n7,2\n5,3\n", ERROR_INPUT, "two.csv, line 3", "");
    refuse("label,a\ncat,2\n", "label,a\n0.5,2\n", ERROR_INPUT, "labels of one kind", "");
    refuse("label,a\n1,2\n", "label,a\n1\n", ERROR_INPUT, "two.csv, line 2", "");
    write_file("two.csv", "label,a\n1,300\n");
    snprintf(text, sizeof(text), "%s\n%s", uri_of("csv", "one.csv", "element=i32"),
             uri_of("csv", "two.csv", ""));
    assert_fails(store_open(text, false, &store), ERROR_INPUT,
                 "two.csv of 32-bit floats; files that are read as one have 32-bit integers "
                 "(element=i32) in all of them or in none");
    assert_fails(store_open(uri_of("csv", "no-*.csv", ""), false, &store), ERROR_NOT_FOUND,
                 "no file has such a name");
    assert_int_equal(mkdir(path_of("empty"), 0777), 0);
    assert_fails(store_open(uri_of("csv", "empty", ""), false, &store), ERROR_INPUT,
                 "a folder without files");
    assert_fails(store_open("\n\n", false, &store), ERROR_USAGE, "empty lines");
}

/* The two files have the same columns, and their URIs choose differently among them. */
static void refuse_choices(const char *first, const char *second, const char *says)
{
    struct store *store = NULL;
    char list[2048];
    write_file("one.csv", "id,label,a,b\n1,2,3,4\n");
    write_file("two.csv", "id,label,a,b\n5,6,7,8\n");
    snprintf(list, sizeof(list), "%s\n%s", uri_of("csv", "one.csv", first),
             uri_of("csv", "two.csv", second));
    assert_fails(store_open(list, false, &store), ERROR_INPUT, says);
    assert_null(store);
}

static void test_uris_that_choose_other_columns(void **state)
{
    (void)state;
    refuse_choices("label=a", "label=b",
                   "the label column is \"a\" in the first and \"b\" in the second");
    refuse_choices("", "label=", "the label column is \"label\" in the first and none");
    refuse_choices("weight=a&features=b", "features=b", "the weight column is \"a\" in the first");
    refuse_choices("features=b", "group=a&features=b", "the group column is none in the first");
    refuse_choices("", "id=&features=a,b", "the id column is \"id\" in the first and none");
    refuse_choices("features=a", "features=b", "the feature 1 is \"a\" in the first and \"b\"");
    refuse_choices("features=a", "features=a,b", "the feature 2 is none in the first and \"b\"");
    refuse_choices("longest=3", "longest=any", "the same longest=");
}

/* Small ids as the digits of one number, in their order. */
static enum error add_digits(void *context, const struct store_block *block)
{
    int64_t *digits = context;
    for (size_t i = 0; i < block->rows; i++)
        *digits = *digits * 10 + block->ids[i];
    return OK;
}

/* Spark writes its first part even where that has no rows: a header alone, or nothing. */
static void test_files_without_rows_are_passed_over(void **state)
{
    static const char *const none[] = {"", "\n\n", "id,label\n", "\xef\xbb\xbfid,label\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        struct store *store;
        write_file("spark-0.csv", none[i]);
        write_file("spark-1.csv", "id,label\n7,1\n3,0\n");
        write_file("spark-2.csv", none[i]);
        write_file("spark-3.csv", "id,label\n5,1\n");
        write_file("spark-4.csv", none[i]);
        for (int keys_only = 0; keys_only < 2; keys_only++) {
            int64_t digits = 0;
            assert_ok(store_open(uri_of("csv", "spark-*.csv", ""), keys_only, &store));
            assert_ok(store_scan(store, SCAN_KEYS, add_digits, &digits));
            assert_int_equal(digits, 735);
            store_close(store);
        }
        assert_fails(store_open(uri_of("csv", "spark-2.csv", ""), false, &store), ERROR_INPUT,
                     "spark-2.csv");
        assert_fails(store_open(uri_of("csv", "spark-[024].csv", ""), false, &store), ERROR_INPUT,
                     "spark-4.csv");
        write_file("spark-5.csv", "id,label\nx,1\n");
        assert_fails(store_open(uri_of("csv", "spark-*.csv", ""), false, &store), ERROR_INPUT,
                     "spark-5.csv, line 2");
        unlink(path_of("spark-5.csv"));
    }
}

static void test_more_rows_than_can_be_counted(void **state)
{
    struct store *store = NULL;
    char list[200] = "";
    (void)state;
    for (int i = 0; i < 4; i++)
        strcat(list, "range:2305843009213693952\n");
    assert_fails(store_open(list, true, &store), ERROR_INPUT,
                 "the stores have more than 9223372036854775807 rows");
}

/* A row file knows its features also then, a CSV file does not. */
static void test_kinds_of_store_opened_for_keys(void **state)
{
    struct store *store;
    char list[2048];
    int64_t digits = 0;
    (void)state;
    write_file("one.csv", "id,label,a,b\n1,2,3,4\n");
    write_file("two.csv", "id,label,a,b\n5,6,7,8\n");
    assert_ok(store_open(uri_of("csv", "one.csv", ""), false, &store));
    import_rows(store, path_of("one.rows"));
    store_close(store);
    snprintf(list, sizeof(list), "%s\n%s", uri_of("rows", "one.rows", ""),
             uri_of("csv", "two.csv", ""));
    assert_ok(store_open(list, true, &store));
    assert_ok(store_scan(store, SCAN_KEYS, add_digits, &digits));
    assert_int_equal(digits, 15);
    store_close(store);
}

/* IDX of two bytes a row, as `height` x `width`. */
static const char *write_idx(const char *name, char height, char width)
{
    const char bytes[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, height, 0, 0, 0, width, 1, 2};
    write_bytes(name, bytes, sizeof(bytes));
    return uri_of("idx", name, "");
}

static void test_shapes_are_kept_where_they_are_alike(void **state)
{
    struct store *store;
    char list[2048];
    (void)state;
    for (char height = 1; height <= 2; height++) {
        snprintf(list, sizeof(list), "%s\n%s", write_idx("one.idx", 1, 2),
                 write_idx("two.idx", height, (char)(3 - height)));
        assert_ok(store_open(list, false, &store));
        assert_int_equal(store_info(store)->features, 2);
        assert_true((store_info(store)->shape != NULL) == (height == 1));
        store_close(store);
    }
}

/* The mean of each file fills its missing values. */
static void import_filled(const char *name, const char *text)
{
    struct store *store;
    assert_ok(open_csv(text, "missing=mean", &store));
    import_rows(store, path_of(name));
    store_close(store);
}

static void test_files_imported_with_different_recipes(void **state)
{
    static const char *const seconds[] = {"id,a\n3,4\n4,\n", "id,a\n3,0.5\n4,\n"};
    struct store *store = NULL;
    char list[2048];
    (void)state;
    import_filled("one.rows", "id,a\n1,0.5\n2,\n");
    snprintf(list, sizeof(list), "%s\n%s", uri_of("rows", "one.rows", ""),
             uri_of("rows", "two.rows", ""));
    import_filled("two.rows", seconds[0]);
    assert_fails(store_open(list, false, &store), ERROR_INPUT,
                 "two.rows were imported apart, and their missing= or onehot= encode");
    import_filled("two.rows", seconds[1]);
    assert_ok(store_open(list, false, &store));
    store_close(store);
}

/* Without gaps, a file may have been imported as it is. */
static void test_a_recipe_of_some_files_only(void **state)
{
    struct store *store = NULL;
    char list[3072];
    (void)state;
    assert_ok(open_csv("id,a\n9,0.5\n", "", &store));
    import_rows(store, path_of("none.rows"));
    store_close(store);
    import_filled("one.rows", "id,a\n1,0.5\n2,\n");
    import_filled("two.rows", "id,a\n3,4\n4,\n");
    size_t length = (size_t)snprintf(list, sizeof(list), "%s\n%s", uri_of("rows", "none.rows", ""),
                                     uri_of("rows", "one.rows", ""));
    assert_ok(store_open(list, false, &store));
    assert_non_null(store_info(store)->recipe);
    store_close(store);
    snprintf(list + length, sizeof(list) - length, "\n%s", uri_of("rows", "two.rows", ""));
    assert_fails(store_open(list, false, &store), ERROR_INPUT, "one.rows and rows:");
}

static void test_bad_and_missing_rows_are_named(void **state)
{
    struct store *store;
    struct reader *reader;
    int64_t ids[] = {0, 3, 1, 9, 2};
    enum row_status status[5];
    uint8_t features[5];
    (void)state;
    write_file("x-0.csv", "label,a\n1,2\n2,x\n");
    write_file("x-1.csv", "label,a\n3,\n4,9\n");
    assert_ok(store_open(uri_of("csv", "x-[01].csv", ""), false, &store));
    assert_int_equal(store_info(store)->bad_rows, 2);
    assert_non_null(strstr(store_info(store)->first_bad_row, "x-0.csv, line 3"));
    assert_ok(reader_open(store, &reader));
    assert_ok(reader_fetch(reader, ids, 5, features, 1, NULL, status));
    assert_int_equal(status[0], ROW_OK);
    assert_int_equal(status[1], ROW_OK);
    assert_int_equal(status[2], ROW_BAD);
    assert_int_equal(status[3], ROW_MISSING);
    assert_int_equal(status[4], ROW_BAD);
    assert_memory_equal(features, "\x02\x09\0\0\0", 5);
    assert_non_null(strstr(error_message(), "x-0.csv, line 3"));
    assert_ok(reader_fetch(reader, ids + 3, 2, features, 1, NULL, status));
    assert_non_null(strstr(error_message(), "no row has the id 9"));
    reader_close(reader);
    struct rows rows;
    rows_scan(&rows, store, SCAN_FEATURES | SCAN_BAD_ROWS);
    check_fetch(store, &rows, 1);
    rows_release(&rows);
    store_close(store);
}

static void test_a_file_called_like_a_pattern_is_itself(void **state)
{
    struct store *store;
    (void)state;
    write_file("a[1].csv", "label,a\n1,2\n");
    write_file("a1.csv", "label,a\n1,2\n1,3\n");
    assert_ok(store_open(uri_of("csv", "a[1].csv", ""), false, &store));
    assert_int_equal(store_info(store)->rows, 1);
    store_close(store);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_parts_are_one_store, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_ways_to_name_them, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_that_is_given_twice, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_files_that_do_not_belong_together, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_uris_that_choose_other_columns, make_folder,
                                    remove_folder),
    cmocka_unit_test(test_more_rows_than_can_be_counted),
    cmocka_unit_test_setup_teardown(test_kinds_of_store_opened_for_keys, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_shapes_are_kept_where_they_are_alike, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_files_imported_with_different_recipes, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_recipe_of_some_files_only, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_files_without_rows_are_passed_over, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_bad_and_missing_rows_are_named, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_called_like_a_pattern_is_itself, make_folder,
                                    remove_folder),
};

UNIT_MAIN(tests)

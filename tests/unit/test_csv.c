/* SPDX-License-Identifier: MIT */
/* Covers loader/csv/store_csv. */
#include "tests/unit/packed_unit.h"
#include "tests/unit/store_unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* pread of the library under test: fails as often as a test says. */
static int failures_left;
static int failure_errno;
static const char *changes_at_read; /* a file that is written to by the next read; NULL: none */
static const struct timespec another_time[2]; /* "now" may be that of the write before */

ssize_t pread(int descriptor, void *out, size_t bytes, off_t offset);
ssize_t pread(int descriptor, void *out, size_t bytes, off_t offset)
{
    if (failures_left > 0) {
        failures_left--;
        errno = failure_errno;
        return -1;
    }
    if (changes_at_read && utimensat(AT_FDCWD, changes_at_read, another_time, 0) == 0)
        changes_at_read = NULL;
    return syscall(SYS_pread64, descriptor, out, bytes, offset);
}

/* ---- what is there ------------------------------------------------------ */

/* One line per row: "id:label:f0,f1". */
static void describe_rows(struct store *store, char *out, size_t bytes)
{
    struct rows rows;
    size_t length = 0;
    out[0] = '\0';
    rows_scan(&rows, store, SCAN_FEATURES);
    for (size_t i = 0; i < rows.count; i++) {
        length += (size_t)snprintf(out + length, bytes - length, "%lld:%s:", (long long)rows.ids[i],
                                   rows.labels[i]);
        for (size_t k = 0; k < store_info(store)->features; k++)
            length += (size_t)snprintf(out + length, bytes - length, "%s%g", k ? "," : "",
                                       feature_of(&rows, store_info(store), i, k));
        length += (size_t)snprintf(out + length, bytes - length, "\n");
    }
    check_fetch(store, &rows, 5);
    rows_release(&rows);
}

static void check_rows(const char *text, const char *query, const char *expected)
{
    struct store *store = NULL;
    char rows[4096];
    assert_ok(open_csv(text, query, &store));
    describe_rows(store, rows, sizeof(rows));
    assert_string_equal(rows, expected);
    store_close(store);
}

static void test_forms_of_the_same_file(void **state)
{
    static const char expected[] = "0:3:1,2\n1:5:0,255\n";
    (void)state;
    check_rows("label,a,b\n3,1,2\n5,0,255\n", "", expected);
    check_rows("label,a,b\n3,1,2\n5,0,255", "", expected);
    check_rows("label,a,b\r\n3,1,2\r\n5,0,255\r\n", "", expected);
    check_rows("\xef\xbb\xbflabel,a,b\n3,1,2\n5,0,255\n", "", expected);
    check_rows("\n\n  \nlabel,a,b\n\n3,1,2\r\n \t\r\n5,0,255\n\n\n", "", expected);
    check_rows("\"label\",\"a\",b\n\"3\", 1 ,\"2\"\n5,0,\"255\"", "", expected);
    check_rows("3,1,2\n5,0,255\n", "header=no&label=0", expected);
    check_rows("1,2,3\n0,255,5\n", "header=no&label=2", expected);
    check_rows("1,3,2\n0,5,255", "header=no&label=1", expected);
    check_rows("label;a;b\n3;1;2\n5;0;255\n", "delimiter=%3B", expected);
    check_rows("label\ta\tb\n3\t1\t2\n5\t0\t255\n", "delimiter=tab", expected);
}

static void test_columns_are_chosen_by_name(void **state)
{
    (void)state;
    check_rows("id,label,a\n7,x,1\n3,y,2\n", "", "7:x:1\n3:y:2\n");
    check_rows("id,label,a\n7,x,1\n3,y,2\n", "features=a", "7:x:1\n3:y:2\n");
    check_rows("key,kind,a,b\n7,x,1,5\n3,y,2,6\n", "id=key&label=kind&features=b",
               "7:x:5\n3:y:6\n");
    check_rows("label,a,b,c\n1,2,3,4\n", "features=c,a", "0:1:2,4\n"); /* in the file's order */
    check_rows("label,a\n1,2\n", "label=", "0::1,2\n");
    check_rows("id,a\n5,2\n", "id=", "0::5,2\n");
    check_rows("1,2\n3,4\n", "header=no", "0::1,2\n1::3,4\n");
    check_rows("0,1\n1,2\n", "header=yes", "0::1,2\n");
    check_rows("id,label\n1,a\n2,b\n", "", "1:a:\n2:b:\n");
}

static void refuse_names(const char *text, const char *query, const char *says)
{
    struct store *store = NULL;
    assert_fails(open_csv(text, query, &store), ERROR_USAGE, says);
    assert_null(store);
}

static void test_upper_and_lower_case(void **state)
{
    (void)state;
    check_rows("ID,Label,X\n7,x,1\n3,y,2\n", "", "7:x:1\n3:y:2\n");
    check_rows("KEY,Kind,A,B\n7,x,1,5\n", "id=key&label=KIND&features=b", "7:x:5\n");
    check_rows("Label,label,LABEL\n5,x,1\n", "", "0:x:5,1\n"); /* exactly, where there is one */
    check_rows("a,A,aa\n2,x,3\n", "label=A", "0:x:2,3\n");
    check_rows("Label,LABEL,a\n1,2,3\n", "label=", "0::1,2,3\n");
    check_rows("Id,ID,a\n1,2,3\n", "id=", "0::1,2,3\n");
    check_rows("\xc3\x84,label\n1,2\n", "features=\xc3\x84", "0:2:1\n");
    refuse_names("Label,LABEL,a\n1,2,3\n", "", "\"Label\" and \"LABEL\"");
    refuse_names("Label,LABEL,a\n1,2,3\n", "label=label", "label=NAME says which");
    refuse_names("Id,ID,a\n1,2,3\n", "", "id=NAME says which");
    refuse_names("a,b,B\n1,2,3\n", "weight=A&group=a", "both name the column \"a\"");
    refuse_names("\xc3\x84,label\n1,2\n", "features=\xc3\xa4", "names no column");
    refuse_names("label,ab\n1,2\n", "features=A", "names no column");
}

static void test_quoted_fields_may_hold_anything(void **state)
{
    (void)state;
    check_rows("label,a\n\"two\nlines\",1\n\"a,b \"\"c\"\"\",2\nplain,3\n", "",
               "0:two\nlines:1\n1:a,b \"c\":2\n2:plain:3\n");
}

static void test_elements(void **state)
{
    struct store *store = NULL;
    (void)state;
    assert_ok(open_csv("label,a\n1,255\n1,5.0\n1,1e2\n1,-0\n", "", &store));
    assert_int_equal(store_info(store)->element, ELEMENT_U8);
    store_close(store);
    static const char *const floats[] = {"label,a\n1,256\n", "label,a\n1,0\n2,0.5\n",
                                         "label,a\n1,-1\n"};
    for (size_t i = 0; i < 3; i++) {
        assert_ok(open_csv(floats[i], "", &store));
        assert_int_equal(store_info(store)->element, ELEMENT_F32);
        store_close(store);
    }
    check_rows("label,a,b\n1,0.1,-3\n2,7,1e-3\n", "", "0:1:0.1,-3\n1:2:7,0.001\n");
}

static void check_kind(const char *labels, enum label_kind kind)
{
    char text[512] = "label,a\n";
    struct store *store = NULL;
    for (; *labels; labels++) {
        size_t length = strcspn(labels, " ");
        strncat(text, labels, length);
        strcat(text, ",1\n");
        labels += length - (labels[length] == '\0');
    }
    assert_ok(open_csv(text, "", &store));
    assert_int_equal(store_info(store)->label_kind, kind);
    store_close(store);
}

static void test_label_kinds(void **state)
{
    (void)state;
    check_kind("1 2 -3 0", LABEL_INTEGER);
    check_kind("9007199254740992", LABEL_INTEGER);
    check_kind("9007199254740993", LABEL_TEXT);
    check_kind("1 2.5", LABEL_REAL);
    check_kind("007 1", LABEL_TEXT);
    check_kind("1 12345 01234", LABEL_TEXT);
    check_kind("+7 1", LABEL_REAL);
    check_kind("1 x", LABEL_TEXT);
    check_kind("1.5 9007199254740993", LABEL_TEXT);
}

static void test_label_texts_are_sorted_and_numbered(void **state)
{
    struct store *store = NULL;
    struct rows rows;
    (void)state;
    assert_ok(open_csv("label,a\nzebra,1\napple,2\nzebra,3\nz,4\n10,5\n", "", &store));
    const struct store_info *info = store_info(store);
    assert_int_equal(info->label_text_count, 4);
    assert_string_equal(info->label_texts[0], "10");
    assert_string_equal(info->label_texts[1], "apple");
    assert_string_equal(info->label_texts[2], "z");
    assert_string_equal(info->label_texts[3], "zebra");
    rows_scan(&rows, store, SCAN_FEATURES);
    assert_true(rows.values[0] == 3 && rows.values[1] == 1 && rows.values[4] == 0);
    rows_release(&rows);
    store_close(store);
}

static void test_weights_and_groups(void **state)
{
    struct store *store = NULL;
    struct rows rows;
    (void)state;
    assert_ok(open_csv("label,w,g,a\n1,0.5,u,7\n2,3,v,8\n", "weight=w&group=g", &store));
    assert_string_equal(store_info(store)->weight_column, "w");
    assert_int_equal(store_info(store)->features, 1);
    rows_scan(&rows, store, SCAN_KEYS);
    assert_true(rows.weights[0] == 0.5 && rows.weights[1] == 3);
    assert_string_equal(rows.groups[1], "v");
    rows_release(&rows);
    store_close(store);
    refuse_csv("label,w,a\n1,-1,7\n", "weight=w", ERROR_INPUT, "line 2: column \"w\" is \"-1\"");
    refuse_csv("label,w,a\n1,,7\n", "weight=w", ERROR_INPUT, "column \"w\" is empty");
    refuse_csv("label,g,a\n1,,7\n", "group=g", ERROR_INPUT, "column \"g\" is empty");
}

/* ---- what is refused ---------------------------------------------------- */

static void test_files_that_are_no_rows(void **state)
{
    struct store *store = NULL;
    (void)state;
    refuse_csv("", "", ERROR_INPUT, "is empty");
    refuse_csv("\n \n\n", "", ERROR_INPUT, "blank lines");
    refuse_csv("label,a\n", "", ERROR_INPUT, "a header and no rows");
    refuse_csv("label,a", "", ERROR_INPUT, "a header and no rows");
    refuse_csv("label,a\n\n \n", "", ERROR_INPUT, "a header and no rows");
    refuse_csv("\xef\xbb\xbf", "", ERROR_INPUT, "blank lines");
    refuse_csv("\x1f\x8bxxxx", "", ERROR_INPUT, "the gzip data is damaged");
    refuse_csv("\x28\xb5\x2f\xfd", "", ERROR_INPUT, "the middle of its zstd data");
    refuse_csv("PK\x03\x04", "", ERROR_INPUT, "unpack it first (unzip)");
    refuse_csv("\xff\xfel", "", ERROR_INPUT, "UTF-16");
    refuse_csv("\xfe\xffl", "", ERROR_INPUT, "UTF-16");
    refuse_csv("SQLite format 3", "", ERROR_INPUT, "is an SQLite file, not CSV");
    assert_fails(store_open(uri_of("csv", "absent.csv", ""), false, &store), ERROR_NOT_FOUND,
                 "absent.csv");
    assert_int_equal(mkdir(path_of("empty"), 0777), 0);
    assert_fails(store_open(uri_of("csv", "empty", ""), false, &store), ERROR_INPUT, "folder");
}

static void test_lines_are_counted_as_editors_do(void **state)
{
    (void)state;
    refuse_csv("label,a\n1,2\n3\n", "", ERROR_INPUT,
               "rows.csv, line 3: the row has 1 field, the "
               "header has 2");
    refuse_csv("label,a\n\n\"x\ny\",2\n3,4,5\n", "", ERROR_INPUT, "line 5: the row has 3 fields");
    refuse_csv("\n\nlabel,a\n\n\n3\n", "", ERROR_INPUT, "line 6: the row has 1 field");
    refuse_csv("1,2\r\n\r\n3\r\n", "header=no", ERROR_INPUT,
               "line 3: the row has 1 field, the "
               "first row has 2");
    refuse_csv("label,a\n1,\"2\n3,4\n", "", ERROR_INPUT,
               "line 2: the quotes of field 2 are never "
               "closed");
    refuse_csv("label,a\n1,2\"\n3,4\n", "", ERROR_INPUT, "line 2: field 2 has a quote");
    refuse_csv("label,a\r1,2\r3,4\r", "", ERROR_INPUT, "line 1: a carriage return");
    refuse_csv("label,a\n,2\n", "", ERROR_INPUT, "line 2: column \"label\" is empty");
    refuse_csv("label,a\n\xc3\x28,2\n", "", ERROR_INPUT, "line 2: column \"label\"");
}

static void test_headers(void **state)
{
    (void)state;
    refuse_csv("label,a,a\n1,2,3\n", "", ERROR_INPUT, "names the column \"a\" twice");
    refuse_csv(",label,0\n1,2,3\n", "", ERROR_INPUT,
               "column 0 (counted from 0) has no name in the header, and its number is the name of "
               "another column");
    refuse_csv("5,,0\n1,2,3\n", "", ERROR_INPUT, "nothing but numbers");
    refuse_csv("label\ta\n1\t2\n", "", ERROR_INPUT, "tabs and no commas: say delimiter=tab");
    refuse_csv("\n1;2\n", "header=no&label=1", ERROR_INPUT,
               "line 2: the line holds semicolons and no commas: say delimiter=; in the URI "
               "('csv:PATH?delimiter=;'), or delimiter=, if it is a single column");
    refuse_csv("label\ta\n1\t2\n", "delimiter=;&label=label", ERROR_USAGE, "is it delimiter=tab?");
    refuse_csv("label;a\n1;2\n", "delimiter=,&label=label", ERROR_USAGE,
               "there is \"label;a\"; the first line holds semicolons: is it delimiter=;?");
    refuse_csv("1;2\n", "header=no&label=1&delimiter=,", ERROR_USAGE, "is it delimiter=;?");
    check_rows("a;b\n1\n2\n", "delimiter=,", "0::1\n1::2\n"); /* as it was told */
    refuse_csv("label,a\n1,2\n", "delimiter=tab&label=label", ERROR_USAGE, "is it delimiter=,?");
    refuse_csv("label;a,b\n1,2\n", "label=label", ERROR_USAGE, "\"label;a\", \"b\"");
    refuse_csv("label,\xff\n1,2\n", "", ERROR_INPUT, "is not UTF-8");
    refuse_csv("5,0,0\n1,2,3\n", "", ERROR_INPUT, "header=no");
    refuse_csv("5,1,2\n1,2,3\n", "", ERROR_INPUT, "nothing but numbers");
    refuse_csv("label,a\n1,2\n", "label=kind", ERROR_USAGE,
               "label=\"kind\" names no column; there are \"label\", \"a\"");
    refuse_csv("label,a\n1,2\n", "features=a,b", ERROR_USAGE, "features=\"b\" names no column");
    refuse_csv("label,a\n1,2\n", "id=a&label=a", ERROR_USAGE, "both name the column \"a\"");
    refuse_csv("1,2\n", "header=no&label=2", ERROR_USAGE, "numbered from 0");
    refuse_csv("1,2\n", "header=no&label=label", ERROR_USAGE, "numbered from 0");
    refuse_csv("1,2\n", "header=perhaps", ERROR_USAGE, "header is \"perhaps\"");
    refuse_csv("1,2\n", "headers=no", ERROR_USAGE, "did you mean header?");
    refuse_csv("1,2\n", "delimiter=x", ERROR_USAGE, "delimiter is \"x\"");
}

static void test_ids(void **state)
{
    (void)state;
    refuse_csv("id,a\n5,1\n7,2\n5,3\n", "", ERROR_INPUT, "lines 2 and 4 both have the id 5");
    refuse_csv("id,a\n5,1\n\n5,3\n", "", ERROR_INPUT, "lines 2 and 4 both have the id 5");
    refuse_csv("id,a\n-5,1\n", "", ERROR_INPUT, "line 2: column \"id\" is \"-5\"");
    refuse_csv("id,a\n9223372036854775808,1\n", "", ERROR_INPUT,
               "an id from 0 to 9223372036854775807");
    refuse_csv("id,a\nx,1\n", "", ERROR_INPUT, "line 2: column \"id\" is \"x\"");
    check_rows("id,a\n9223372036854775807,1\n0,2\n", "", "9223372036854775807::1\n0::2\n");
}

static enum error count_rows(void *context, const struct store_block *block)
{
    *(size_t *)context += block->rows;
    return OK;
}

static void test_keys_only(void **state)
{
    struct store *store = NULL;
    size_t rows = 0;
    (void)state;
    write_file("keys.csv", "id,label,a\n5,x,not a number\n7,y,\n");
    assert_ok(store_open(uri_of("csv", "keys.csv", ""), true, &store));
    assert_ok(store_scan(store, SCAN_KEYS, count_rows, &rows));
    assert_int_equal(rows, 2);
    store_close(store);
    write_file("keys.csv", "id,label\n");
    assert_ok(store_open(uri_of("csv", "keys.csv", ""), true, &store));
    assert_fails(store_scan(store, SCAN_KEYS, count_rows, &rows), ERROR_INPUT, "no rows");
    assert_fails(store_scan(store, SCAN_CODES, count_rows, &rows), ERROR_INPUT, "no rows");
    store_close(store);
    write_file("keys.csv", "id,label\n5,x\n\n7,y\n5,z\n");
    assert_ok(store_open(uri_of("csv", "keys.csv", ""), true, &store));
    assert_fails(store_scan(store, SCAN_KEYS, count_rows, &rows), ERROR_INPUT,
                 "lines 2 and 5 both have the id 5");
    store_close(store);
    write_file("keys.csv", "id,label\n5,x\n7\n");
    assert_ok(store_open(uri_of("csv", "keys.csv", ""), true, &store));
    assert_fails(store_scan(store, SCAN_KEYS, count_rows, &rows), ERROR_INPUT, "line 3");
    store_close(store);
}

/* ---- bad rows ----------------------------------------------------------- */

static void test_bad_rows_are_known_and_named(void **state)
{
    static const char text[] = "label,a,b\n1,2,3\n2,x,4\n3,5,6\n4,7,\n";
    struct store *store = NULL;
    struct reader *reader = NULL;
    int64_t ids[] = {3, 0, 1, 9, 2};
    enum row_status status[5];
    uint8_t features[10];
    double labels[5];
    size_t rows = 0;
    (void)state;
    assert_ok(open_csv(text, "", &store));
    assert_int_equal(store_info(store)->bad_rows, 2);
    assert_non_null(strstr(store_info(store)->first_bad_row, "line 3: column \"a\" is \"x\""));
    assert_fails(store_scan(store, SCAN_FEATURES, count_rows, &rows), ERROR_INPUT,
                 "line 3: column \"a\" is \"x\"");
    assert_ok(reader_open(store, &reader));
    memset(features, 9, sizeof(features));
    assert_ok(reader_fetch(reader, ids, 5, features, 2, labels, status));
    assert_int_equal(status[0], ROW_BAD);
    assert_int_equal(status[1], ROW_OK);
    assert_int_equal(status[2], ROW_BAD);
    assert_int_equal(status[3], ROW_MISSING);
    assert_int_equal(status[4], ROW_OK);
    assert_memory_equal(features, "\0\0\x02\x03\0\0\0\0\x05\x06", 10);
    assert_true(labels[0] == 0 && labels[1] == 1 && labels[3] == 0 && labels[4] == 3);
    assert_non_null(strstr(error_message(), "line 5 (id 3): column \"b\" is empty"));
    assert_ok(reader_fetch(reader, ids + 3, 1, features, 2, NULL, status));
    assert_non_null(strstr(error_message(), "no row with the id 9"));
    reader_close(reader);
    struct rows all;
    rows_scan(&all, store, SCAN_FEATURES | SCAN_BAD_ROWS);
    assert_int_equal(all.status[0], ROW_OK);
    assert_int_equal(all.status[1], ROW_BAD);
    assert_int_equal(all.status[3], ROW_BAD);
    check_fetch(store, &all, 6);
    rows_release(&all);
    store_close(store);
}

/* ---- many blocks, several threads --------------------------------------- */

/* A file of many MiB, with blank lines and quotes now and then; row i: label i mod 7. */
static size_t write_large(const char *name, size_t rows, bool quotes)
{
    char path[512];
    snprintf(path, sizeof(path), "%s", path_of(name));
    FILE *file = fopen(path, "w");
    size_t line = 1;
    fprintf(file, "id,label");
    for (int k = 0; k < 30; k++)
        fprintf(file, ",f%d", k);
    fprintf(file, "\n");
    for (size_t i = 0; i < rows; i++) {
        line++;
        fprintf(file, quotes && i % 1000 == 0 ? "%zu,\"l\n%zu\"" : "%zu,l%zu", (i * 7919) % rows,
                i % 7);
        for (size_t k = 0; k < 30; k++)
            fprintf(file, ",%zu", (i + k) % 256);
        fprintf(file, "\n");
        if (i % 5000 == 17)
            fprintf(file, "\r\n");
    }
    fclose(file);
    return line;
}

static void check_large(bool quotes)
{
    enum { ROWS = 100000 };
    struct store *store = NULL;
    struct rows rows;
    write_large("large.csv", ROWS, quotes);
    assert_ok(store_open(uri_of("csv", "large.csv", ""), false, &store));
    const struct store_info *info = store_info(store);
    assert_int_equal(info->rows, ROWS);
    assert_int_equal(info->features, 30);
    assert_int_equal(info->element, ELEMENT_U8);
    assert_int_equal(info->label_kind, LABEL_TEXT);
    assert_int_equal(info->label_text_count, quotes ? 14 : 7);
    rows_scan(&rows, store, SCAN_FEATURES);
    for (size_t i = 0; i < ROWS; i++) {
        assert_int_equal(rows.ids[i], (i * 7919) % ROWS);
        assert_int_equal(rows.features[i * 30 + 29], (i + 29) % 256);
    }
    check_fetch(store, &rows, 7);
    rows_release(&rows);
    store_close(store);
}

static void test_large_files(void **state)
{
    (void)state;
    check_large(false);
    check_large(true);
}

static void test_the_first_error_in_the_file_is_told(void **state)
{
    struct store *store = NULL;
    (void)state;
    write_large("large.csv", 100000, false);
    for (int round = 0; round < 3; round++) {
        FILE *file = fopen(path_of("large.csv"), "r+");
        fseek(file, 5000000, SEEK_SET);
        fputs("\n,\n", file);
        fseek(file, 9000000, SEEK_SET);
        fputs("\n,\n", file);
        fclose(file);
        assert_fails(store_open(uri_of("csv", "large.csv", ""), false, &store), ERROR_INPUT,
                     "large.csv, line ");
        long long line = atoll(strstr(error_message(), "line ") + 5);
        char command[1024];
        snprintf(command, sizeof(command), "head -c 5000000 '%s' | wc -l", path_of("large.csv"));
        FILE *count = popen(command, "r");
        long long lines = 0;
        assert_int_equal(fscanf(count, "%lld", &lines), 1);
        pclose(count);
        assert_int_equal(line, lines + 1);
    }
}

static enum error stop_after(void *context, const struct store_block *block)
{
    size_t *left = context;
    (void)block;
    if (*left == 0)
        return error_set(ERROR_END, "enough");
    --*left;
    return OK;
}

static void test_a_scan_ends_when_its_sink_says_so(void **state)
{
    struct store *store = NULL;
    (void)state;
    write_large("large.csv", 100000, false);
    assert_ok(store_open(uri_of("csv", "large.csv", ""), false, &store));
    for (size_t blocks = 0; blocks < 4; blocks++) {
        size_t left = blocks;
        assert_int_equal(store_scan(store, SCAN_FEATURES, stop_after, &left), ERROR_END);
        assert_int_equal(left, 0);
    }
    store_close(store);
}

static void test_long_rows(void **state)
{
    enum { FIELDS = 900000 };
    struct store *store = NULL;
    char *text = malloc((size_t)FIELDS * 8 + 100);
    size_t length = 0;
    (void)state;
    for (int row = 0; row < 2; row++) {
        for (int i = 0; i < FIELDS; i++)
            length += (size_t)sprintf(text + length, "%s%d", i ? "," : "", (i + row) % 200);
        text[length++] = '\n';
    }
    write_bytes("wide.csv", text, length);
    assert_ok(store_open(uri_of("csv", "wide.csv", "header=no&label=0"), false, &store));
    assert_int_equal(store_info(store)->rows, 2);
    assert_int_equal(store_info(store)->features, FIELDS - 1);
    store_close(store);
    free(text);
}

/* More of them than are read at once, before the header and after it. */
static void test_many_blank_lines(void **state)
{
    enum { BLANK = 3 << 20 };
    static const char *const texts[] = {"label,a\n", "1,2\n", "3,4\n"};
    static const char *const queries[] = {"", "header=no&label=0"};
    char rows[256], *text = malloc(4 * (size_t)BLANK);
    (void)state;
    for (size_t header = 0; header < 2; header++) {
        struct store *store = NULL;
        size_t length = 0;
        for (size_t i = header; i < 3; i++) {
            memset(text + length, '\n', BLANK);
            length += BLANK;
            length += (size_t)sprintf(text + length, "%s", texts[i]);
        }
        write_bytes("blank.csv", text, length);
        assert_ok(store_open(uri_of("csv", "blank.csv", queries[header]), false, &store));
        describe_rows(store, rows, sizeof(rows));
        assert_string_equal(rows, "0:1:2\n1:3:4\n");
        store_close(store);
    }
    memset(text, '\n', BLANK);
    write_bytes("blank.csv", text, BLANK);
    struct store *none = NULL;
    assert_fails(store_open(uri_of("csv", "blank.csv", ""), false, &none), ERROR_INPUT,
                 "blank lines");
    free(text);
}

/* ---- a file that does not stay what it was ------------------------------ */

static void test_a_file_that_changed_is_refused(void **state)
{
    struct store *store = NULL;
    struct reader *reader = NULL;
    int64_t ids[] = {0, 1};
    uint8_t features[4];
    double labels[2];
    enum row_status status[2];
    size_t rows = 0;
    (void)state;
    write_file("change.csv", "label,a,b\n1,2,3\n4,5,6\n");
    assert_ok(store_open(uri_of("csv", "change.csv", ""), false, &store));
    assert_ok(reader_open(store, &reader));
    assert_ok(reader_fetch(reader, ids, 2, features, 2, labels, status));
    int descriptor = open(path_of("change.csv"), O_WRONLY | O_APPEND);
    assert_int_equal(write(descriptor, "7,8,9\n", 6), 6);
    close(descriptor);
    assert_fails(reader_fetch(reader, ids, 2, features, 2, labels, status), ERROR_INPUT,
                 "change.csv has changed since it was opened: it had 22 bytes, now it has 28");
    assert_fails(store_scan(store, SCAN_KEYS, count_rows, &rows), ERROR_INPUT, "has changed");
    reader_close(reader);
    assert_fails(reader_open(store, &reader), ERROR_INPUT, "has changed");
    store_close(store);
}

/* A row may be of before and of after the change, half and half. */
static void test_a_file_that_changes_during_a_fetch_is_refused(void **state)
{
    struct store *store = NULL;
    struct reader *reader = NULL;
    char path[512];
    (void)state;
    write_file("x.csv", "label,a\n1,2\n3,4\n");
    snprintf(path, sizeof(path), "%s", path_of("x.csv"));
    assert_ok(store_open(uri_of("csv", "x.csv", ""), false, &store));
    assert_ok(reader_open(store, &reader));
    changes_at_read = path;
    refuse_fetch(reader, 1, "was written to since it was opened");
    assert_null(changes_at_read);
    reader_close(reader);
    store_close(store);
}

static void test_a_file_that_was_replaced_is_refused(void **state)
{
    struct store *store = NULL;
    struct reader *reader = NULL;
    (void)state;
    write_file("change.csv", "label,a,b\n1,2,3\n4,5,6\n");
    assert_ok(store_open(uri_of("csv", "change.csv", ""), false, &store));
    write_file("change.csv", "label,a,b\n1,2,3\n4,5,7\n");
    assert_fails(reader_open(store, &reader), ERROR_INPUT, "was replaced by another file");
    store_close(store);
}

static void test_reads_that_fail_are_tried_again(void **state)
{
    struct store *store = NULL;
    struct reader *reader = NULL;
    int64_t ids[] = {1, 0};
    uint8_t features[4];
    double labels[2];
    enum row_status status[2];
    static const int reasons[] = {EIO, ESTALE, ETIMEDOUT};
    (void)state;
    write_file("rows.csv", "label,a,b\n1,2,3\n4,5,6\n");
    assert_ok(store_open(uri_of("csv", "rows.csv", ""), false, &store));
    assert_ok(reader_open(store, &reader));
    for (int i = 0; i < 3; i++) {
        failure_errno = reasons[i];
        failures_left = 2;
        assert_ok(reader_fetch(reader, ids, 2, features, 2, labels, status));
        assert_memory_equal(features, "\x05\x06\x02\x03", 4);
    }
    failure_errno = EACCES;
    failures_left = 1;
    assert_fails(reader_fetch(reader, ids, 2, features, 2, labels, status), ERROR_IO,
                 "id 0: cannot read");
    failures_left = 0;
    reader_close(reader);
    store_close(store);
}

static void pack_large(size_t rows)
{
    struct packed_bytes packed = {.data = NULL};
    struct buffer text = BUFFER_INIT(100 << 20);
    write_large("large.csv", rows, false);
    assert_ok(file_read_whole(path_of("large.csv"), &text));
    add_gzip_member(&packed, text.data, text.length, 1, 0);
    write_bytes("large.csv.gz", packed.data, packed.length);
    buffer_release(&text);
    free(packed.data);
}

/* Whichever thread unpacks, and whatever was found before. */
static void test_unpacking_is_tried_again(void **state)
{
    enum { ROWS = 300000 };
    struct store *store = NULL;
    (void)state;
    pack_large(ROWS);
    failure_errno = EIO;
    failures_left = 2;
    assert_ok(store_open(uri_of("csv", "large.csv.gz", ""), true, &store));
    assert_int_equal(failures_left, 0);
    for (int i = 0; i < 8; i++) {
        size_t rows = 0;
        failure_errno = i % 2 ? EACCES : ESTALE;
        failures_left = 1;
        enum error error = store_scan(store, SCAN_KEYS, count_rows, &rows);
        failures_left = 0;
        if (error)
            assert_int_equal(error, ERROR_IO);
        else
            assert_int_equal(rows, ROWS);
    }
    store_close(store);
}

static void test_a_replaced_file_is_not_read_after_a_failure(void **state)
{
    struct store *store = NULL;
    struct reader *reader = NULL;
    int64_t ids[] = {1, 0};
    uint8_t features[4];
    double labels[2];
    enum row_status status[2];
    (void)state;
    write_file("rows.csv", "label,a,b\n1,2,3\n4,5,6\n");
    assert_ok(store_open(uri_of("csv", "rows.csv", ""), false, &store));
    assert_ok(reader_open(store, &reader));
    write_file("rows.csv", "label,a,b\n1,2,3\n4,5,6\n");
    failure_errno = ESTALE;
    failures_left = 1;
    assert_fails(reader_fetch(reader, ids, 2, features, 2, labels, status), ERROR_INPUT,
                 "was replaced");
    reader_close(reader);
    store_close(store);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_forms_of_the_same_file, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_columns_are_chosen_by_name, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_upper_and_lower_case, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_quoted_fields_may_hold_anything, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_elements, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_label_kinds, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_label_texts_are_sorted_and_numbered, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_weights_and_groups, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_files_that_are_no_rows, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_lines_are_counted_as_editors_do, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_headers, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_ids, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_keys_only, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_bad_rows_are_known_and_named, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_large_files, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_the_first_error_in_the_file_is_told, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_scan_ends_when_its_sink_says_so, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_long_rows, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_many_blank_lines, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_that_changed_is_refused, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_that_changes_during_a_fetch_is_refused, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_that_was_replaced_is_refused, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_reads_that_fail_are_tried_again, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_unpacking_is_tried_again, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_replaced_file_is_not_read_after_a_failure, make_folder,
                                    remove_folder),
};

UNIT_MAIN(tests)

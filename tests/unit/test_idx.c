/* SPDX-License-Identifier: MIT */
/* Covers loader/idx/store_idx: with idx_header. */
#include "tests/unit/idx_unit.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loader/store/row_cache.h"

/* pread of the library under test: the first one of that many bytes writes to a file. */
static const char *changes_at_read; /* NULL: none does */
static size_t changing_bytes;
static const struct timespec another_time[2]; /* "now" may be that of the write before */

ssize_t pread(int descriptor, void *out, size_t bytes, off_t offset);
ssize_t pread(int descriptor, void *out, size_t bytes, off_t offset)
{
    if (changes_at_read && bytes == changing_bytes &&
        utimensat(AT_FDCWD, changes_at_read, another_time, 0) == 0)
        changes_at_read = NULL;
    return syscall(SYS_pread64, descriptor, out, bytes, offset);
}

/* ---- rows --------------------------------------------------------------- */

enum { ROWS = 300, HEIGHT = 3, WIDTH = 5, FEATURES = HEIGHT * WIDTH };

/* One of `type`; small ones fit a byte. */
static double value_of(enum idx_type type, bool is_small, uint64_t *seed)
{
    double byte = (double)dice_below(seed, 256);
    if (type == IDX_U8 || is_small)
        return type == IDX_I8 ? floor(byte / 2) : byte;
    switch (type) {
    case IDX_I8:
        return byte - 128;
    case IDX_I16:
        return (double)dice_below(seed, 65536) - 32768;
    case IDX_I32:
        return (int32_t)dice(seed);
    case IDX_F32:
        return (float)((double)dice(seed) * 1e-25);
    default:
        return (double)dice(seed) * 1e-30;
    }
}

/* The same numbers as a CSV and as two IDX files: the same rows, scanned and fetched. */
static void check_type(enum idx_type type, enum idx_type label_type, bool is_small,
                       const char *element, uint64_t *seed)
{
    static const uint32_t sizes[] = {ROWS, HEIGHT, WIDTH};
    static struct bytes images, labels;
    struct store *idx = NULL, *csv = NULL;
    struct rows ours, theirs;
    char query[64];
    FILE *text = fopen(path_of("same.csv"), "w");
    begin(&images, type, 3, sizes);
    begin(&labels, label_type, 1, sizes);
    for (int row = 0; row < ROWS; row++) {
        int label = (int)dice_below(seed, 100) - (label_type == IDX_U8 ? 0 : 50);
        fprintf(text, "%d", label);
        add_value(&labels, label_type, label);
        for (int i = 0; i < FEATURES; i++) {
            double value = value_of(type, is_small, seed);
            fprintf(text, ",%.17g", value);
            add_value(&images, type, value);
        }
        fputc('\n', text);
    }
    fclose(text);
    put("a-images-idx3-ubyte", &images);
    put("a-labels-idx1-ubyte", &labels);
    snprintf(query, sizeof(query), "header=no&label=0%s%s", element[0] ? "&" : "", element);
    assert_ok(store_open(uri_of("csv", "same.csv", query), false, &csv));
    /* Finds the labels. */
    assert_ok(store_open(uri_of("idx", "a-images-idx3-ubyte", element), false, &idx));
    const struct store_info *info = store_info(idx);
    assert_int_equal(info->element, store_info(csv)->element);
    assert_int_equal(info->label_kind, LABEL_INTEGER);
    assert_int_equal(info->features, FEATURES);
    assert_string_equal(info->feature_names[FEATURES - 1], "14");
    rows_scan(&ours, idx, SCAN_FEATURES);
    rows_scan(&theirs, csv, SCAN_FEATURES);
    for (size_t i = 0; i < ours.count; i++) {
        assert_int_equal(ours.ids[i], theirs.ids[i]);
        assert_string_equal(ours.labels[i], theirs.labels[i]);
        assert_true(ours.values[i] == theirs.values[i]);
    }
    assert_memory_equal(ours.features, theirs.features, ours.count * ours.row_bytes);
    check_fetch(idx, &theirs, *seed);
    rows_release(&ours);
    rows_release(&theirs);
    store_close(idx);
    store_close(csv);
}

static void test_rows_are_those_of_a_csv(void **state)
{
    static const enum idx_type types[] = {IDX_U8, IDX_I8, IDX_I16, IDX_I32, IDX_F32, IDX_F64};
    static const enum idx_type label_types[] = {IDX_U8, IDX_I8, IDX_I16, IDX_I32};
    uint64_t seed = 5;
    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        check_type(types[i], label_types[i % 4], false, "", &seed);
        check_type(types[i], label_types[(i + 1) % 4], true, "", &seed);
        check_type(types[i], label_types[(i + 2) % 4], types[i] > IDX_I32, "element=i32", &seed);
    }
}

/* More than one read's worth, of rows far apart and near. */
static void test_a_large_file(void **state)
{
    enum { MANY = 5000, WIDE = 1000 };
    static const uint32_t sizes[] = {MANY, WIDE};
    static struct bytes header;
    struct store *store = NULL;
    struct rows rows;
    (void)state;
    begin(&header, IDX_U8, 2, sizes);
    FILE *file = fopen(path_of("large.idx"), "w");
    fwrite(header.data, 1, header.length, file);
    for (int i = 0; i < MANY * WIDE; i++)
        fputc((i / WIDE * 7 + i % WIDE) % 256, file);
    fclose(file);
    assert_ok(store_open(path_of("large.idx"), false, &store));
    assert_int_equal(store_info(store)->label_kind, LABEL_NONE);
    rows_scan(&rows, store, SCAN_FEATURES);
    for (int row = 0; row < MANY; row++)
        assert_int_equal(rows.features[(size_t)row * WIDE + 3], (row * 7 + 3) % 256);
    check_fetch(store, &rows, 3);
    struct store *cache = NULL;
    assert_ok(row_cache_open(store, UINT64_MAX, 0, &cache)); /* by several threads */
    assert_ok(row_cache_wait(cache));
    check_fetch(cache, &rows, 4);
    store_close(cache);
    rows_release(&rows);
    store_close(store);
}

static void test_keys_only(void **state)
{
    static const uint32_t sizes[] = {3, 2};
    static struct bytes images, labels;
    struct store *store = NULL;
    struct rows rows;
    (void)state;
    begin(&images, IDX_F32, 2, sizes);
    begin(&labels, IDX_I16, 1, sizes);
    for (int i = 0; i < 6; i++)
        add_value(&images, IDX_F32, NAN); /* nobody looks */
    for (int i = 0; i < 3; i++)
        add_value(&labels, IDX_I16, -5 * i);
    put("x.idx", &images);
    put("y.idx", &labels);
    char query[512];
    snprintf(query, sizeof(query), "labels=%s", path_of("y.idx"));
    assert_ok(store_open(uri_of("idx", "x.idx", query), true, &store));
    rows_scan(&rows, store, SCAN_KEYS);
    assert_string_equal(rows.labels[0], "0");
    assert_string_equal(rows.labels[2], "-10");
    rows_release(&rows);
    store_close(store);
}

static void test_bad_rows(void **state)
{
    static const uint32_t sizes[] = {4, 2};
    static const double values[] = {1, 2, 3, NAN, 0.5, 6, -INFINITY, 8};
    static struct bytes images;
    struct store *store = NULL;
    struct rows rows;
    struct reader *reader = NULL;
    int64_t ids[] = {3, 1, 0, 4};
    float features[8];
    double labels[4];
    enum row_status status[4];
    (void)state;
    begin(&images, IDX_F64, 2, sizes);
    for (int i = 0; i < 8; i++)
        add_value(&images, IDX_F64, values[i]);
    put("bad.idx", &images);
    assert_ok(store_open(path_of("bad.idx"), false, &store));
    assert_int_equal(store_info(store)->bad_rows, 2);
    assert_non_null(strstr(store_info(store)->first_bad_row, "bad.idx, row 1: value 1 is nan"));
    rows_init(&rows, store);
    assert_fails(store_scan(store, SCAN_FEATURES, keep_block, &rows), ERROR_INPUT, "row 1");
    rows_release(&rows);
    rows_scan(&rows, store, SCAN_FEATURES | SCAN_BAD_ROWS);
    assert_int_equal(rows.status[1], ROW_BAD);
    assert_int_equal(rows.status[2], ROW_OK);
    check_fetch(store, &rows, 7);
    rows_release(&rows);
    assert_ok(reader_open(store, &reader));
    assert_ok(reader_fetch(reader, ids, 4, features, 8, labels, status));
    assert_int_equal(status[0], ROW_BAD);
    assert_int_equal(status[1], ROW_BAD);
    assert_int_equal(status[2], ROW_OK);
    assert_int_equal(status[3], ROW_MISSING);
    assert_non_null(strstr(error_message(), "row 3"));
    assert_true(features[0] == 0 && features[4] == 1 && features[5] == 2);
    reader_close(reader);
    store_close(store);
    assert_ok(store_open(uri_of("idx", "bad.idx", "element=i32"), false, &store));
    assert_int_equal(store_info(store)->bad_rows, 3); /* 0.5, too */
    assert_non_null(strstr(store_info(store)->first_bad_row,
                           "row 1: value 1 is nan where an integer from -2147483648 to 2147483647 "
                           "(element=i32) belongs"));
    store_close(store);
    assert_fails(
        store_open(uri_of("idx", "bad.idx", "element=f32"), false, &store), ERROR_USAGE,
        "element=f32 says what values of bytes hold, and an IDX file has no single column");
}

/* ---- refusals ----------------------------------------------------------- */

static void refuse(const char *query, const struct bytes *bytes, const char *says)
{
    struct store *store = NULL;
    put("x.idx", bytes);
    assert_fails(store_open(uri_of("idx", "x.idx", query), false, &store), ERROR_INPUT, says);
}

static void test_files_that_are_none(void **state)
{
    static const uint32_t sizes[] = {2, 3}, none[] = {0, 3}, huge[] = {~0u, ~0u, ~0u};
    static struct bytes bytes;
    (void)state;
    begin(&bytes, IDX_U8, 2, sizes);
    add_number(&bytes, 0, 5);
    refuse("", &bytes, "has 17 bytes; its header says 18 (2 rows of 3 values)");
    add_number(&bytes, 0, 2);
    refuse("", &bytes, "has 19 bytes");
    bytes.length = 9;
    refuse("", &bytes, "ends within its header");
    bytes.length = 0;
    refuse("", &bytes, "is not an IDX file");
    begin(&bytes, (enum idx_type)10, 2, sizes);
    refuse("", &bytes, "is not an IDX file");
    begin(&bytes, IDX_U8, 0, sizes);
    refuse("", &bytes, "0 dimensions");
    begin(&bytes, IDX_U8, 2, none);
    refuse("", &bytes, "has no rows: its dimension 1 is 0");
    begin(&bytes, IDX_F64, 3, huge);
    refuse("", &bytes, "its header says more than");
}

/* The first four bytes of a file that is one, each of them wrong alone. */
static void test_each_byte_of_the_beginning(void **state)
{
    static const uint32_t sizes[] = {2, 3};
    static const uint8_t wrong[4] = {1, 1, 10, IDX_DIMENSIONS_LIMIT + 1};
    static struct bytes bytes;
    struct store *store = NULL;
    (void)state;
    begin(&bytes, IDX_U8, 2, sizes);
    add_number(&bytes, 0, 6);
    for (size_t i = 0; i < 4; i++) {
        uint8_t right = bytes.data[i];
        bytes.data[i] = wrong[i];
        refuse("", &bytes, i < 3 ? "is not an IDX file" : "dimensions; 1 to ");
        bytes.data[i] = right;
    }
    for (size_t length = 0; length < 12; length++) {
        struct bytes part = bytes;
        part.length = length;
        refuse("", &part, length < 4 ? "is not an IDX file" : "ends within its header");
    }
    put("x.idx", &bytes);
    assert_ok(store_open(path_of("x.idx"), false, &store));
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(store_info(store)->feature_names[i], (const char[2]){(char)('0' + i)});
    store_close(store);
}

static void test_labels_that_are_none(void **state)
{
    static const uint32_t sizes[] = {2, 3};
    static struct bytes images, bytes;
    char query[512];
    (void)state;
    snprintf(query, sizeof(query), "labels=%s", path_of("y.idx"));
    begin(&images, IDX_U8, 2, sizes);
    add_number(&images, 0, 6);
    put("y.idx", &images);
    refuse(query, &images, "does not hold labels: it has 3 values a row, not one");
    begin(&bytes, IDX_F32, 1, sizes);
    add_number(&bytes, 0, 8);
    put("y.idx", &bytes);
    refuse(query, &images, "does not hold labels: it has floats");
    begin(&bytes, IDX_U8, 1, sizes + 1);
    add_number(&bytes, 0, 3);
    put("y.idx", &bytes);
    refuse(query, &images, "has 3 labels, ");
    struct store *store = NULL;
    assert_fails(store_open(uri_of("idx", "x.idx", "labels=nowhere"), false, &store),
                 ERROR_NOT_FOUND, "nowhere");
    assert_fails(store_open(uri_of("idx", "x.idx", "label=0"), false, &store), ERROR_USAGE,
                 "label");
}

static void test_a_file_that_changes(void **state)
{
    static const uint32_t sizes[] = {2, 3};
    static struct bytes bytes;
    struct store *store = NULL;
    struct reader *reader = NULL;
    int64_t id = 0;
    uint8_t features[3];
    double label;
    enum row_status status;
    (void)state;
    begin(&bytes, IDX_U8, 2, sizes);
    add_number(&bytes, 0, 6);
    put("x.idx", &bytes);
    assert_ok(store_open(path_of("x.idx"), false, &store));
    assert_ok(reader_open(store, &reader));
    assert_ok(reader_fetch(reader, &id, 1, features, 3, &label, &status));
    FILE *file = fopen(path_of("x.idx"), "a");
    fputc(0, file);
    fclose(file);
    assert_fails(reader_fetch(reader, &id, 1, features, 3, &label, &status), ERROR_INPUT,
                 "has changed since it was opened");
    reader_close(reader);
    store_close(store);
}

static void test_labels_that_change_while_they_are_read(void **state)
{
    static const uint32_t sizes[] = {7, 3};
    static struct bytes images, labels;
    struct store *store = NULL;
    char path[512];
    (void)state;
    begin(&images, IDX_U8, 2, sizes);
    add_number(&images, 0, 8);
    add_number(&images, 0, 8);
    add_number(&images, 0, 5);
    put("a-images-idx3-ubyte", &images);
    begin(&labels, IDX_U8, 1, sizes);
    add_number(&labels, 0, 7);
    put("a-labels-idx1-ubyte", &labels);
    snprintf(path, sizeof(path), "%s", path_of("a-labels-idx1-ubyte"));
    changes_at_read = path;
    changing_bytes = 7; /* all labels */
    assert_fails(store_open(path_of("a-images-idx3-ubyte"), false, &store), ERROR_INPUT,
                 "a-labels-idx1-ubyte was written to since it was opened");
    assert_null(changes_at_read);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_rows_are_those_of_a_csv, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_large_file, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_keys_only, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_bad_rows, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_files_that_are_none, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_each_byte_of_the_beginning, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_labels_that_are_none, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_that_changes, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_labels_that_change_while_they_are_read, make_folder,
                                    remove_folder),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/* Covers loader/rows/store_rows: with rows_header, rows_keys, rows_record and rows_writer. */
#include "tests/unit/store_unit.h"

#include <math.h>
#include <stddef.h>

#include "common/crc32c.h"
#include "common/file.h"
#include "loader/rows/rows_header.h"
#include "loader/rows/rows_record.h"

/* ---- files -------------------------------------------------------------- */

#define FILE_LIMIT_BYTES ((size_t)1 << 26)

#define ROW_BYTES 12 /* of three floats */

/* Ids far apart and in no order, weights, groups. `labels`: three of them. */
static void make_file(const char *const labels[3], struct buffer *ret_bytes)
{
    static const char *const features[] = {"1,2.5,0", "3,4,0", "-5,6e9,0"};
    static const int ids[] = {900, 5, 70};
    char text[512] = "id,label,w,g,a,b,c\n";
    struct store *csv = NULL;
    for (int i = 0; i < 3; i++) {
        char line[128];
        snprintf(line, sizeof(line), "%d,%s,%d.5,group %d,%s\n", ids[i], labels[i], i, i % 2,
                 features[i]);
        strncat(text, line, sizeof(text) - strlen(text) - 1);
    }
    assert_ok(open_csv(text, "weight=w&group=g", &csv));
    import_rows(csv, path_of("x.rows"));
    store_close(csv);
    *ret_bytes = (struct buffer)BUFFER_INIT(FILE_LIMIT_BYTES);
    assert_ok(file_read_whole(path_of("x.rows"), ret_bytes));
}

static const char *const texts[] = {"tall", "small", "tall"}, *const reals[] = {"1.50", "2",
                                                                                "-0.5"};

static void put(const struct buffer *bytes)
{
    write_bytes("x.rows", bytes->data, bytes->length);
}

/* Nobody's bytes: features, labels and all of a scan are dropped. */
static enum error look_at(void *context, const struct store_block *block)
{
    *(size_t *)context += block->rows;
    return OK;
}

/* What opening and reading all of x.rows says; an error names the file. */
static enum error read_all(void)
{
    struct store *store = NULL;
    size_t rows = 0;
    enum error error = store_open(path_of("x.rows"), false, &store);
    if (!error)
        error = store_scan(store, SCAN_FEATURES, look_at, &rows);
    store_close(store);
    if (error) {
        assert_int_equal(error, ERROR_INPUT);
        assert_non_null(strstr(error_message(), "x.rows"));
    }
    return error;
}

static void refuse(const struct buffer *bytes, const char *says)
{
    put(bytes);
    assert_fails(read_all(), ERROR_INPUT, says);
}

static struct rows_head head_of(const struct buffer *bytes)
{
    struct rows_head head;
    memcpy(&head, bytes->data, sizeof(head));
    return head;
}

/* Puts a header's numbers into the file, and makes its checksum right. */
static void set_head(const struct buffer *bytes, struct rows_head head)
{
    uint64_t length = head.head_bytes < bytes->length ? head.head_bytes : bytes->length;
    head.checksum = 0;
    memcpy(bytes->data, &head, sizeof(head));
    head.checksum = crc32c_add(0, bytes->data, (size_t)length);
    memcpy(bytes->data, &head, sizeof(head));
}

/* ---- rows --------------------------------------------------------------- */

static void test_what_a_file_says_of_itself(void **state)
{
    struct buffer bytes;
    struct store *store = NULL;
    struct rows rows;
    (void)state;
    make_file(reals, &bytes);
    assert_ok(store_open(uri_of("rows", "x.rows", ""), false, &store));
    const struct store_info *info = store_info(store);
    assert_int_equal(info->rows, 3);
    assert_int_equal(info->features, 3);
    assert_int_equal(info->element, ELEMENT_F32);
    assert_int_equal(info->label_kind, LABEL_REAL);
    assert_string_equal(info->id_column, "id");
    assert_string_equal(info->label_column, "label");
    assert_string_equal(info->weight_column, "w");
    assert_string_equal(info->group_column, "g");
    assert_string_equal(info->feature_names[1], "b");
    rows_scan(&rows, store, SCAN_FEATURES);
    assert_int_equal(rows.ids[0], 900); /* in the order of the source */
    assert_string_equal(rows.labels[0], "1.50");
    assert_string_equal(rows.groups[1], "group 1");
    assert_true(rows.values[2] == -0.5 && rows.weights[2] == 2.5);
    assert_true(feature_of(&rows, info, 2, 1) == (double)6e9f);
    check_fetch(store, &rows, 1);
    rows_release(&rows);
    store_close(store);
    buffer_release(&bytes);
}

static void test_ids_that_are_not_there(void **state)
{
    struct buffer bytes;
    struct store *store = NULL;
    struct reader *reader = NULL;
    int64_t ids[] = {70, 6, 900, INT64_MAX, 0};
    float features[15];
    double labels[5];
    enum row_status status[5];
    (void)state;
    make_file(texts, &bytes);
    assert_ok(store_open(path_of("x.rows"), false, &store));
    assert_ok(reader_open(store, &reader));
    memset(features, 0xa5, sizeof(features));
    assert_ok(reader_fetch(reader, ids, 5, features, ROW_BYTES, labels, status));
    for (int i = 0; i < 5; i++)
        assert_int_equal(status[i], i == 0 || i == 2 ? ROW_OK : ROW_MISSING);
    assert_true(features[0] == -5 && features[3] == 0 && features[7] == 2.5f);
    assert_string_equal(store_info(store)->label_texts[(int)labels[0]], "tall");
    assert_non_null(strstr(error_message(), "x.rows has no row with the id 6"));
    reader_close(reader);
    store_close(store);
    buffer_release(&bytes);
}

/* Keys, features or all of a store of units alone, with ids and without. */
static void test_units_without_features(void **state)
{
    struct store *range = NULL, *store = NULL;
    struct rows rows;
    (void)state;
    assert_ok(store_open("range:20000?labels=7", false, &range));
    import_rows(range, path_of("x.rows"));
    assert_ok(store_open(path_of("x.rows"), false, &store));
    assert_null(store_info(store)->id_column);
    assert_int_equal(store_info(store)->features, 0);
    rows_scan(&rows, store, SCAN_FEATURES);
    for (size_t i = 0; i < rows.count; i++)
        assert_true(rows.ids[i] == (int64_t)i && rows.values[i] == (double)(i % 7));
    check_fetch(store, &rows, 2);
    rows_release(&rows);
    store_close(store);
    store_close(range);
}

/* More than one read's worth of keys, texts and rows, of rows far apart and near. */
static void test_a_large_file(void **state)
{
    enum { MANY = 20000, WIDE = 300 };
    struct store *csv = NULL, *store = NULL;
    struct rows rows, keys;
    (void)state;
    FILE *file = fopen(path_of("large.csv"), "w");
    fputs("id,label,g", file);
    for (int i = 0; i < WIDE; i++)
        fprintf(file, ",f%d", i);
    for (int row = 0; row < MANY; row++) {
        fprintf(file, "\n%d,%d.25,%d", row + (row > MANY / 2), row, row % 1000);
        for (int i = 0; i < WIDE; i++)
            fprintf(file, ",%d", (row * 7 + i) % 256);
    }
    fclose(file);
    assert_ok(store_open(uri_of("csv", "large.csv", "group=g"), false, &csv));
    rows_scan(&rows, csv, SCAN_FEATURES);
    import_rows(csv, path_of("large.rows"));
    store_close(csv);
    assert_ok(store_open(path_of("large.rows"), false, &store));
    check_fetch(store, &rows, 3);
    store_close(store);
    assert_ok(store_open(path_of("large.rows"), true, &store));
    rows_scan(&keys, store, SCAN_KEYS);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(keys.ids[i], rows.ids[i]);
        assert_string_equal(keys.labels[i], rows.labels[i]);
        assert_string_equal(keys.groups[i], rows.groups[i]);
    }
    store_close(store);
    rows_release(&rows);
    rows_release(&keys);
}

/* ---- damage ------------------------------------------------------------- */

static void flip_each_byte(const char *const labels[3])
{
    struct buffer bytes;
    make_file(labels, &bytes);
    for (size_t at = 0; at < bytes.length; at++) {
        bytes.data[at] ^= (char)(1 << at % 8);
        put(&bytes);
        if (!read_all())
            fail_msg("byte %zu of %zu was changed, and nothing said so", at, bytes.length);
        bytes.data[at] ^= (char)(1 << at % 8);
    }
    put(&bytes);
    assert_ok(read_all());
    buffer_release(&bytes);
}

static void test_each_byte_that_flips_is_found(void **state)
{
    static const char *const integers[] = {"3", "-7", "3"};
    (void)state;
    flip_each_byte(texts);
    flip_each_byte(reals);
    flip_each_byte(integers);
}

static void test_a_damaged_row_is_named(void **state)
{
    struct buffer bytes;
    struct store *store = NULL;
    struct reader *reader = NULL;
    int64_t ids[] = {900, 70, 5};
    float features[9];
    double labels[3];
    enum row_status status[3];
    char says[128];
    (void)state;
    make_file(texts, &bytes);
    struct rows_head head = head_of(&bytes);
    uint64_t at = head.rows_at + head.row_bytes;
    bytes.data[at + sizeof(struct rows_row) + 1] ^= 4;
    put(&bytes);
    assert_ok(store_open(path_of("x.rows"), false, &store));
    assert_ok(reader_open(store, &reader));
    assert_ok(reader_fetch(reader, ids, 2, features, ROW_BYTES, labels, status));
    snprintf(says, sizeof(says), "x.rows: row 1 (id 5, bytes %d to %d) is damaged", (int)at,
             (int)(at + head.row_bytes - 1));
    assert_fails(reader_fetch(reader, ids, 3, features, ROW_BYTES, labels, status), ERROR_INPUT,
                 says);
    size_t rows = 0;
    assert_fails(store_scan(store, SCAN_FEATURES | SCAN_BAD_ROWS, look_at, &rows), ERROR_INPUT,
                 says);
    reader_close(reader);
    store_close(store);
    buffer_release(&bytes);
}

/* Each with a checksum that holds. */
static void test_records_in_each_others_places(void **state)
{
    struct buffer bytes;
    char first[64], second[64];
    (void)state;
    make_file(texts, &bytes);
    struct rows_head head = head_of(&bytes);
    const uint64_t starts[] = {head.head_bytes, head.rows_at};
    const uint64_t strides[] = {head.key_bytes, head.row_bytes};
    for (int part = 0; part < 2; part++) {
        char *at = bytes.data + starts[part];
        size_t stride = (size_t)strides[part];
        assert_true(stride <= sizeof(first));
        memcpy(first, at, stride);
        memcpy(second, at + stride, stride);
        memcpy(at, second, stride);
        memcpy(at + stride, first, stride);
        refuse(&bytes, part == 0 ? "the key of row 0, " : "row 0 (id 900, ");
        memcpy(at, first, stride);
        memcpy(at + stride, second, stride);
    }
    buffer_release(&bytes);
}

static void test_files_that_are_cut_off(void **state)
{
    struct buffer bytes;
    char says[64];
    (void)state;
    make_file(reals, &bytes);
    struct rows_head head = head_of(&bytes);
    size_t whole = bytes.length;
    for (bytes.length = 0; bytes.length < whole; bytes.length++) {
        snprintf(says, sizeof(says), "cut off at byte %zu", bytes.length);
        refuse(&bytes, bytes.length >= head.head_bytes ? says : "x.rows");
    }
    bytes.length = (size_t)(head.rows_at + 2 * head.row_bytes + 1);
    refuse(&bytes, "within row 2; its header says");
    bytes.length = (size_t)(head.head_bytes + head.key_bytes);
    refuse(&bytes, "within the keys of row 1; its header says");
    bytes.length = whole;
    assert_ok(buffer_add(&bytes, "", 1));
    refuse(&bytes, "something was written behind its last row");
    buffer_release(&bytes);
}

static void test_another_version(void **state)
{
    struct buffer bytes;
    struct rows_head head;
    (void)state;
    make_file(texts, &bytes);
    head = head_of(&bytes);
    head.version = 2;
    set_head(&bytes, head);
    refuse(&bytes, "is a row file of version 2, at byte 8; this program reads version 1");
    write_file("x.rows", "id,label,a\n1,2,3\n");
    assert_fails(read_all(), ERROR_INPUT, "x.rows is not a row file");
    buffer_release(&bytes);
}

/* A name lacks its end, and the checksum holds. */
static void test_names_that_cannot_be(void **state)
{
    struct buffer bytes;
    (void)state;
    make_file(texts, &bytes);
    struct rows_head head = head_of(&bytes);
    memset(bytes.data + sizeof(head), 'x', (size_t)head.head_bytes - sizeof(head));
    set_head(&bytes, head);
    refuse(&bytes, "x.rows is damaged: its header has names or labels that are ");
    buffer_release(&bytes);
}

/* Each number of the header is another, and the checksum holds. */
static void test_headers_that_cannot_be(void **state)
{
    static const uint64_t values[] = {0, 1, 7, 1 << 20, UINT32_MAX, INT64_MAX, UINT64_MAX};
    struct buffer bytes;
    (void)state;
    make_file(reals, &bytes);
    const struct rows_head right = head_of(&bytes);
    for (size_t at = offsetof(struct rows_head, head_bytes);
         at < offsetof(struct rows_head, digest); at += sizeof(uint32_t)) {
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
            struct rows_head head = right;
            size_t width = at < offsetof(struct rows_head, key_bytes) ? 8 : 4;
            if (at % width != 0)
                continue;
            memcpy((char *)&head + at, &values[i], width);
            set_head(&bytes, head);
            put(&bytes);
            if (memcmp((char *)&head + at, (const char *)&right + at, width) != 0 && !read_all())
                fail_msg("byte %zu of the header may be %llu", at, (unsigned long long)values[i]);
            set_head(&bytes, right);
        }
    }
    buffer_release(&bytes);
}

/* A key of row `row`, changed by `change`, with a checksum that holds. */
static void refuse_key(int64_t row, void (*change)(struct rows_key *key), const char *says)
{
    struct buffer bytes;
    struct rows_key key;
    make_file(reals, &bytes);
    struct rows_header header = {.head = head_of(&bytes)};
    uint8_t *record = (uint8_t *)bytes.data + rows_header_key_at(&header, row);
    assert_null(rows_key_read(&header, row, record, &key));
    change(&key);
    rows_key_write(&header, row, &key, record);
    refuse(&bytes, says);
    buffer_release(&bytes);
}

static void set_id_of_another(struct rows_key *key)
{
    key->id = 900;
}

static void set_id_negative(struct rows_key *key)
{
    key->id = -1;
}

static void set_code(struct rows_key *key)
{
    key->code = 1;
}

static void set_label_nan(struct rows_key *key)
{
    key->label = NAN;
}

static void set_weight_negative(struct rows_key *key)
{
    key->weight = -1;
}

static void set_texts_behind_the_end(struct rows_key *key)
{
    key->texts.end += 100;
}

static void set_texts_before_the_last(struct rows_key *key)
{
    key->texts.end = 0;
}

static void set_label_too_long(struct rows_key *key)
{
    key->texts.label_bytes = 100;
}

static void set_label_empty(struct rows_key *key)
{
    key->texts.label_bytes = 0;
}

static void test_keys_that_cannot_be(void **state)
{
    static const char wrong[] = "the key of row 2, ";
    (void)state;
    refuse_key(2, set_id_of_another, "rows 0 and 2 have the same id, 900");
    refuse_key(2, set_id_negative, wrong);
    refuse_key(2, set_code, wrong);
    refuse_key(2, set_label_nan, wrong);
    refuse_key(2, set_weight_negative, wrong);
    refuse_key(2, set_texts_behind_the_end, wrong);
    refuse_key(2, set_texts_before_the_last, "label and group of row 0, ");
    refuse_key(1, set_texts_before_the_last, "label and group of row 1, ");
    refuse_key(2, set_label_too_long, "label and group of row 2, ");
    refuse_key(2, set_label_empty, "label and group of row 2, ");
}

static void test_rows_that_cannot_be(void **state)
{
    struct buffer bytes;
    const float none[] = {1, NAN, 2};
    const float sound[] = {1, 2, 3};
    (void)state;
    make_file(texts, &bytes);
    struct rows_header header = {.head = head_of(&bytes)};
    uint8_t *record = (uint8_t *)bytes.data + rows_header_row_at(&header, 2);
    rows_row_write(&header, 70, 0, none, 3, record);
    refuse(&bytes, "row 2 (id 70, ");
    rows_row_write(&header, 70, 2, sound, 3, record);
    refuse(&bytes, "row 2 (id 70, ");
    rows_row_write(&header, 70, 0.5, sound, 3, record);
    refuse(&bytes, "row 2 (id 70, ");
    rows_row_write(&header, 70, 1, sound, 3, record);
    put(&bytes);
    assert_ok(read_all());
    buffer_release(&bytes);
}

/* Who opened for keys alone hears of ids that come twice when it scans, unless it looks itself. */
static void test_ids_that_come_twice_in_keys(void **state)
{
    struct buffer bytes;
    struct rows_key key;
    struct store *store = NULL;
    size_t rows = 0;
    (void)state;
    make_file(texts, &bytes);
    struct rows_header header = {.head = head_of(&bytes)};
    uint8_t *record = (uint8_t *)bytes.data + rows_header_key_at(&header, 2);
    assert_null(rows_key_read(&header, 2, record, &key));
    key.id = 5;
    rows_key_write(&header, 2, &key, record);
    put(&bytes);
    assert_ok(store_open(path_of("x.rows"), true, &store));
    assert_ok(store_scan(store, SCAN_CODES, look_at, &rows));
    assert_fails(store_scan(store, SCAN_KEYS, look_at, &rows), ERROR_INPUT,
                 "rows 1 and 2 have the same id, 5");
    store_close(store);
    buffer_release(&bytes);
}

static void test_a_file_that_changes(void **state)
{
    struct buffer bytes;
    struct store *store = NULL;
    struct reader *reader = NULL;
    int64_t id = 5;
    float features[3];
    double label;
    enum row_status status;
    (void)state;
    make_file(texts, &bytes);
    assert_ok(store_open(path_of("x.rows"), false, &store));
    assert_ok(reader_open(store, &reader));
    assert_ok(reader_fetch(reader, &id, 1, features, ROW_BYTES, &label, &status));
    FILE *file = fopen(path_of("x.rows"), "a");
    fputc(0, file);
    fclose(file);
    assert_fails(reader_fetch(reader, &id, 1, features, ROW_BYTES, &label, &status), ERROR_INPUT,
                 "has changed since it was opened");
    reader_close(reader);
    store_close(store);
    buffer_release(&bytes);
}

static void test_no_parameter_is_known(void **state)
{
    struct buffer bytes;
    struct store *store = NULL;
    (void)state;
    make_file(texts, &bytes);
    assert_fails(store_open(uri_of("rows", "x.rows", "label=g"), false, &store), ERROR_USAGE,
                 "unknown parameter \"label\"");
    buffer_release(&bytes);
}

/* ---- writing ------------------------------------------------------------ */

static const char *appears; /* a file of someone else, while one is written; NULL: none */

/* One block of two rows; what the writer says of it, or of its end. */
static enum error write_to(const char *name, const struct store_info *info, const int64_t ids[2])
{
    static const struct text labels[2] = {{"1", 1}, {"2", 1}};
    static const double values[2] = {1, 2};
    static const uint8_t features[2] = {3, 4};
    struct uri uri = {.path = (char *)(uintptr_t)path_of(name)};
    struct store_writer *writer = NULL;
    enum error error = store_writer_open(&store_writer_rows_ops, &uri, NULL, false, &writer);
    if (!error)
        error = store_writer_begin(writer, info);
    if (!error)
        error = store_writer_add(writer, &(struct store_block){.rows = 2,
                                                               .ids = ids,
                                                               .labels = labels,
                                                               .label_values = values,
                                                               .features = features});
    if (appears)
        write_file(appears, "dear diary");
    if (!error)
        error = store_writer_commit(writer);
    store_writer_close(writer);
    return error;
}

static enum error write_two(const struct store_info *info, const int64_t ids[2])
{
    return write_to("two.rows", info, ids);
}

static void test_what_is_not_written(void **state)
{
    static const char *const names[] = {"a"};
    const int64_t up[] = {3, 9}, twice[] = {3, 3};
    struct store_info info = {.uri = "a source",
                              .rows = 2,
                              .features = 1,
                              .label_kind = LABEL_INTEGER,
                              .id_column = "id",
                              .label_column = "label",
                              .feature_names = names};
    (void)state;
    assert_fails(write_two(&info, twice), ERROR_INPUT,
                 "a source: rows 0 and 1 have the same id, 3");
    info.rows = 3;
    assert_fails(write_two(&info, up), ERROR_INPUT, "a source gave 2 rows, and announced 3");
    info.rows = 1;
    assert_fails(write_two(&info, up), ERROR_INPUT, "a source gave 2 rows, and announced 1");
    info.rows = 2;
    info.id_column = NULL;
    assert_fails(write_two(&info, up), ERROR_INPUT, "gave the id 3 to row 0");
    assert_int_not_equal(access(path_of("two.rows"), F_OK), 0);
    info.id_column = "id";
    appears = "two.rows";
    assert_fails(write_two(&info, up), ERROR_CONFLICT, "two.rows exists, and is not a whole row");
    appears = NULL;
    unlink(path_of("two.rows"));
    assert_ok(write_two(&info, up));
    assert_fails(write_to("no/where.rows", &info, up), ERROR_NOT_FOUND, "no/where.rows");
}

/* Opening a file whose ids are consecutive reads its header alone, not its keys. */
static void test_only_consecutive_ids_are_called_so(void **state)
{
    static const char *const names[] = {"a"};
    static const int64_t ids[][2] = {{3, 4}, {3, 5}, {4, 3}, {0, 1}};
    const struct store_info info = {.uri = "a source",
                                    .rows = 2,
                                    .features = 1,
                                    .label_kind = LABEL_INTEGER,
                                    .id_column = "id",
                                    .label_column = "label",
                                    .feature_names = names};
    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct buffer bytes = BUFFER_INIT(FILE_LIMIT_BYTES);
        struct store *store = NULL;
        bool consecutive = ids[i][1] == ids[i][0] + 1;
        assert_ok(write_two(&info, ids[i]));
        assert_ok(file_read_whole(path_of("two.rows"), &bytes));
        struct rows_header header = {.head = head_of(&bytes)};
        assert_true(rows_header_has(&header, ROWS_CONSECUTIVE) == consecutive);
        assert_int_equal(header.head.first_id, ids[i][0]);
        bytes.data[rows_header_key_at(&header, 1)] ^= 1;
        write_bytes("two.rows", bytes.data, bytes.length);
        enum error error = store_open(path_of("two.rows"), false, &store);
        assert_int_equal(error, consecutive ? OK : ERROR_INPUT);
        store_close(store);
        buffer_release(&bytes);
    }
}

static void test_what_may_be_written_over(void **state)
{
    const struct store_writer_ops *rows = &store_writer_rows_ops;
    struct buffer bytes;
    (void)state;
    make_file(texts, &bytes);
    assert_ok(try_place(rows, path_of("x.rows"), NULL));
    assert_ok(try_place(rows, path_of("nothing.rows"), NULL));
    write_file("empty.rows", "");
    assert_ok(try_place(rows, path_of("empty.rows"), NULL));
    bytes.length--;
    put(&bytes);
    assert_fails(try_place(rows, path_of("x.rows"), NULL), ERROR_CONFLICT, "not a whole row file");
    assert_fails(try_place(rows, folder, NULL), ERROR_USAGE, "is a folder");
    buffer_release(&bytes);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_what_a_file_says_of_itself, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_ids_that_are_not_there, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_units_without_features, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_large_file, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_each_byte_that_flips_is_found, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_damaged_row_is_named, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_records_in_each_others_places, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_files_that_are_cut_off, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_another_version, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_names_that_cannot_be, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_headers_that_cannot_be, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_keys_that_cannot_be, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_rows_that_cannot_be, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_ids_that_come_twice_in_keys, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_that_changes, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_no_parameter_is_known, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_what_is_not_written, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_only_consecutive_ids_are_called_so, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_what_may_be_written_over, make_folder, remove_folder),
};

UNIT_MAIN(tests)

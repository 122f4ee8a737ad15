/* SPDX-License-Identifier: MIT */
/* Covers loader/idx/idx_text: IDX files that are packed, against the same files unpacked. */
#include "tests/unit/idx_unit.h"
#include "tests/unit/packed_unit.h"

#include "loader/store/store_kinds.h"

/* Rows enough for several pieces of an unpacked text. */
enum { ROWS = 3000, WIDE = 1000 };

static uint8_t image_bytes[16 + ROWS * WIDE];

static void fill_images(void)
{
    static const uint32_t sizes[] = {ROWS, 10, WIDE / 10};
    static struct bytes header;
    uint64_t seed = 3;
    begin(&header, IDX_U8, 3, sizes);
    memcpy(image_bytes, header.data, header.length);
    for (size_t i = header.length; i < sizeof(image_bytes); i++)
        image_bytes[i] = dice_below(&seed, 4) ? 0 : (uint8_t)dice_below(&seed, 256);
}

static void fill_labels(struct bytes *labels)
{
    static const uint32_t sizes[] = {ROWS};
    begin(labels, IDX_U8, 1, sizes);
    for (int row = 0; row < ROWS; row++)
        add_number(labels, (uint64_t)row % 10, 1);
}

static void pack(const char *name, const void *bytes, size_t length)
{
    struct packed_bytes packed = {.data = NULL};
    if (strstr(name, ".gz"))
        add_gzip_member(&packed, bytes, length, 6, 0);
    else
        add_zstd_frame(&packed, bytes, length, 3, 0);
    write_bytes(name, packed.data, packed.length);
    free(packed.data);
}

/* In every form that the labels beside them may have. */
static void write_files(const char *images, const char *labels)
{
    static struct bytes label_bytes;
    fill_images();
    fill_labels(&label_bytes);
    pack(images, image_bytes, sizeof(image_bytes));
    if (strchr(labels, '.'))
        pack(labels, label_bytes.data, label_bytes.length);
    else
        put(labels, &label_bytes);
}

static void check_rows(const char *images, bool keys_only)
{
    struct store *store = NULL;
    struct rows rows;
    assert_ok(store_open(path_of(images), keys_only, &store));
    assert_int_equal(store_info(store)->rows, ROWS);
    assert_int_equal(store_info(store)->dimensions, 2);
    assert_int_equal(store_info(store)->label_kind, LABEL_INTEGER);
    rows_scan(&rows, store, SCAN_FEATURES);
    assert_memory_equal(rows.features, image_bytes + 16, ROWS * WIDE);
    for (int row = 0; row < ROWS; row++)
        assert_true(rows.values[row] == row % 10);
    check_fetch(store, &rows, 11);
    rows_release(&rows);
    store_close(store);
}

/* In memory, and by pieces: what is opened for keys is not held. */
static void test_rows_are_those_of_the_plain_file(void **state)
{
    static const char *const names[][2] = {
        {"a-images-idx3-ubyte.gz", "a-labels-idx1-ubyte.gz"},
        {"b-images-idx3-ubyte.gz", "b-labels-idx1-ubyte"},
        {"c-images-idx3-ubyte.zst", "c-labels-idx1-ubyte.zst"},
        {"d-images-idx3-ubyte.zst", "d-labels-idx1-ubyte.gz"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        write_files(names[i][0], names[i][1]);
        check_rows(names[i][0], false);
        check_rows(names[i][0], true);
    }
}

static void test_labels_of_a_plain_file_may_be_packed(void **state)
{
    struct store *store = NULL;
    (void)state;
    write_files("x-images-idx3-ubyte.gz", "x-labels-idx1-ubyte.gz");
    write_bytes("x-images-idx3-ubyte", image_bytes, sizeof(image_bytes));
    assert_ok(store_open(path_of("x-images-idx3-ubyte"), false, &store));
    assert_int_equal(store_info(store)->label_kind, LABEL_INTEGER);
    store_close(store);
}

static enum error take_name(void *context, const char *path)
{
    char *all = context;
    snprintf(all + strlen(all), 4096 - strlen(all), "%s ", strrchr(path, '/') + 1);
    return OK;
}

/* A row cache's key is made of all files that could be the labels'. */
static void test_labels_that_may_come(void **state)
{
    char all[4096] = "";
    struct uri_query query = {.count = 0};
    (void)state;
    assert_ok(store_idx_ops.other_files("/a/x-images-idx3-ubyte.gz", &query, take_name, all));
    assert_string_equal(all, "x-labels-idx1-ubyte.gz x-labels-idx1-ubyte x-labels-idx1-ubyte.gz "
                             "x-labels-idx1-ubyte.zst ");
    all[0] = '\0';
    assert_ok(store_idx_ops.other_files("/a/x.idx.gz", &query, take_name, all));
    assert_string_equal(all, "");
}

/* Floats are looked through when it is opened: u8, if all are small integers. */
static void test_values_are_looked_through(void **state)
{
    static const uint32_t sizes[] = {200, 3};
    static struct bytes bytes;
    struct store *store = NULL;
    struct rows rows;
    (void)state;
    for (int step = 0; step < 2; step++) {
        begin(&bytes, IDX_F32, 2, sizes);
        for (int i = 0; i < 600; i++)
            add_value(&bytes, IDX_F32, i % 256 + (step == 1 && i == 599 ? 0.5 : 0));
        pack("floats.idx.gz", bytes.data, bytes.length);
        assert_ok(store_open(path_of("floats.idx.gz"), false, &store));
        assert_int_equal(store_info(store)->element, step == 0 ? ELEMENT_U8 : ELEMENT_F32);
        rows_scan(&rows, store, SCAN_FEATURES);
        for (int i = 0; i < 599; i++)
            assert_true(feature_of(&rows, store_info(store), (size_t)i / 3, (size_t)i % 3) ==
                        (double)(i % 256));
        check_fetch(store, &rows, 5);
        rows_release(&rows);
        store_close(store);
    }
}

/* ---- refusals ----------------------------------------------------------- */

static void refuse(const struct packed_bytes *packed, size_t length, const char *says)
{
    for (int keys_only = 0; keys_only < 2; keys_only++) {
        struct store *store = NULL;
        write_bytes("x.idx.gz", packed->data, length);
        assert_fails(store_open(path_of("x.idx.gz"), keys_only, &store), ERROR_INPUT, says);
    }
}

static void test_lengths_that_the_header_does_not_say(void **state)
{
    static const uint32_t sizes[] = {2, 3}, huge[] = {~0u, ~0u, ~0u};
    static struct bytes bytes;
    struct packed_bytes packed = {.data = NULL};
    (void)state;
    begin(&bytes, IDX_U8, 2, sizes);
    add_number(&bytes, 0, 5);
    add_gzip_member(&packed, (const char *)bytes.data, bytes.length, 6, 0);
    refuse(&packed, packed.length, "x.idx.gz has 17 bytes; its header says 18");
    bytes.length += 2;
    packed.length = 0;
    add_gzip_member(&packed, (const char *)bytes.data, bytes.length, 6, 0);
    refuse(&packed, packed.length, "x.idx.gz has 19 bytes; its header says 18");
    begin(&bytes, IDX_F64, 3, huge);
    packed.length = 0;
    add_gzip_member(&packed, (const char *)bytes.data, bytes.length, 6, 0);
    refuse(&packed, packed.length, "its header says more than");
    packed.length = 0;
    add_gzip_member(&packed, "a,b\n1,2\n", 8, 6, 0);
    refuse(&packed, packed.length, "x.idx.gz is not an IDX file");
    packed.length = 0;
    add_gzip_member(&packed, "", 0, 6, 0);
    refuse(&packed, packed.length, "x.idx.gz is not an IDX file");
    free(packed.data);
}

/* Cut at every length: an error that names the file, and the byte where it ends. */
static void test_a_file_that_is_cut_off(void **state)
{
    static const uint32_t sizes[] = {30, 3};
    static struct bytes bytes;
    struct packed_bytes packed = {.data = NULL};
    (void)state;
    begin(&bytes, IDX_U8, 2, sizes);
    for (int i = 0; i < 90; i++)
        add_number(&bytes, (uint64_t)(i * i) % 251, 1);
    add_gzip_member(&packed, (const char *)bytes.data, bytes.length, 6, 0);
    for (size_t length = 3; length < packed.length; length++) {
        char says[64];
        snprintf(says, sizeof(says), "x.idx.gz ends at byte %zu ", length);
        refuse(&packed, length, says);
    }
    free(packed.data);
}

/* A bit that is wrong anywhere: an error that names the file, or the same rows. */
static void test_damage_is_never_a_row(void **state)
{
    static const uint32_t sizes[] = {30, 3};
    static struct bytes bytes;
    struct packed_bytes packed = {.data = NULL};
    size_t opened = 0;
    (void)state;
    begin(&bytes, IDX_U8, 2, sizes);
    for (int i = 0; i < 90; i++)
        add_number(&bytes, (uint64_t)(i * i) % 251, 1);
    add_gzip_member(&packed, (const char *)bytes.data, bytes.length, 6, 0);
    for (size_t bit = 0; bit < packed.length * 8; bit++) {
        struct store *store = NULL;
        struct rows rows;
        packed.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        write_bytes("x.idx", packed.data, packed.length);
        enum error error = store_open(path_of("x.idx"), false, &store);
        packed.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (error) {
            assert_int_equal(error, ERROR_INPUT);
            assert_non_null(strstr(error_message(), "x.idx"));
            continue;
        }
        rows_scan(&rows, store, SCAN_FEATURES);
        assert_memory_equal(rows.features, bytes.data + 12, 90);
        rows_release(&rows);
        store_close(store);
        opened++;
    }
    assert_in_range(opened, 1, 80); /* time, system and flags of gzip's head */
    free(packed.data);
}

/* Written to or cut off while it is open, in memory or not: said, and no row of it. */
static void test_a_file_that_changes(void **state)
{
    (void)state;
    for (int keys_only = 0; keys_only < 2; keys_only++) {
        struct store *store = NULL;
        struct reader *reader = NULL;
        struct rows rows;
        int64_t id = ROWS - 1;
        static uint8_t features[WIDE];
        double label;
        enum row_status status;
        write_files("x-images-idx3-ubyte.gz", "x-labels-idx1-ubyte.gz");
        assert_ok(store_open(path_of("x-images-idx3-ubyte.gz"), keys_only, &store));
        assert_ok(reader_open(store, &reader));
        assert_ok(reader_fetch(reader, &id, 1, features, WIDE, &label, &status));
        assert_memory_equal(features, image_bytes + 16 + id * WIDE, WIDE);
        assert_int_equal(truncate(path_of("x-images-idx3-ubyte.gz"), 1000), 0);
        assert_fails(reader_fetch(reader, &id, 1, features, WIDE, &label, &status), ERROR_INPUT,
                     "has changed since it was opened");
        rows_init(&rows, store);
        assert_fails(store_scan(store, SCAN_FEATURES, keep_block, &rows), ERROR_INPUT,
                     "has changed since it was opened");
        rows_release(&rows);
        reader_close(reader);
        store_close(store);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_rows_are_those_of_the_plain_file, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_labels_of_a_plain_file_may_be_packed, make_folder,
                                    remove_folder),
    cmocka_unit_test(test_labels_that_may_come),
    cmocka_unit_test_setup_teardown(test_values_are_looked_through, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_lengths_that_the_header_does_not_say, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_that_is_cut_off, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_damage_is_never_a_row, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_that_changes, make_folder, remove_folder),
};

UNIT_MAIN(tests)

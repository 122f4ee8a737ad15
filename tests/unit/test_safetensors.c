/* SPDX-License-Identifier: MIT */
/* Covers trainer/checkpoint/safetensors. */
#include "tests/unit/unit.h"

#include "common/file.h"
#include "trainer/checkpoint/safetensors.h"

static char folder[256];
static char path[300];

static int make_folder(void **state)
{
    (void)state;
    unit_folder_make(folder);
    snprintf(path, sizeof(path), "%s/file.safetensors", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unit_folder_remove(folder);
    return 0;
}

/* A file of this header (its length in front) and `data_bytes` bytes 0, 1, 2, ... */
static void put(const char *header, size_t data_bytes)
{
    uint64_t length = strlen(header);
    char bytes[4096];

    assert_true(8 + length + data_bytes <= sizeof(bytes));
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++)
        bytes[8 + length + i] = (char)i;
    assert_ok(file_write_whole(path, bytes, 8 + length + data_bytes));
}

static void refuse(const char *header, size_t data_bytes, const char *message)
{
    struct safetensors *file = NULL;

    put(header, data_bytes);
    assert_fails(safetensors_open(path, &file), ERROR_INPUT, message);
    assert_fails(safetensors_open(path, &file), ERROR_INPUT, path);
    assert_null(file);
}

static void take(const char *header, size_t data_bytes)
{
    struct safetensors *file = NULL;

    put(header, data_bytes);
    assert_ok(safetensors_open(path, &file));
    safetensors_close(file);
}

static const float weights[6] = {1, 2, 3, 4, 5, -0.0f};
static const float bias[2] = {0.5f, -1};
static const int64_t step = 7;
static const struct safetensors_entry entries[] = {
    {.name = "w", .type = SAFETENSORS_F32, .rank = 2, .shape = {2, 3}, .data = weights},
    {.name = "a\"b\\c/\xc3\xa4", .type = SAFETENSORS_F32, .rank = 1, .shape = {2}, .data = bias},
    {.name = "global_step", .type = SAFETENSORS_I64, .rank = 0, .data = &step},
    {.name = "nothing", .type = SAFETENSORS_U8, .rank = 2, .shape = {0, 5}, .data = NULL},
};
static const struct safetensors_pair metadata[] = {{"key", "value \"quoted\""}, {"empty", ""}};

static void write_example(void)
{
    assert_ok(safetensors_write(path, entries, 4, metadata, 2));
}

static void test_what_is_written_reads_back(void **state)
{
    const struct safetensors_tensor *tensor;
    struct safetensors *file = NULL;
    float values[6];
    int64_t read_step;

    (void)state;
    write_example();
    assert_ok(safetensors_open(path, &file));
    assert_ok(safetensors_verify(file));
    tensor = safetensors_find(file, "w");
    assert_non_null(tensor);
    assert_int_equal(tensor->type, SAFETENSORS_F32);
    assert_int_equal(tensor->rank, 2);
    assert_int_equal(tensor->shape[0], 2);
    assert_int_equal(tensor->shape[1], 3);
    assert_ok(safetensors_read(file, tensor, values, sizeof(values)));
    assert_memory_equal(values, weights, sizeof(weights));
    assert_fails(safetensors_read(file, tensor, values, 8), ERROR_INPUT, "24 bytes");
    tensor = safetensors_find(file, entries[1].name);
    assert_non_null(tensor);
    assert_ok(safetensors_read(file, tensor, values, sizeof(bias)));
    assert_memory_equal(values, bias, sizeof(bias));
    tensor = safetensors_find(file, "global_step");
    assert_non_null(tensor);
    assert_int_equal(tensor->rank, 0);
    assert_ok(safetensors_read(file, tensor, &read_step, sizeof(read_step)));
    assert_int_equal(read_step, 7);
    assert_non_null(safetensors_find(file, "nothing"));
    assert_null(safetensors_find(file, "W"));
    assert_string_equal(safetensors_metadata(file, "key"), "value \"quoted\"");
    assert_string_equal(safetensors_metadata(file, "empty"), "");
    assert_null(safetensors_metadata(file, "Key"));
    safetensors_close(file);
}

/* Whatever the header says, the data begins at a multiple of 8. */
static void test_data_is_aligned(void **state)
{
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        struct safetensors_pair pair = {"key", &"12345678"[i]};
        uint64_t length;
        int descriptor;

        assert_ok(safetensors_write(path, entries, 4, &pair, 1));
        assert_ok(file_open_read(path, &descriptor));
        assert_ok(file_read_at(descriptor, path, &length, sizeof(length), 0));
        close(descriptor);
        assert_int_equal(length % 8, 0);
    }
}

static void test_order_is_that_of_the_format_s_own_writer(void **state)
{
    struct safetensors *file = NULL;

    (void)state;
    write_example();
    assert_ok(safetensors_open(path, &file));
    uint64_t end = 0;
    for (size_t i = 0; i < 3; i++) { /* I64 before F32, then by name */
        const char *const names[] = {"global_step", entries[1].name, "w"};
        const struct safetensors_tensor *tensor = safetensors_find(file, names[i]);
        assert_non_null(tensor);
        assert_int_equal(tensor->begin, end);
        end = tensor->end;
    }
    safetensors_close(file);
}

static void test_the_same_content_gives_the_same_bytes(void **state)
{
    struct safetensors_entry reversed[4];
    struct buffer one = BUFFER_INIT(1 << 20), two = BUFFER_INIT(1 << 20);

    (void)state;
    for (int i = 0; i < 4; i++)
        reversed[i] = entries[3 - i];
    write_example();
    assert_ok(file_read_whole(path, &one));
    assert_ok(safetensors_write(path, reversed, 4, metadata, 2));
    assert_ok(file_read_whole(path, &two));
    assert_int_equal(one.length, two.length);
    assert_memory_equal(one.data, two.data, one.length);
    buffer_release(&one);
    buffer_release(&two);
}

/* Reads as far as it can; true when something was refused. */
static bool is_refused(void)
{
    struct safetensors *file = NULL;
    bool refused = safetensors_open(path, &file) || safetensors_verify(file);

    safetensors_close(file);
    return refused;
}

static void test_every_changed_byte_is_found(void **state)
{
    struct buffer bytes = BUFFER_INIT(1 << 20);

    (void)state;
    write_example();
    assert_ok(file_read_whole(path, &bytes));
    for (size_t i = 0; i < bytes.length; i++) {
        for (int bit = 0; bit < 8; bit += 3) {
            bytes.data[i] ^= (char)(1 << bit);
            assert_ok(file_write_whole(path, bytes.data, bytes.length));
            if (!is_refused())
                fail_msg("bit %d of byte %zu of %zu changed, and nobody saw it", bit, i,
                         bytes.length);
            bytes.data[i] ^= (char)(1 << bit);
        }
    }
    buffer_release(&bytes);
}

static void test_every_shorter_or_longer_file_is_refused(void **state)
{
    struct buffer bytes = BUFFER_INIT(1 << 20);

    (void)state;
    write_example();
    assert_ok(file_read_whole(path, &bytes));
    for (size_t length = 0; length < bytes.length; length++) {
        assert_ok(file_write_whole(path, bytes.data, length));
        assert_true(is_refused());
    }
    assert_ok(buffer_add(&bytes, "", 1));
    assert_ok(file_write_whole(path, bytes.data, bytes.length));
    assert_true(is_refused());
    buffer_release(&bytes);
}

static void test_files_of_other_writers_open_but_do_not_verify(void **state)
{
    struct safetensors *file = NULL;

    (void)state;
    put("{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}   ", 4);
    assert_ok(safetensors_open(path, &file));
    assert_null(safetensors_metadata(file, "anything"));
    assert_fails(safetensors_verify(file), ERROR_INPUT, "no digest");
    safetensors_close(file);
}

static void test_what_the_definition_allows_is_taken(void **state)
{
    (void)state;
    take("{}", 0);
    take("{\"__metadata__\":{}}", 0);
    take("{\"s\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8);
    take("{\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"x\":{\"data_offsets\":[0,2],\"shape\":[1],\"dtype\":\"BF16\"}}",
         2);
    take("{\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[2,2]},"
         "\"x\":{\"data_offsets\":[0,2],\"shape\":[1],\"dtype\":\"BF16\"}}",
         2);
    take("{\"b\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[1,3]},"
         "\"a\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[0,1]}}",
         3);
}

#define TENSOR(dtype, shape, offsets) \
    "{\"x\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void test_wrong_layouts_are_refused(void **state)
{
    (void)state;
    refuse(TENSOR("\"U8\"", "[4]", "[1,5]"), 5, "begins at byte 1");   /* hole in front */
    refuse(TENSOR("\"U8\"", "[4]", "[0,4]"), 5, "the file has 5");     /* trailing bytes */
    refuse(TENSOR("\"U8\"", "[4]", "[0,4]"), 3, "the file has 3");     /* cut */
    refuse(TENSOR("\"U8\"", "[4]", "[0,3]"), 3, "its shape needs 4");  /* another size */
    refuse(TENSOR("\"U8\"", "[4]", "[4,0]"), 4, "not [begin, end]");   /* backwards */
    refuse(TENSOR("\"U8\"", "[4]", "[0,4,8]"), 4, "not [begin, end]"); /* three */
    refuse(TENSOR("\"U8\"", "[4]", "[0,4.5]"), 4, "not [begin, end]"); /* no integer */
    refuse(TENSOR("\"U8\"", "[-4]", "[0,4]"), 4, "is not a count");    /* negative */
    refuse(TENSOR("\"U8\"", "[\"4\"]", "[0,4]"), 4, "is not a count"); /* text */
    refuse(TENSOR("\"U8\"", "4", "[0,4]"), 4, "shape");                /* no list */
    refuse(TENSOR("\"F3\"", "[1]", "[0,4]"), 4, "unknown dtype");      /* type */
    refuse(TENSOR("4", "[1]", "[0,4]"), 4, "dtype");                   /* type of type */
    refuse(TENSOR("\"U8\"", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, "more than 8 dimensions");
    refuse(TENSOR("\"F64\"", "[9007199254740992,9007199254740992]", "[0,0]"), 0, "2^64");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
           3, "begins at byte 1 of the data, not at 2"); /* overlap */
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}",
           5, "begins at byte 3 of the data, not at 2"); /* hole */
}

static void test_wrong_headers_are_refused(void **state)
{
    (void)state;
    refuse(" {}", 0, "begin with '{'");
    refuse("[]", 0, "begin with '{'");
    refuse("{", 1, "the header");
    refuse("{}}", 0, "the header");
    refuse("{}\n\n\t x", 0, "the header");
    refuse("{\"x\":4}", 0, "not described by an object");
    refuse("{\"x\":{}}", 0, "not exactly");
    refuse("{\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"more\":1}}", 0,
           "not exactly");
    refuse("{\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
           "\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
           0, "twice");
    refuse("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice");
    refuse("{\"__metadata__\":{\"k\":1}}", 0, "not a text");
    refuse("{\"__metadata__\":[]}", 0, "not an object");
    refuse("{\"x\xff\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "the header");
    refuse("{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0,
           "the header");
}

static void test_wrong_lengths_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *message;
    } cases[] = {
        {"", 0, "too few"},
        {"\2\0\0\0\0\0\0\0{", 9, "too few"},
        {"\0\0\0\0\0\0\0\0{}", 10, "begin with '{'"},
        {"\3\0\0\0\0\0\0\0{}", 10, "ends inside its header"},
        {"\377\377\377\377\377\377\377\377{}", 10, "not a safetensors file"},
        {"\1\341\365\5\0\0\0\0{}", 10, "not a safetensors file"}, /* 100,000,001 */
        {"label,p0,p1\n1,2,3\n", 18, "not a safetensors file"},
    };
    struct safetensors *file = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_ok(file_write_whole(path, cases[i].bytes, cases[i].length));
        assert_fails(safetensors_open(path, &file), ERROR_INPUT, cases[i].message);
    }
}

static void test_missing_files_and_folders_are_named(void **state)
{
    struct safetensors *file = NULL;

    (void)state;
    assert_fails(safetensors_open("/nowhere/x.safetensors", &file), ERROR_NOT_FOUND, "/nowhere/x");
    assert_int_not_equal(safetensors_open(folder, &file), OK);
    assert_non_null(strstr(error_message(), folder));
    assert_fails(safetensors_write("/nowhere/x.safetensors", entries, 1, NULL, 0), ERROR_NOT_FOUND,
                 "/nowhere/x");
}

static void test_a_file_without_tensors_can_be_written(void **state)
{
    struct safetensors *file = NULL;

    (void)state;
    assert_ok(safetensors_write(path, NULL, 0, NULL, 0));
    assert_ok(safetensors_open(path, &file));
    assert_ok(safetensors_verify(file));
    assert_null(safetensors_find(file, "w"));
    safetensors_close(file);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_what_is_written_reads_back, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_data_is_aligned, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_order_is_that_of_the_format_s_own_writer, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_the_same_content_gives_the_same_bytes, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_every_changed_byte_is_found, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_every_shorter_or_longer_file_is_refused, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_files_of_other_writers_open_but_do_not_verify, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_what_the_definition_allows_is_taken, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_wrong_layouts_are_refused, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_wrong_headers_are_refused, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_wrong_lengths_are_refused, make_folder, remove_folder),
    cmocka_unit_test_setup_teardown(test_missing_files_and_folders_are_named, make_folder,
                                    remove_folder),
    cmocka_unit_test_setup_teardown(test_a_file_without_tensors_can_be_written, make_folder,
                                    remove_folder),
};

UNIT_MAIN(tests)

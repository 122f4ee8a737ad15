/* SPDX-License-Identifier: MIT */
/* Covers loader/tool/row_writer. */
#include "tests/unit/unit.h"

#include <math.h>
#include <signal.h>
#include <sys/stat.h>

#include "loader/tool/row_writer.h"

static char path[512];

static int make_folder(void **state)
{
    static char folder[256];
    unit_folder_make(folder);
    snprintf(path, sizeof(path), "%s/out", folder);
    *state = folder;
    signal(SIGPIPE, SIG_IGN);
    return 0;
}

static int remove_folder(void **state)
{
    unit_folder_remove(*state);
    return 0;
}

static const struct row_extras no_extras = {.weights = false};

/* Of rows that differ in length; NULL: they do not. */
static const int64_t *lengths_written;

/* What a writer makes of rows, in *ret_text; the file is read back. */
static size_t write_rows(const char *format, const struct store_info *info, size_t rows,
                         const int64_t *ids, const double *labels, const void *features,
                         char **ret_text)
{
    struct output *output;
    struct row_writer *writer;
    FILE *file = fopen(path, "w+");
    assert_non_null(file);
    assert_ok(output_open(fileno(file), "out", &output));
    struct feed_batch batch = {.rows = rows,
                               .ids = ids,
                               .labels = labels,
                               .features = features,
                               .width = info->features,
                               .lengths = lengths_written};
    assert_ok(row_writer_open(format, info, &no_extras, output, &writer));
    assert_ok(row_writer_add(writer, &batch));
    assert_ok(row_writer_finish(writer));
    row_writer_close(writer);
    output_close(output);
    struct stat status;
    assert_int_equal(fstat(fileno(file), &status), 0);
    size_t length = (size_t)status.st_size;
    *ret_text = calloc(1, length + 1);
    rewind(file);
    assert_int_equal(fread(*ret_text, 1, length, file), length);
    fclose(file);
    return length;
}

static struct store_info info_of(size_t features, enum element element, enum label_kind kind)
{
    static const char *const names[] = {"p0", "a \"quoted\" name", "with,comma"};
    return (struct store_info){.uri = "x",
                               .features = features,
                               .element = element,
                               .label_kind = kind,
                               .feature_names = names};
}

/* ---- csv ---------------------------------------------------------------- */

static void test_csv_of_bytes(void **state)
{
    (void)state;
    struct store_info info = info_of(3, ELEMENT_U8, LABEL_INTEGER);
    static const int64_t ids[] = {0, INT64_MAX};
    static const double labels[] = {-7, 9007199254740992.0};
    static const uint8_t features[] = {0, 9, 10, 99, 100, 255};
    char *text;
    write_rows("csv", &info, 2, ids, labels, features, &text);
    assert_string_equal(text, "id,label,p0,\"a \"\"quoted\"\" name\",\"with,comma\"\n"
                              "0,-7,0,9,10\n"
                              "9223372036854775807,9007199254740992,99,100,255\n");
    free(text);
}

static void test_csv_of_text_labels(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "a,b", "line\nend", "plain", "with \"quotes\""};
    struct store_info info = info_of(0, ELEMENT_U8, LABEL_TEXT);
    static const int64_t ids[] = {1, 2, 3, 4, 5};
    static const double labels[] = {0, 1, 2, 3, 4};
    char *text;
    info.label_texts = texts;
    info.label_text_count = 5;
    write_rows("csv", &info, 5, ids, labels, NULL, &text);
    assert_string_equal(text, "id,label\n1,\n2,\"a,b\"\n3,\"line\nend\"\n4,plain\n"
                              "5,\"with \"\"quotes\"\"\"\n");
    free(text);
}

static void test_floats_read_back_the_same(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    struct store_info info = info_of(3, ELEMENT_F32, LABEL_REAL);
    static float features[COUNT];
    static double labels[COUNT / 3];
    static int64_t ids[COUNT / 3];
    uint64_t random = 1;
    for (size_t i = 0; i < COUNT; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint32_t bits = (uint32_t)(random >> 32);
        memcpy(&features[i], &bits, sizeof(bits));
        if (!isfinite(features[i]))
            features[i] = (float)i / 10;
    }
    features[0] = -0.0f;
    features[1] = 16777216.0f;
    features[2] = 0.1f;
    for (size_t i = 0; i < COUNT / 3; i++)
        labels[i] = (double)features[i] * 1.000000001;
    char *text, *at;
    write_rows("csv", &info, COUNT / 3, ids, labels, features, &text);
    at = strchr(text, '\n') + 1;
    assert_int_equal(strncmp(at, "0,-0,-0,16777216,0.1\n", 21), 0);
    for (size_t i = 0; i < COUNT; i++) {
        if (i % 3 == 0) {
            assert_int_equal(strtoll(at, &at, 10), 0);
            assert_true(strtod(at + 1, &at) == labels[i / 3]);
        }
        float back = strtof(at + 1, &at);
        assert_memory_equal(&back, &features[i], sizeof(back));
    }
    assert_string_equal(at, "\n");
    free(text);
}

static void test_csv_of_integers(void **state)
{
    (void)state;
    struct store_info info = info_of(3, ELEMENT_I32, LABEL_INTEGER);
    static const int64_t ids[] = {1, 2};
    static const double labels[] = {0, 1};
    static const int32_t features[] = {INT32_MIN, -1, 0, 255, 16777217, INT32_MAX};
    char *text;
    write_rows("csv", &info, 2, ids, labels, features, &text);
    assert_string_equal(strchr(text, '\n'),
                        "\n1,0,-2147483648,-1,0\n2,1,255,16777217,2147483647\n");
    free(text);
    size_t length = write_rows("npy", &info, 2, ids, labels, features, &text);
    assert_non_null(memmem(text, length, "('x', '<i4', (3,))", 18));
    assert_memory_equal(text + length - sizeof(features) / 2, features + 3, sizeof(features) / 2);
    free(text);
}

/* ---- npy and raw -------------------------------------------------------- */

static void test_npy_of_bytes(void **state)
{
    (void)state;
    struct store_info info = info_of(3, ELEMENT_U8, LABEL_INTEGER);
    static const int64_t ids[] = {5, 6};
    static const double labels[] = {-1, 2};
    static const uint8_t features[] = {1, 2, 3, 4, 5, 6};
    char *text;
    size_t length = write_rows("npy", &info, 2, ids, labels, features, &text);
    size_t header = 10 + (uint8_t)text[8] + 256 * (size_t)(uint8_t)text[9];
    int64_t integer;
    assert_memory_equal(text, "\x93NUMPY\x01\x00", 8);
    assert_int_equal(header % 64, 0);
    assert_int_equal(text[header - 1], '\n');
    assert_int_equal(length, header + 2 * (8 + 8 + 3));
    text[header - 1] = '\0';
    assert_non_null(strstr(text + 10, "'shape': (2,)"));
    assert_non_null(strstr(text + 10, "('label', '<i8'), ('x', '|u1', (3,))"));
    memcpy(&integer, text + header + 19 + 8, 8);
    assert_int_equal(integer, 2);
    assert_memory_equal(text + header + 19 + 16, "\x04\x05\x06", 3);
    free(text);
}

static void test_npy_of_text_labels(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "a\xc3\xa9", "\xf0\x9f\x8e\xb2\x78", "\xe2\x82\xac"};
    static const uint32_t characters[4][2] = {{0, 0}, {'a', 0xe9}, {0x1f3b2, 'x'}, {0x20ac, 0}};
    struct store_info info = info_of(0, ELEMENT_U8, LABEL_TEXT);
    static const int64_t ids[] = {1, 2, 3, 4};
    static const double labels[] = {0, 1, 2, 3};
    char *text;
    info.label_texts = texts;
    info.label_text_count = 4;
    size_t length = write_rows("npy", &info, 4, ids, labels, NULL, &text);
    size_t header = length - 4 * 16;
    for (size_t i = 0; i < 4; i++)
        assert_memory_equal(text + header + i * 16 + 8, characters[i], 8);
    text[header - 1] = '\0';
    assert_non_null(strstr(text + 10, "('label', '<U2')"));
    free(text);
}

/* Also such as no integer can be: the build that checks casts (float-cast-overflow) looks. */
static void test_npy_of_real_labels(void **state)
{
    (void)state;
    struct store_info info = info_of(0, ELEMENT_U8, LABEL_REAL);
    static const int64_t ids[] = {1, 2, 3};
    static const double labels[] = {-1e300, 0.5, 1e300};
    char *text;
    size_t length = write_rows("npy", &info, 3, ids, labels, NULL, &text);
    size_t header = length - 3 * 16;
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(text + header + i * 16 + 8, &labels[i], 8);
    text[header - 1] = '\0';
    assert_non_null(strstr(text + 10, "('label', '<f8')"));
    free(text);
}

static void test_npy_on_a_pipe_is_the_same(void **state)
{
    (void)state;
    struct store_info info = info_of(3, ELEMENT_F32, LABEL_REAL);
    static const int64_t ids[] = {5, 6};
    static const double labels[] = {-1.5, 2};
    static const float features[] = {1, 2, 3, 4, 5, 6};
    struct output *output;
    struct row_writer *writer;
    char *text;
    char piped[4096];
    int ends[2];
    size_t length = write_rows("npy", &info, 2, ids, labels, features, &text);
    assert_int_equal(pipe(ends), 0);
    assert_ok(output_open(ends[1], "pipe", &output));
    assert_false(output_seekable(output));
    struct feed_batch batch = {
        .rows = 2, .ids = ids, .labels = labels, .features = features, .width = info.features};
    assert_ok(row_writer_open("npy", &info, &no_extras, output, &writer));
    assert_ok(row_writer_add(writer, &batch));
    assert_ok(row_writer_finish(writer));
    row_writer_close(writer);
    output_close(output);
    close(ends[1]);
    assert_int_equal(read(ends[0], piped, sizeof(piped)), length);
    assert_memory_equal(piped, text, length);
    close(ends[0]);
    free(text);
}

static void test_npy_cut_short_has_no_header(void **state)
{
    (void)state;
    struct store_info info = info_of(1, ELEMENT_U8, LABEL_NONE);
    struct output *output;
    struct row_writer *writer;
    int64_t id = 1;
    double label = 0;
    FILE *file = fopen(path, "w+");
    assert_ok(output_open(fileno(file), "out", &output));
    struct feed_batch batch = {
        .rows = 1, .ids = &id, .labels = &label, .features = "x", .width = info.features};
    assert_ok(row_writer_open("npy", &info, &no_extras, output, &writer));
    assert_ok(row_writer_add(writer, &batch));
    assert_ok(output_flush(output));
    row_writer_close(writer);
    output_close(output);
    rewind(file);
    assert_int_equal(fgetc(file), 0);
    fclose(file);
}

/* Its rows go to a temporary file where the output cannot go back to the header. */
static void test_npy_without_a_place_for_its_rows(void **state)
{
    (void)state;
    struct store_info info = info_of(1, ELEMENT_U8, LABEL_NONE);
    struct output *output;
    struct row_writer *writer;
    const char *before = getenv("TMPDIR");
    char *kept = before ? strdup(before) : NULL;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_ok(output_open(ends[1], "pipe", &output));
    setenv("TMPDIR", "/dev/null/no-folder", 1);
    assert_fails(row_writer_open("npy", &info, &no_extras, output, &writer), ERROR_NOT_FOUND,
                 "no-folder");
    if (kept)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
    free(kept);
    output_close(output);
    close(ends[0]);
    close(ends[1]);
}

static void test_raw(void **state)
{
    (void)state;
    struct store_info info = info_of(3, ELEMENT_U8, LABEL_REAL);
    static const int64_t ids[] = {5, -6};
    static const double labels[] = {-1.5, 2};
    static const uint8_t features[] = {1, 2, 3, 4, 5, 6};
    char *text;
    assert_int_equal(write_rows("raw", &info, 2, ids, labels, features, &text), 2 * 19);
    assert_memory_equal(text + 19, &ids[1], 8);
    assert_memory_equal(text + 27, &labels[1], 8);
    assert_memory_equal(text + 35, features + 3, 3);
    free(text);
}

/* Two rows, three wide, of one feature and of three. */
static void test_rows_that_differ_in_length(void **state)
{
    (void)state;
    struct store_info info = info_of(3, ELEMENT_U8, LABEL_INTEGER);
    static const int64_t ids[] = {5, 6}, lengths[] = {1, 3};
    static const double labels[] = {1, 2};
    static const uint8_t features[] = {7, 0, 0, 4, 5, 6};
    char *text;
    info.lengths = LENGTHS_VARY;
    info.feature_names = NULL;
    lengths_written = lengths;
    size_t length = write_rows("csv", &info, 2, ids, labels, features, &text);
    assert_int_equal(length, strlen("id,label\n5,1,7\n6,2,4,5,6\n"));
    assert_memory_equal(text, "id,label\n5,1,7\n6,2,4,5,6\n", length);
    free(text);
    assert_int_equal(write_rows("raw", &info, 2, ids, labels, features, &text), 2 * 24 + 4);
    assert_memory_equal(text + 16, &lengths[0], 8);
    assert_int_equal(text[24], 7);
    assert_memory_equal(text + 25 + 16, &lengths[1], 8);
    assert_memory_equal(text + 25 + 24, features + 3, 3);
    free(text);
    length = write_rows("npy", &info, 2, ids, labels, features, &text);
    assert_non_null(strstr(text + 10, "('label', '<i8'), ('length', '<i8'), ('x', '|u1', (3,))"));
    assert_memory_equal(text + length - 2 * 27 + 16, &lengths[0], 8);
    assert_memory_equal(text + length - 2 * 27 + 24, features, 3);
    assert_memory_equal(text + length - 11, &lengths[1], 8);
    assert_memory_equal(text + length - 3, features + 3, 3);
    free(text);
    lengths_written = NULL;
}

/* ---- outputs ------------------------------------------------------------ */

static void test_a_reader_that_is_gone(void **state)
{
    (void)state;
    struct output *output;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_ok(output_open(ends[1], "the pipe", &output));
    assert_ok(output_add(output, "x", 1));
    assert_fails(output_flush(output), ERROR_IO, "the pipe: its reader is gone");
    assert_ok(output_end(output, ERROR_IO)); /* it has all it wants */
    output_close(NULL);
    close(ends[1]);
}

static void test_a_full_disk(void **state)
{
    (void)state;
    struct output *output;
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    assert_fails(output_open(-1, "nowhere", &output), ERROR_IO, "cannot write to nowhere");
    assert_ok(output_open(fileno(full), "the disk", &output));
    assert_ok(output_add(output, "x", 1));
    assert_fails(output_flush(output), ERROR_NO_SPACE, "the disk");
    output_close(output);
    fclose(full);
}

static void test_a_file_that_appends_cannot_go_back(void **state)
{
    (void)state;
    struct output *output;
    FILE *file = fopen(path, "a");
    assert_ok(output_open(fileno(file), "out", &output));
    assert_false(output_seekable(output));
    output_close(output);
    fclose(file);
}

static void test_patches_count_from_the_start(void **state)
{
    (void)state;
    struct output *output;
    char text[32] = "";
    FILE *file = fopen(path, "w+");
    fputs("before ", file);
    fflush(file);
    assert_ok(output_open(fileno(file), "out", &output));
    assert_ok(output_add(output, "____ after", 10));
    assert_ok(output_patch(output, "here", 4, 0));
    assert_ok(output_add(output, "!", 1));
    assert_ok(output_flush(output));
    output_close(output);
    rewind(file);
    assert_non_null(fgets(text, sizeof(text), file));
    assert_string_equal(text, "before here after!");
    fclose(file);
}

static void test_room_for_which_there_is_no_memory(void **state)
{
    struct output *output;
    char *room = NULL;
    FILE *file = fopen(path, "w");
    (void)state;
    assert_non_null(file);
    assert_ok(output_open(fileno(file), "out", &output));
    assert_fails(output_reserve(output, SIZE_MAX / 4, &room), ERROR_MEMORY, "an output buffer");
    assert_null(room);
    assert_ok(output_add(output, "kept", 4));
    output_close(output);
    fclose(file);
}

static void test_unknown_format(void **state)
{
    (void)state;
    struct store_info info = info_of(1, ELEMENT_U8, LABEL_NONE);
    struct output *output;
    struct row_writer *writer;
    assert_ok(output_open(1, "out", &output));
    assert_fails(row_writer_open("xml", &info, &no_extras, output, &writer), ERROR_USAGE, "xml");
    row_writer_close(NULL);
    output_close(output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv_of_bytes),
        cmocka_unit_test(test_csv_of_text_labels),
        cmocka_unit_test(test_floats_read_back_the_same),
        cmocka_unit_test(test_csv_of_integers),
        cmocka_unit_test(test_npy_of_bytes),
        cmocka_unit_test(test_npy_of_text_labels),
        cmocka_unit_test(test_npy_of_real_labels),
        cmocka_unit_test(test_npy_on_a_pipe_is_the_same),
        cmocka_unit_test(test_npy_cut_short_has_no_header),
        cmocka_unit_test(test_npy_without_a_place_for_its_rows),
        cmocka_unit_test(test_raw),
        cmocka_unit_test(test_rows_that_differ_in_length),
        cmocka_unit_test(test_a_reader_that_is_gone),
        cmocka_unit_test(test_a_full_disk),
        cmocka_unit_test(test_a_file_that_appends_cannot_go_back),
        cmocka_unit_test(test_patches_count_from_the_start),
        cmocka_unit_test(test_room_for_which_there_is_no_memory),
        cmocka_unit_test(test_unknown_format),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

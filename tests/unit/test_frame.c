/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/frame/frame: Frames in memory: what they hold is what the store holds, however
 * they keep it.
 */
#include "tests/unit/frame_unit.h"

#include "tests/unit/folder_unit.h"

#include <inttypes.h>

#include "sampler/build/frame_build.h"
#include "sampler/frame/frame.h"
#include "sampler/frame/frame_view.h"
#include "sampler/shuffle/random.h"

static struct frame *frame_of(const struct listed_unit *units, size_t count)
{
    char uri[512];
    struct frame *frame;
    write_list(folder, "list.csv", units, count, uri);
    assert_ok(frame_build(uri, &frame));
    return frame;
}

/* ---- ranges ------------------------------------------------------------- */

static void test_closed_form_equals_the_scan(void **state)
{
    (void)state;
    static const char *const uris[] = {"range:1",
                                       "range:1?labels=1",
                                       "range:5?labels=9",
                                       "range:9?labels=9",
                                       "range:10?labels=9",
                                       "range:1000",
                                       "range:1000?labels=1",
                                       "range:1000?labels=7",
                                       "range:12345?labels=300",
                                       "range:70000?labels=66000"};
    for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
        struct frame *closed;
        struct frame *scanned;
        assert_ok(frame_build(uris[i], &closed));
        assert_ok(frame_build_by_scan(uris[i], &scanned));
        check_equal_frames(closed, scanned);
        frame_free(closed);
        frame_free(scanned);
    }
}

static void test_any_store_with_the_list_has_its_digest(void **state)
{
    (void)state;
    struct listed_unit units[20];
    static const char *const digits[] = {"0", "1", "2"};
    struct frame *range;
    for (int i = 0; i < 20; i++)
        units[i] = (struct listed_unit){.id = i, .label = digits[i % 3]};
    struct frame *listed = frame_of(units, 20);
    assert_ok(frame_build("range:20?labels=3", &range));
    check_equal_frames(range, listed);
    frame_free(range);
    frame_free(listed);
}

/* Anything else in the list is another digest. */
static void test_digests_differ(void **state)
{
    (void)state;
    static const char *const others[] = {"range:100?labels=3", "range:99?labels=4", "range:100",
                                         "range:100?labels=100", "range:100?labels=1"};
    struct listed_unit units[100];
    static const char *const names[] = {"0", "1", "2", "3"};
    struct frame *frame;
    struct frame_digest digests[8];
    size_t count = 0;
    assert_ok(frame_build("range:100?labels=4", &frame));
    digests[count++] = *frame_digest(frame);
    frame_free(frame);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_ok(frame_build(others[i], &frame));
        digests[count++] = *frame_digest(frame);
        frame_free(frame);
    }
    for (int changed = 0; changed < 2; changed++) {
        for (int i = 0; i < 100; i++)
            units[i] = (struct listed_unit){.id = i, .label = names[i % 4]};
        if (changed)
            units[57].label = "3";
        else
            units[99].id = 100;
        frame = frame_of(units, 100);
        digests[count++] = *frame_digest(frame);
        frame_free(frame);
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(&digests[i], &digests[j], sizeof(digests[i]));
    }
}

static void test_huge_range(void **state)
{
    (void)state;
    int64_t units = INT64_C(1) << 61;
    struct frame *frame;
    char uri[64];
    snprintf(uri, sizeof(uri), "range:%" PRId64 "?labels=10", units);
    assert_ok(frame_build(uri, &frame));
    int64_t sum = 0;
    for (uint32_t label = 0; label < 10; label++)
        sum += frame_label_units(frame, label);
    assert_true(sum == units);
    assert_true(frame_find(frame, units - 1) == units - 1 && frame_find(frame, units) == -1);
    assert_true(frame_stratum_row(frame, frame_label(frame, units - 1),
                                  frame_stratum_rank(frame, units - 1)) == units - 1);
    frame_free(frame);
}

/* ---- lists -------------------------------------------------------------- */

static void test_lists_of_every_kind(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    static const char *const words[] = {"dog", "cat", "\xc3\xa4pfel", "7",
                                        "-1",  "07",  "zebra",        "Cat"};
    static const int64_t steps[] = {1, 3, -1, 1000000007, INT64_C(3000000000000001)};
    static struct listed_unit units[COUNT];
    for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
        for (uint64_t i = 0; i < COUNT; i++) {
            units[i].id = 5000 + steps[s] * (int64_t)i;
            units[i].label = words[random_mix(i) % 8 * (random_mix(i) % 3 > 0)];
        }
        for (size_t shuffled = 0; shuffled < 2; shuffled++) {
            for (uint64_t i = COUNT - 1; shuffled && i > 0; i--) {
                uint64_t j = random_mix(i) % (i + 1);
                int64_t id = units[i].id;
                units[i].id = units[j].id;
                units[j].id = id;
            }
            struct frame *frame = frame_of(units, COUNT);
            assert_false(frame_labels_are_integers(frame));
            check_list(frame, units, COUNT);
            assert_true(frame_find(frame, 2000) == -1);
            assert_true(frame_find(frame, INT64_MAX) == -1 && frame_find(frame, 0) == -1);
            assert_int_equal(frame_find_label(frame, "no such label"), -1);
            frame_free(frame);
        }
    }
}

static void test_integer_labels_ascend_by_value(void **state)
{
    (void)state;
    static const struct listed_unit units[] = {{4, "10"}, {5, "9"},
                                               {6, "-3"}, {7, "9223372036854775807"},
                                               {8, "0"},  {9, "-9223372036854775808"}};
    static const char *const expected[] = {"-9223372036854775808", "-3", "0", "9", "10",
                                           "9223372036854775807"};
    struct frame *frame = frame_of(units, 6);
    check_list(frame, units, 6);
    assert_true(frame_labels_are_integers(frame) && frame_has_labels(frame));
    for (uint32_t label = 0; label < 6; label++)
        assert_string_equal(frame_label_text(frame, label), expected[label]);
    frame_free(frame);
}

/* One that is not a canonical integer makes all of them texts, ascending by bytes. */
static void test_text_labels_ascend_by_bytes(void **state)
{
    (void)state;
    static const struct listed_unit units[] = {
        {1, "10"}, {2, "9"}, {3, "09"}, {4, "-0"}, {5, "1.5"}};
    static const char *const expected[] = {"-0", "09", "1.5", "10", "9"};
    struct frame *frame = frame_of(units, 5);
    check_list(frame, units, 5);
    assert_false(frame_labels_are_integers(frame));
    for (uint32_t label = 0; label < 5; label++)
        assert_string_equal(frame_label_text(frame, label), expected[label]);
    frame_free(frame);
}

/* More than 2^8 and 2^16 labels: codes of two and four bytes. */
static void test_many_labels(void **state)
{
    (void)state;
    enum { MOST = 140000 };
    static const size_t counts[] = {255, 256, 257, 65535, 65537, MOST};
    struct listed_unit *units = calloc(MOST, sizeof(*units));
    char(*texts)[24] = calloc(MOST, sizeof(*texts));
    assert_true(units && texts);
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        for (size_t i = 0; i < MOST; i++) {
            snprintf(texts[i], sizeof(*texts), "L%zu", random_mix(i) % counts[c]);
            units[i] = (struct listed_unit){.id = (int64_t)(2 * i), .label = texts[i]};
        }
        struct frame *frame = frame_of(units, MOST);
        check_list(frame, units, MOST);
        frame_free(frame);
    }
    free(texts);
    free(units);
}

static void test_weights_and_groups(void **state)
{
    (void)state;
    char uri[512], path[400];
    struct frame *frame;
    struct frame *plain;
    snprintf(path, sizeof(path), "%s/full.csv", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("id,label,w,g\n1,a,0.5,north\n2,b,2,south\n3,a,0,north\n9,a,1e-3,west\n", file);
    assert_int_equal(fclose(file), 0);
    snprintf(uri, sizeof(uri), "csv:%s?id=id&weight=w&group=g", path);
    assert_ok(frame_build(uri, &frame));
    snprintf(uri, sizeof(uri), "csv:%s?id=id", path);
    assert_ok(frame_build(uri, &plain));
    assert_non_null(frame_weights(frame));
    assert_true(frame_weights(frame)[1] == 2 && frame_weights(frame)[3] == 1e-3);
    const struct partition *groups = frame_groups(frame);
    assert_non_null(groups);
    assert_int_equal(groups->count, 3);
    assert_string_equal(dictionary_text(&groups->dictionary, partition_category(groups, 3)),
                        "west");
    assert_true(partition_units(groups, 0) == 2 && partition_row(groups, 0, 1) == 2);
    assert_true(frame_weights(plain) == NULL && frame_groups(plain) == NULL);
    assert_memory_not_equal(frame_digest(frame), frame_digest(plain), sizeof(struct frame_digest));
    frame_free(plain);
    frame_free(frame);
}

/* ---- slices ------------------------------------------------------------- */

static void test_slices(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    static struct listed_unit units[COUNT];
    static const char *const words[] = {"3", "1", "22", "x"};
    static const int64_t parts[][2] = {{0, 500},  {0, 1},     {499, 500},
                                       {17, 300}, {100, 108}, {1, 500}};
    for (uint64_t i = 0; i < COUNT; i++)
        units[i] = (struct listed_unit){.id = (int64_t)(i * 7919 % 100003),
                                        .label = i < 250 ? words[i % 3] : words[random_mix(i) % 4]};
    struct frame *whole = frame_of(units, COUNT);
    for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
        int64_t begin = parts[p][0];
        size_t count = (size_t)(parts[p][1] - begin);
        struct frame *slice;
        assert_ok(frame_view(whole, begin, parts[p][1], NULL, SPLIT_NONE, &slice));
        check_list(slice, units + begin, count);
        struct frame *alone = frame_of(units + begin, count);
        check_equal_frames(slice, alone);
        frame_free(alone);
        frame_free(slice);
    }
    frame_free(whole);
}

static void test_slices_of_ranges(void **state)
{
    (void)state;
    static const int64_t parts[][2] = {{0, 1000},   {3, 10},    {3, 11},
                                       {993, 1000}, {499, 507}, {5, 999}};
    struct frame *whole;
    assert_ok(frame_build("range:1000?labels=8", &whole));
    for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
        int64_t begin = parts[p][0], end = parts[p][1];
        static struct listed_unit units[1000];
        static const char *const digits[] = {"0", "1", "2", "3", "4", "5", "6", "7"};
        struct frame *slice;
        for (int64_t row = begin; row < end; row++)
            units[row - begin] = (struct listed_unit){.id = row, .label = digits[row % 8]};
        assert_ok(frame_view(whole, begin, end, NULL, SPLIT_NONE, &slice));
        check_list(slice, units, (size_t)(end - begin));
        struct frame *alone = frame_of(units, (size_t)(end - begin));
        check_equal_frames(slice, alone);
        frame_free(alone);
        frame_free(slice);
    }
    frame_free(whole);
}

static void test_slices_that_cannot_be(void **state)
{
    (void)state;
    struct frame *whole;
    struct frame *slice;
    assert_ok(frame_build("range:100", &whole));
    assert_fails(frame_view(whole, 0, 101, NULL, SPLIT_NONE, &slice), ERROR_USAGE, "100 units");
    assert_fails(frame_view(whole, 5, 5, NULL, SPLIT_NONE, &slice), ERROR_USAGE, "5:5");
    assert_fails(frame_view(whole, -1, 5, NULL, SPLIT_NONE, &slice), ERROR_USAGE, "-1:5");
    frame_free(whole);
}

/* ---- bad stores --------------------------------------------------------- */

static void test_ids_that_come_twice(void **state)
{
    (void)state;
    static const struct listed_unit units[] = {{1, "a"}, {7, "b"}, {3, "a"}, {7, "a"}};
    char uri[512];
    struct frame *frame;
    write_list(folder, "list.csv", units, 4, uri);
    assert_fails(frame_build(uri, &frame), ERROR_INPUT, "7");
    /* both rows are named by their places in the store */
    static const struct listed_unit twice[] = {
        {10, "a"}, {30, "a"}, {20, "a"}, {50, "a"}, {30, "b"}};
    write_list(folder, "twice.csv", twice, 5, uri);
    assert_fails(frame_build(uri, &frame), ERROR_INPUT, "id 30 comes twice: in");
    assert_non_null(strstr(error_message(), "line 3 and in"));
    assert_non_null(strstr(error_message(), "line 6"));
}

static void expect_failure(const char *text, enum error error, const char *message)
{
    char path[400], uri[512];
    struct frame *frame;
    snprintf(path, sizeof(path), "%s/bad.csv", folder);
    snprintf(uri, sizeof(uri), "csv:%s?id=id&label=label", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_fails(frame_build(uri, &frame), error, message);
}

static void test_bad_stores(void **state)
{
    (void)state;
    struct frame *frame;
    expect_failure("id,label\n", ERROR_INPUT, "bad.csv");
    expect_failure("id,label\n1,a\n-2,b\n", ERROR_INPUT, "-2");
    expect_failure("id,label\n1,a\n2,\n", ERROR_INPUT, "label");
    expect_failure("id,label\n1,a\n2,\xff\xfe\n", ERROR_INPUT, "UTF-8");
    assert_fails(frame_build("range:0", &frame), ERROR_USAGE, "range:N?labels=K");
    assert_fails(frame_build("range:ten", &frame), ERROR_USAGE, "ten");
    assert_fails(frame_build("range:10?labels=0", &frame), ERROR_USAGE, "labels");
    assert_fails(frame_build("range:10?label=5", &frame), ERROR_USAGE, "label");
    assert_int_not_equal(frame_build("csv:/no/such/file.csv", &frame), OK);
    frame_free(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_closed_form_equals_the_scan),
    cmocka_unit_test(test_any_store_with_the_list_has_its_digest),
    cmocka_unit_test(test_digests_differ),
    cmocka_unit_test(test_huge_range),
    cmocka_unit_test(test_lists_of_every_kind),
    cmocka_unit_test(test_integer_labels_ascend_by_value),
    cmocka_unit_test(test_text_labels_ascend_by_bytes),
    cmocka_unit_test(test_many_labels),
    cmocka_unit_test(test_weights_and_groups),
    cmocka_unit_test(test_slices),
    cmocka_unit_test(test_slices_of_ranges),
    cmocka_unit_test(test_slices_that_cannot_be),
    cmocka_unit_test(test_ids_that_come_twice),
    cmocka_unit_test(test_bad_stores),
};

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

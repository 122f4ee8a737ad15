/* SPDX-License-Identifier: MIT */
/* Covers trainer/model/targets. */
#include "tests/unit/fake_sampler.h"

#include <math.h>

#include "common/json.h"
#include "trainer/model/classes.h"
#include "trainer/model/targets.h"

static enum error try_classes(const char *text, struct classes **ret_classes)
{
    cJSON *json = NULL;
    enum error error;

    assert_ok(json_parse(text, strlen(text), "test", &json));
    error = classes_new(json, "the list", ret_classes);
    cJSON_Delete(json);
    return error;
}

static struct classes *make_classes(const char *text)
{
    struct classes *classes = NULL;

    assert_ok(try_classes(text, &classes));
    return classes;
}

static void test_classes_are_sorted_and_found(void **state)
{
    struct classes *classes = make_classes("[10,-3,9]");

    (void)state;
    assert_int_equal(classes->count, 3);
    assert_true(classes->integers);
    assert_string_equal(classes->texts[0], "-3"); /* by value, not by bytes */
    assert_string_equal(classes->texts[1], "9");
    assert_string_equal(classes->texts[2], "10");
    assert_int_equal(classes_find(classes, "10"), 2);
    assert_int_equal(classes_find(classes, "-3"), 0);
    assert_int_equal(classes_find(classes, "4"), -1);
    assert_int_equal(classes_find(classes, "ten"), -1);
    assert_int_equal(classes_find(classes, ""), -1);
    classes_free(classes);
    classes = make_classes("[\"b\",\"\",\"10\",\"9\",\"\\u00e4\"]");
    assert_false(classes->integers);
    assert_string_equal(classes->texts[0], "");
    assert_string_equal(classes->texts[1], "10"); /* by bytes */
    assert_int_equal(classes_find(classes, "9"), 2);
    assert_int_equal(classes_find(classes, "\xc3\xa4"), 4);
    assert_int_equal(classes_find(classes, "a"), -1);
    classes_free(classes);
}

static void test_class_lists_that_are_none_are_refused(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"[]", "0 labels"},         {"{}", "0 labels"},
        {"[1,2,1]", "comes twice"}, {"[\"a\",\"a\"]", "comes twice"},
        {"[1.5]", "neither"},       {"[true]", "neither"},
        {"[null]", "neither"},      {"[1e300]", "neither"},
        {"[[1]]", "neither"},       {"[9223372036854775808]", "neither"},
    };
    struct classes *classes = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(try_classes(cases[i].text, &classes), ERROR_INPUT);
        assert_non_null(strstr(error_message(), "the list"));
        assert_non_null(strstr(error_message(), cases[i].message));
    }
}

static void test_class_lists_print_what_they_read(void **state)
{
    static const char *const lists[] = {"[0,1,2]", "[\"a\\\"b\",\"c\\\\\"]", "[-5]",
                                        "[\"1\",\"x\"]"};

    (void)state;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct classes *classes = make_classes(lists[i]);
        struct buffer text = BUFFER_INIT(1 << 20);

        assert_ok(classes_print(classes, &text));
        assert_string_equal(text.data, lists[i]);
        buffer_release(&text);
        classes_free(classes);
    }
}

static void test_class_lists_are_compared(void **state)
{
    struct classes *a = make_classes("[0,1,2]"), *b = make_classes("[0,1,3]"),
                   *c = make_classes("[0,1]"), *d = make_classes("[\"0\",\"1\",\"2\"]");
    char text[100];

    (void)state;
    assert_ok(classes_compare(a, "A", a, "B"));
    assert_fails(classes_compare(a, "A", b, "B"), ERROR_CONFLICT, "class 2 of A");
    assert_fails(classes_compare(a, "A", c, "B"), ERROR_CONFLICT, "A has 3 classes, B has 2");
    assert_fails(classes_compare(a, "A", d, "B"), ERROR_CONFLICT,
                 "the classes of A are numbers, those of B are texts");
    assert_string_equal(classes_describe(a, text, sizeof(text)), "0, 1, 2");
    classes_free(a);
    classes_free(b);
    classes_free(c);
    classes_free(d);
    a = make_classes("[0,1,2,3,4,5,6,7,8,9]");
    assert_string_equal(classes_describe(a, text, sizeof(text)), "0, 1, 2, 3, 4, 5, ... 9");
    assert_true(strlen(classes_describe(a, text, 8)) < 8);
    classes_free(a);
}

static struct store make_store(enum label_kind kind, const char *const *texts, size_t count)
{
    return (struct store){.info = {.uri = "csv:x.csv",
                                   .label_kind = kind,
                                   .label_column = kind == LABEL_NONE ? NULL : "y",
                                   .label_texts = texts,
                                   .label_text_count = count}};
}

/* Numbers of users, hashes: a store of such labels has texts. */
static void test_integers_beyond_doubles_are_classes(void **state)
{
    const char *const texts[] = {"-9223372036854775808", "1", "9007199254740992",
                                 "9007199254740993"};
    struct classes *classes =
        make_classes("[9007199254740993,1,9007199254740992,-9223372036854775808]");
    struct store big = make_store(LABEL_TEXT, texts, 4), small = make_store(LABEL_INTEGER, NULL, 0);
    struct targets *targets = NULL;
    const int64_t ids[] = {5, 6, 7, 8};
    const double labels[] = {0, 1, 2, 3}, numbers[] = {1, 9007199254740992};
    int32_t found[4];

    (void)state;
    assert_true(classes->integers);
    for (int i = 0; i < 4; i++)
        assert_string_equal(classes->texts[i], texts[i]);
    assert_ok(targets_new(classes, &big, &targets));
    assert_ok(targets_convert(targets, ids, labels, NULL, 4, found, NULL));
    for (int i = 0; i < 4; i++)
        assert_int_equal(found[i], i);
    targets_free(targets);
    assert_ok(targets_new(classes, &small, &targets)); /* of test rows, say */
    assert_ok(targets_convert(targets, ids, numbers, NULL, 2, found, NULL));
    assert_int_equal(found[0], 1);
    assert_int_equal(found[1], 2);
    targets_free(targets);
    classes_free(classes);
}

static void test_integer_labels_become_classes(void **state)
{
    struct classes *classes = make_classes("[10,-3,9]");
    struct store store = make_store(LABEL_INTEGER, NULL, 0);
    struct targets *targets = NULL;
    const int64_t ids[] = {5, 6, 7};
    const double labels[] = {9, 10, -3}, unknown[] = {9, 4, -3}, zeros[] = {0, 9, 0};
    const enum row_status status[] = {ROW_BAD, ROW_OK, ROW_OK},
                          all_bad[] = {ROW_BAD, ROW_OK, ROW_MISSING};
    int32_t found[3];

    (void)state;
    assert_ok(targets_new(classes, &store, &targets));
    assert_ok(targets_convert(targets, ids, labels, NULL, 3, found, NULL));
    assert_int_equal(found[0], 1);
    assert_int_equal(found[1], 2);
    assert_int_equal(found[2], 0);
    assert_fails(targets_convert(targets, ids, unknown, NULL, 3, found, NULL), ERROR_INPUT,
                 "csv:x.csv: the row with id 6 has label 4, which is not one of the 3 classes");
    assert_non_null(strstr(error_message(), "-3, 9, 10"));
    assert_int_equal(targets_convert(targets, ids, zeros, NULL, 1, found, NULL), ERROR_INPUT);
    assert_ok(targets_convert(targets, ids, zeros, all_bad, 3, found, NULL)); /* rows of zeros */
    assert_int_equal(found[0], 0);
    assert_int_equal(found[1], 1);
    assert_int_equal(found[2], 0);
    assert_fails(targets_convert(targets, ids, zeros, status, 3, found, NULL), ERROR_INPUT,
                 "the row with id 7 has label 0");
    targets_free(targets);
    classes_free(classes);
}

static void test_labels_0_to_n_are_found_too(void **state)
{
    struct classes *classes = make_classes("[0,1,2]");
    struct store store = make_store(LABEL_INTEGER, NULL, 0);
    struct targets *targets = NULL;
    const int64_t id = 1;
    const double values[] = {0, 1, 2, 3, -1, 0.5, 9007199254740992.0};
    int32_t found;

    (void)state;
    assert_ok(targets_new(classes, &store, &targets));
    for (int i = 0; i < 3; i++) {
        assert_ok(targets_convert(targets, &id, &values[i], NULL, 1, &found, NULL));
        assert_int_equal(found, i);
    }
    for (int i = 3; i < 7; i++)
        assert_int_equal(targets_convert(targets, &id, &values[i], NULL, 1, &found, NULL),
                         ERROR_INPUT);
    targets_free(targets);
    classes_free(classes);
}

static void test_text_labels_become_classes(void **state)
{
    static const char *const texts[] = {"bird", "cat", "dog"};
    struct classes *classes = make_classes("[\"dog\",\"cat\"]");
    struct store store = make_store(LABEL_TEXT, texts, 3);
    struct targets *targets = NULL;
    const int64_t ids[] = {1, 2};
    const double labels[] = {2, 1}, unknown[] = {1, 0};
    int32_t found[2];

    (void)state;
    assert_ok(targets_new(classes, &store, &targets));
    assert_ok(targets_convert(targets, ids, labels, NULL, 2, found, NULL));
    assert_int_equal(found[0], 1);
    assert_int_equal(found[1], 0);
    assert_int_equal(targets_convert(targets, ids, unknown, NULL, 2, found, NULL), ERROR_INPUT);
    assert_non_null(strstr(error_message(), "bird"));
    assert_non_null(strstr(error_message(), "id 2"));
    targets_free(targets);
    classes_free(classes);
}

/* One store reads a column as integers, another, with a word in it, as texts. */
static void test_kinds_may_differ_between_stores(void **state)
{
    static const char *const texts[] = {"1", "2", "none"};
    struct classes *integers = make_classes("[1,2]"), *words = make_classes("[\"2\",\"none\"]"),
                   *same = make_classes("[\"1\",\"01\",\"x\"]");
    struct store text_store = make_store(LABEL_TEXT, texts, 3),
                 integer_store = make_store(LABEL_INTEGER, NULL, 0);
    struct targets *targets = NULL;
    const int64_t id = 0;
    double label = 1; /* "2" */
    int32_t found;

    (void)state;
    assert_ok(targets_new(integers, &text_store, &targets));
    assert_ok(targets_convert(targets, &id, &label, NULL, 1, &found, NULL));
    assert_int_equal(found, 1);
    targets_free(targets);
    assert_ok(targets_new(words, &integer_store, &targets));
    label = 2;
    assert_ok(targets_convert(targets, &id, &label, NULL, 1, &found, NULL));
    assert_int_equal(found, 0);
    targets_free(targets);
    assert_fails(targets_new(same, &integer_store, &targets), ERROR_INPUT, "the same number");
    classes_free(integers);
    classes_free(words);
    classes_free(same);
}

/* Convert `labels` of a store of `kind`; each must be of the class beside it. */
static void assert_classes(const char *list, enum label_kind kind, const double *labels,
                           const int32_t *expected, size_t count)
{
    struct classes *classes = make_classes(list);
    struct store store = make_store(kind, NULL, 0);
    struct targets *targets = NULL;
    const int64_t id = 4;
    int32_t found;

    assert_ok(targets_new(classes, &store, &targets));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(targets_find(targets, labels[i]), expected[i]);
        if (expected[i] >= 0)
            assert_ok(targets_convert(targets, &id, &labels[i], NULL, 1, &found, NULL));
        else
            assert_fails(targets_convert(targets, &id, &labels[i], NULL, 1, &found, NULL),
                         ERROR_INPUT, "id 4");
    }
    targets_free(targets);
    classes_free(classes);
}

/* What the sampler numbers as texts, a store may know as numbers, and the other way round. */
static void test_numbers_are_found_by_value_however_they_are_written(void **state)
{
    static const double one_two[] = {1, 2, 3, 1.5};
    static const int32_t first_second[] = {0, 1, -1, -1};
    static const double mixed[] = {7, 8, 100, 0.5, 0};
    static const int32_t mixed_classes[] = {1, 3, 2, 0, -1}; /* by bytes: 0.5 007 1e2 8 x */

    (void)state;
    assert_classes("[\"1.0\",\"2.0\"]", LABEL_REAL, one_two, first_second, 4);
    assert_classes("[\"1.0\",\"2.0\"]", LABEL_INTEGER, one_two, first_second, 4);
    assert_classes("[1,2]", LABEL_REAL, one_two, first_second, 4);
    assert_classes("[\"007\",\"8\",\"1e2\",\"0.5\",\"x\"]", LABEL_REAL, mixed, mixed_classes, 5);
    assert_classes("[\"007\",\"8\",\"1e2\",\"0.5\",\"x\"]", LABEL_INTEGER, mixed, mixed_classes, 5);
    assert_classes("[\"cat\",\"nan\",\"1e999\"]", LABEL_REAL, mixed,
                   (int32_t[]){-1, -1, -1, -1, -1}, 5);
}

static void test_one_number_written_two_ways_is_ambiguous(void **state)
{
    static const char *const lists[] = {"[\"7\",\"007\"]", "[\"1\",\"1.0\",\"x\"]",
                                        "[\"-0\",\"0.0\"]"};
    static const char *const both[] = {"'007' and '7'", "'1' and '1.0'", "'-0' and '0.0'"};
    static const enum label_kind kinds[] = {LABEL_INTEGER, LABEL_REAL};
    struct targets *targets = NULL;

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        struct classes *classes = make_classes(lists[i / 2]);
        struct store store = make_store(kinds[i % 2], NULL, 0);

        assert_fails(targets_new(classes, &store, &targets), ERROR_INPUT, both[i / 2]);
        assert_null(targets);
        classes_free(classes);
    }
}

static void test_a_real_that_is_no_class_hints_at_the_regression(void **state)
{
    struct classes *classes = make_classes("[0,1]");
    struct store store = make_store(LABEL_REAL, NULL, 0);
    struct targets *targets = NULL;
    const int64_t id = 4;
    const double label = 0.25;
    int32_t found;

    (void)state;
    assert_ok(targets_new(classes, &store, &targets));
    assert_fails(targets_convert(targets, &id, &label, NULL, 1, &found, NULL), ERROR_INPUT,
                 "--model linear");
    targets_free(targets);
    classes_free(classes);
}

static void test_labels_that_do_not_fit_the_model_are_refused(void **state)
{
    static const char *const texts[] = {"cat"};
    struct classes *classes = make_classes("[0,1]");
    struct store none = make_store(LABEL_NONE, NULL, 0), text = make_store(LABEL_TEXT, texts, 1);
    struct targets *targets = NULL;

    (void)state;
    assert_fails(targets_new(classes, &none, &targets), ERROR_INPUT, "no label column");
    assert_fails(targets_new(NULL, &none, &targets), ERROR_INPUT, "no label column");
    assert_fails(targets_new(NULL, &text, &targets), ERROR_INPUT, "a regression (linear) needs");
    assert_null(targets);
    classes_free(classes);
}

static void test_a_regression_takes_numbers(void **state)
{
    struct store store = make_store(LABEL_REAL, NULL, 0);
    struct targets *targets = NULL;
    const int64_t ids[] = {1, 2};
    const double labels[] = {0.1, -1e30}, too_large[] = {1, 1e39};
    float numbers[2];

    (void)state;
    assert_ok(targets_new(NULL, &store, &targets));
    assert_ok(targets_convert(targets, ids, labels, NULL, 2, NULL, numbers));
    assert_true(numbers[0] == 0.1f && numbers[1] == -1e30f);
    assert_fails(targets_convert(targets, ids, too_large, NULL, 2, NULL, numbers), ERROR_INPUT,
                 "id 2 has label 1e+39");
    targets_free(targets);
}

/* ---- memory that is short while the sampler's list is read --------------- */

static int pieces_left;

static void *rationed(size_t bytes)
{
    return pieces_left-- > 0 ? malloc(bytes) : NULL;
}

static void test_a_list_from_the_sampler_without_memory(void **state)
{
    struct fake_sampler sampler = {.units = 2,
                                   .labels = "{\"labels\":[{\"label\":7},{\"label\":5}]}"};
    struct classes *classes = NULL;
    enum error error = ERROR_MEMORY;
    int lists = 0;
    (void)state;
    fake_start(&sampler);
    for (int pieces = 0; error && pieces < 100; pieces++) {
        pieces_left = pieces;
        cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = rationed, .free_fn = free});
        error = classes_fetch(sampler.url, "default", 10000, &classes);
        cJSON_InitHooks(NULL);
        if (error)
            assert_int_equal(error, ERROR_MEMORY);
        lists += error && strstr(error_message(), "a list of labels");
    }
    fake_stop(&sampler);
    assert_int_equal(lists, 3); /* itself, and each label in it */
    assert_string_equal(classes->texts[0], "5");
    classes_free(classes);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_classes_are_sorted_and_found),
    cmocka_unit_test(test_class_lists_that_are_none_are_refused),
    cmocka_unit_test(test_class_lists_print_what_they_read),
    cmocka_unit_test(test_class_lists_are_compared),
    cmocka_unit_test(test_integers_beyond_doubles_are_classes),
    cmocka_unit_test(test_integer_labels_become_classes),
    cmocka_unit_test(test_labels_0_to_n_are_found_too),
    cmocka_unit_test(test_text_labels_become_classes),
    cmocka_unit_test(test_kinds_may_differ_between_stores),
    cmocka_unit_test(test_numbers_are_found_by_value_however_they_are_written),
    cmocka_unit_test(test_one_number_written_two_ways_is_ambiguous),
    cmocka_unit_test(test_a_real_that_is_no_class_hints_at_the_regression),
    cmocka_unit_test(test_labels_that_do_not_fit_the_model_are_refused),
    cmocka_unit_test(test_a_regression_takes_numbers),
    cmocka_unit_test(test_a_list_from_the_sampler_without_memory),
};

UNIT_MAIN(tests)

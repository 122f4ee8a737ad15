/* SPDX-License-Identifier: MIT */
/* Covers trainer/run/confusion: with evaluation_print. */
#include "tests/unit/unit.h"

#include "common/json.h"
#include "trainer/run/confusion.h"
#include "trainer/run/evaluation_print.h"

/* Three classes, the last of which no row has and none is given: 3 hits of 5. */
static void fill(struct confusion *confusion)
{
    static const int32_t classes[] = {0, 0, 0, 1, 1};
    static const float scores[] = {2, 1, 0, 3,  3, -1, /* the first of equals */
                                   0, 1, 0, -1, 5, 0,  1, 0, 0};
    assert_ok(confusion_init(confusion, 3));
    confusion_add(confusion, classes, scores, 2);
    confusion_add(confusion, classes + 2, scores + 6, 3);
}

static void check(struct confusion_figures figures, double precision, double recall, double f1,
                  int64_t support)
{
    assert_float_equal(figures.precision, precision, 1e-15);
    assert_float_equal(figures.recall, recall, 1e-15);
    assert_float_equal(figures.f1, f1, 1e-15);
    assert_int_equal(figures.support, support);
}

static void test_the_figures_of_classes(void **state)
{
    struct confusion confusion;
    static const int64_t matrix[] = {2, 1, 0, 1, 1, 0, 0, 0, 0};
    (void)state;
    fill(&confusion);
    assert_memory_equal(confusion.matrix, matrix, sizeof(matrix));
    check(confusion_class(&confusion, 0), 2 / 3.0, 2 / 3.0, 2 / 3.0, 3);
    check(confusion_class(&confusion, 1), 0.5, 0.5, 0.5, 2);
    check(confusion_class(&confusion, 2), 0, 0, 0, 0);
    double sum = 2 / 3.0 + 0.5, weighted = (3 * 2 / 3.0 + 2 * 0.5) / 5;
    check(confusion_mean(&confusion, false), sum / 2, sum / 2, sum / 2, 5);
    check(confusion_mean(&confusion, true), weighted, weighted, weighted, 5);
    confusion_release(&confusion);
}

static void test_no_rows(void **state)
{
    struct confusion confusion;
    (void)state;
    assert_ok(confusion_init(&confusion, 2));
    check(confusion_mean(&confusion, true), 0, 0, 0, 0);
    check(confusion_mean(&confusion, false), 0, 0, 0, 0);
    confusion_release(&confusion);
    assert_ok(confusion_init(&confusion, 0)); /* of a regression */
    confusion_release(&confusion);
}

static void test_many_classes_have_no_matrix(void **state)
{
    enum { CLASSES = CONFUSION_MATRIX_LIMIT + 1 };
    static float scores[CLASSES];
    static const int32_t last = CLASSES - 1;
    struct confusion confusion;
    (void)state;
    scores[last] = 1;
    assert_ok(confusion_init(&confusion, CLASSES));
    assert_null(confusion.matrix);
    confusion_add(&confusion, &last, scores, 1);
    check(confusion_class(&confusion, CLASSES - 1), 1, 1, 1, 1);
    confusion_release(&confusion);
}

/* A name may have anything in it; numbers read back as they are. */
static void test_a_json_object(void **state)
{
    static char *texts[] = {"a", "\"b\"\n", "c"};
    const struct classes classes = {.count = 3, .texts = texts};
    struct evaluation evaluation = {.rows = 5, .loss = 0.1, .accuracy = 0.6};
    struct buffer out = BUFFER_INIT(EVALUATION_TEXT_LIMIT);
    cJSON *json;
    (void)state;
    fill(&evaluation.confusion);
    evaluation_print_json(&evaluation, &classes, &out);
    assert_ok(out.error);
    assert_ok(json_parse(out.data, out.length, "it", &json));
    assert_true(cJSON_GetObjectItem(json, "accuracy")->valuedouble == 0.6);
    const cJSON *second = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "classes"), 1);
    assert_string_equal(cJSON_GetObjectItem(second, "class")->valuestring, "\"b\"\n");
    assert_true(cJSON_GetObjectItem(second, "recall")->valuedouble == 0.5);
    const cJSON *row = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "confusion"), 0);
    assert_int_equal(cJSON_GetArrayItem(row, 1)->valueint, 1);
    cJSON_Delete(json);
    evaluation_release(&evaluation);
    buffer_release(&out);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_figures_of_classes),
    cmocka_unit_test(test_no_rows),
    cmocka_unit_test(test_many_classes_have_no_matrix),
    cmocka_unit_test(test_a_json_object),
};

UNIT_MAIN(tests)

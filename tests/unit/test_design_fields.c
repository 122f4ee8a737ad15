/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/design/design_fields: A design's own fields: what is taken, one canonical text
 * for it, and a message for all else.
 */
#include "sampler/design/designs.h"
#include "tests/unit/design_unit.h"

#include <math.h>

#include "common/json.h"
#include "loader/store/store_writer.h"
#include "loader/store_open.h"
#include "sampler/build/frame_build.h"
#include "sampler/design/design_fields.h"
#include "sampler/design/label_deviations.h"
#include "sampler/frame/frame_view.h"

static struct frame *labelled_frame(void)
{
    struct frame *frame;
    assert_ok(frame_build("range:1000?labels=12", &frame));
    return frame;
}

/* The canonical text by both ways: of a request's members, and of a text read again. */
static void check_text(const struct frame *frame, const char *design, bool replacement,
                       const char *given, const char *expected)
{
    cJSON *object = NULL;
    char *text;
    struct design_fields fields;
    assert_ok(json_parse(given, strlen(given), "fields", &object));
    assert_ok(design_fields_canonical(frame, design, replacement, object, &text));
    assert_string_equal(text, expected);
    free(text);
    cJSON_Delete(object);
    assert_ok(design_fields_parse(frame, design, replacement, given, &fields));
    assert_ok(design_fields_text(frame, &fields, &text));
    assert_string_equal(text, expected);
    design_fields_release(&fields);
    assert_ok(design_fields_parse(frame, design, replacement, text, &fields));
    free(text);
    assert_ok(design_fields_text(frame, &fields, &text));
    assert_string_equal(text, expected);
    design_fields_release(&fields);
    free(text);
}

static void test_one_text_for_one_thing(void **state)
{
    (void)state;
    struct frame *frame = labelled_frame();
    check_text(frame, "pxk", false, "{\"k\":8, \"p\":2.0}", "{\"p\":2,\"k\":8}");
    check_text(frame, "srs", true, "{}", "");
    check_text(frame, "weighted", true, "{}", "");
    check_text(frame, "weighted", false, "{\"size\":1e3}", "{\"size\":1000}");
    check_text(frame, "systematic", false, "{\"size\":9007199254740993}",
               "{\"size\":9007199254740993}");
    check_text(frame, "cluster", false, "{}", "");
    check_text(frame, "cluster", false, "{\"groups\":3}", "{\"groups\":3}");
    check_text(frame, "bernoulli", false, "{\"rate\":0.10}", "{\"rate\":0.1}");
    check_text(frame, "bernoulli", false, "{\"rate\":0.30000000000000004}",
               "{\"rate\":0.30000000000000004}");
    check_text(frame, "quota", false, "{\"shares\":{\"11\":1e-2,\"3\":0.0,\"2\":7}}",
               "{\"shares\":{\"2\":7,\"11\":0.01}}");
    check_text(frame, "neyman", false, "{\"deviations\":{\"0\":1e300,\"1\":5e-324}}",
               "{\"deviations\":{\"0\":1e+300,\"1\":4.94065645841247e-324}}");
    check_text(frame, "neyman", false, "{\"column\":\"a \\\"b\\\"\"}",
               "{\"column\":\"a \\\"b\\\"\"}");
    frame_free(frame);
}

static void test_all_else_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *design, *text, *message;
        bool replacement;
    } cases[] = {
        {"pxk", "{\"p\":2}", "design pxk needs k", false},
        {"pxk", "", "design pxk needs p, k", false},
        {"pxk", "{\"p\":0,\"k\":1}", "p is 0; right is an integer of at least 1", false},
        {"pxk", "{\"p\":1.5,\"k\":1}", "p is 1.5;", false},
        {"pxk", "{\"p\":\"2\",\"k\":1}", "p is \"2\"", false},
        {"pxk", "{\"p\":[2],\"k\":1}", "p is an array", false},
        {"pxk", "{\"p\":1e30,\"k\":1}", "p is 1e+30", false},
        {"pxk", "{\"p\":1,\"k\":1,\"q\":1}", "not a field of design pxk; it has p, k", false},
        {"srs", "{\"p\":1}", "it has none", false},
        {"weighted", "", "design weighted needs size", false},
        {"weighted", "{\"size\":5}", "design weighted with replacement; it has none", true},
        {"systematic", "{\"size\":-5}", "size is -5", false},
        {"cluster", "{\"groups\":0}", "groups is 0", false},
        {"bernoulli", "{\"rate\":0}", "rate is 0; right is a number above 0", false},
        {"bernoulli", "{\"rate\":1.0000001}", "at most 1", false},
        {"bernoulli", "{\"rate\":true}", "rate is true or false", false},
        {"quota", "{\"shares\":{}}", "no label has a number above 0", false},
        {"quota", "{\"shares\":{\"1\":0}}", "no label has a number above 0", false},
        {"quota", "{\"shares\":{\"1\":-1}}", "shares is -1", false},
        {"quota", "{\"shares\":{\"1\":1e999}}", "\"1e999\" is out of range", false},
        {"quota", "{\"shares\":{\"1\":\"x\"}}", "shares is \"x\"", false},
        {"quota", "{\"shares\":{\"12\":1}}", "from \"0\" to \"11\"", false},
        {"quota", "{\"shares\":{\"01\":1}}", "the frame has no label", false},
        {"quota", "{\"shares\":[1,2]}", "shares is an array", false},
        {"neyman", "", "needs deviations", false},
        {"neyman", "{\"column\":\"\"}", "the name of a column", false},
        {"neyman", "{\"column\":7}", "column is 7", false},
    };
    struct frame *frame = labelled_frame();
    struct design_fields fields;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum error error = design_fields_parse(frame, cases[i].design, cases[i].replacement,
                                               cases[i].text, &fields);
        if (!error || !strstr(error_message(), cases[i].message))
            fail_msg("%s %s: %d %s", cases[i].design, cases[i].text, error, error_message());
    }
    assert_fails(design_fields_parse(frame, "pxk", false, "[1]", &fields), ERROR_USAGE,
                 "an array, not an object");
    assert_fails(design_fields_parse(frame, "pxk", false, "{\"p\":1,\"p\":1}", &fields),
                 ERROR_INPUT, "p");
    cJSON *both = NULL;
    char *text;
    const char *given = "{\"column\":\"x\",\"deviations\":{\"1\":1}}";
    assert_ok(json_parse(given, strlen(given), "fields", &both));
    assert_fails(design_fields_canonical(frame, "neyman", false, both, &text), ERROR_USAGE,
                 "give one of them");
    cJSON_Delete(both);
    frame_free(frame);
}

/* ---- deviations that are measured --------------------------------------- */

/* The same shares serve a part of the frame, by the labels that it has. */
static void test_labels_that_a_part_lacks_are_left_out(void **state)
{
    (void)state;
    struct frame *frame = labelled_frame(), *part;
    struct order *order;
    assert_ok(frame_view(frame, 0, 5, NULL, SPLIT_NONE, &part));
    assert_ok(order_new(
        part, &(struct design){.name = "quota", .fields = "{\"shares\":{\"3\":1,\"11\":2}}"},
        &order));
    assert_string_equal(order_fields(order), "{\"shares\":{\"3\":1}}");
    assert_true(order_epoch_positions(order) == 1 && order_label_share(order, 3) == 1);
    order_free(order);
    const struct design none = {.name = "neyman", .fields = "{\"deviations\":{\"3\":0,\"11\":2}}"};
    assert_fails(order_new(part, &none, &order), ERROR_USAGE, "no label has a number above 0");
    const struct design wrong = {.name = "quota", .fields = "{\"shares\":{\"3\":1,\"12\":2}}"};
    assert_fails(order_new(part, &wrong, &order), ERROR_USAGE, "the frame has no label \"12\"");
    const struct design minus = {.name = "quota", .fields = "{\"shares\":{\"3\":1,\"11\":-2}}"};
    assert_fails(order_new(part, &minus, &order), ERROR_USAGE, "shares is -2");
    frame_free(part);
    frame_free(frame);
}

static void write_store(const char *folder, char uri[512])
{
    char path[400];
    snprintf(path, sizeof(path), "%s/store.csv", folder);
    snprintf(uri, 512, "csv:%s?id=id&label=label", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("id,label,flat,steep\n", file);
    for (int row = 0; row < 3000; row++) /* label c: one unit; label b: flat */
        fprintf(file, "%d,%s,%d,%.3f\n", row * 3,
                row == 0       ? "c"
                : row % 3 == 0 ? "b"
                               : "a",
                7, row % 3 == 0 ? 2.5 : 1e6 + row % 2);
    assert_int_equal(fclose(file), 0);
}

static void test_deviations_of_a_column(void **state)
{
    (void)state;
    char folder[256], uri[512];
    unit_folder_make(folder);
    write_store(folder, uri);
    struct frame *frame, *part;
    double *deviations;
    assert_ok(frame_build(uri, &frame));
    assert_ok(label_deviations(frame, uri, "steep", &deviations));
    assert_true(fabs(deviations[0] - 0.5001250) < 1e-6); /* halves of 0 and 1: sqrt(n/4/(n-1)) */
    assert_true(deviations[1] == 0 && deviations[2] == 0);
    free(deviations);
    assert_fails(label_deviations(frame, uri, "step", &deviations), ERROR_USAGE, "flat, steep");
    assert_ok(frame_view(frame, 10, 14, NULL, SPLIT_NONE, &part));
    assert_ok(label_deviations(part, uri, "steep", &deviations));
    assert_true(deviations[0] > 0.5 && deviations[0] < 0.8);
    free(deviations);
    frame_free(part);
    frame_free(frame);
    unit_folder_remove(folder);
}

/* Weights whose squares no double holds. */
static void test_deviations_of_very_large_and_small_weights(void **state)
{
    char folder[256], path[400], uri[512];
    struct frame *frame;
    double *deviations;
    (void)state;
    unit_folder_make(folder);
    snprintf(path, sizeof(path), "%s/weights.csv", folder);
    snprintf(uri, sizeof(uri), "csv:%s?label=label&weight=w", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("label,w,x\na,1e-300,0\na,3e-300,0\nb,1e300,0\nb,3e300,0\nc,0,0\nc,1.5e308,0\n", file);
    assert_int_equal(fclose(file), 0);
    assert_ok(frame_build(uri, &frame));
    assert_ok(label_deviations(frame, uri, "w", &deviations));
    assert_true(fabs(deviations[0] / 1e-300 - sqrt(2)) < 1e-12);
    assert_true(fabs(deviations[1] / 1e300 - sqrt(2)) < 1e-12);
    assert_true(fabs(deviations[2] / 1.5e308 - sqrt(0.5)) < 1e-12);
    free(deviations);
    frame_free(frame);
    unit_folder_remove(folder);
}

/* A row file has its features in one piece, of which the column is one: the figures are those of
 * the CSV file, which is read by columns, for each element. */
static void check_in_a_piece(const char *folder, enum element element)
{
    char path[300], uri[512], rows[512];
    struct uri place = {.path = rows + strlen("rows:")};
    struct store *store;
    struct store_writer *writer;
    struct frame *frame;
    double *read, *found;
    snprintf(path, sizeof(path), "%s/%d.csv", folder, (int)element);
    snprintf(rows, sizeof(rows), "rows:%s/%d.rows", folder, (int)element);
    snprintf(uri, sizeof(uri), "csv:%s?id=id&label=label%s", path,
             element == ELEMENT_I32 ? "&element=i32" : "");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("id,label,flat,steep\n", file);
    for (int row = 0; row < 200; row++)
        fprintf(file, "%d,%d,7,%d%s\n", row, row % 3, row * row % 200,
                element == ELEMENT_F32 ? ".5" : "");
    assert_int_equal(fclose(file), 0);
    assert_ok(store_open(uri, false, &store));
    assert_int_equal(store_info(store)->element, element);
    assert_ok(store_writer_open(&store_writer_rows_ops, &place, NULL, false, &writer));
    assert_ok(store_writer_begin(writer, store_info(store)));
    assert_ok(store_scan(store, SCAN_FEATURES, store_writer_add, writer));
    assert_ok(store_writer_commit(writer));
    store_writer_close(writer);
    store_close(store);
    assert_ok(frame_build(uri, &frame));
    assert_ok(label_deviations(frame, uri, "steep", &read));
    assert_ok(label_deviations(frame, rows, "steep", &found));
    assert_true(read[0] > 1);
    assert_memory_equal(found, read, 3 * sizeof(*read));
    free(read);
    free(found);
    frame_free(frame);
}

static void test_deviations_of_a_column_in_a_piece(void **state)
{
    char folder[256];
    (void)state;
    unit_folder_make(folder);
    check_in_a_piece(folder, ELEMENT_U8);
    check_in_a_piece(folder, ELEMENT_F32);
    check_in_a_piece(folder, ELEMENT_I32);
    unit_folder_remove(folder);
}

static void test_a_column_becomes_its_deviations(void **state)
{
    (void)state;
    char folder[256], uri[512];
    char *text, *again;
    struct frame *frame, *other;
    struct order *order;
    unit_folder_make(folder);
    write_store(folder, uri);
    assert_ok(frame_build(uri, &frame));
    assert_ok(design_fields_resolve(frame, "{\"column\":\"steep\"}", uri, &text));
    assert_true(strstr(text, "{\"column\":\"steep\",\"deviations\":{\"a\":0.5001"));
    assert_ok(design_fields_resolve(frame, text, NULL, &again));
    assert_string_equal(text, again);
    assert_ok(order_new(frame, &(struct design){.name = "neyman", .fields = text}, &order));
    assert_string_equal(order_fields(order), text);
    order_free(order);
    free(again);
    free(text);
    assert_ok(design_fields_resolve(frame, "{\"p\":2,\"k\":8}", NULL, &text));
    assert_string_equal(text, "{\"p\":2,\"k\":8}");
    free(text);
    const char *of_label = "{\"shares\":{\"b\":1,\"column\":2}}";
    assert_ok(design_fields_resolve(frame, of_label, NULL, &text));
    assert_string_equal(text, of_label);
    free(text);
    assert_ok(design_fields_resolve(frame, NULL, NULL, &text));
    assert_string_equal(text, "");
    free(text);
    assert_fails(design_fields_resolve(frame, "{\"column\":\"flat\"}", uri, &text), ERROR_USAGE,
                 "one value throughout each label");
    assert_fails(design_fields_resolve(frame, "{\"column\":\"steep\"}", NULL, &text), ERROR_USAGE,
                 "does not say where");
    assert_ok(frame_build("range:20000?labels=3", &other));
    assert_fails(design_fields_resolve(other, "{\"column\":\"steep\"}", uri, &text), ERROR_CONFLICT,
                 "3000 of the frame's 20000");
    frame_free(other);
    frame_free(frame);
    unit_folder_remove(folder);
}

static void test_the_list_is_complete(void **state)
{
    (void)state;
    const struct design_field *list = design_field_list();
    size_t count = 0;
    for (; list[count].name; count++)
        assert_true(list[count].designs && list[count].help);
    assert_int_equal(count, 8);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_one_text_for_one_thing),
    cmocka_unit_test(test_all_else_is_named),
    cmocka_unit_test(test_labels_that_a_part_lacks_are_left_out),
    cmocka_unit_test(test_deviations_of_a_column),
    cmocka_unit_test(test_deviations_of_very_large_and_small_weights),
    cmocka_unit_test(test_deviations_of_a_column_in_a_piece),
    cmocka_unit_test(test_a_column_becomes_its_deviations),
    cmocka_unit_test(test_the_list_is_complete),
};

UNIT_MAIN(tests)

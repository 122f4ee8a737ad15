/* SPDX-License-Identifier: MIT */
/* Covers trainer/model/model_shape. */
#include "tests/unit/unit.h"

#include "trainer/model/model_shape.h"

static struct model_shape shape_of(enum model_kind kind, const char *hidden)
{
    struct model_shape shape = {
        .kind = kind, .features = 784, .outputs = kind == MODEL_LINEAR ? 1 : 10};
    if (hidden)
        assert_ok(model_parse_hidden(hidden, &shape));
    return shape;
}

static struct model_layout layout_of(enum model_kind kind, const char *hidden,
                                     const char *optimizer_name)
{
    struct model_shape shape = shape_of(kind, hidden);
    struct optimizer optimizer;
    struct model_layout layout;
    assert_ok(optimizer_init(&optimizer, optimizer_name, 0.01));
    assert_ok(model_layout_init(&layout, &shape, &optimizer));
    return layout;
}

static void assert_tensor(const struct model_layout *layout, size_t index, const char *name,
                          size_t dimensions, size_t first, size_t second)
{
    const struct model_tensor *tensor = &layout->tensors[index];
    assert_true(index < layout->tensor_count);
    assert_string_equal(tensor->name, name);
    assert_int_equal(tensor->dimensions, dimensions);
    assert_int_equal(tensor->shape[0], first);
    if (dimensions == 2)
        assert_int_equal(tensor->shape[1], second);
    assert_int_equal(tensor->count, dimensions == 2 ? first * second : first);
}

static void test_the_classic_program_s_names(void **state)
{
    (void)state;
    struct model_layout layout = layout_of(MODEL_MLP, "100", "adagrad");
    assert_int_equal(layout.parameters, 79510);
    assert_int_equal(layout.state, 2 * 79510);
    assert_int_equal(layout.tensor_count, 8);
    assert_tensor(&layout, 0, "hid_w", 2, 784, 100);
    assert_tensor(&layout, 1, "hid_b", 1, 100, 0);
    assert_tensor(&layout, 2, "sm_w", 2, 100, 10);
    assert_tensor(&layout, 3, "sm_b", 1, 10, 0);
    assert_tensor(&layout, 4, "hid_w/Adagrad", 2, 784, 100);
    assert_tensor(&layout, 7, "sm_b/Adagrad", 1, 10, 0);
}

static void test_other_names(void **state)
{
    (void)state;
    struct model_layout deep = layout_of(MODEL_MLP, "50,20,30", "adam");
    assert_int_equal(deep.tensor_count, 24);
    assert_tensor(&deep, 0, "hid1_w", 2, 784, 50);
    assert_tensor(&deep, 3, "hid2_b", 1, 20, 0);
    assert_tensor(&deep, 4, "hid3_w", 2, 20, 30);
    assert_tensor(&deep, 6, "sm_w", 2, 30, 10);
    assert_tensor(&deep, 8, "hid1_w/Adam", 2, 784, 50);
    assert_tensor(&deep, 16, "hid1_w/Adam_1", 2, 784, 50);
    struct model_layout softmax = layout_of(MODEL_SOFTMAX, NULL, "sgd");
    assert_int_equal(softmax.tensor_count, 2);
    assert_tensor(&softmax, 0, "sm_w", 2, 784, 10);
    assert_tensor(&softmax, 1, "sm_b", 1, 10, 0);
    struct model_layout linear = layout_of(MODEL_LINEAR, NULL, "momentum");
    assert_tensor(&linear, 0, "w", 2, 784, 1);
    assert_tensor(&linear, 1, "b", 1, 1, 0);
    assert_tensor(&linear, 2, "w/Momentum", 2, 784, 1);
}

static void test_tensors_cover_the_state(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"sgd", "momentum", "adagrad", "adam"};
    for (size_t i = 0; i < 4; i++) {
        struct model_layout layout =
            layout_of(MODEL_MLP, "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", optimizers[i]);
        size_t offset = 0;
        for (size_t t = 0; t < layout.tensor_count; t++) {
            assert_int_equal(layout.tensors[t].offset, offset);
            offset += layout.tensors[t].count;
            for (size_t other = 0; other < t; other++)
                assert_string_not_equal(layout.tensors[t].name, layout.tensors[other].name);
        }
        assert_int_equal(offset, layout.state);
        assert_int_equal(layout.layer_count, 17);
    }
}

static void test_hidden_units(void **state)
{
    (void)state;
    struct model_shape shape = {.hidden = {9}, .hidden_count = 1};
    static const char *const bad[] = {
        "",      ",",    "100,",    ",100", "0",       "-5",    "1e2",
        "10 20", " 100", "1048577", "x",    "100,,50", "100;5", "99999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_fails(model_parse_hidden(bad[i], &shape), ERROR_USAGE, "1 to 1048576");
        assert_true(shape.hidden_count == 1 && shape.hidden[0] == 9);
    }
    assert_fails(model_parse_hidden("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", &shape),
                 ERROR_USAGE, "more than 16 layers");
    assert_ok(model_parse_hidden("100,50", &shape));
    assert_true(shape.hidden_count == 2 && shape.hidden[0] == 100 && shape.hidden[1] == 50);
}

static void test_names_of_models_and_losses(void **state)
{
    (void)state;
    enum model_kind kind;
    enum loss loss;
    assert_ok(model_kind_by_name("mlp", &kind));
    assert_string_equal(model_kind_name(kind), "mlp");
    assert_fails(model_kind_by_name("MLP", &kind), ERROR_USAGE, "linear, softmax or mlp");
    static const struct {
        enum model_kind kind;
        const char *text;
        enum loss loss;
    } expected[] = {
        {MODEL_MLP, NULL, LOSS_CLIPPED_SUM},      {MODEL_MLP, "mean", LOSS_MEAN},
        {MODEL_MLP, "sum", LOSS_CLIPPED_SUM},     {MODEL_SOFTMAX, NULL, LOSS_MEAN},
        {MODEL_SOFTMAX, "sum", LOSS_CLIPPED_SUM}, {MODEL_LINEAR, NULL, LOSS_SQUARED_MEAN},
        {MODEL_LINEAR, "sum", LOSS_SQUARED_SUM},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        enum loss same;
        assert_ok(model_choose_loss(expected[i].kind, expected[i].text, &loss));
        assert_int_equal(loss, expected[i].loss);
        assert_ok(loss_by_name(loss_name(loss), &same));
        assert_int_equal(loss, same);
    }
    assert_fails(model_choose_loss(MODEL_MLP, "hinge", &loss), ERROR_USAGE, "mean or sum");
    assert_fails(loss_by_name("hinge", &loss), ERROR_INPUT, "squared_mean");
}

static void test_bad_shapes_are_refused(void **state)
{
    (void)state;
    struct model_shape shape = shape_of(MODEL_MLP, "100");
    shape.features = 0;
    assert_fails(model_shape_check(&shape), ERROR_USAGE, "0 features");
    shape.features = MODEL_WIDTH_LIMIT + 1;
    assert_fails(model_shape_check(&shape), ERROR_USAGE, "1048577 features");
    shape = shape_of(MODEL_MLP, NULL);
    assert_fails(model_shape_check(&shape), ERROR_USAGE, "0 hidden layers");
    shape = shape_of(MODEL_SOFTMAX, "100");
    assert_fails(model_shape_check(&shape), ERROR_USAGE, "no hidden layers");
    shape = shape_of(MODEL_LINEAR, NULL);
    shape.outputs = 2;
    assert_fails(model_shape_check(&shape), ERROR_USAGE, "1 output, not 2");
    shape = shape_of(MODEL_SOFTMAX, NULL);
    shape.outputs = 1;
    assert_fails(model_shape_check(&shape), ERROR_USAGE, "1 classes");
    struct optimizer optimizer;
    struct model_layout layout;
    assert_ok(optimizer_init(&optimizer, "sgd", 0.01));
    shape = shape_of(MODEL_MLP, "1048576");
    shape.features = 4096;
    assert_fails(model_layout_init(&layout, &shape, &optimizer), ERROR_USAGE, "parameters");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_classic_program_s_names),
    cmocka_unit_test(test_other_names),
    cmocka_unit_test(test_tensors_cover_the_state),
    cmocka_unit_test(test_hidden_units),
    cmocka_unit_test(test_names_of_models_and_losses),
    cmocka_unit_test(test_bad_shapes_are_refused),
};

UNIT_MAIN(tests)

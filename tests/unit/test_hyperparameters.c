/* SPDX-License-Identifier: MIT */
/* Covers trainer/checkpoint/hyperparameters. */
#include "tests/unit/unit.h"

#include <math.h>

#include "trainer/checkpoint/hyperparameters.h"

static struct model_options plain(const char *optimizer)
{
    struct model_options model = {.shape = {.kind = MODEL_MLP, .hidden = {3}, .hidden_count = 1}};
    assert_ok(optimizer_init(&model.optimizer, optimizer, 0.1));
    return model;
}

/* A value of each that is no default, as a checkpoint has it. */
static const struct {
    const char *name, *text;
} chosen[] = {
    {"learning_rate", "0.025"},
    {"learning_rate_schedule", "cosine"},
    {"warmup_steps", "9007199254740993"},
    {"decay_steps", "12"},
    {"decay_rate", "0.100000024"},
    {"end_learning_rate", "1e-06"},
    {"momentum", "0.95"},
    {"nesterov", "yes"},
    {"initial_accumulator", "0.5"},
    {"beta1", "0.8"},
    {"beta2", "0.99"},
    {"epsilon", "1e-07"},
    {"weight_decay", "0.01"},
    {"l2", "0.0001"},
    {"clip_norm", "5"},
    {"clip_value", "0.25"},
    {"dropout", "0.5"},
};

static void test_every_text_comes_back(void **state)
{
    (void)state;
    struct model_options before = plain("momentum"), model = before;
    char text[HYPERPARAMETER_BYTES];
    assert_int_equal(sizeof(chosen) / sizeof(*chosen), HYPERPARAMETERS);
    for (size_t i = 0; i < HYPERPARAMETERS; i++) {
        assert_string_equal(hyperparameter_name(i), chosen[i].name);
        assert_int_equal(hyperparameters_difference(&before, &model), HYPERPARAMETERS);
        assert_ok(hyperparameter_set(i, chosen[i].text, &model));
        assert_string_equal(hyperparameter_text(i, &model, text), chosen[i].text);
        assert_int_equal(hyperparameters_difference(&before, &model), i);
        /* The learning rate has no default: a checkpoint always keeps it by itself. */
        assert_int_equal(hyperparameter_is_default(i, &model), i == 0);
        assert_ok(hyperparameter_set(i, chosen[i].text, &before));
    }
    assert_ok(model_options_check(&model));
    assert_true(model.optimizer.schedule.kind == SCHEDULE_COSINE && model.dropout == 0.5f);
    assert_true(model.clip.norm == 5 && model.clip.value == 0.25f);
}

static void test_without_a_choice_nothing_is_kept(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"sgd", "momentum", "adagrad", "adam"};
    for (size_t o = 0; o < 4; o++) {
        struct model_options model = plain(optimizers[o]);
        for (size_t i = 0; i < HYPERPARAMETERS; i++)
            assert_true(hyperparameter_is_default(i, &model));
    }
}

static void test_texts_that_are_none_are_refused(void **state)
{
    (void)state;
    struct model_options model = plain("adam");
    static const char *const bad[] = {"", "x", "1e99", "nan", "-", "0x1p3"};
    for (size_t i = 0; i < HYPERPARAMETERS; i++) {
        struct model_options before = model;
        for (size_t b = 0; b < sizeof(bad) / sizeof(*bad); b++)
            assert_fails(hyperparameter_set(i, bad[b], &model), ERROR_INPUT, chosen[i].name);
        assert_int_equal(hyperparameters_difference(&before, &model), HYPERPARAMETERS);
    }
    assert_fails(hyperparameter_set(2, "-1", &model), ERROR_INPUT, "warmup_steps is \"-1\"");
}

static void test_what_a_model_cannot_have(void **state)
{
    (void)state;
    struct model_options model = plain("sgd");
    model.dropout = 1;
    assert_fails(model_options_check(&model), ERROR_USAGE, "dropout is 1");
    model.dropout = NAN;
    assert_fails(model_options_check(&model), ERROR_USAGE, "dropout is");
    model.dropout = -0.5f;
    assert_fails(model_options_check(&model), ERROR_USAGE, "dropout is -0.5");
    model.dropout = 0.5f;
    assert_ok(model_options_check(&model));
    model.shape.kind = MODEL_SOFTMAX;
    assert_fails(model_options_check(&model), ERROR_USAGE, "a softmax model has none");
    model.dropout = 0;
    model.clip.norm = -1;
    assert_fails(model_options_check(&model), ERROR_USAGE, "clip norm is -1");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_text_comes_back),
    cmocka_unit_test(test_without_a_choice_nothing_is_kept),
    cmocka_unit_test(test_texts_that_are_none_are_refused),
    cmocka_unit_test(test_what_a_model_cannot_have),
};

UNIT_MAIN(tests)

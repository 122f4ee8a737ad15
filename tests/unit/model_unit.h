/* SPDX-License-Identifier: MIT */
/* What the tests of trainer/model/model.h share: models of every kind, batches, the state on the
 * host. */
#ifndef TESTS_UNIT_MODEL_UNIT_H
#define TESTS_UNIT_MODEL_UNIT_H

#include "tests/unit/kernel_unit.h"
#include "trainer/model/model.h"

#define ROWS 12

static inline struct model_options options_of(enum model_kind kind, const char *hidden,
                                              enum loss loss, const char *optimizer)
{
    struct model_options options = {.loss = loss, .seed = 42, .batch_rows = 2 * ROWS};
    options.shape.kind = kind;
    options.shape.features = 40;
    options.shape.outputs = kind == MODEL_LINEAR ? 1 : 5;
    if (hidden)
        assert_ok(model_parse_hidden(hidden, &options.shape));
    assert_ok(optimizer_init(&options.optimizer, optimizer, 0.05));
    return options;
}

static inline struct model *model_of(const struct model_options *options)
{
    struct model *model;
    assert_ok(model_new(options, kernel, &model));
    return model;
}

/* A batch whose features are on both sides. */
struct data {
    struct array features;
    int32_t classes[2 * ROWS];
    float targets[2 * ROWS];
    struct model_batch batch;
};

static inline void data_make(struct data *data, const struct model_options *options, size_t rows,
                             unsigned density)
{
    data->features = sent_array(rows * options->shape.features, density);
    for (size_t i = 0; i < rows; i++) {
        data->classes[i] = (int32_t)(i * 3 % options->shape.outputs);
        data->targets[i] = random_float();
    }
    data->batch = (struct model_batch){.rows = rows,
                                       .features = data->features.there,
                                       .classes = data->classes,
                                       .targets = data->targets};
}

static inline float *state_of(struct model *model)
{
    float *state = malloc(model_state_count(model) * sizeof(*state));
    assert_non_null(state);
    assert_ok(model_read(model, state));
    return state;
}

/* Different from a fresh start in every tensor, so that no gradient is zero by symmetry. */
static inline void shake(struct model *model)
{
    float *state = state_of(model);
    for (size_t i = 0; i < model_parameters(model); i++)
        state[i] += 0.3f * random_float();
    assert_ok(model_write(model, state, 0));
    free(state);
}

static const struct {
    enum model_kind kind;
    const char *hidden;
    enum loss loss;
} model_kinds[] = {
    {MODEL_LINEAR, NULL, LOSS_SQUARED_MEAN}, {MODEL_LINEAR, NULL, LOSS_SQUARED_SUM},
    {MODEL_SOFTMAX, NULL, LOSS_MEAN},        {MODEL_SOFTMAX, NULL, LOSS_CLIPPED_SUM},
    {MODEL_MLP, "7", LOSS_CLIPPED_SUM},      {MODEL_MLP, "7", LOSS_MEAN},
    {MODEL_MLP, "20,9", LOSS_CLIPPED_SUM},   {MODEL_MLP, "6,5,4,3", LOSS_MEAN},
};
#define MODEL_KINDS (sizeof(model_kinds) / sizeof(*model_kinds))

#endif

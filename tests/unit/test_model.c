/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/model/model: Whole models on every device there is: gradients against finite
 * differences of a forward pass in double that is written here on its own, and what is refused.
 */
#include "tests/unit/model_unit.h"

/* ---- the model in double ------------------------------------------------ */

/* Outputs of the last layer for one row; `parameters` as they lie in the state. */
static void forward_in_double(const struct model_shape *shape, const double *parameters,
                              const float *features, double *ret_outputs)
{
    double now[64], next[64];
    size_t inputs = shape->features;
    for (size_t i = 0; i < inputs; i++)
        now[i] = features[i];
    for (size_t layer = 0; layer <= shape->hidden_count; layer++) {
        bool last = layer == shape->hidden_count;
        size_t outputs = last ? shape->outputs : shape->hidden[layer];
        for (size_t o = 0; o < outputs; o++) {
            next[o] = parameters[inputs * outputs + o];
            for (size_t i = 0; i < inputs; i++)
                next[o] += now[i] * parameters[i * outputs + o];
            if (!last && next[o] < 0)
                next[o] = 0;
        }
        parameters += inputs * outputs + outputs;
        memcpy(now, next, outputs * sizeof(*now));
        inputs = outputs;
    }
    memcpy(ret_outputs, now, shape->outputs * sizeof(*now));
}

static double row_loss(const struct model_options *options, const double *outputs, int32_t class,
                       float target)
{
    if (loss_is_squared(options->loss))
        return (outputs[0] - target) * (outputs[0] - target);
    double sum = 0;
    for (size_t j = 0; j < options->shape.outputs; j++)
        sum += exp(outputs[j] - outputs[class]);
    double p = 1 / sum;
    if (options->loss == LOSS_CLIPPED_SUM)
        p = fmin(fmax(p, 1e-10), 1);
    return -log(p);
}

static double loss_in_double(const struct model_options *options, const double *parameters,
                             const struct data *data)
{
    double sum = 0, outputs[64];
    for (size_t row = 0; row < data->batch.rows; row++) {
        forward_in_double(&options->shape, parameters,
                          data->features.host + row * options->shape.features, outputs);
        sum += row_loss(options, outputs, data->classes[row], data->targets[row]);
    }
    return loss_is_mean(options->loss) ? sum / (double)data->batch.rows : sum;
}

static void check_gradient(struct model *model, struct data *data)
{
    const struct model_options *options = model_get_options(model);
    size_t count = model_parameters(model);
    float *state = state_of(model), *gradient = malloc(count * sizeof(*gradient));
    double *parameters = malloc(count * sizeof(*parameters)), loss, largest = 0;
    assert_true(gradient && parameters);
    for (size_t i = 0; i < count; i++)
        parameters[i] = state[i];
    assert_ok(model_gradient(model, &data->batch));
    assert_ok(model_loss(model, &loss));
    assert_ok(model_read_gradient(model, gradient));
    double exact = loss_in_double(options, parameters, data);
    assert_true(fabs(loss - exact) <= 1e-5 * (1 + fabs(exact)));
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)gradient[i]));
    for (size_t i = 0; i < count; i++) {
        double h = 1e-6, kept = parameters[i];
        parameters[i] = kept + h;
        double up = loss_in_double(options, parameters, data);
        parameters[i] = kept - h;
        double down = loss_in_double(options, parameters, data);
        parameters[i] = kept;
        double wanted = (up - down) / (2 * h);
        if (fabs(gradient[i] - wanted) > 1e-5 * largest + 1e-7)
            fail_msg("gradient[%zu] is %.9g, not %.9g", i, (double)gradient[i], wanted);
    }
    assert_int_equal(model_get_step(model), 0);
    free(state);
    free(gradient);
    free(parameters);
}

static void test_gradients_are_finite_differences(void **state)
{
    open_kernel(state);
    for (size_t i = 0; i < MODEL_KINDS; i++) {
        struct model_options options =
            options_of(model_kinds[i].kind, model_kinds[i].hidden, model_kinds[i].loss, "sgd");
        for (unsigned density = 15; density <= 100; density += 85) {
            struct model *model = model_of(&options);
            struct data data;
            data_make(&data, &options, ROWS, density);
            shake(model);
            check_gradient(model, &data);
            release(&data.features);
            model_free(model);
        }
    }
    close_kernel();
}

/* Biases of the last layer that make class 0 all but certain: rows of other classes are dead. */
static void test_dead_rows_teach_nothing(void **state)
{
    open_kernel(state);
    struct model_options options = options_of(MODEL_MLP, "7", LOSS_CLIPPED_SUM, "adagrad");
    struct model *model = model_of(&options);
    struct data data;
    double loss;
    data_make(&data, &options, ROWS, 50);
    size_t count = model_parameters(model);
    float *before = state_of(model), *gradient = malloc(count * sizeof(*gradient));
    assert_non_null(gradient);
    before[count - 5] = 60;
    assert_ok(model_write(model, before, 0));
    for (size_t i = 0; i < ROWS; i++)
        data.classes[i] = 1 + (int32_t)i % 4;
    assert_ok(model_step(model, &data.batch));
    assert_ok(model_loss(model, &loss));
    assert_true(fabs(loss - ROWS * log(1e10)) < 1e-4);
    assert_ok(model_read_gradient(model, gradient));
    for (size_t i = 0; i < count; i++)
        assert_true(gradient[i] == 0);
    float *after = state_of(model);
    assert_memory_equal(before, after, model_state_count(model) * sizeof(*after));
    /* One live row among them: the gradient is that row's alone. */
    data.classes[4] = 0;
    assert_ok(model_gradient(model, &data.batch));
    assert_ok(model_loss(model, &loss));
    assert_true(fabs(loss - (ROWS - 1) * log(1e10)) < 1e-3);
    free(before);
    free(after);
    free(gradient);
    release(&data.features);
    model_free(model);
    close_kernel();
}

/* ---- bad input ---------------------------------------------------------- */

static void test_bad_batches_are_refused(void **state)
{
    open_kernel(state);
    struct model_options options = options_of(MODEL_MLP, "7", LOSS_CLIPPED_SUM, "sgd");
    struct model *model = model_of(&options);
    struct data data;
    data_make(&data, &options, ROWS, 50);
    float *before = state_of(model);
    data.classes[7] = 5;
    assert_fails(model_step(model, &data.batch), ERROR_INPUT, "row 7 of the batch has class");
    data.classes[7] = -1;
    assert_fails(model_step(model, &data.batch), ERROR_INPUT, "number -1; the model has 0 to 4");
    data.classes[7] = 0;
    data.batch.rows = 0;
    assert_fails(model_step(model, &data.batch), ERROR_INPUT, "0 rows");
    data.batch.rows = 2 * ROWS + 1;
    assert_fails(model_step(model, &data.batch), ERROR_INPUT, "25 rows");
    struct model_score score = {0};
    assert_fails(model_evaluate(model, &data.batch, &score), ERROR_INPUT, "25 rows");
    assert_int_equal(score.rows, 0);
    float p[5];
    assert_fails(model_predict(model, data.features.there, 0, p), ERROR_INPUT, "0 rows");
    assert_int_equal(model_get_step(model), 0);
    float *after = state_of(model);
    assert_memory_equal(before, after, model_state_count(model) * sizeof(*after));
    free(before);
    free(after);
    release(&data.features);
    model_free(model);
    close_kernel();
}

static void test_bad_options_are_refused(void **state)
{
    open_kernel(state);
    struct model *none = NULL;
    struct model_options options = options_of(MODEL_MLP, "7", LOSS_SQUARED_SUM, "sgd");
    assert_fails(model_new(&options, kernel, &none), ERROR_USAGE, "mlp model");
    options = options_of(MODEL_LINEAR, NULL, LOSS_MEAN, "sgd");
    assert_fails(model_new(&options, kernel, &none), ERROR_USAGE, "linear model");
    options = options_of(MODEL_SOFTMAX, NULL, LOSS_MEAN, "sgd");
    options.batch_rows = 0;
    assert_fails(model_new(&options, kernel, &none), ERROR_USAGE, "0 rows");
    options.batch_rows = 10;
    options.shape.outputs = 1;
    assert_fails(model_new(&options, kernel, &none), ERROR_USAGE, "1 classes");
    options.shape.outputs = 5;
    options.optimizer.learning_rate = -1;
    assert_fails(model_new(&options, kernel, &none), ERROR_USAGE, "learning rate is -1");
    assert_null(none);
    model_free(NULL);
    close_kernel();
}

static const struct CMUnitTest tests[] = {
    ON_EACH_DEVICE(test_gradients_are_finite_differences),
    ON_EACH_DEVICE(test_dead_rows_teach_nothing),
    ON_EACH_DEVICE(test_bad_batches_are_refused),
    ON_EACH_DEVICE(test_bad_options_are_refused),
};

UNIT_MAIN(tests)

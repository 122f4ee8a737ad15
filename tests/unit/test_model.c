/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/model/model: Whole models on every device there is: gradients against finite
 * differences of a forward pass in double that is written here on its own, and what is refused.
 */
#include "tests/unit/model_unit.h"

/* ---- the model in double ------------------------------------------------ */

/* What the outputs of each hidden layer are multiplied with in a batch, [rows, outputs]. */
static float factors[MODEL_HIDDEN_LIMIT][2 * ROWS * 64];

static void find_factors(const struct model_options *options, const struct model_batch *batch)
{
    for (uint32_t layer = 0; layer < options->shape.hidden_count; layer++) {
        struct dropout_mask mask;
        size_t count = batch->rows * options->shape.hidden[layer];
        dropout_mask_init(&mask, options->dropout, options->seed, batch->index, layer);
        for (size_t i = 0; i < count; i++)
            factors[layer][i] = is_dropped(&mask, i) ? 0 : dropout_scale(options->dropout);
    }
}

/* Outputs of the last layer for row `row`; `parameters` as they lie in the state. */
static void forward_in_double(const struct model_shape *shape, const double *parameters,
                              const float *features, size_t row, double *ret_outputs)
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
            if (!last)
                next[o] *= factors[layer][row * outputs + o];
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
                          data->features.host + row * options->shape.features, row, outputs);
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
    find_factors(options, &data->batch);
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

static void check_kind(size_t kind, float dropout)
{
    struct model_options options =
        options_of(model_kinds[kind].kind, model_kinds[kind].hidden, model_kinds[kind].loss, "sgd");
    options.dropout = dropout;
    for (unsigned density = 15; density <= 100; density += 85) {
        struct model *model = model_of(&options);
        struct data data;
        data_make(&data, &options, ROWS, density);
        data.batch.index = 1000 + (int64_t)kind;
        shake(model);
        check_gradient(model, &data);
        release(&data.features);
        model_free(model);
    }
}

static void test_gradients_are_finite_differences(void **state)
{
    open_kernel(state);
    for (size_t i = 0; i < MODEL_KINDS; i++) {
        check_kind(i, 0);
        if (model_kinds[i].kind == MODEL_MLP) {
            check_kind(i, 0.2f);
            check_kind(i, 0.5f);
        }
    }
    close_kernel();
}

/* Another batch drops others; what is evaluated or predicted drops nothing. */
static void test_dropout_is_of_training_and_of_its_batch(void **state)
{
    open_kernel(state);
    struct model_options options = options_of(MODEL_MLP, "20,9", LOSS_MEAN, "sgd");
    struct model *without = model_of(&options);
    options.dropout = 0.5f;
    struct model *with = model_of(&options);
    struct data data;
    struct model_score score = {0}, plain = {0};
    float predicted[2][ROWS * 5];
    double losses[3];
    static const int64_t indexes[3] = {4, 5, 4};
    data_make(&data, &options, ROWS, 60);
    for (size_t i = 0; i < 3; i++) {
        data.batch.index = indexes[i];
        assert_ok(model_gradient(with, &data.batch));
        assert_ok(model_loss(with, &losses[i]));
        assert_ok(model_evaluate(with, &data.batch, &score));
    }
    assert_true(losses[0] == losses[2] && losses[0] != losses[1]);
    for (size_t i = 0; i < 3; i++)
        assert_ok(model_evaluate(without, &data.batch, &plain));
    assert_true(score.loss_sum == plain.loss_sum && score.correct == plain.correct);
    assert_ok(model_predict(with, data.features.there, ROWS, predicted[0]));
    assert_ok(model_predict(without, data.features.there, ROWS, predicted[1]));
    assert_memory_equal(predicted[0], predicted[1], sizeof(predicted[0]));
    release(&data.features);
    model_free(with);
    model_free(without);
    close_kernel();
}

static void test_a_gradient_is_clipped_as_a_whole(void **state)
{
    open_kernel(state);
    struct model_options options = options_of(MODEL_MLP, "20,9", LOSS_CLIPPED_SUM, "sgd");
    struct model *free_one = model_of(&options);
    options.clip.norm = 0.5f;
    struct model *clipped = model_of(&options);
    struct data data;
    double norm = 0;
    size_t count = model_parameters(free_one);
    float *gradient = malloc(count * sizeof(*gradient)), *short_one = malloc(count * sizeof(float));
    assert_true(gradient && short_one);
    data_make(&data, &options, ROWS, 60);
    assert_ok(model_gradient(free_one, &data.batch));
    assert_ok(model_gradient(clipped, &data.batch));
    assert_ok(model_read_gradient(free_one, gradient));
    assert_ok(model_read_gradient(clipped, short_one));
    for (size_t i = 0; i < count; i++)
        norm += (double)gradient[i] * (double)gradient[i];
    norm = sqrt(norm);
    assert_true(norm > 1);
    for (size_t i = 0; i < count; i++)
        assert_true(fabs(short_one[i] - gradient[i] * 0.5 / norm) <= 1e-7);
    free(gradient);
    free(short_one);
    release(&data.features);
    model_free(free_one);
    model_free(clipped);
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
    ON_EACH_DEVICE(test_dropout_is_of_training_and_of_its_batch),
    ON_EACH_DEVICE(test_a_gradient_is_clipped_as_a_whole),
    ON_EACH_DEVICE(test_dead_rows_teach_nothing),
    ON_EACH_DEVICE(test_bad_batches_are_refused),
    ON_EACH_DEVICE(test_bad_options_are_refused),
};

UNIT_MAIN(tests)

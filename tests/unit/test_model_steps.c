/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/model/model: Training, states that are read and written, scores and predictions,
 * on every device there is.
 */
#include "tests/unit/model_unit.h"

/* ---- steps -------------------------------------------------------------- */

static void test_training_learns(void **state)
{
    open_kernel(state);
    static const char *const optimizers[] = {"sgd", "momentum", "adagrad", "adam"};
    for (size_t i = 0; i < MODEL_KINDS; i++) {
        for (size_t o = 0; o < 4; o++) {
            struct model_options options = options_of(model_kinds[i].kind, model_kinds[i].hidden,
                                                      model_kinds[i].loss, optimizers[o]);
            options.optimizer.learning_rate = loss_is_mean(options.loss) ? 0.05f : 0.005f;
            struct model *model = model_of(&options);
            struct data data;
            double first, last;
            data_make(&data, &options, ROWS, 60);
            assert_ok(model_step(model, &data.batch));
            assert_ok(model_loss(model, &first));
            for (int step = 0; step < 60; step++)
                assert_ok(model_step(model, &data.batch));
            assert_ok(model_loss(model, &last));
            if (!(last < first))
                fail_msg("model %zu, %s: loss %g after %g", i, optimizers[o], last, first);
            assert_int_equal(model_get_step(model), 61);
            release(&data.features);
            model_free(model);
        }
    }
    close_kernel();
}

/* Targets in the millions: the normalized model is that of targets around 0, and what it says is of
 * the millions all the same. */
static void test_targets_are_normalized_inside(void **state)
{
    open_kernel(state);
    struct model_options plain = options_of(MODEL_LINEAR, NULL, LOSS_SQUARED_MEAN, "adam");
    struct model_options large = plain;
    large.target_mean = 4e6f;
    large.target_deviation = 1048576;
    struct model *model = model_of(&plain), *scaled = model_of(&large);
    struct data data;
    float near_zero[ROWS], millions[ROWS];
    double loss, scaled_loss;
    data_make(&data, &plain, ROWS, 60);
    for (int step = 0; step < 50; step++) {
        assert_ok(model_step(model, &data.batch));
        struct model_batch batch = data.batch;
        float targets[ROWS];
        for (size_t i = 0; i < ROWS; i++)
            targets[i] = data.targets[i] * 1048576 + 4e6f;
        batch.targets = targets;
        assert_ok(model_step(scaled, &batch));
    }
    assert_ok(model_loss(model, &loss));
    assert_ok(model_loss(scaled, &scaled_loss));
    assert_true(fabs(scaled_loss / 1048576 / 1048576 - loss) < 1e-5);
    assert_ok(model_predict(model, data.features.there, ROWS, near_zero));
    assert_ok(model_predict(scaled, data.features.there, ROWS, millions));
    for (size_t i = 0; i < ROWS; i++)
        assert_true(fabsf((millions[i] - 4e6f) / 1048576 - near_zero[i]) < 1e-5f);
    release(&data.features);
    model_free(model);
    model_free(scaled);
    close_kernel();
}

static void run_steps(struct model *model, struct data data[3], int from, int to)
{
    for (int step = from; step < to; step++)
        assert_ok(model_step(model, &data[step % 3].batch));
}

/* A run cut in two by reading and writing the state is the run that was not cut. */
static void test_a_restored_run_is_bit_identical(void **state)
{
    open_kernel(state);
    static const char *const optimizers[] = {"sgd", "momentum", "adagrad", "adam"};
    for (size_t o = 0; o < 4; o++) {
        struct model_options options =
            options_of(MODEL_MLP, "20,9", LOSS_CLIPPED_SUM, optimizers[o]);
        options.optimizer.learning_rate = 0.01f;
        struct data data[3];
        for (int i = 0; i < 3; i++)
            data_make(&data[i], &options, ROWS - (size_t)i, 10 + 40 * (unsigned)i);
        struct model *whole = model_of(&options), *begun = model_of(&options);
        run_steps(whole, data, 0, 20);
        run_steps(begun, data, 0, 11);
        float *middle = state_of(begun);
        options.seed = 7; /* does not matter: the state is written over */
        struct model *resumed = model_of(&options);
        assert_ok(model_write(resumed, middle, model_get_step(begun)));
        run_steps(resumed, data, 11, 20);
        float *expected = state_of(whole), *got = state_of(resumed);
        assert_memory_equal(expected, got, model_state_count(whole) * sizeof(*got));
        assert_int_equal(model_get_step(resumed), 20);
        free(middle);
        free(expected);
        free(got);
        for (int i = 0; i < 3; i++)
            release(&data[i].features);
        model_free(whole);
        model_free(begun);
        model_free(resumed);
    }
    close_kernel();
}

/* model_step() is model_gradient() and model_apply(), and evaluating in between changes nothing. */
static void test_halves_make_a_step(void **state)
{
    open_kernel(state);
    struct model_options options = options_of(MODEL_MLP, "7", LOSS_MEAN, "adam");
    struct model *whole = model_of(&options), *halves = model_of(&options);
    struct data data, other;
    data_make(&data, &options, ROWS, 30);
    data_make(&other, &options, 2 * ROWS, 100);
    for (int step = 0; step < 5; step++) {
        double loss, same;
        struct model_score score = {0};
        float p[2 * ROWS * 5];
        assert_ok(model_step(whole, &data.batch));
        assert_ok(model_gradient(halves, &data.batch));
        assert_ok(model_evaluate(halves, &other.batch, &score));
        assert_ok(model_predict(halves, other.features.there, 2 * ROWS, p));
        assert_ok(model_apply(halves));
        assert_ok(model_loss(whole, &loss));
        assert_ok(model_loss(halves, &same));
        assert_true(loss == same);
    }
    float *expected = state_of(whole), *got = state_of(halves);
    assert_memory_equal(expected, got, model_state_count(whole) * sizeof(*got));
    free(expected);
    free(got);
    release(&data.features);
    release(&other.features);
    model_free(whole);
    model_free(halves);
    close_kernel();
}

/* More batches in flight than there are label buffers, each with labels of its own. */
static void test_labels_are_those_of_their_batch(void **state)
{
    open_kernel(state);
    struct model_options options = options_of(MODEL_SOFTMAX, NULL, LOSS_MEAN, "sgd");
    struct model *fast = model_of(&options), *slow = model_of(&options);
    struct data data;
    data_make(&data, &options, ROWS, 100);
    for (int pass = 0; pass < 2; pass++) {
        for (int step = 0; step < 50; step++) {
            int32_t classes[ROWS];
            for (int i = 0; i < ROWS; i++)
                classes[i] = (i + step) % 5;
            struct model_batch batch = {
                .rows = ROWS, .features = data.features.there, .classes = classes};
            assert_ok(model_step(pass ? slow : fast, &batch));
            memset(classes, 0xff, sizeof(classes));
            if (pass)
                assert_ok(device_queue_wait(device, queue));
        }
    }
    float *expected = state_of(slow), *got = state_of(fast);
    assert_memory_equal(expected, got, model_state_count(slow) * sizeof(*got));
    free(expected);
    free(got);
    release(&data.features);
    model_free(fast);
    model_free(slow);
    close_kernel();
}

static void test_a_line_is_found(void **state)
{
    open_kernel(state);
    struct model_options options = options_of(MODEL_LINEAR, NULL, LOSS_SQUARED_MEAN, "sgd");
    options.shape.features = 1;
    options.optimizer.learning_rate = 0.1f;
    struct model *model = model_of(&options);
    struct data data;
    data_make(&data, &options, ROWS, 100);
    for (size_t i = 0; i < ROWS; i++)
        data.targets[i] = 2 * data.features.host[i] + 10;
    for (int step = 0; step < 500; step++)
        assert_ok(model_step(model, &data.batch));
    float found[2];
    assert_ok(model_read(model, found));
    assert_true(fabsf(found[0] - 2) < 1e-3f && fabsf(found[1] - 10) < 1e-3f);
    release(&data.features);
    model_free(model);
    close_kernel();
}

/* ---- scores ------------------------------------------------------------- */

static void test_scores_add_up(void **state)
{
    open_kernel(state);
    for (size_t k = 0; k < MODEL_KINDS; k++) {
        struct model_options options =
            options_of(model_kinds[k].kind, model_kinds[k].hidden, model_kinds[k].loss, "sgd");
        struct model *model = model_of(&options);
        struct data data;
        struct model_score all = {0}, parts = {0};
        double loss;
        data_make(&data, &options, 2 * ROWS, 70);
        shake(model);
        assert_ok(model_evaluate(model, &data.batch, &all));
        size_t width = options.shape.features;
        for (size_t row = 0; row < 2 * ROWS; row += 8) {
            struct model_batch part = {.rows = 8,
                                       .features = data.features.there + row * width,
                                       .classes = data.classes + row,
                                       .targets = data.targets + row};
            assert_ok(model_evaluate(model, &part, &parts));
        }
        assert_int_equal(parts.rows, all.rows);
        assert_int_equal(parts.correct, all.correct);
        assert_true(fabs(parts.loss_sum - all.loss_sum) < 1e-4 * all.loss_sum);
        assert_ok(model_gradient(model, &data.batch));
        assert_ok(model_loss(model, &loss));
        assert_true(fabs(loss - model_score_loss(model, &all)) < 1e-5 * loss);
        release(&data.features);
        model_free(model);
    }
    close_kernel();
}

/* Of an emulated GPU, in a program that has it. */
long emulated_gpu_drains(void) __attribute__((weak));

/* Scores that are taken later are those of their batches, and a device is never left without work
 * for them. */
static void test_scores_are_taken_later(void **state)
{
    open_kernel(state);
    struct model_options options = options_of(MODEL_MLP, "7", LOSS_MEAN, "adam");
    struct model *model = model_of(&options), *same = model_of(&options);
    struct model_score score;
    struct data data[2];
    double losses[40];
    assert_fails(model_send_score(model), ERROR_NOT_FOUND, "before its first batch");
    data_make(&data[0], &options, ROWS, 60);
    data_make(&data[1], &options, ROWS - 3, 60);
    for (int step = 0; step < 40; step++) {
        assert_ok(model_step(same, &data[step % 2].batch));
        assert_ok(model_loss(same, &losses[step]));
    }
    long drains = emulated_gpu_drains ? emulated_gpu_drains() : 0;
    for (int step = 0, sent = 0; step < 40; step++) {
        assert_ok(model_step(model, &data[step % 2].batch));
        if (step == sent)
            assert_ok(model_send_score(model));
        if (step < sent + NETWORK_AHEAD + 1)
            continue;
        assert_ok(model_take_score(model, &score));
        assert_int_equal(score.rows, data[sent % 2].batch.rows);
        assert_int_equal(score.moving, score.rows);
        assert_true(model_score_loss(model, &score) == losses[sent]);
        sent = step + 1;
    }
    if (emulated_gpu_drains)
        assert_int_equal(emulated_gpu_drains(), drains);
    assert_ok(model_loss(model, &losses[0])); /* what is freed now is not in use */
    for (int i = 0; i < 2; i++)
        release(&data[i].features);
    model_free(model);
    model_free(same);
    close_kernel();
}

static void test_predictions_agree_with_scores(void **state)
{
    open_kernel(state);
    struct model_options options = options_of(MODEL_MLP, "20", LOSS_CLIPPED_SUM, "sgd");
    struct model *model = model_of(&options);
    struct data data;
    struct model_score score = {0};
    float p[2 * ROWS * 5];
    int64_t correct = 0;
    double loss = 0;
    data_make(&data, &options, 2 * ROWS, 70);
    shake(model);
    assert_ok(model_evaluate(model, &data.batch, &score));
    assert_ok(model_predict(model, data.features.there, 2 * ROWS, p));
    for (size_t row = 0; row < 2 * ROWS; row++) {
        double sum = 0;
        size_t best = 0;
        for (size_t j = 0; j < 5; j++) {
            sum += p[row * 5 + j];
            best = p[row * 5 + j] > p[row * 5 + best] ? j : best;
        }
        assert_true(fabs(sum - 1) < 1e-5);
        correct += best == (size_t)data.classes[row];
        loss -= log((double)p[row * 5 + (size_t)data.classes[row]]);
    }
    assert_int_equal(correct, score.correct);
    assert_true(fabs(loss - score.loss_sum) < 1e-4 * loss);
    release(&data.features);
    model_free(model);
    close_kernel();
}

static void test_softmax_starts_undecided(void **state)
{
    open_kernel(state);
    struct model_options options = options_of(MODEL_SOFTMAX, NULL, LOSS_MEAN, "adagrad");
    struct model *model = model_of(&options);
    struct data data;
    double loss;
    data_make(&data, &options, ROWS, 50);
    assert_fails(model_loss(model, &loss), ERROR_NOT_FOUND, "before its first batch");
    assert_ok(model_step(model, &data.batch));
    assert_ok(model_loss(model, &loss));
    assert_true(fabs(loss - log(5)) < 1e-6);
    release(&data.features);
    model_free(model);
    close_kernel();
}

static void test_nan_is_seen(void **state)
{
    open_kernel(state);
    struct model_options options = options_of(MODEL_MLP, "7", LOSS_CLIPPED_SUM, "sgd");
    struct model *model = model_of(&options);
    struct data data;
    double loss;
    data_make(&data, &options, ROWS, 20);
    data.features.host[3] = NAN;
    send(&data.features);
    assert_ok(model_step(model, &data.batch));
    assert_ok(model_loss(model, &loss));
    assert_true(isnan(loss));
    release(&data.features);
    model_free(model);
    close_kernel();
}

static const struct CMUnitTest tests[] = {
    ON_EACH_DEVICE(test_training_learns),
    ON_EACH_DEVICE(test_a_restored_run_is_bit_identical),
    ON_EACH_DEVICE(test_halves_make_a_step),
    ON_EACH_DEVICE(test_labels_are_those_of_their_batch),
    ON_EACH_DEVICE(test_a_line_is_found),
    ON_EACH_DEVICE(test_scores_add_up),
    ON_EACH_DEVICE(test_scores_are_taken_later),
    ON_EACH_DEVICE(test_predictions_agree_with_scores),
    ON_EACH_DEVICE(test_softmax_starts_undecided),
    ON_EACH_DEVICE(test_nan_is_seen),
    ON_EACH_DEVICE(test_targets_are_normalized_inside),
};

UNIT_MAIN(tests)

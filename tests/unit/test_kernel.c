/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/compute/kernel: Layers and updates on every device there is, against the formulas
 * in double and in float.
 */
#include "tests/unit/kernel_unit.h"

#define RESULT_FLOATS (sizeof(struct kernel_result) / sizeof(float))

/* ---- dense layers ------------------------------------------------------- */

struct layer {
    size_t rows, inputs, outputs;
    unsigned density;
};

static const struct layer layers[] = {
    {1, 1, 1, 100},
    {1, 784, 10, 19},
    {100, 784, 100, 19},
    {100, 784, 100, 80},
    {7, 65, 33, 30},
    {33, 100, 10, 100},
    {300, 50, 129, 10},
    {64, 128, 64, 50},
    {31, 40, 300, 100},
    {257, 3, 5, 100},
    {2, 784, 10, 0},
    /* More elements than 4096 blocks of a GPU have threads, and columns of biases. */
    {1100, 1, 1000, 100},
    {1100, 1000, 1, 100},
    {9, 1, 131200, 100},
};

static void check_forward(const struct layer *l, const struct kernel_input *input, const float *x,
                          enum activation activation)
{
    struct array weights = sent_array(l->inputs * l->outputs, 100);
    struct array bias = sent_array(l->outputs, 100);
    struct array y = sent_array(l->rows * l->outputs, 100);
    assert_ok(
        kernel_forward(kernel, input, weights.there, bias.there, l->outputs, activation, y.there));
    fetch(&y);
    for (size_t at = 0; at < y.count; at++) {
        size_t row = at / l->outputs, output = at % l->outputs;
        double sum = bias.host[output], size = fabs(sum);
        for (size_t i = 0; i < l->inputs; i++) {
            double term =
                (double)x[row * l->inputs + i] * (double)weights.host[i * l->outputs + output];
            sum += term;
            size += fabs(term);
        }
        if (activation == ACTIVATION_RELU && sum < 0)
            sum = 0;
        assert_near(y.host[at], sum, size, "y", at);
    }
    release(&weights);
    release(&bias);
    release(&y);
}

static void check_backward(const struct layer *l, const struct kernel_input *input, const float *x)
{
    struct array y_gradient = sent_array(l->rows * l->outputs, 90);
    struct array weights = sent_array(l->inputs * l->outputs, 100);
    struct array bias = sent_array(l->outputs, 100);
    assert_ok(
        kernel_backward(kernel, input, y_gradient.there, l->outputs, weights.there, bias.there));
    fetch(&weights);
    fetch(&bias);
    for (size_t at = 0; at < weights.count + bias.count; at++) {
        bool is_bias = at >= weights.count;
        size_t output = is_bias ? at - weights.count : at % l->outputs;
        double sum = 0, size = 0;
        for (size_t row = 0; row < l->rows; row++) {
            double factor = is_bias ? 1 : (double)x[row * l->inputs + at / l->outputs];
            double term = factor * (double)y_gradient.host[row * l->outputs + output];
            sum += term;
            size += fabs(term);
        }
        assert_near(is_bias ? bias.host[output] : weights.host[at], sum, size,
                    is_bias ? "db" : "dw", at);
    }
    release(&y_gradient);
    release(&weights);
    release(&bias);
}

static void check_backward_input(const struct layer *l, const struct kernel_input *input,
                                 const float *x)
{
    struct array y_gradient = sent_array(l->rows * l->outputs, 90);
    struct array weights = sent_array(l->inputs * l->outputs, 100);
    struct array x_gradient = sent_array(l->rows * l->inputs, 100);
    assert_ok(kernel_backward_input(kernel, input, y_gradient.there, weights.there, l->outputs,
                                    x_gradient.there));
    fetch(&x_gradient);
    for (size_t at = 0; at < x_gradient.count; at++) {
        double sum = 0, size = 0;
        for (size_t output = 0; output < l->outputs && x[at] > 0; output++) {
            double term = (double)y_gradient.host[at / l->inputs * l->outputs + output] *
                          (double)weights.host[at % l->inputs * l->outputs + output];
            sum += term;
            size += fabs(term);
        }
        assert_near(x_gradient.host[at], sum, size, "dx", at);
    }
    release(&y_gradient);
    release(&weights);
    release(&x_gradient);
}

static void test_dense_layers(void **state)
{
    open_kernel(state);
    for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++) {
        const struct layer *l = &layers[i];
        struct array x = sent_array(l->rows * l->inputs, l->density);
        struct kernel_input input;
        assert_ok(kernel_reserve(kernel, l->rows, l->inputs));
        assert_ok(kernel_input(kernel, x.there, l->rows, l->inputs, &input));
        for (int indexed = input.indexed; indexed >= 0; indexed--) {
            input.indexed = indexed;
            check_forward(l, &input, x.host, ACTIVATION_NONE);
            check_forward(l, &input, x.host, ACTIVATION_RELU);
            check_backward(l, &input, x.host);
            check_backward(l, &input, x.host); /* emulated GPUs: blocks the other way round */
            check_backward_input(l, &input, x.host);
        }
        release(&x);
    }
    close_kernel();
}

/* Floats where `bytes` is NULL. */
static enum error take_input(const struct array *x, const uint8_t *bytes, float scale, size_t rows,
                             struct kernel_input *ret_input)
{
    size_t inputs = x->count / rows;
    return bytes ? kernel_input_bytes(kernel, bytes, scale, rows, inputs, ret_input)
                 : kernel_input(kernel, x->there, rows, inputs, ret_input);
}

/* Twice as floats or, where the kernel takes them, once as floats and once as bytes. */
static void check_same_bits(unsigned density)
{
    enum { ROWS = 100, INPUTS = 784, OUTPUTS = 100 };
    const float scale = 1.0f / 255;
    struct array x = array_of(ROWS * INPUTS, density), weights = sent_array(INPUTS * OUTPUTS, 100);
    uint8_t *bytes = malloc(x.count);
    for (size_t i = 0; i < x.count; i++) {
        bytes[i] = x.host[i] == 0 ? 0 : (uint8_t)(1 + i % 255);
        x.host[i] = (float)bytes[i] * scale;
    }
    send(&x);
    struct array bias = sent_array(OUTPUTS, 100), y_gradient = sent_array(ROWS * OUTPUTS, 100);
    struct array y[2] = {sent_array(ROWS * OUTPUTS, 100), sent_array(ROWS * OUTPUTS, 100)};
    struct array dw[2] = {sent_array(INPUTS * OUTPUTS, 100), sent_array(INPUTS * OUTPUTS, 100)};
    struct array db[2] = {sent_array(OUTPUTS, 100), sent_array(OUTPUTS, 100)};
    assert_ok(kernel_reserve(kernel, ROWS, INPUTS));
    for (int i = 0; i < 2; i++) {
        struct kernel_input input;
        bool as_bytes = i == 1 && kernel_takes_bytes(kernel, scale);
        assert_ok(take_input(&x, as_bytes ? bytes : NULL, scale, ROWS, &input));
        assert_ok(kernel_forward(kernel, &input, weights.there, bias.there, OUTPUTS,
                                 ACTIVATION_RELU, y[i].there));
        assert_ok(
            kernel_backward(kernel, &input, y_gradient.there, OUTPUTS, dw[i].there, db[i].there));
        fetch(&y[i]);
        fetch(&dw[i]);
        fetch(&db[i]);
    }
    assert_memory_equal(y[0].host, y[1].host, y[0].count * sizeof(float));
    assert_memory_equal(dw[0].host, dw[1].host, dw[0].count * sizeof(float));
    assert_memory_equal(db[0].host, db[1].host, db[0].count * sizeof(float));
    for (int i = 0; i < 2; i++) {
        release(&y[i]);
        release(&dw[i]);
        release(&db[i]);
    }
    release(&x);
    release(&weights);
    release(&bias);
    release(&y_gradient);
    free(bytes);
}

static void test_the_same_input_gives_the_same_bits(void **state)
{
    open_kernel(state);
    check_same_bits(50);
    check_same_bits(19);
    assert_int_equal(kernel_takes_bytes(kernel, 1), device->kind == DEVICE_CPU);
    assert_false(kernel_takes_bytes(kernel, 0) || kernel_takes_bytes(kernel, 1e-40f) ||
                 kernel_takes_bytes(kernel, NAN));
    close_kernel();
}

/* ---- updates ------------------------------------------------------------ */

/* `decays`: with l2, weight decay and Nesterov's momentum. */
static void check_update(const char *name, size_t count, bool decays)
{
    struct optimizer optimizer;
    assert_ok(optimizer_init(&optimizer, name, 0.02));
    if (decays) {
        optimizer.l2 = 0.3f;
        optimizer.weight_decay = 0.7f;
        optimizer.nesterov = true;
        optimizer.schedule = (struct schedule){SCHEDULE_COSINE, 2, 3, 0, 0.001f};
    }
    struct array var = sent_array(count, 100), s0 = array_of(count, 0), s1 = sent_array(count, 0);
    for (size_t i = 0; i < count; i++)
        s0.host[i] = optimizer_slot_initial(&optimizer, 0);
    send(&s0);
    float *wanted = malloc(count * sizeof(float));
    assert_non_null(wanted);
    memcpy(wanted, var.host, count * sizeof(float));
    for (int64_t t = 1; t <= 4; t++) {
        struct array gradient = sent_array(count, 70);
        struct kernel_update update = {.count = count,
                                       .gradient = gradient.there,
                                       .parameters = var.there,
                                       .slots = {s0.there, s1.there}};
        assert_ok(kernel_update(kernel, &optimizer, t, &update));
        float decay = optimizer_decay(&optimizer, t), rate = optimizer_rate(&optimizer, t);
        for (size_t i = 0; i < count; i++) {
            volatile float left = wanted[i] * decay;
            wanted[i] = left;
            update_one(&optimizer, rate, gradient.host[i], &wanted[i], &s0.host[i], &s1.host[i]);
        }
        assert_ok(device_queue_wait(device, queue));
        release(&gradient);
    }
    fetch(&var);
    assert_memory_equal(var.host, wanted, count * sizeof(float));
    float *slot = malloc(count * sizeof(float));
    assert_non_null(slot);
    memcpy(slot, s0.host, count * sizeof(float));
    if (optimizer_slots(&optimizer) > 0) {
        fetch(&s0);
        assert_memory_equal(s0.host, slot, count * sizeof(float));
    }
    free(slot);
    free(wanted);
    release(&var);
    release(&s0);
    release(&s1);
}

static void test_updates_give_the_same_bits_everywhere(void **state)
{
    open_kernel(state);
    static const size_t counts[] = {1, 17, 256, 79510, 4096 * 256 + 300};
    static const char *const names[] = {"sgd", "momentum", "adagrad", "adam"};
    for (size_t i = 0; i < 5; i++) {
        for (size_t n = 0; n < 4; n++) {
            check_update(names[n], counts[i], false);
            check_update(names[n], counts[i], true);
        }
    }
    close_kernel();
}

/* ---- features ------------------------------------------------------------ */

static void *sent_columns(const int32_t *columns, size_t count)
{
    void *memory;
    assert_ok(device_memory_new(device, count * sizeof(*columns), &memory));
    assert_ok(device_copy_in(device, queue, memory, columns, count * sizeof(*columns)));
    assert_ok(device_queue_wait(device, queue));
    return memory;
}

/* `count` features of `columns` in each row, in reverse if they are picked. */
static void check_standardize(size_t rows, size_t columns, size_t count, bool picks, bool norms)
{
    struct array x = sent_array(rows * columns, 90), y = array_of(rows * count, 0);
    struct array mean = sent_array(count, 90), factor = sent_array(count, 90);
    int32_t *picked = calloc(count, sizeof(*picked));
    for (size_t i = 0; i < count; i++)
        picked[i] = (int32_t)(picks ? columns - 1 - i : i);
    struct kernel_features wanted = {.count = count};
    if (picks)
        wanted.columns = sent_columns(picked, count);
    if (norms) {
        wanted.mean = mean.there;
        wanted.factor = factor.there;
    }
    assert_ok(kernel_standardize(kernel, &wanted, x.there, rows, columns, y.there));
    fetch(&y);
    for (size_t i = 0; i < rows * count; i++) {
        size_t feature = i % count;
        volatile float value = x.host[i / count * columns + (size_t)picked[feature]];
        if (norms)
            value = value - mean.host[feature];
        if (norms)
            value = value * factor.host[feature];
        assert_true(y.host[i] == value);
    }
    device_memory_free(device, (void *)wanted.columns);
    free(picked);
    release(&x);
    release(&y);
    release(&mean);
    release(&factor);
}

static void test_features_are_picked_and_normalized(void **state)
{
    open_kernel(state);
    check_standardize(3, 5, 5, false, true);
    check_standardize(7, 40, 33, true, false);
    check_standardize(7, 40, 33, true, true);
    check_standardize(1, 784, 784, false, true);
    check_standardize(1400, 784, 784, true, true); /* more than a grid */
    close_kernel();
}

/* ---- room ---------------------------------------------------------------- */

/* What is given up for more room is still used by work that was enqueued before. */
static void test_more_rows_while_it_works(void **state)
{
    enum { ROWS = 300 };
    open_kernel(state);
    struct array y = sent_array(ROWS, 100), targets = sent_array(ROWS, 100);
    struct array gradient = sent_array(ROWS, 100), result = array_of(RESULT_FLOATS, 0);
    struct kernel_result sums;
    double wanted = 0;
    assert_ok(kernel_reserve(kernel, ROWS, 1));
    assert_ok(kernel_squared_error(kernel, LOSS_SQUARED_SUM, y.there, targets.there, ROWS,
                                   gradient.there, (void *)result.there));
    assert_ok(kernel_reserve(kernel, 2 * ROWS, 1));
    fetch_result((void *)result.there, &sums);
    for (size_t row = 0; row < ROWS; row++)
        wanted += pow((double)y.host[row] - (double)targets.host[row], 2);
    assert_true(fabs(sums.loss_sum - wanted) <= 1e-6 * wanted);
    struct array *const arrays[] = {&y, &targets, &gradient, &result};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++)
        release(arrays[i]);
    close_kernel();
}

/* ---- two GPUs ----------------------------------------------------------- */

static struct device *other;
static struct device_queue *other_queue;

/* As a program that uses both GPUs from one thread. */
#define BEHIND_THE_OTHER(call)                            \
    do {                                                  \
        assert_ok(device_queue_wait(other, other_queue)); \
        assert_ok(call);                                  \
    } while (0)

static void test_a_step_on_the_second_GPU(void **state)
{
    enum { ROWS = 5, INPUTS = 3, OUTPUTS = 4 };
    open_kernel(state);
    kernel_close(kernel);
    assert_ok(device_open("cuda:0", &other));
    assert_ok(device_queue_new(other, &other_queue));
    BEHIND_THE_OTHER(kernel_open(device, queue, NULL, &kernel));
    BEHIND_THE_OTHER(kernel_reserve(kernel, ROWS, INPUTS));
    struct array x = sent_array(ROWS * INPUTS, 50), y = sent_array(ROWS * OUTPUTS, 50);
    struct array weights = sent_array(INPUTS * OUTPUTS, 50), bias = sent_array(OUTPUTS, 50);
    struct array labels = array_of(ROWS, 0), result = array_of(RESULT_FLOATS, 0);
    struct kernel_result *sums = (void *)result.there;
    struct optimizer optimizer;
    struct kernel_update update = {
        .count = weights.count, .gradient = weights.there, .parameters = x.there};
    struct kernel_input input;
    assert_ok(optimizer_init(&optimizer, "sgd", 0.1));
    BEHIND_THE_OTHER(kernel_input(kernel, x.there, ROWS, INPUTS, &input));
    BEHIND_THE_OTHER(kernel_forward(kernel, &input, weights.there, bias.there, OUTPUTS,
                                    ACTIVATION_NONE, y.there));
    BEHIND_THE_OTHER(kernel_backward(kernel, &input, y.there, OUTPUTS, weights.there, bias.there));
    BEHIND_THE_OTHER(
        kernel_backward_input(kernel, &input, y.there, weights.there, OUTPUTS, x.there));
    BEHIND_THE_OTHER(kernel_softmax(kernel, y.there, ROWS, OUTPUTS, y.there));
    BEHIND_THE_OTHER(
        kernel_squared_error(kernel, LOSS_SQUARED_SUM, x.there, x.there, ROWS, y.there, sums));
    BEHIND_THE_OTHER(kernel_cross_entropy(kernel, LOSS_MEAN, weights.there,
                                          (const int32_t *)(const void *)labels.there, 3, OUTPUTS,
                                          y.there, sums));
    BEHIND_THE_OTHER(kernel_update(kernel, &optimizer, 1, &update));
    assert_ok(device_queue_wait(device, queue));
    struct array *const arrays[] = {&x, &y, &weights, &bias, &labels, &result};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++)
        release(arrays[i]);
    close_kernel();
    device_queue_free(other, other_queue);
    device_close(other);
}

static void test_the_description_names_the_parts(void **state)
{
    open_kernel(state);
    assert_true(kernel->description[0] != 0);
    assert_ptr_equal(kernel->device, device);
    if (device->kind == DEVICE_CPU)
        assert_non_null(strstr(kernel->description, "1 thread"));
    else
        assert_non_null(strstr(kernel->description, "cuBLAS"));
    close_kernel();
}

static void test_a_wrong_blas_is_refused(void **state)
{
    (void)state;
    const struct kernel_options options = {.blas = "nonesuch"};
    struct kernel *none = NULL;
    assert_ok(device_open("cpu", &device));
    assert_ok(device_queue_new(device, &queue));
    assert_fails(kernel_open(device, queue, &options, &none), ERROR_USAGE, "nonesuch");
    assert_null(none);
    device_queue_free(device, queue);
    device_close(device);
}

static const struct CMUnitTest tests[] = {
    ON_EACH_DEVICE(test_dense_layers),
    ON_EACH_DEVICE(test_the_same_input_gives_the_same_bits),
    ON_EACH_DEVICE(test_updates_give_the_same_bits_everywhere),
    ON_EACH_DEVICE(test_features_are_picked_and_normalized),
    ON_EACH_DEVICE(test_more_rows_while_it_works),
    ON_EACH_DEVICE(test_the_description_names_the_parts),
    {"test_a_step_on_the_second_GPU", test_a_step_on_the_second_GPU, NULL, NULL, (void *)"cuda:1"},
    cmocka_unit_test(test_a_wrong_blas_is_refused),
};

UNIT_MAIN(tests)

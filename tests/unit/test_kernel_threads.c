/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/compute/kernel_cpu: Steps of one layer on the CPU have the same bits with any
 * number of threads.
 */
#include "tests/unit/kernel_unit.h"

#include "common/machine.h"
#include "trainer/compute/cpu_loops.h"
#include "trainer/compute/fork_join.h"

struct layer {
    size_t rows, inputs, outputs;
    unsigned density;
};

/* In one part to eight, and in one to sixteen blocks of rows; sparse and dense; sizes that nothing
 * divides. */
static const struct layer layers[] = {
    {100, 784, 100, 19}, {100, 784, 100, 100}, {7, 383, 200, 30},   {64, 2000, 130, 100},
    {33, 1601, 129, 30}, {1, 3100, 77, 50},    {30, 5003, 64, 100}, {100, 100, 10, 100},
    {33, 150, 17, 100},  {517, 90, 33, 100},   {1000, 70, 3, 30},
};

static const unsigned threads[] = {1, 2, 3, 5, 100};

/* What a step reads and writes. */
enum { X, WEIGHTS, BIAS, Y_GRADIENT, SLOT, Y, DW, DB, DX, LOSS_GRADIENT, LOSS, ARRAYS };

static size_t count_of(const struct layer *l, int array)
{
    switch (array) {
    case X:
    case DX:
        return l->rows * l->inputs;
    case WEIGHTS:
    case SLOT:
    case DW:
        return l->inputs * l->outputs;
    case BIAS:
    case DB:
        return l->outputs;
    case LOSS:
        return sizeof(struct kernel_result) / sizeof(float);
    default:
        return l->rows * l->outputs;
    }
}

/* Three steps, so that each reads what threads wrote in the one before. */
static void make_steps(const struct layer *l, const struct array step[ARRAYS], double l2)
{
    struct optimizer optimizer;
    assert_ok(optimizer_init(&optimizer, "momentum", 0.01));
    optimizer.l2 = (float)l2;
    const struct kernel_update update = {.count = step[WEIGHTS].count,
                                         .gradient = step[DW].there,
                                         .parameters = step[WEIGHTS].there,
                                         .slots = {step[SLOT].there}};
    int32_t *classes = malloc(l->rows * sizeof(*classes));
    for (size_t i = 0; i < l->rows; i++)
        classes[i] = (int32_t)(i % l->outputs);
    assert_ok(kernel_reserve(kernel, l->rows, l->inputs));
    for (int64_t t = 1; t <= 3; t++) {
        struct kernel_input input;
        assert_ok(kernel_input(kernel, step[X].there, l->rows, l->inputs, &input));
        assert_int_equal(input.indexed, l->density <= 20 * cpu_loops_best()->worth_fifths);
        assert_ok(kernel_forward(kernel, &input, step[WEIGHTS].there, step[BIAS].there, l->outputs,
                                 ACTIVATION_RELU, step[Y].there));
        assert_ok(kernel_cross_entropy(kernel, LOSS_MEAN, step[Y].there, classes, l->rows,
                                       l->outputs, step[LOSS_GRADIENT].there,
                                       (struct kernel_result *)(void *)step[LOSS].there));
        assert_ok(kernel_backward(kernel, &input, step[Y].there, l->outputs, step[DW].there,
                                  step[DB].there));
        assert_ok(kernel_backward_input(kernel, &input, step[Y_GRADIENT].there, step[WEIGHTS].there,
                                        l->outputs, step[DX].there));
        assert_ok(kernel_update(kernel, &optimizer, t, &update));
    }
    free(classes);
}

/* From the same arrays with each number of threads. */
static void check_layer(void **state, const struct layer *l, double l2)
{
    float *before[ARRAYS], *wanted[ARRAYS];
    for (int i = 0; i < ARRAYS; i++) {
        before[i] = malloc(count_of(l, i) * sizeof(float));
        wanted[i] = malloc(count_of(l, i) * sizeof(float));
        for (size_t at = 0; at < count_of(l, i); at++)
            before[i][at] = random_sparse(i == X ? l->density : 100);
    }
    for (size_t n = 0; n < sizeof(threads) / sizeof(*threads); n++) {
        const struct kernel_options options = {.threads = threads[n]};
        struct array step[ARRAYS];
        open_kernel_with(state, &options);
        for (int i = 0; i < ARRAYS; i++) {
            step[i] = array_of(count_of(l, i), 0);
            memcpy(step[i].host, before[i], step[i].count * sizeof(float));
            send(&step[i]);
        }
        make_steps(l, step, l2);
        for (int i = 0; i < ARRAYS; i++) {
            fetch(&step[i]);
            if (n == 0)
                memcpy(wanted[i], step[i].host, step[i].count * sizeof(float));
            assert_memory_equal(step[i].host, wanted[i], step[i].count * sizeof(float));
            release(&step[i]);
        }
        close_kernel();
    }
    for (int i = 0; i < ARRAYS; i++) {
        free(before[i]);
        free(wanted[i]);
    }
}

static void test_threads_change_no_bit(void **state)
{
    *state = (void *)"cpu";
    for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++) {
        check_layer(state, &layers[i], 0);
        check_layer(state, &layers[i], 0.01);
    }
}

static void test_no_more_threads_than_processors(void **state)
{
    *state = (void *)"cpu";
    const struct kernel_options options = {.threads = 1000};
    struct machine machine;
    char wanted[32];
    machine_look(&machine);
    unsigned most = machine.processors < FORK_JOIN_THREADS ? machine.processors : FORK_JOIN_THREADS;
    snprintf(wanted, sizeof(wanted), ", %u thread%s", most, most == 1 ? "" : "s");
    open_kernel_with(state, &options);
    assert_non_null(strstr(kernel->description, wanted));
    close_kernel();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_threads_change_no_bit),
    cmocka_unit_test(test_no_more_threads_than_processors),
};

UNIT_MAIN(tests)

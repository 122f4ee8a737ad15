/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/model/gradient_graphs: a training whose gradients are launched as CUDA graphs is,
 * to the bit, the one whose operations are launched one by one; whatever fails on the way.
 */
#include "tests/unit/model_unit.h"
#include "trainer/model/gradient_graphs.h"

#define BATCHES 4
#define STEPS 16          /* each batch four times, and an evaluation of three of them */
#define STEPS_THAT_FAIL 6 /* two numbers of rows are enqueued, captured, and one launched again */

/* The emulation's, in a program that has it. */
long emulated_gpu_failures(void) __attribute__((weak));
long emulated_gpu_graphs(void) __attribute__((weak));

static long launched(void)
{
    return emulated_gpu_graphs ? emulated_gpu_graphs() : 0;
}

static struct model_options everything(void)
{
    struct model_options options = options_of(MODEL_MLP, "9,7", LOSS_MEAN, "adam");
    options.dropout = 0.3f;
    options.clip.norm = 0.5f;
    options.clip.value = 0.1f;
    return options;
}

/* Sums of squares take the emulation longer than all the rest. */
static struct model_options everything_fast(void)
{
    struct model_options options = everything();
    options.clip.norm = 0;
    return options;
}

/* Of several numbers of rows, in as many places. */
static void make_batches(struct data data[BATCHES], const struct model_options *options)
{
    for (size_t i = 0; i < BATCHES; i++)
        data_make(&data[i], options, 2 * ROWS - i / 2 * 3, 60);
}

static void free_batches(struct data data[BATCHES])
{
    for (size_t i = 0; i < BATCHES; i++)
        release(&data[i].features);
}

/* With evaluations, which use the same buffers, in between. */
static enum error make_steps(struct model *model, int steps, struct data data[BATCHES],
                             float *ret_state, double *ret_loss)
{
    enum error error = OK;
    struct model_score score = {0};
    for (int step = 0; step < steps && !error; step++) {
        struct model_batch batch = data[step % BATCHES].batch;
        batch.index = step;
        error = model_step(model, &batch);
        if (!error && step % 7 == 0)
            error = model_evaluate(model, &data[step % 3].batch, &score);
    }
    if (!error)
        error = model_loss(model, ret_loss);
    *ret_loss += score.loss_sum;
    return error ? error : model_read(model, ret_state);
}

struct run {
    struct kernel *kernel;
    int steps;
    const char *plan; /* what fails of an emulated GPU, while it trains */
};

/* `ret_state` has room for the model's. */
static enum error train(const struct model_options *options, const struct run *run,
                        struct data data[BATCHES], float *ret_state, double *ret_loss)
{
    struct model *model;
    struct error_report report;
    assert_ok(model_new(options, run->kernel, &model));
    setenv("EMULATED_GPU_FAILS", run->plan, 1);
    error_report_take(make_steps(model, run->steps, data, ret_state, ret_loss), &report);
    unsetenv("EMULATED_GPU_FAILS");
    assert_ok(device_queue_wait(device, queue)); /* what is freed now is not in use */
    model_free(model);
    return error_restore(&report);
}

static struct kernel *open_plain(void)
{
    struct kernel_options choice = {.no_graphs = true};
    struct kernel *plain;
    assert_ok(kernel_open(device, queue, &choice, &plain));
    assert_false(kernel_captures(plain));
    return plain;
}

static size_t state_count(const struct model_options *options)
{
    struct model *model = model_of(options);
    size_t count = model_state_count(model);
    model_free(model);
    return count;
}

struct outcome {
    float *state;
    size_t count;
    double loss;
};

static struct outcome outcome_of(const struct model_options *options)
{
    struct outcome outcome = {.count = state_count(options)};
    outcome.state = calloc(outcome.count, sizeof(*outcome.state));
    assert_non_null(outcome.state);
    return outcome;
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
    assert_memory_equal(a->state, b->state, a->count * sizeof(*a->state));
    assert_true(a->loss == b->loss);
}

/* `launches`: of graphs, that there must be on an emulated GPU of which `plan` fails. */
static void compare(const struct model_options *options, const char *plan, long launches)
{
    struct outcome plain = outcome_of(options), graphs = outcome_of(options);
    struct run without = {open_plain(), STEPS, ""}, with = {kernel, STEPS, plan};
    struct data data[BATCHES];
    make_batches(data, options);
    long before = launched();
    assert_ok(train(options, &without, data, plain.state, &plain.loss));
    assert_int_equal(launched(), before);
    assert_ok(train(options, &with, data, graphs.state, &graphs.loss));
    if (emulated_gpu_graphs && device->kind == DEVICE_CUDA)
        assert_int_equal(launched() - before, launches);
    assert_same(&plain, &graphs);
    free_batches(data);
    kernel_close(without.kernel);
    free(plain.state);
    free(graphs.state);
}

/* The first batch of each of the two numbers of rows is enqueued. */
static void test_the_same_bits_with_and_without_graphs(void **state)
{
    open_kernel(state);
    for (size_t i = 0; i < MODEL_KINDS; i++) {
        struct model_options options =
            options_of(model_kinds[i].kind, model_kinds[i].hidden, model_kinds[i].loss, "momentum");
        compare(&options, "", STEPS - 2);
    }
    struct model_options options = everything();
    compare(&options, "", STEPS - 2);
    close_kernel();
}

static void skip_without_emulation(void)
{
    struct device *found = NULL;
    if (!emulated_gpu_failures || device_open("cuda", &found)) {
        print_message("# no emulated GPU\n");
        skip();
    }
    device_close(found);
}

static void test_a_gpu_that_captures_nothing(void **state)
{
    struct model_options options = everything_fast();
    skip_without_emulation();
    open_kernel(state);
    compare(&options, "capture", 0);
    close_kernel();
}

/* Each call fails once: who trains hears of it, or trains on as if nothing had been; and nothing is
 * left behind (the emulation ends a program that leaves a graph). */
static bool try(const char *plan, struct data data[BATCHES], const struct outcome *wanted)
{
    struct model_options options = everything_fast();
    struct outcome got = outcome_of(&options);
    long before = emulated_gpu_failures();
    struct run run = {kernel, STEPS_THAT_FAIL, plan};
    enum error error = train(&options, &run, data, got.state, &got.loss);
    bool failed = error || emulated_gpu_failures() > before;
    if (!error)
        assert_same(wanted, &got);
    free(got.state);
    return failed;
}

static void walk(const char *kind, int misses, int at_least)
{
    struct run plain = {open_plain(), STEPS_THAT_FAIL, ""};
    struct model_options options = everything_fast();
    struct outcome wanted = outcome_of(&options);
    struct data data[BATCHES];
    char plan[32];
    int number = 0;
    make_batches(data, &options);
    assert_ok(train(&options, &plain, data, wanted.state, &wanted.loss));
    for (int missed = 0; missed < misses; number++) {
        snprintf(plan, sizeof(plan), "%s:%d", kind, number + 1);
        missed = try(plan, data, &wanted) ? 0 : missed + 1;
    }
    assert_true(number > at_least);
    free_batches(data);
    kernel_close(plain.kernel);
    free(wanted.state);
}

static void test_each_call_fails_once(void **state)
{
    skip_without_emulation();
    open_kernel(state);
    walk("call", 1, 100);
    close_kernel();
}

/* A product that is refused in a capture costs the graphs, and no more. The emulated cuBLAS does not
 * count its failures: more training than a capture has products without an error is the end. */
static void test_each_product_fails_once(void **state)
{
    skip_without_emulation();
    open_kernel(state);
    walk("cublas", 20, 40);
    close_kernel();
}

/* Beyond the limit work is enqueued as ever. */
static void test_more_numbers_of_rows_than_graphs(void **state)
{
    open_kernel(state);
    struct model_options options = everything_fast();
    struct data data;
    data_make(&data, &options, 2 * ROWS, 60);
    struct model *model = model_of(&options);
    long before = launched();
    assert_true(2 * ROWS > GRADIENT_GRAPHS_LIMIT);
    for (size_t step = 0; step < 4 * ROWS; step++) {
        data.batch.rows = 1 + step % (2 * (size_t)ROWS);
        data.batch.index = (int64_t)step;
        assert_ok(model_step(model, &data.batch));
    }
    if (emulated_gpu_graphs && device->kind == DEVICE_CUDA)
        assert_int_equal(launched() - before, GRADIENT_GRAPHS_LIMIT);
    float *last = state_of(model);
    for (size_t i = 0; i < model_state_count(model); i++)
        assert_true(isfinite(last[i]));
    free(last);
    release(&data.features);
    model_free(model);
    close_kernel();
}

/* ---- the object itself, on work that counts ------------------------------ */

struct work {
    float *from, *to;
    bool fails;
};

static enum error enqueue(void *context)
{
    const struct work *work = context;
    if (work->fails)
        return error_set(ERROR_INPUT, "this work fails");
    return kernel_copy(kernel, work->from, 1, work->to);
}

static float run(struct gradient_graphs *graphs, struct array *places, size_t from, size_t to,
                 float value)
{
    struct work work = {.from = places->there + from, .to = places->there + to};
    struct gradient_key key = {.rows = 1, .values = work.from, .gradient = work.to};
    for (size_t i = 0; i < places->count; i++)
        places->host[i] = value + (float)i;
    send(places);
    assert_ok(gradient_graphs_run(graphs, &key, enqueue, &work));
    fetch(places);
    return places->host[to];
}

/* Work at other places is other work, and a graph reads what lies there when it is launched. */
static void test_each_place_has_its_graph(void **state)
{
    open_kernel(state);
    struct gradient_graphs graphs;
    struct array places = array_of(4, 100);
    gradient_graphs_init(&graphs, kernel);
    assert_true(graphs.on);
    for (int round = 0; round < 4; round++) {
        float value = (float)(10 * round);
        assert_true(run(&graphs, &places, 0, 1, value) == value);
        assert_true(run(&graphs, &places, 2, 1, value) == value + 2);
        assert_true(run(&graphs, &places, 2, 3, value) == value + 2);
    }
    assert_int_equal(graphs.count, 3);
    gradient_graphs_release(&graphs);
    release(&places);
    close_kernel();
}

/* Work that fails while it is captured fails as well when it is enqueued, with its own message. */
static void test_work_that_fails(void **state)
{
    open_kernel(state);
    struct gradient_graphs graphs;
    struct array places = array_of(2, 100);
    struct work work = {.from = places.there, .to = places.there + 1, .fails = true};
    struct gradient_key key = {.rows = 1, .values = work.from, .gradient = work.to};
    gradient_graphs_init(&graphs, kernel);
    for (int i = 0; i < 3; i++)
        assert_fails(gradient_graphs_run(&graphs, &key, enqueue, &work), ERROR_INPUT,
                     "this work fails");
    assert_false(graphs.on);
    assert_true(run(&graphs, &places, 0, 1, 5) == 5);
    gradient_graphs_release(&graphs);
    release(&places);
    close_kernel();
}

#define ON_THE_GPU(test)                                      \
    {                                                         \
#test " on the GPU", test, NULL, NULL, (void *)"cuda" \
    }
#define EMULATED(test)                                                \
    {                                                                 \
#test " on an emulated GPU", test, NULL, NULL, (void *)"cuda" \
    }

static const struct CMUnitTest tests[] = {
    ON_EACH_DEVICE(test_the_same_bits_with_and_without_graphs),
    ON_EACH_DEVICE(test_more_numbers_of_rows_than_graphs),
    ON_THE_GPU(test_each_place_has_its_graph),
    ON_THE_GPU(test_work_that_fails),
    EMULATED(test_a_gpu_that_captures_nothing),
    EMULATED(test_each_call_fails_once),
    EMULATED(test_each_product_fails_once),
};

UNIT_MAIN(tests)

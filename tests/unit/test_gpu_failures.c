/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/device/device: and the kernel, on emulated GPUs.
 *
 * Every call of CUDA and cuBLAS fails once, and every piece of work: whoever called hears of it,
 * and nothing is left behind (the emulated GPUs of tests/cuda end a program that leaves memory,
 * streams or events; AddressSanitizer sees the rest). Skipped on a real GPU, which cannot be made
 * to fail.
 */
#include "tests/unit/kernel_unit.h"
#include "trainer/compute/engine.h"

#define ROWS 5
#define INPUTS 3
#define OUTPUTS 4
#define FLOATS 64

/* The emulation's, in a program that has it. */
long emulated_gpu_failures(void) __attribute__((weak));

struct work {
    struct device_queue *other;
    struct device_event *event;
    void *host, *memory, *result;
};

static enum error open_all(struct work *w)
{
    enum error error = device_open("cuda", &device);
    if (!error)
        error = device_queue_new(device, &queue);
    if (!error)
        error = device_queue_new(device, &w->other);
    if (!error)
        error = device_event_new(device, &w->event);
    if (!error)
        error = kernel_open(device, queue, NULL, &kernel);
    if (!error)
        error = kernel_reserve(kernel, ROWS, INPUTS);
    if (!error)
        error = device_host_new(device, FLOATS * sizeof(float), &w->host);
    if (!error)
        error = device_memory_new(device, FLOATS * sizeof(float), &w->memory);
    if (!error)
        error = device_memory_new(device, sizeof(struct kernel_result), &w->result);
    return error;
}

/* On arrays that overlap, since no value matters. */
static enum error compute(struct work *w)
{
    float *x = w->memory, *y = x + FLOATS / 2;
    const int32_t *labels = w->memory;
    struct kernel_input input;
    struct optimizer optimizer;
    struct kernel_update update = {
        .count = FLOATS / 4, .gradient = x, .parameters = y, .slots = {x, x}};
    enum error error = kernel_input(kernel, x, ROWS, INPUTS, &input);
    if (!error)
        error = kernel_forward(kernel, &input, x, x, OUTPUTS, ACTIVATION_RELU, y);
    if (!error)
        error = kernel_backward_input(kernel, &input, x, x, OUTPUTS, y);
    if (!error)
        error = kernel_softmax(kernel, x, ROWS, OUTPUTS, y);
    if (!error)
        error = kernel_cross_entropy(kernel, LOSS_MEAN, x, labels, ROWS, OUTPUTS, y, w->result);
    if (!error)
        error = kernel_squared_error(kernel, LOSS_SQUARED_MEAN, x, x, ROWS, y, w->result);
    if (!error)
        error = optimizer_init(&optimizer, "adam", 0.1);
    if (!error)
        error = kernel_update(kernel, &optimizer, 1, &update);
    if (!error)
        error = kernel_backward(kernel, &input, x, OUTPUTS, y, y + INPUTS * OUTPUTS);
    return error;
}

static enum error gather_all(struct device_queue *other, float *x)
{
    struct device_rows rows = {
        .rows = x, .places = (const uint32_t *)x, .count = 1, .columns = FLOATS / 4};
    rows.stride_bytes = FLOATS;
    uint64_t left;
    enum error error = device_memory_left(device, &left);
    /* Places are zero: nothing else was written there. */
    if (!error)
        error = device_scale_f32(device, other, x, x, FLOATS / 4, 0);
    if (!error)
        error = device_gather(device, other, x + FLOATS / 2, &rows);
    if (!error)
        error = device_gather_u8(device, other, x + FLOATS / 2, &rows, 1, NULL, NULL);
    if (!error)
        error = device_gather_f32(device, other, x + FLOATS / 2, &rows, NULL, NULL);
    if (!error)
        error = device_gather_f32(device, other, x + FLOATS / 2, &rows, x, x);
    if (!error)
        error = device_one_hot(device, other, x + FLOATS / 2, rows.places, 1, FLOATS / 4, true);
    if (!error)
        error = device_one_hot(device, other, x + FLOATS / 2, rows.places, 1, FLOATS / 4, false);
    return error;
}

static enum error move(struct work *w)
{
    size_t bytes = FLOATS * sizeof(float);
    float *x = w->memory;
    enum error error = device_copy_in(device, w->other, w->memory, w->host, bytes);
    if (!error)
        error = device_u8_to_f32(device, w->other, x, w->memory, FLOATS - 1, 0);
    if (!error)
        error = device_scale_f32(device, w->other, x + 1, x, FLOATS - 1, 0);
    if (!error)
        error = gather_all(w->other, x);
    if (!error)
        error = device_event_record(device, w->event, w->other);
    if (!error)
        error = device_queue_await(device, queue, w->event);
    if (!error)
        error = compute(w);
    if (!error)
        error = device_event_record(device, w->event, queue);
    if (!error)
        error = device_event_wait(device, w->event);
    if (!error)
        error = device_copy_out(device, queue, w->host, w->memory, bytes);
    if (!error)
        error = device_queue_wait(device, queue);
    return error;
}

static void close_all(struct work *w)
{
    if (!device)
        return;
    if (queue && device_queue_wait(device, queue))
        print_message("# %s\n", error_message());
    if (w->other && device_queue_wait(device, w->other))
        print_message("# %s\n", error_message());
    kernel_close(kernel);
    device_host_free(device, w->host);
    device_memory_free(device, w->memory);
    device_memory_free(device, w->result);
    device_event_free(device, w->event);
    device_queue_free(device, w->other);
    device_queue_free(device, queue);
    device_close(device);
}

/* Has there been a failure since there were `before`, and did it become the error? The emulated
 * cuBLAS does not count its own. */
static bool check(const char *plan, long before, enum error error)
{
    bool failed = strncmp(plan, "cublas", 6) == 0 ? error != OK : emulated_gpu_failures() > before;
    if ((error != OK) != failed)
        fail_msg("%s makes error %d: %s", plan, error, error ? error_message() : "-");
    if (error && !strstr(error_message(), "cu"))
        fail_msg("%s: the message is \"%s\"", plan, error_message());
    return failed;
}

/* Was there a failure? Those while closing are no errors. */
static bool try(const char *kind, long number)
{
    struct work w = {0};
    char plan[32];
    snprintf(plan, sizeof(plan), "%s:%ld", kind, number);
    device = NULL;
    queue = NULL;
    kernel = NULL;
    long before = emulated_gpu_failures();
    setenv("EMULATED_GPU_FAILS", plan, 1);
    enum error error = open_all(&w);
    bool failed = check(plan, before, error);
    if (!error) {
        error = move(&w);
        failed = check(plan, before, error);
    }
    close_all(&w);
    unsetenv("EMULATED_GPU_FAILS");
    return failed || emulated_gpu_failures() > before;
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

static void walk(const char *kind, long at_least)
{
    long number = 1;
    skip_without_emulation();
    while (try(kind, number))
        number++;
    assert_true(number > at_least);
}

static void test_calls(void **state)
{
    (void)state;
    walk("call", 60);
}

static void test_calls_of_cublas(void **state)
{
    (void)state;
    walk("cublas", 7);
}

static void test_pieces_of_work(void **state)
{
    (void)state;
    walk("work", 15);
}

/* Each call of a reservation fails once; what was asked for before is then had, and works. */
static void test_a_reservation_that_failed_leaves_a_kernel(void **state)
{
    struct work w = {0};
    long failures;
    size_t rows = ROWS;
    char plan[32];
    (void)state;
    skip_without_emulation();
    open_kernel(&(void *){"cuda"});
    assert_ok(device_memory_new(device, FLOATS * sizeof(float), &w.memory));
    assert_ok(device_memory_new(device, sizeof(struct kernel_result), &w.result));
    assert_ok(kernel_reserve(kernel, rows, INPUTS));
    do {
        snprintf(plan, sizeof(plan), "call:%zu", ++rows - ROWS);
        setenv("EMULATED_GPU_FAILS", plan, 1);
        failures = emulated_gpu_failures();
        if (kernel_reserve(kernel, rows, INPUTS))
            print_message("# %s\n", error_message());
        unsetenv("EMULATED_GPU_FAILS");
        assert_ok(kernel_reserve(kernel, 1, INPUTS));
        assert_ok(kernel_squared_error(kernel, LOSS_SQUARED_SUM, w.memory, w.memory, 1, w.memory,
                                       w.result));
        assert_ok(device_queue_wait(device, queue));
    } while (emulated_gpu_failures() > failures);
    assert_true(rows - ROWS > 6);
    close_all(&w);
}

/* A launch returns nothing: the conversion asks for its error, and leaves none to the next. */
static void test_a_conversion_that_fails_says_so(void **state)
{
    struct work w = {0};
    char plan[32];
    (void)state;
    skip_without_emulation();
    open_kernel(&(void *){"cuda"});
    assert_ok(device_memory_new(device, FLOATS * sizeof(float), &w.memory));
    for (long number = 2; number < 6; number++) { /* cudaSetDevice() and the launch, of both */
        long before = emulated_gpu_failures();
        snprintf(plan, sizeof(plan), "call:%ld", number / 2);
        setenv("EMULATED_GPU_FAILS", plan, 1);
        enum error error = number % 2 ? device_u8_to_f32(device, queue, w.memory, w.memory, 4, 1)
                                      : device_scale_f32(device, queue, w.memory, w.memory, 4, 1);
        unsetenv("EMULATED_GPU_FAILS");
        assert_int_equal(error, ERROR_IO);
        assert_int_equal(emulated_gpu_failures(), before + 1);
        assert_ok(device_queue_wait(device, queue));
    }
    close_all(&w);
}

/* Whoever saves the values counts its batch as not learnt from. */
static void test_an_update_that_fails_is_not_made(void **state)
{
    float values[FLOATS];
    struct work w = {0};
    struct optimizer optimizer;
    char plan[32];
    (void)state;
    skip_without_emulation();
    open_kernel(&(void *){"cuda"});
    assert_ok(optimizer_init(&optimizer, "sgd", 0.5));
    optimizer.weight_decay = 0.5f;
    assert_ok(device_memory_new(device, FLOATS * sizeof(float), &w.memory));
    assert_ok(kernel_fill(kernel, 1, FLOATS, w.memory));
    struct kernel_update update = {
        .count = FLOATS / 2, .gradient = w.memory, .parameters = (float *)w.memory + FLOATS / 2};
    enum error error = ERROR_IO;
    int number = 0;
    while (error) { /* cudaSetDevice(), the launch, ... and then none */
        snprintf(plan, sizeof(plan), "call:%d", ++number);
        setenv("EMULATED_GPU_FAILS", plan, 1);
        error = kernel_update(kernel, &optimizer, 1, &update);
        unsetenv("EMULATED_GPU_FAILS");
        assert_true(!error || error == ERROR_IO);
        assert_ok(kernel_read(kernel, w.memory, FLOATS, values));
        assert_float_equal(values[FLOATS - 1], error ? 1 : 0.25, 0);
    }
    assert_true(number > 2);
    close_all(&w);
}

static void test_pages_that_cannot_be_registered(void **state)
{
    struct device *cuda;
    char *memory[2];
    (void)state;
    skip_without_emulation();
    assert_ok(device_open("cuda", &cuda));
    for (int i = 0; i < 2; i++) {
        void *made;
        setenv("EMULATED_GPU_FAILS", i ? "register" : "", 1);
        assert_ok(device_host_new(cuda, 5 << 20, &made));
        memory[i] = made;
        for (size_t at = 0; at < 5 << 20; at += 1000)
            assert_int_equal(memory[i][at], 0);
    }
    unsetenv("EMULATED_GPU_FAILS");
    device_host_free(cuda, memory[0]);
    device_host_free(cuda, memory[1]);
    device_close(cuda);
}

static void test_a_GPU_without_code(void **state)
{
    (void)state;
    skip_without_emulation();
    setenv("EMULATED_GPU_FAILS", "code", 1);
    assert_fails(device_open("cuda", &device), ERROR_UNAVAILABLE, "no code for this GPU");
    unsetenv("EMULATED_GPU_FAILS");
}

/* What was not asked for by name may be missing. */
static void test_without_cublas_the_cpu_computes_unless_the_GPU_was_named(void **state)
{
    (void)state;
    skip_without_emulation();
    struct engine_options options = {.device = "cuda", .blas = "plain", .threads = 1};
    struct engine engine;
    setenv("EMULATED_GPU_FAILS", "cublas:1", 1);
    assert_fails(engine_open(&options, &engine), ERROR_UNAVAILABLE, "cuBLAS: cublasCreate failed");
    assert_null(engine.device);
    setenv("EMULATED_GPU_FAILS", "cublas:1,again", 1);
    options.device = "auto";
    assert_ok(engine_open(&options, &engine));
    assert_int_equal(engine.device->kind, DEVICE_CPU);
    engine_close(&engine);
    unsetenv("EMULATED_GPU_FAILS");
    assert_ok(engine_open(&options, &engine));
    assert_int_equal(engine.device->kind, DEVICE_CUDA);
    engine_close(&engine);
}

/* (1 + step) times 1 for steps that only some can tell from 1. */
static void test_precisions(void **state)
{
    static const struct {
        const char *asked, *plan, *described;
        bool keeps[3]; /* 2^-7, 2^-10, 2^-13 */
    } cases[] = {
        {NULL, "", "cuBLAS 13.0.0", {true, true, true}},
        {"f32", "", "cuBLAS 13.0.0", {true, true, true}},
        {"tf32", "", "cuBLAS 13.0.0 with tf32 products", {true, true, false}},
        {"bf16", "", "cuBLAS 13.0.0 with bf16 products", {true, false, false}},
        {"bf16", "old", "cuBLAS 13.0.0", {true, true, true}},
    };
    static const float steps[] = {1.0f / 128, 1.0f / 1024, 1.0f / 8192};
    (void)state;
    skip_without_emulation();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct engine_options options = {.device = "cuda", .precision = cases[i].asked};
        struct engine engine;
        void *memory;
        setenv("EMULATED_GPU_FAILS", cases[i].plan, 1);
        assert_ok(engine_open(&options, &engine));
        assert_string_equal(strrchr(engine.kernel->description, ',') + 2, cases[i].described);
        assert_ok(device_memory_new(engine.device, FLOATS * sizeof(float), &memory));
        for (size_t j = 0; j < 3; j++) {
            float values[4] = {1 + steps[j], 1, 0, 0}, *there = memory, y;
            struct kernel_input input = {.values = there, .rows = 1, .columns = 1};
            assert_ok(kernel_write(engine.kernel, values, 4, there));
            assert_ok(kernel_forward(engine.kernel, &input, there + 1, there + 2, 1,
                                     ACTIVATION_NONE, there + 3));
            assert_ok(kernel_read(engine.kernel, there + 3, 1, &y));
            assert_true(y == (cases[i].keeps[j] ? values[0] : 1));
        }
        device_memory_free(engine.device, memory);
        engine_close(&engine);
        unsetenv("EMULATED_GPU_FAILS");
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_calls),
    cmocka_unit_test(test_calls_of_cublas),
    cmocka_unit_test(test_pieces_of_work),
    cmocka_unit_test(test_a_reservation_that_failed_leaves_a_kernel),
    cmocka_unit_test(test_a_conversion_that_fails_says_so),
    cmocka_unit_test(test_an_update_that_fails_is_not_made),
    cmocka_unit_test(test_pages_that_cannot_be_registered),
    cmocka_unit_test(test_a_GPU_without_code),
    cmocka_unit_test(test_without_cublas_the_cpu_computes_unless_the_GPU_was_named),
    cmocka_unit_test(test_precisions),
};

UNIT_MAIN(tests)

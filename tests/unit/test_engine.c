/* SPDX-License-Identifier: MIT */
/* Covers trainer/compute/engine. */
#include "tests/unit/unit.h"

#include <float.h>
#include <pthread.h>

#include "trainer/compute/engine.h"

/* A denormal times 2^20, and the smallest normal number times 1/2: 0 where both are flushed. */
static void *compute(void *context)
{
    float *found = context;
    volatile float denormal = FLT_TRUE_MIN, smallest = FLT_MIN, half = 0.5f, large = 1048576;
    found[0] = denormal * large;
    found[1] = smallest * half;
    return NULL;
}

static void assert_computes(void *(*start)(void *), bool flushes)
{
    float found[2];
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, start, found), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(found[0] == 0, flushes);
    assert_int_equal(found[1] == 0, flushes);
}

static void *open_and_compute(void *context)
{
    const struct engine_options options = {.device = "cpu", .blas = "plain"};
    struct engine engine;
    assert_ok(engine_open(&options, &engine));
    compute(context);
    assert_computes(compute, true); /* as the threads of a BLAS library begin */
    engine_close(&engine);
    return NULL;
}

static void test_denormals_are_zeros_in_threads_that_compute(void **state)
{
    (void)state;
    assert_computes(compute, false);
    assert_computes(open_and_compute, true);
    assert_computes(compute, false);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_denormals_are_zeros_in_threads_that_compute),
};

UNIT_MAIN(tests)

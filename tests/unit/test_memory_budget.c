/* SPDX-License-Identifier: MIT */
/* Covers common/http/memory_budget. */
#include "tests/unit/unit.h"

#include <pthread.h>

#include "common/http/memory_budget.h"

#define MIB ((size_t)1 << 20)
#define THREADS 4
#define ROUNDS 20000

static void test_what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct memory_budget memory;
    memory_budget_init(&memory, 10 * (int64_t)MIB, "responses", "max-answer-memory");
    assert_ok(memory_budget_take(&memory, 6 * MIB));
    assert_ok(memory_budget_take(&memory, 4 * MIB));
    assert_fails(memory_budget_take(&memory, 1), ERROR_MEMORY, "--max-answer-memory 10485760");
    assert_int_equal(memory.refused, 1);
    memory_budget_put(&memory, MIB);
    assert_fails(memory_budget_take(&memory, MIB + 1), ERROR_MEMORY, "9437184");
    assert_ok(memory_budget_take(&memory, MIB));
    assert_int_equal(memory.held_bytes, 10 * MIB);
}

static void test_one_alone_always_fits(void **state)
{
    (void)state;
    struct memory_budget memory;
    memory_budget_init(&memory, (int64_t)MIB, "responses", "max-answer-memory");
    assert_ok(memory_budget_take(&memory, 100 * MIB));
    assert_fails(memory_budget_take(&memory, MIB / 2), ERROR_MEMORY, "responses");
    memory_budget_put(&memory, 100 * MIB);
    assert_ok(memory_budget_take(&memory, MIB / 2));
    assert_fails(memory_budget_take(&memory, 100 * MIB), ERROR_MEMORY, "responses");
}

static void *take_and_put(void *context)
{
    struct memory_budget *memory = context;
    size_t most = 0;
    for (int i = 0; i < ROUNDS; i++) {
        if (memory_budget_take(memory, MIB))
            continue;
        size_t held = (size_t)memory->held_bytes;
        most = held > most ? held : most;
        memory_budget_put(memory, MIB);
    }
    return (void *)most;
}

static void test_threads_never_pass_the_limit_together(void **state)
{
    (void)state;
    struct memory_budget memory;
    pthread_t threads[THREADS];
    memory_budget_init(&memory, 2 * (int64_t)MIB, "responses", "max-answer-memory");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_put, &memory), 0);
    for (int i = 0; i < THREADS; i++) {
        void *most;
        pthread_join(threads[i], &most);
        assert_true((size_t)most <= 2 * MIB);
    }
    assert_int_equal(memory.held_bytes, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_what_does_not_fit_is_refused),
    cmocka_unit_test(test_one_alone_always_fits),
    cmocka_unit_test(test_threads_never_pass_the_limit_together),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/* Covers common/errand: what is left behind ends by itself, and is freed by whoever is last. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "common/clock.h"
#include "common/errand.h"
#include "common/stop.h"

#define LONG_MS 600000

struct task {
    _Atomic bool may_end;
    _Atomic int worked, released;
};

static void work(void *context)
{
    struct task *task = context;
    while (!atomic_load(&task->may_end))
        clock_sleep_ms(1);
    atomic_fetch_add(&task->worked, 1);
}

static void release(void *context)
{
    struct task *task = context;
    atomic_fetch_add(&task->released, 1);
}

static void await(_Atomic int *count)
{
    while (atomic_load(count) == 0)
        clock_sleep_ms(1);
}

static void test_done_in_time(void **state)
{
    (void)state;
    struct task task = {.may_end = true};
    struct errand *errand;
    assert_ok(errand_new(work, release, &task, &errand));
    assert_ok(errand_start(errand, "tombola-test"));
    assert_true(errand_wait(errand, clock_deadline_ns(LONG_MS)));
    assert_int_equal(atomic_load(&task.worked), 1);
    assert_int_equal(atomic_load(&task.released), 0);
    assert_true(errand_wait(errand, clock_deadline_ns(0)));
    errand_leave(errand);
    assert_int_equal(atomic_load(&task.released), 1);
}

static void test_run_to_its_end(void **state)
{
    (void)state;
    struct task task = {.may_end = true};
    struct errand *errand;
    assert_ok(errand_new(work, release, &task, &errand));
    assert_ok(errand_run(errand, "tombola-test", NULL));
    assert_int_equal(atomic_load(&task.worked), 1);
    errand_leave(errand);
    assert_int_equal(atomic_load(&task.released), 1);
}

static void *let_end(void *context)
{
    struct task *task = context;
    clock_sleep_ms(1000); /* longer than what hangs is awaited */
    atomic_store(&task->may_end, true);
    return NULL;
}

/* Work that may take long is awaited all the same. */
static void test_run_past_a_stop(void **state)
{
    (void)state;
    static const _Atomic bool yes = true;
    struct task task = {.may_end = false};
    struct errand *errand;
    pthread_t thread;
    stop_follow(&yes);
    assert_ok(errand_new(work, release, &task, &errand));
    assert_int_equal(pthread_create(&thread, NULL, let_end, &task), 0);
    assert_ok(errand_run(errand, "tombola-test", &yes));
    errand_leave(errand);
    stop_follow(NULL);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&task.released), 1);
}

/* Work that hangs is not awaited once the program is to stop, work that ends by itself is. */
static void test_run_until_a_stop(void **state)
{
    (void)state;
    static const _Atomic bool stop = true;
    static struct task hangs = {.may_end = false}, ends = {.may_end = true};
    struct errand *errand;
    enum error error = ERROR_CANCELLED;
    stop_follow(&stop);
    assert_ok(errand_new(work, release, &hangs, &errand));
    assert_fails(errand_run(errand, "tombola-test", NULL), ERROR_CANCELLED, "hangs");
    errand_leave(errand);
    assert_int_equal(atomic_load(&hangs.released), 0);
    for (int tries = 0; error && tries < 20; tries++) { /* it may get no processor for long */
        assert_ok(errand_new(work, release, &ends, &errand));
        error = errand_run(errand, "tombola-test", NULL);
        errand_leave(errand);
    }
    assert_ok(error);
    stop_follow(NULL);
    atomic_store(&hangs.may_end, true);
    await(&hangs.released);
    assert_int_equal(atomic_load(&hangs.worked), 1);
}

static void test_left_behind(void **state)
{
    (void)state;
    struct task task = {.may_end = false};
    struct errand *errand;
    assert_ok(errand_new(work, release, &task, &errand));
    assert_ok(errand_start(errand, "tombola-test"));
    assert_false(errand_wait(errand, clock_deadline_ns(5)));
    errand_leave(errand);
    assert_int_equal(atomic_load(&task.released), 0);
    atomic_store(&task.may_end, true);
    await(&task.released);
    assert_int_equal(atomic_load(&task.worked), 1);
}

static void test_never_started(void **state)
{
    (void)state;
    struct task task = {.may_end = false};
    struct errand *errand;
    assert_ok(errand_new(work, release, &task, &errand));
    errand_leave(errand);
    assert_int_equal(atomic_load(&task.worked), 0);
    assert_int_equal(atomic_load(&task.released), 1);
    assert_ok(errand_new(work, NULL, &task, &errand));
    errand_leave(errand);
    errand_leave(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_done_in_time),     cmocka_unit_test(test_run_to_its_end),
    cmocka_unit_test(test_run_until_a_stop), cmocka_unit_test(test_run_past_a_stop),
    cmocka_unit_test(test_left_behind),      cmocka_unit_test(test_never_started),
};

UNIT_MAIN(tests)

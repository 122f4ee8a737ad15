/* SPDX-License-Identifier: MIT */
/* Covers common/errand: what is left behind ends by itself, and is freed by whoever is last. */
#include "tests/unit/unit.h"

#include <stdatomic.h>

#include "common/clock.h"
#include "common/errand.h"

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
    cmocka_unit_test(test_done_in_time),
    cmocka_unit_test(test_left_behind),
    cmocka_unit_test(test_never_started),
};

UNIT_MAIN(tests)

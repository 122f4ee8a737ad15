/* SPDX-License-Identifier: MIT */
/* Covers common/thread_pool: a stop waits for no job, and every job reports back. */
#include "tests/unit/unit.h"

#include <stdatomic.h>
#include <stddef.h>

#include "common/clock.h"
#include "common/thread_pool.h"

#define JOBS 5

struct task {
    struct pool_job job;
    const _Atomic bool *may_end; /* NULL: it heeds `stop` */
    _Atomic bool is_begun, is_done;
    bool was_stopped; /* when it ended */
};

static void run(struct pool_job *job, const _Atomic bool *stop)
{
    struct task *task = (struct task *)((char *)job - offsetof(struct task, job));
    atomic_store(&task->is_begun, true);
    while (!atomic_load(task->may_end ? task->may_end : stop))
        clock_sleep_ms(1);
    task->was_stopped = atomic_load(stop);
    atomic_store(&task->is_done, true);
}

static void await(const _Atomic bool *flag)
{
    while (!atomic_load(flag))
        clock_sleep_ms(1);
}

static void test_a_stop_waits_for_no_job(void **unused)
{
    (void)unused;
    struct thread_pool *pool;
    _Atomic bool may_end = false;
    struct task tasks[JOBS] = {{.may_end = &may_end}}, late = {.may_end = NULL};
    assert_ok(thread_pool_new(&pool));
    for (int i = 0; i < JOBS; i++) {
        tasks[i].job.run = run;
        assert_ok(thread_pool_add(pool, &tasks[i].job));
    }
    await(&tasks[0].is_begun);
    thread_pool_stop(pool);
    assert_false(atomic_load(&tasks[0].is_done)); /* it hangs, as in a file system that is away */
    for (int i = 1; i < JOBS; i++)
        await(&tasks[i].is_done);
    late.job.run = run;
    assert_fails(thread_pool_add(pool, &late.job), ERROR_UNAVAILABLE, "stopping");
    thread_pool_stop(pool);
    atomic_store(&may_end, true);
    thread_pool_free(pool);
    for (int i = 0; i < JOBS; i++)
        assert_true(atomic_load(&tasks[i].is_done) && tasks[i].was_stopped);
    thread_pool_free(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_stop_waits_for_no_job),
};

UNIT_MAIN(tests)

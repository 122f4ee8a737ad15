/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/compute/fork_join: Every part is done once, by whatever thread, however late the
 * threads are.
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "trainer/compute/fork_join.h"

#define ROUNDS (2000 / UNIT_LESS)

struct tally {
    atomic_uint done[FORK_JOIN_PARTS];
    unsigned plain[FORK_JOIN_PARTS]; /* what a part writes, the caller reads */
    long nap_ns;                     /* of part 0 */
    atomic_uint others;              /* parts other than 0 */
    unsigned awaited;                /* part 0 waits for so many others */
    pthread_t who[FORK_JOIN_PARTS];
};

static void nap(long ns)
{
    struct timespec pause = {.tv_nsec = ns};
    nanosleep(&pause, NULL);
}

static void count_part(void *context, unsigned part)
{
    struct tally *tally = context;
    atomic_fetch_add(&tally->done[part], 1);
    tally->plain[part]++;
    tally->who[part] = pthread_self();
    if (part > 0)
        atomic_fetch_add(&tally->others, 1);
    else if (tally->nap_ns)
        nap(tally->nap_ns);
    while (part == 0 && atomic_load(&tally->others) < tally->awaited)
        nap(1000);
}

static void check_done(struct tally *tally, unsigned parts, unsigned times)
{
    for (unsigned part = 0; part < FORK_JOIN_PARTS; part++) {
        assert_int_equal(tally->done[part], part < parts ? times : 0);
        assert_int_equal(tally->plain[part], part < parts ? times : 0);
    }
}

static void test_every_part_is_done_once(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= FORK_JOIN_THREADS; threads += threads < 4 ? 1 : 6) {
        struct fork_join *pool;
        assert_ok(fork_join_new(threads, &pool));
        assert_int_equal(fork_join_threads(pool), threads);
        for (unsigned parts = 0; parts <= FORK_JOIN_PARTS; parts++) {
            struct tally tally = {.awaited = 0};
            for (unsigned round = 1; round <= 20; round++) {
                fork_join_run(pool, parts, count_part, &tally);
                check_done(&tally, parts, round);
            }
        }
        fork_join_free(pool);
    }
    fork_join_free(NULL);
}

/* Small work in a row, of changing size, with pauses after which the threads sleep. */
static void test_work_in_a_row(void **state)
{
    (void)state;
    struct fork_join *pool;
    struct tally tally = {.awaited = 0};
    unsigned wanted[FORK_JOIN_PARTS] = {0};
    assert_ok(fork_join_new(3, &pool));
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned parts = 1 + round * 7 % FORK_JOIN_PARTS;
        fork_join_run(pool, parts, count_part, &tally);
        for (unsigned part = 0; part < FORK_JOIN_PARTS; part++) {
            wanted[part] += part < parts;
            assert_int_equal(tally.plain[part], wanted[part]);
        }
        if (round % 50 == 0)
            nap(3 * FORK_JOIN_WATCH_NS);
    }
    fork_join_free(pool);
}

/* A part that needs long is waited for, and the other threads take what is left. */
static void test_a_slow_part_is_waited_for(void **state)
{
    (void)state;
    struct fork_join *pool;
    assert_ok(fork_join_new(2, &pool));
    for (unsigned round = 1; round <= 5; round++) {
        struct tally tally = {.nap_ns = 5000000};
        fork_join_run(pool, 6, count_part, &tally);
        check_done(&tally, 6, 1);
    }
    fork_join_free(pool);
}

/* While one thread is held up in a part, the other does all others: the held one ends only then. */
static void test_who_is_free_takes_the_rest(void **state)
{
    (void)state;
    struct fork_join *pool;
    assert_ok(fork_join_new(2, &pool));
    for (unsigned round = 1; round <= 20; round++) {
        struct tally tally = {.awaited = 7};
        fork_join_run(pool, 8, count_part, &tally);
        check_done(&tally, 8, 1);
        for (unsigned part = 2; part < 8; part++)
            assert_true(pthread_equal(tally.who[part], tally.who[1]));
        assert_false(pthread_equal(tally.who[0], tally.who[1]));
    }
    fork_join_free(pool);
}

static void test_threads_end_whether_they_watch_or_sleep(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        struct fork_join *pool;
        struct tally tally = {.awaited = 0};
        assert_ok(fork_join_new(4, &pool));
        if (round % 2)
            fork_join_run(pool, 4, count_part, &tally);
        if (round % 3 == 0)
            nap(2 * FORK_JOIN_WATCH_NS);
        fork_join_free(pool);
        check_done(&tally, round % 2 ? 4 : 0, 1);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_part_is_done_once),
    cmocka_unit_test(test_work_in_a_row),
    cmocka_unit_test(test_a_slow_part_is_waited_for),
    cmocka_unit_test(test_who_is_free_takes_the_rest),
    cmocka_unit_test(test_threads_end_whether_they_watch_or_sleep),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/* Covers loader/feed/pull_queue. */
#include "tests/unit/unit.h"

#include <pthread.h>

#include "common/clock.h"
#include "loader/feed/pull_queue.h"

#define ROWS 5
#define PUSHES 20000

static const uint32_t labels[ROWS] = {9, 8, 7, 6, 5};

static void test_first_in_first_out(void **state)
{
    (void)state;
    struct pull_queue *queue;
    int64_t ids[ROWS] = {1, 2, 3, 4, 5}, out[ROWS];
    uint32_t labels_out[ROWS];
    struct pull pull = {.sequence = 99, .epoch = 3, .first = 70, .index = 7, .rows = 3}, taken;
    assert_ok(pull_queue_new(2, ROWS, &queue));
    assert_ok(pull_queue_push(queue, &pull, ids, labels));
    pull.rows = 5;
    assert_ok(pull_queue_push(queue, &pull, ids, labels));
    assert_ok(pull_queue_take(queue, &taken, out, labels_out));
    assert_int_equal(taken.sequence, 0); /* numbered here */
    assert_int_equal(taken.epoch, 3);
    assert_int_equal(taken.first, 70);
    assert_int_equal(taken.index, 7);
    assert_int_equal(taken.rows, 3);
    assert_memory_equal(out, ids, 3 * sizeof(int64_t));
    assert_memory_equal(labels_out, labels, 3 * sizeof(uint32_t));
    assert_int_equal(pull_queue_close(queue), 2);
    assert_ok(pull_queue_take(queue, &taken, out, labels_out));
    assert_int_equal(taken.sequence, 1);
    assert_memory_equal(out, ids, sizeof(ids));
    assert_memory_equal(labels_out, labels, sizeof(labels));
    assert_int_equal(pull_queue_take(queue, &taken, out, labels_out), ERROR_END);
    assert_int_equal(pull_queue_take(queue, &taken, out, labels_out), ERROR_END);
    pull_queue_stop(queue);
    assert_int_equal(pull_queue_take(queue, &taken, out, labels_out), ERROR_CANCELLED);
    pull_queue_free(queue);
    pull_queue_free(NULL);
}

static void *push_many(void *context)
{
    struct pull_queue *queue = context;
    for (int64_t i = 0; i < PUSHES; i++) {
        int64_t ids[ROWS];
        struct pull pull = {.index = i, .rows = (size_t)(i % ROWS + 1)};
        for (size_t k = 0; k < pull.rows; k++)
            ids[k] = i * 10 + (int64_t)k;
        uint32_t numbers[ROWS] = {(uint32_t)i};
        if (pull_queue_push(queue, &pull, ids, numbers))
            return "failed";
    }
    pull_queue_close(queue);
    return NULL;
}

static void test_two_threads(void **state)
{
    (void)state;
    for (size_t capacity = 1; capacity <= 64; capacity *= 4) {
        struct pull_queue *queue;
        pthread_t pusher;
        int64_t ids[ROWS], count = 0;
        struct pull pull;
        void *failure;
        enum error error;
        assert_ok(pull_queue_new(capacity, ROWS, &queue));
        assert_int_equal(pthread_create(&pusher, NULL, push_many, queue), 0);
        uint32_t numbers[ROWS];
        while (!(error = pull_queue_take(queue, &pull, ids, numbers))) {
            assert_int_equal(numbers[0], count);
            assert_int_equal(pull.sequence, count);
            assert_int_equal(pull.index, count);
            for (size_t k = 0; k < pull.rows; k++)
                assert_int_equal(ids[k], count * 10 + (int64_t)k);
            count++;
        }
        assert_int_equal(error, ERROR_END);
        assert_int_equal(count, PUSHES);
        pthread_join(pusher, &failure);
        assert_null(failure);
        pull_queue_free(queue);
    }
}

static void *take_one(void *context)
{
    struct pull_queue *queue = context;
    struct pull pull;
    int64_t ids[ROWS];
    uint32_t numbers[ROWS];
    return pull_queue_take(queue, &pull, ids, numbers) == ERROR_CANCELLED ? NULL : "not cancelled";
}

static void *push_three(void *context)
{
    struct pull_queue *queue = context;
    struct pull pull = {.rows = 1};
    int64_t id = 1;
    for (int i = 0; i < 3; i++) {
        if (pull_queue_push(queue, &pull, &id, labels) == ERROR_CANCELLED)
            return NULL;
    }
    return "not cancelled";
}

static void stop_one(void *(*thread_body)(void *))
{
    struct pull_queue *queue;
    pthread_t thread;
    void *failure;
    assert_ok(pull_queue_new(2, ROWS, &queue));
    assert_int_equal(pthread_create(&thread, NULL, thread_body, queue), 0);
    clock_sleep_ms(20);
    pull_queue_stop(queue);
    pthread_join(thread, &failure);
    assert_null(failure);
    pull_queue_free(queue);
}

static void test_stop_wakes_the_waiters(void **state)
{
    (void)state;
    stop_one(take_one);
    stop_one(push_three);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_in_first_out),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_stop_wakes_the_waiters),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

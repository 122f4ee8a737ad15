/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/exchange/rank_join: how a worker becomes part of a group of GPUs, and what it does
 * where that fails.
 */
#include "tests/unit/rank_unit.h"

static struct rank own;

static int start(void **state)
{
    (void)state;
    open_worker();
    rank = &own;
    own = (struct rank){.exchange = &exchange, .batches = INT64_MAX};
    rank_watch_init(&own.watch);
    assert_ok(joint_step_init(&own.step, &engine, model));
    own.watch.link = &remote.link;
    own.watch.step = &own.step;
    own.watch.device = engine.device;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    assert_ok(rank_leave(&own));
    rank_watch_release(&own.watch);
    joint_step_release(&own.step);
    index_set_release(&own.applied);
    index_set_release(&own.asked);
    close_worker();
    return 0;
}

static void assert_is_in(int64_t group)
{
    assert_int_equal(rank->group, group);
    assert_int_equal(joins, group);
    assert_true(rank->has_values);
    assert_int_equal(joint_step_made(&rank->step), 3);
    assert_int_equal(index_set_end(&rank->applied), 6);
    assert_int_equal(rank->last, 50);
    assert_false(rank_is_broken(rank));
}

static void test_a_worker_joins(void **state)
{
    (void)state;
    assert_ok(rank_join(rank));
    assert_is_in(1);
    assert_int_equal(first_join.step, WIRE_NONE);
    assert_int_equal(first_join.generation, 0);
    assert_int_equal(first_join.done, WIRE_NONE);
    assert_int_equal(rank->rank, 1);
    assert_int_equal(aborts, 0);
}

static void test_it_says_what_it_has_when_it_joins_anew(void **state)
{
    (void)state;
    rank->batches = 77;
    assert_ok(rank_join(rank));
    assert_ok(rank_join(rank));
    assert_is_in(2);
    assert_int_equal(first_join.done, 77);
    assert_int_equal(latest_join.step, 3);
    assert_int_equal(latest_join.generation, GENERATION);
    assert_true(aborts > 0);
}

/* For as long as it waits for others itself. */
static void test_server_0_has_all_the_time(void **state)
{
    (void)state;
    is_late = true;
    assert_ok(rank_join(rank));
    assert_is_in(1);
    assert_int_equal(connections, 1);
}

static void test_gpus_have_a_minute_to_connect(void **state)
{
    (void)state;
    attempts[0] = (struct attempt){.ready_at = 20, .late_at = 3, .late_ms = 55000};
    assert_ok(rank_join(rank));
    assert_is_in(1);
}

static void test_gpus_that_do_not_connect_are_given_up(void **state)
{
    (void)state;
    attempts[0] = (struct attempt){.ready_at = NEVER, .late_at = 3, .late_ms = 60001};
    assert_ok(rank_join(rank));
    assert_is_in(2);
    assert_int_equal(latest_join.step, WIRE_NONE); /* it still has nothing */
    assert_true(aborts > 0);
}

static void test_a_group_that_ends_before_it_connects(void **state)
{
    (void)state;
    answers[0].ends = true;
    attempts[0].ready_at = NEVER;
    assert_ok(rank_join(rank));
    assert_is_in(2);
}

static void test_a_group_that_ends_while_values_are_sent(void **state)
{
    (void)state;
    attempts[0].breaks = true;
    assert_ok(rank_join(rank));
    assert_is_in(2);
    assert_int_equal(latest_join.step, WIRE_NONE); /* what came may be anything */
}

static void test_rank_0_makes_the_id_and_brings_the_values(void **state)
{
    float values[3];
    (void)state;
    answers[0] = (struct answer){.type = WIRE_GROUP, .makes_id = true, .has_state = true};
    assert_ok(rank_join(rank));
    assert_is_in(1);
    assert_int_equal(rank->rank, 0);
    assert_ok(model_read(model, values));
    assert_true(values[0] == 1 && values[1] == 2 && values[2] == 3);
}

static void test_an_id_for_a_group_that_is_over(void **state)
{
    (void)state;
    answers[0] = (struct answer){.type = WIRE_GROUP, .makes_id = true, .id_is_late = true};
    assert_ok(rank_join(rank));
    assert_is_in(2);
    assert_int_equal(begins, 1);
}

/* There is another one: the id is of no use. */
static void test_an_id_for_a_group_before_the_one_of_now(void **state)
{
    (void)state;
    answers[0] = (struct answer){.type = WIRE_GROUP, .makes_id = true, .is_elsewhere = true};
    assert_ok(rank_join(rank));
    assert_is_in(2);
    assert_int_equal(begins, 1);
}

static void test_server_0_is_lost_and_comes_back(void **state)
{
    (void)state;
    answers[0].type = answers[1].type = 0;
    assert_ok(rank_join(rank));
    assert_is_in(3);
    assert_int_equal(connections, 3);
}

static void test_two_on_one_gpu(void **state)
{
    (void)state;
    attempts[0].result = ERROR_CONFLICT;
    assert_fails(rank_join(rank), ERROR_CONFLICT,
                 "each worker needs a GPU of its own (--device cuda:N, or CUDA_VISIBLE_DEVICES): ");
    assert_int_equal(joins, 1);
}

static void test_a_failing_nccl_is_tried_five_times(void **state)
{
    (void)state;
    for (int i = 0; i < TRIES; i++)
        attempts[i].result = ERROR_UNAVAILABLE;
    assert_fails(rank_join(rank), ERROR_UNAVAILABLE, "it did not go well");
    assert_int_equal(joins, 5);
}

/* Those in a row count. */
static void test_a_group_that_works_forgives_what_failed(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        attempts[i].result = ERROR_UNAVAILABLE;
    assert_ok(rank_join(rank));
    assert_is_in(5);
    assert_int_equal(rank->failures, 0);
}

static void test_the_training_is_over(void **state)
{
    (void)state;
    answers[0] = (struct answer){.type = WIRE_NEWS, .is_over = true};
    assert_int_equal(rank_join(rank), ERROR_END);
    answers[1] = (struct answer){.type = WIRE_NEWS}; /* and here it is not: it asks again */
    assert_ok(rank_join(rank));
    assert_is_in(3);
}

static void test_a_signal_between_two_tries(void **state)
{
    (void)state;
    keeps_waiting = true;
    attempts[0].result = ERROR_NETWORK;
    assert_fails(rank_join(rank), ERROR_CANCELLED, "stopped while waiting for a group");
    assert_int_equal(joins, 1);
}

static void test_a_signal_while_gpus_connect(void **state)
{
    _Atomic bool stopped = true;
    (void)state;
    attempts[0] = (struct attempt){.ready_at = NEVER, .late_at = 3, .stops = &stopped};
    assert_fails(rank_join(rank), ERROR_CANCELLED, "stopped while GPUs connect");
    stop_follow(NULL);
}

static void test_a_signal_while_server_0_waits_for_others(void **state)
{
    _Atomic bool stopped = true;
    (void)state;
    stop_follow(&stopped);
    answers[0].is_silent = true;
    assert_fails(rank_join(rank), ERROR_CANCELLED, "stopped while waiting for server 0");
    stop_follow(NULL);
}

static void test_what_does_not_come_back_is_not_tried_again(void **state)
{
    (void)state;
    attempts[0].result = ERROR_INPUT;
    assert_fails(rank_join(rank), ERROR_INPUT, "it did not go well");
    assert_null(strstr(error_message(), "GPU of its own"));
    assert_int_equal(joins, 1);
}

static void test_a_connection_without_standard_input(void **state)
{
    int before = dup(STDIN_FILENO);
    (void)state;
    uses_descriptor_0 = true;
    assert_ok(rank_join(rank));
    assert_ok(rank_join(rank));
    assert_is_in(2);
    assert_int_equal(connections, 1);
    assert_ok(rank_leave(rank));
    link_close(&remote.link);
    if (before >= 0) {
        dup2(before, STDIN_FILENO);
        close(before);
    }
}

static void test_nonsense_is_refused(void **state)
{
    (void)state;
    answers[0].type = WIRE_TAKEN;
    assert_fails(rank_join(rank), ERROR_INPUT, "server 0 answers TAKEN to JOIN");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

static const struct CMUnitTest tests[] = {
    TEST(test_a_worker_joins),
    TEST(test_it_says_what_it_has_when_it_joins_anew),
    TEST(test_server_0_has_all_the_time),
    TEST(test_gpus_have_a_minute_to_connect),
    TEST(test_gpus_that_do_not_connect_are_given_up),
    TEST(test_a_group_that_ends_before_it_connects),
    TEST(test_a_group_that_ends_while_values_are_sent),
    TEST(test_rank_0_makes_the_id_and_brings_the_values),
    TEST(test_an_id_for_a_group_that_is_over),
    TEST(test_an_id_for_a_group_before_the_one_of_now),
    TEST(test_server_0_is_lost_and_comes_back),
    TEST(test_two_on_one_gpu),
    TEST(test_a_failing_nccl_is_tried_five_times),
    TEST(test_a_group_that_works_forgives_what_failed),
    TEST(test_the_training_is_over),
    TEST(test_a_signal_between_two_tries),
    TEST(test_a_signal_while_gpus_connect),
    TEST(test_a_signal_while_server_0_waits_for_others),
    TEST(test_what_does_not_come_back_is_not_tried_again),
    TEST(test_a_connection_without_standard_input),
    TEST(test_nonsense_is_refused),
};

UNIT_MAIN(tests)

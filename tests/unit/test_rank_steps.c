/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/exchange/rank: the steps of a worker in a group of two GPUs, what it tells server
 * 0 meanwhile, and the end; so of rank_watch and joint_step, too. The group begins with step 3,
 * after batches 0 to 5.
 */
#include "tests/unit/rank_unit.h"

#include "tests/unit/failing_allocator.h"

#define GRANTS 16
#define WAIT_MS 10000

static struct kernel_ops kernel_ops;
static int64_t grants[GRANTS]; /* batches that the feed was asked for */
static size_t grant_count;
static enum error open_error, sum_error;
static int sums, ends;
static _Atomic bool stopped;

enum error __wrap_feed_grant(struct feed *feed, int64_t first, int64_t count);
enum error __wrap_nccl_open(struct nccl **ret_nccl);
void __wrap_nccl_close(struct nccl *nccl);
const char *__wrap_nccl_describe(const struct nccl *nccl);
enum error __wrap_nccl_sum(struct nccl *nccl, float *values, size_t count, void *stream);
void __wrap_nccl_end(struct nccl *nccl, int64_t deadline_ns);

enum error __wrap_feed_grant(struct feed *feed, int64_t first, int64_t count)
{
    (void)feed;
    assert_int_equal(count, 1);
    if (grant_count < GRANTS)
        grants[grant_count++] = first;
    return OK;
}

enum error __wrap_nccl_open(struct nccl **ret_nccl)
{
    *ret_nccl = (struct nccl *)(void *)&sums; /* nobody looks into it */
    return open_error ? error_set(open_error, "there is no NCCL") : OK;
}

void __wrap_nccl_close(struct nccl *nccl)
{
    (void)nccl;
}

const char *__wrap_nccl_describe(const struct nccl *nccl)
{
    (void)nccl;
    return "a test";
}

/* The other rank's part of each step is one gradient of fours. */
enum error __wrap_nccl_sum(struct nccl *nccl, float *values, size_t count, void *stream)
{
    (void)nccl;
    (void)stream;
    assert_int_equal(count, 4);
    for (size_t i = 0; i < 3; i++)
        values[i] += 4;
    values[3] += 1;
    sums++;
    return sum_error ? error_set(sum_error, "the sum failed") : OK;
}

void __wrap_nccl_end(struct nccl *nccl, int64_t deadline_ns)
{
    (void)nccl;
    (void)deadline_ns;
    ends++;
}

/* As the CPU's, by which no other thread is meant to see it. */
static enum error settle(struct kernel *kernel, const struct kernel_settlement *settlement)
{
    (void)kernel;
    float gradients = settlement->sum[settlement->count];
    *settlement->ret_makes = __atomic_load_n(settlement->stop, __ATOMIC_SEQ_CST) == 0;
    if (!*settlement->ret_makes)
        return OK;
    for (size_t i = 0; i < settlement->count && gradients > 1; i++)
        settlement->sum[i] /= gradients;
    __atomic_store_n(settlement->ret_made, settlement->number, __ATOMIC_SEQ_CST);
    return OK;
}

/* ---- a worker ------------------------------------------------------------ */

static int start(void **state)
{
    (void)state;
    open_worker();
    kernel_ops = *engine.kernel->ops;
    kernel_ops.settle = settle;
    engine.kernel->ops = &kernel_ops;
    engine.device->kind = DEVICE_CUDA;
    exchange.options.aggregate = 2;
    grant_count = 0;
    open_error = sum_error = OK;
    sums = ends = 0;
    stopped = false;
    stop_follow(&stopped);
    rank = NULL;
    for (int i = 0; i < TRIES; i++)
        answers[i].makes_id = true; /* this worker is rank 0 */
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rank_close(rank);
    stop_follow(NULL);
    engine.device->kind = DEVICE_CPU;
    close_worker();
    return 0;
}

static void begin(void)
{
    assert_ok(rank_open(&exchange, INT64_MAX, &rank));
    assert_int_equal(joins, 1);
}

static void push(float gradient, size_t rows)
{
    for (size_t i = 0; i < 3; i++)
        model_gradient_values(model)[i] = gradient;
    assert_ok(rank_push(rank, rows));
}

static void assert_values(float value, int64_t step)
{
    float values[3];
    assert_ok(model_read(model, values));
    for (size_t i = 0; i < 3; i++)
        assert_true(values[i] == value);
    assert_int_equal(model_get_step(model), step);
    assert_int_equal(joint_step_made(&rank->step), step);
}

static void await(bool (*is_so)(void))
{
    for (int i = 0; i < WAIT_MS && !is_so(); i++)
        clock_sleep_ms(1);
    assert_true(is_so());
}

static bool is_broken(void)
{
    return rank_is_broken(rank);
}

static bool is_wanted(void)
{
    return rank_watch_wants_state(&rank->watch);
}

static bool has_state(void)
{
    return states > 0;
}

static bool has_second_state(void)
{
    return states > 1;
}

static struct wire_header told(void)
{
    pthread_mutex_lock(&mutex);
    struct wire_header beat = latest_beat;
    pthread_mutex_unlock(&mutex);
    return beat;
}

static bool has_told(void)
{
    struct wire_header beat = told();
    return beat.step == joint_step_made(&rank->step) && beat.stock == 0;
}

static bool has_told_of_two(void)
{
    return told().stock == 2;
}

/* ---- steps --------------------------------------------------------------- */

static void test_its_part_of_each_step(void **state)
{
    (void)state;
    begin();
    assert_ok(rank_refill(rank, NULL));
    assert_int_equal(grant_count, 4);
    for (size_t i = 0; i < 4; i++) /* of four steps, of which each has two batches */
        assert_int_equal(grants[i], 6 + 2 * i);
    assert_false(rank_take(rank, 8)); /* too soon, and then it is asked for again */
    assert_true(rank_take(rank, 6));
    push(2, 1);
    assert_values(-3, 4); /* the mean of 2 and 4 */
    assert_int_equal(sums, 1);
    assert_ok(rank_refill(rank, NULL));
    assert_int_equal(grant_count, 6);
    assert_int_equal(grants[4], 8);
    assert_int_equal(grants[5], 14);
    assert_false(rank_take(rank, 9)); /* the other's */
    assert_true(rank_take(rank, 8));
    push(0, 0); /* no rows: the mean of the other's alone */
    assert_values(-7, 5);
    await(has_told);
    struct wire_header beat = told();
    assert_int_equal(beat.batch, 1);
    assert_int_equal(beat.generation, GENERATION);
    assert_int_equal(beat.over, 0);
}

/* By the functions of every exchange. */
static void test_as_an_exchange(void **state)
{
    bool again = true;
    (void)state;
    exchange.options.is_grouped = true;
    assert_ok(exchange_begin(&exchange, &engine, model, 1, 9));
    rank = exchange.rank;
    assert_ok(exchange_refill(&exchange, NULL));
    assert_int_equal(grants[0], 6);
    assert_true(exchange_take(&exchange, 6));
    for (size_t i = 0; i < 3; i++)
        model_gradient_values(model)[i] = 2;
    assert_ok(exchange_push(&exchange, 6, 1, &again));
    assert_false(again);
    assert_values(-3, 4);
    assert_ok(exchange_look(&exchange)); /* the watch does */
    assert_fails(exchange_end_stream(&exchange, 1, 8), ERROR_CONFLICT,
                 "the sampler has no batch 8");
}

static void test_two_batches_of_a_step(void **state)
{
    (void)state;
    exchange.options.aggregate = 4;
    begin();
    assert_ok(rank_refill(rank, NULL));
    assert_int_equal(grants[0], 6);
    assert_int_equal(grants[1], 8);
    assert_int_equal(grants[2], 10);
    push(2, 1);
    assert_values(0, 3);
    assert_int_equal(sums, 0);
    assert_true(rank_take(rank, 8));
    push(6, 1);
    assert_int_equal(sums, 1);
    assert_values(-4, 4); /* of 2, 6 and 4 */
}

static void test_rank_1_has_the_second_batch(void **state)
{
    (void)state;
    answers[0].makes_id = false;
    begin();
    assert_ok(rank_refill(rank, NULL));
    assert_int_equal(grants[0], 7);
    assert_int_equal(grants[1], 9);
    assert_true(rank_take(rank, 7));
}

/* The last step of a stream may leave a rank without a batch: it makes the step all the same. */
static void test_a_stream_that_ends(void **state)
{
    (void)state;
    answers[0].makes_id = false;
    assert_ok(rank_open(&exchange, 9, &rank));
    assert_ok(rank_refill(rank, NULL));
    assert_int_equal(grant_count, 1);
    assert_true(rank_take(rank, 7));
    push(4, 1);
    training_over = true;
    assert_int_equal(rank_refill(rank, NULL), ERROR_END);
    assert_int_equal(sums, 2);
    assert_values(-8, 5);
    assert_int_equal(told().over, 1);
    assert_int_equal(ends, 1);
    assert_fails(rank_end_stream(rank, 8), ERROR_CONFLICT,
                 "the sampler has no batch 8 of this stream, which has 9");
}

static void test_the_last_step(void **state)
{
    (void)state;
    begin();
    rank->last = 4;
    assert_ok(rank_refill(rank, NULL));
    push(2, 1);
    assert_int_equal(rank->group, 1);
    training_over = true;
    assert_int_equal(rank_refill(rank, NULL), ERROR_END);
    assert_int_equal(told().over, 1);
    assert_values(-3, 4);
}

static void test_a_signal_while_the_last_step_is_saved(void **state)
{
    (void)state;
    begin();
    rank->last = 3;
    stopped = true;
    assert_fails(rank_refill(rank, NULL), ERROR_CANCELLED,
                 "stopped while server 0 saves the last step");
}

/* ---- states -------------------------------------------------------------- */

static void test_rank_0_sends_its_state_when_it_is_wanted(void **state)
{
    (void)state;
    begin();
    assert_ok(rank_refill(rank, NULL));
    wants_state = true;
    await(is_wanted);
    push(2, 1);
    await(has_state);
    assert_int_equal(latest_state.step, 4);
    assert_int_equal(latest_state.batch, 1);
    assert_true(state_values[0] == -3 && state_values[2] == -3);
    push(2, 1); /* not again, unless it is wanted again */
    assert_true(rank_watch_await_sent(&rank->watch, INT64_MAX));
    assert_int_equal(states, 1);
    wants_state = true;
    await(is_wanted);
    push(2, 1);
    await(has_second_state);
    assert_int_equal(latest_state.step, 6);
}

static void test_no_other_rank_sends_one(void **state)
{
    (void)state;
    answers[0].makes_id = false;
    begin();
    assert_ok(rank_refill(rank, NULL));
    wants_state = true;
    await(is_wanted);
    push(2, 1);
    stopped = true;
    rank_close(rank);
    rank = NULL;
    assert_int_equal(states, 0);
}

/* After a signal; not where it is closed for another reason, nor what was stopped. */
static void test_rank_0_that_is_stopped_sends_its_last_state(void **state)
{
    (void)state;
    begin();
    assert_ok(rank_refill(rank, NULL));
    push(2, 1);
    stopped = true;
    rank_close(rank);
    rank = NULL;
    assert_int_equal(states, 1);
    assert_int_equal(latest_state.step, 4);
    assert_true(state_values[0] == -3);
    stopped = false;
    assert_ok(rank_open(&exchange, INT64_MAX, &rank));
    push(2, 1);
    rank_close(rank);
    rank = NULL;
    assert_int_equal(states, 1);
    assert_ok(rank_open(&exchange, INT64_MAX, &rank));
    rank_watch_break_off(&rank->watch, "a test");
    stopped = true;
    rank_close(rank);
    rank = NULL;
    assert_int_equal(states, 1);
}

/* One that is still being sent neither changes on the way nor hides the last one. */
static void test_the_last_state_follows_one_on_its_way(void **state)
{
    (void)state;
    begin();
    assert_ok(rank_refill(rank, NULL));
    state_pause_ms = 200;
    wants_state = true;
    await(is_wanted);
    push(2, 1);
    await(has_state);
    assert_int_equal(latest_state.step, 4);
    push(2, 1);
    stopped = true;
    rank_close(rank);
    rank = NULL;
    assert_int_equal(states, 2);
    assert_int_equal(latest_state.step, 5);
    assert_true(state_values[0] == -6);
}

static void test_a_state_that_was_not_sent(void **state)
{
    const float values[3] = {1, 2, 3};
    (void)state;
    begin();
    loses_state = true;
    rank_watch_send(&rank->watch, values, 3, 3);
    assert_false(rank_watch_await_sent(&rank->watch, INT64_MAX));
    await(is_broken);
    assert_int_equal(states, 1);
}

/* ---- groups that end ----------------------------------------------------- */

static void test_a_group_that_ends_is_left_for_another(void **state)
{
    (void)state;
    begin();
    assert_ok(rank_refill(rank, NULL));
    push(2, 1);
    assert_true(rank_take(rank, 8));
    answers[0].ends = true;
    await(is_broken);
    assert_false(rank_take(rank, 8));
    push(2, 1); /* makes nothing */
    assert_int_equal(joint_step_made(&rank->step), 4);
    assert_ok(rank_refill(rank, NULL));
    assert_int_equal(joins, 2);
    assert_int_equal(latest_join.step, 4);
    assert_int_equal(rank->group, 2);
    assert_true(aborts > 0);
}

/* Others made the last step without it, in a group of their own: what hangs is aborted now, too. */
static void test_a_rank_that_was_left_out_until_the_end(void **state)
{
    (void)state;
    begin();
    assert_ok(rank_refill(rank, NULL));
    push(2, 1);
    answers[1] = (struct answer){.type = WIRE_NEWS, .is_over = true};
    training_over = true;
    answers[0].ends = true;
    await(is_broken);
    assert_true(aborts > 0);
    assert_int_equal(rank_refill(rank, NULL), ERROR_END);
}

static void test_an_error_of_nccl_is_the_end_of_the_group(void **state)
{
    (void)state;
    begin();
    assert_ok(rank_refill(rank, NULL));
    sum_error = ERROR_NETWORK;
    push(2, 1);
    assert_true(rank_is_broken(rank));
    assert_int_equal(joint_step_made(&rank->step), 3);
    sum_error = OK;
    assert_ok(rank_refill(rank, NULL));
    assert_int_equal(joins, 2);
    poll_error = ERROR_NETWORK; /* noticed by the watch */
    await(is_broken);
    poll_error = OK;
    assert_ok(rank_refill(rank, NULL));
    assert_int_equal(joins, 3);
    sum_error = ERROR_CONFLICT; /* is nobody's end */
    for (size_t i = 0; i < 3; i++)
        model_gradient_values(model)[i] = 1;
    assert_fails(rank_push(rank, 1), ERROR_CONFLICT, "the sum failed");
}

/* Steps are told apart that are made and those that only hang. */
static void test_what_it_tells_of_steps_that_hang(void **state)
{
    (void)state;
    begin();
    rank_watch_tell(&rank->watch, 5);
    await(has_told_of_two);
    assert_int_equal(told().step, 3);
}

static void test_answers_that_are_no_news(void **state)
{
    (void)state;
    begin();
    news_type = WIRE_TAKEN;
    await(is_broken);
    news_type = WIRE_NEWS;
    assert_ok(rank_refill(rank, NULL));
    assert_int_equal(connections, 2);
    news_bytes = 1;
    await(is_broken);
    news_bytes = 0;
    assert_ok(rank_refill(rank, NULL));
    assert_int_equal(connections, 3);
    assert_int_equal(rank->group, 3);
}

/* ---- what keeps it from starting ------------------------------------------ */

static void test_where_it_cannot_be_used(void **state)
{
    (void)state;
    engine.device->kind = DEVICE_CPU;
    assert_fails(rank_open(&exchange, INT64_MAX, &rank), ERROR_USAGE,
                 "--exchange nccl is for GPUs, and this worker computes on CPU");
    engine.device->kind = DEVICE_CUDA;
    assert_fails(rank_open(&exchange, -1, &rank), ERROR_USAGE, "serve it without --epochs");
    open_error = ERROR_UNAVAILABLE;
    assert_fails(rank_open(&exchange, 0, &rank), ERROR_UNAVAILABLE, "there is no NCCL");
    assert_int_equal(joins, 0);
    open_error = OK;
    answers[0] = (struct answer){.type = WIRE_NEWS, .is_over = true};
    assert_int_equal(rank_open(&exchange, INT64_MAX, &rank), ERROR_END);
    assert_null(rank);
}

/* ---- allocations that fail ------------------------------------------------ */

/* Two steps, and the state that is sent when it is stopped. */
static enum error join_and_train(void)
{
    close_connections();
    joins = begins = states = 0;
    stopped = false;
    rank = NULL;
    enum error error = rank_open(&exchange, INT64_MAX, &rank);
    for (int step = 0; step < 2 && !error; step++) {
        error = rank_refill(rank, NULL);
        if (!error)
            error = rank_push(rank, 1);
    }
    stopped = true;
    rank_close(rank);
    rank = NULL;
    return error;
}

static void check_memory(long nth, enum error error)
{
    if (error ? error != ERROR_MEMORY : states > 0)
        fail_msg("allocation %ld failed, and the answer was %d, %s", nth, error, error_message());
}

static void test_allocations_that_fail(void **state)
{
    (void)state;
    fail_each(join_and_train, check_memory);
    assert_int_equal(states, 1); /* where none failed */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

static const struct CMUnitTest tests[] = {
    TEST(test_its_part_of_each_step),
    TEST(test_as_an_exchange),
    TEST(test_two_batches_of_a_step),
    TEST(test_rank_1_has_the_second_batch),
    TEST(test_a_stream_that_ends),
    TEST(test_the_last_step),
    TEST(test_a_signal_while_the_last_step_is_saved),
    TEST(test_rank_0_sends_its_state_when_it_is_wanted),
    TEST(test_no_other_rank_sends_one),
    TEST(test_rank_0_that_is_stopped_sends_its_last_state),
    TEST(test_the_last_state_follows_one_on_its_way),
    TEST(test_a_state_that_was_not_sent),
    TEST(test_a_group_that_ends_is_left_for_another),
    TEST(test_a_rank_that_was_left_out_until_the_end),
    TEST(test_an_error_of_nccl_is_the_end_of_the_group),
    TEST(test_what_it_tells_of_steps_that_hang),
    TEST(test_answers_that_are_no_news),
    TEST(test_where_it_cannot_be_used),
    TEST(test_allocations_that_fail),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/* Covers loader/feed/lease_share: How much of a short stream a worker leases ahead of the others. */
#include "tests/unit/unit.h"

#include "loader/feed/lease_share.h"

#define ROWS 100
#define MANY ((int64_t)1 << 40)
#define WORKERS_LIMIT 8
#define SLOTS 40 /* more batches than that a feed never leases ahead */

static struct lease_share share_of(int64_t epoch_draws, int64_t epochs, int64_t position)
{
    struct sampler_stream stream = {
        .epoch_draws = epoch_draws, .epochs = epochs, .position = position};
    struct lease_share share;
    lease_share_begin(&share, &stream);
    return share;
}

static void draw(struct lease_share *share, int64_t first, size_t rows, int64_t attempt)
{
    struct sampler_batch batch = {.first = first, .rows = rows, .lease = {.attempt = attempt}};
    lease_share_drawn(share, &batch);
}

static void test_a_quarter_of_what_is_left(void **state)
{
    (void)state;
    struct lease_share share = share_of(60000, 1, 0);
    assert_int_equal(lease_share_most(&share, ROWS, MANY), 150);
    share = share_of(60000, 1, 55900);
    draw(&share, 55900, 100, 1);
    assert_int_equal(lease_share_most(&share, ROWS, MANY), 10);
    draw(&share, 100, 900, 2); /* lent before: nothing is said of the stream */
    assert_int_equal(lease_share_most(&share, ROWS, MANY), 10);
    draw(&share, 56000, 3200, 1);
    assert_int_equal(lease_share_most(&share, ROWS, MANY), 2);
    draw(&share, 59200, 800, 1);
    assert_int_equal(lease_share_most(&share, ROWS, MANY), 1);
    draw(&share, 900, 100, 1); /* the stream was set back */
    assert_int_equal(lease_share_most(&share, ROWS, MANY), 147);
}

/* Few at the beginning, and more as they are taken. */
static void test_begins_with_few(void **state)
{
    (void)state;
    struct lease_share share = share_of(60000, 1, 0);
    assert_int_equal(lease_share_most(&share, ROWS, 0), 4);
    assert_int_equal(lease_share_most(&share, ROWS, 36), 40);
}

/* A half of a fair share, where the stream moves on by others. */
static void test_many_workers(void **state)
{
    (void)state;
    struct lease_share share = share_of(60000, 1, 0);
    draw(&share, 0, 100, 1);
    for (int64_t first = 1000; first < 20000; first += 1000)
        draw(&share, first, 100, 1);
    assert_int_equal(lease_share_most(&share, ROWS, MANY), (600 - 191) / 20);
    for (int64_t first = 19100; first < 40000; first += 100) /* the others have gone */
        draw(&share, first, 100, 1);
    assert_int_equal(lease_share_most(&share, ROWS, MANY), 200 / 4);
}

static void test_within_an_epoch(void **state)
{
    (void)state;
    struct lease_share endless = share_of(2000, 0, 500000), many = share_of(2000, 9, 0);
    draw(&endless, 500000, 100, 1);
    assert_int_equal(lease_share_most(&endless, ROWS, MANY), 5);
    assert_int_equal(lease_share_most(&many, ROWS, MANY), 5);
    struct lease_share last = share_of(2000, 9, 17000), tiny = share_of(5, 0, 0);
    assert_int_equal(lease_share_most(&last, ROWS, MANY), 2);
    assert_int_equal(lease_share_most(&tiny, ROWS, MANY), 1);
    struct lease_share huge = share_of(INT64_MAX, 3, 5);
    assert_int_equal(lease_share_most(&huge, 1, MANY), MANY + 4);
    draw(&huge, INT64_MAX - 105, 100, 1);
    draw(&huge, INT64_MAX - 100, 100, 1);
    assert_int_equal(lease_share_most(&huge, 1, MANY), 1);
    struct lease_share unknown = {.epoch_draws = 0};
    assert_int_equal(lease_share_most(&unknown, ROWS, 0), INT64_MAX);
    assert_int_equal(lease_share_enough(&unknown, ROWS, 0, 8), INT64_MAX - 8);
}

/* A request is for many batches while there are many, and there is always one worth making. */
static void test_requests_stay_few(void **state)
{
    (void)state;
    for (int64_t left = 0; left < 700; left++) {
        struct lease_share share = share_of(left * ROWS + 1, 1, 0);
        int64_t most = lease_share_most(&share, ROWS, MANY);
        for (size_t at_once = 1; at_once <= 8; at_once++) {
            int64_t request = most - lease_share_enough(&share, ROWS, MANY, at_once);
            assert_true(request >= 1 && request <= (int64_t)at_once);
            assert_true(request == (int64_t)at_once || request * 2 >= most);
            assert_true(lease_share_enough(&share, ROWS, MANY, at_once) >= 0);
        }
    }
}

/* Workers that begin at once, lease whenever they may, and train a batch in turn. */
static int64_t share_out(int64_t batches, int workers, int64_t trained[WORKERS_LIMIT])
{
    struct lease_share share[WORKERS_LIMIT];
    int64_t position = 0, ahead[WORKERS_LIMIT] = {0}, requests = 0;
    for (int i = 0; i < workers; i++)
        share[i] = share_of(batches * ROWS, 1, 0);
    for (bool works = true; works;) {
        works = false;
        for (int i = 0; i < workers; i++) {
            while (position < batches &&
                   ahead[i] <= lease_share_enough(&share[i], ROWS, trained[i], 8)) {
                int64_t room = lease_share_most(&share[i], ROWS, trained[i]) - ahead[i];
                int64_t count = room > 8 ? 8 : room;
                if (ahead[i] + count > SLOTS)
                    break;
                count = count < batches - position ? count : batches - position;
                draw(&share[i], position * ROWS, (size_t)count * ROWS, 1);
                position += count;
                ahead[i] += count;
                requests++;
            }
            if (ahead[i] == 0)
                continue;
            ahead[i]--;
            trained[i]++;
            works = true;
        }
    }
    assert_int_equal(position, batches);
    return requests;
}

static void test_workers_share_a_short_epoch_evenly(void **state)
{
    (void)state;
    for (int workers = 1; workers <= WORKERS_LIMIT; workers++) {
        for (int64_t batches = workers * 3; batches < 700; batches++) {
            int64_t trained[WORKERS_LIMIT] = {0}, all = 0;
            share_out(batches, workers, trained);
            for (int i = 0; i < workers; i++) {
                int64_t right = batches / workers;
                all += trained[i];
                if (trained[i] < right - 3 || trained[i] > right + 4)
                    fail_msg("worker %d of %d trained %ld of %ld batches", i, workers,
                             (long)trained[i], (long)batches);
            }
            assert_int_equal(all, batches);
        }
    }
}

/* 75 requests of 8 would be the least. */
static void test_one_worker_asks_seldom(void **state)
{
    (void)state;
    int64_t trained[WORKERS_LIMIT] = {0};
    assert_true(share_out(600, 1, trained) <= 95);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_quarter_of_what_is_left),
        cmocka_unit_test(test_begins_with_few),
        cmocka_unit_test(test_many_workers),
        cmocka_unit_test(test_within_an_epoch),
        cmocka_unit_test(test_requests_stay_few),
        cmocka_unit_test(test_workers_share_a_short_epoch_evenly),
        cmocka_unit_test(test_one_worker_asks_seldom),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

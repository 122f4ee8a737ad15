/* SPDX-License-Identifier: MIT */
/*
 * Covers loader/feed/pull_plan: The larger requests must cut into the same batches that the
 * sampler would give one by one; the sampler's own arithmetic (sampler/order/batching.h) is the
 * judge.
 */
#include "tests/unit/unit.h"

#include "loader/feed/pull_plan.h"
#include "sampler/order/batching.h"

#define EPOCHS 3

static const char *const tails[] = {"keep", "drop", "span"};
static const enum tail tail_codes[] = {TAIL_KEEP, TAIL_DROP, TAIL_SPAN};

static struct sampler_stream stream_of(const char *design, const char *tail, int64_t draws)
{
    struct sampler_stream stream = {.units = draws, .epochs = EPOCHS, .epoch_draws = draws};
    snprintf(stream.design, sizeof(stream.design), "%s", design);
    snprintf(stream.tail, sizeof(stream.tail), "%s", tail);
    return stream;
}

/* Batch K as it is cut out of the plan's request, against batch K asked for alone. */
static void check_index(const struct batching *batching, const struct pull_plan *plan, int64_t rows,
                        int64_t index)
{
    struct span alone, larger;
    struct pull_request request;
    pull_plan_at(plan, index, &request);
    assert_ok(batching_at(batching, index, rows, &alone));
    assert_ok(batching_at(batching, request.index, (int64_t)request.size, &larger));
    assert_true((int64_t)request.size >= rows);
    if (alone.positions == 0) {
        assert_true(larger.positions <= (int64_t)request.skip_rows);
        return;
    }
    assert_int_equal(larger.first, request.first);
    assert_int_equal(larger.positions, request.rows);
    int64_t skip = (int64_t)request.skip_rows;
    int64_t left = larger.positions - skip;
    assert_int_equal(larger.first + skip, alone.first);
    assert_int_equal(left < rows ? left : rows, alone.positions);
}

static void check_walk(enum tail tail, const char *name, int64_t draws, int64_t rows,
                       size_t rows_ahead)
{
    struct batching batching = {.epoch_positions = draws, .epochs = EPOCHS, .tail = tail};
    struct sampler_stream stream = stream_of("srs", name, draws);
    struct pull_plan plan;
    pull_plan_init(&plan, &stream, (size_t)rows, rows_ahead);
    if (tail == TAIL_DROP && rows > draws)
        return; /* no such batch; the sampler says so */
    int64_t batches = EPOCHS * (draws / rows + 1) + 5;
    for (int64_t index = 0; index < batches; index++)
        check_index(&batching, &plan, rows, index);
}

static void test_cuts_as_the_sampler_does(void **state)
{
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        for (int64_t draws = 1; draws <= 40; draws++) {
            for (int64_t rows = 1; rows <= 45; rows++) {
                for (size_t ahead = 1; ahead <= 200; ahead = ahead * 3 + 1)
                    check_walk(tail_codes[t], tails[t], draws, rows, ahead);
            }
        }
        check_walk(tail_codes[t], tails[t], 60000, 100, 4096);
        check_walk(tail_codes[t], tails[t], 60007, 128, 4096);
    }
}

static void test_far_away(void **state)
{
    (void)state;
    static const int64_t indices[] = {INT64_C(1) << 40, INT64_C(1) << 50, INT64_MAX / 400 - 1,
                                      INT64_MAX / 400 + 1, INT64_MAX};
    for (size_t t = 0; t < 3; t++) {
        struct sampler_stream stream = stream_of("proportional", tails[t], 999983);
        struct pull_plan plan;
        pull_plan_init(&plan, &stream, 100, 4096);
        for (size_t i = 0; i < sizeof(indices) / sizeof(indices[0]); i++) {
            struct pull_request request;
            pull_plan_at(&plan, indices[i], &request);
            assert_true(request.index >= 0);
            assert_true(request.first >= -1);
        }
    }
}

static void test_asks_for_many_where_it_may(void **state)
{
    (void)state;
    struct sampler_stream stream = stream_of("proportional", "keep", 60000);
    struct pull_plan plan;
    struct pull_request request;
    pull_plan_init(&plan, &stream, 100, 4096);
    pull_plan_at(&plan, 0, &request);
    assert_int_equal(request.size, 4000);
    pull_plan_single(&plan);
    pull_plan_at(&plan, 601, &request);
    assert_int_equal(request.size, 100);
    assert_int_equal(request.index, 601);
    assert_int_equal(request.first, 60100);
    assert_int_equal(request.skip_rows, 0);
}

static void test_asks_one_by_one_where_it_must(void **state)
{
    (void)state;
    static const char *const designs[] = {"pxk", "bernoulli", "weighted", "unheard-of"};
    struct pull_plan plan;
    struct pull_request request;
    for (size_t i = 0; i < sizeof(designs) / sizeof(designs[0]); i++) {
        struct sampler_stream stream = stream_of(designs[i], "keep", 60000);
        pull_plan_init(&plan, &stream, 100, 4096);
        pull_plan_at(&plan, 77, &request);
        assert_int_equal(request.size, 100);
        assert_int_equal(request.index, 77);
        bool even = i % 2 == 0; /* where it begins and ends is known */
        assert_int_equal(request.first, even ? 7700 : -1);
        assert_int_equal(request.rows, even ? 100 : 0);
    }
    struct sampler_stream other = stream_of("srs", "another-tail", 60000);
    pull_plan_init(&plan, &other, 100, 4096);
    pull_plan_at(&plan, 77, &request);
    assert_int_equal(request.size, 100);
    struct sampler_stream large = stream_of("srs", "keep", 60000);
    pull_plan_init(&plan, &large, 5000, 4096);
    pull_plan_at(&plan, 3, &request);
    assert_int_equal(request.size, 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts_as_the_sampler_does),
        cmocka_unit_test(test_far_away),
        cmocka_unit_test(test_asks_for_many_where_it_may),
        cmocka_unit_test(test_asks_one_by_one_where_it_must),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

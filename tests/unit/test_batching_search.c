/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/order/batching_search: A search a piece at a time finds what batching_next()
 * finds at once.
 */
#include "tests/unit/design_unit.h"

#include "sampler/build/frame_build.h"
#include "sampler/order/batching_search.h"

static const struct design_case passing[] = {
    {"bernoulli", false, "{\"rate\":0.3}"},   {"bernoulli", false, "{\"rate\":0.02}"},
    {"bernoulli", false, "{\"rate\":0.001}"}, {"cluster", false, "{\"groups\":4}"},
    {"cluster", false, "{\"groups\":1}"},
};

static int64_t budget_of(int round)
{
    static const int64_t budgets[] = {1, 70, 1000, INT64_MAX};
    return budgets[round % 4];
}

/* From a search whose budget is spent again and again. */
static void search(const struct batching *batching, int64_t position, int64_t size, int64_t limit,
                   int round, struct span *ret_span)
{
    struct batching_search search = {.size = 0};
    for (;;) {
        int64_t budget = budget_of(round);
        if (batching_search_next(&search, batching, position, size, limit, &budget, ret_span))
            return;
        assert_true(budget <= 0);
        struct batching_search copy = search;
        budget = budget_of(round + 1);
        (void)batching_search_run(&copy, &budget);
        assert_true(batching_search_is_behind(&search, &copy));
        assert_false(batching_search_is_behind(&copy, &search));
        search = copy;
    }
}

static void check_walk(const struct batching *batching, int round)
{
    int64_t position = 0;
    for (int batch = 0; batch < 40; batch++) {
        struct span wanted;
        struct span found;
        int64_t size = 1 + rand() % 40;
        if (batching_check_size(batching, size))
            size = 1;
        if (batching_check_size(batching, size))
            return;
        batching_next(batching, position, size, &wanted);
        search(batching, position, size, POSITION_LIMIT, round, &found);
        assert_int_equal(found.first, wanted.first);
        assert_int_equal(found.positions, wanted.positions);
        assert_int_equal(found.units, wanted.units);
        if (wanted.units == 0)
            return;
        position = wanted.first + wanted.positions;
    }
}

/* What lies below a limit: no unit is lost, none is beyond. */
static void check_limit(const struct batching *batching, int round)
{
    int64_t end = batching->epoch_positions + rand() % batching->epoch_positions;
    int64_t rows[1024];
    for (int64_t position = 0; position < end;) {
        struct span found;
        int64_t size = 1 + rand() % 40;
        search(batching, position, size, end, round, &found);
        assert_int_equal(found.first, position);
        assert_true(found.positions > 0 && position + found.positions <= end);
        int64_t units = 0;
        for (int64_t at = 0; at < found.positions; at += 256) {
            int64_t count = found.positions - at < 256 ? found.positions - at : 256;
            units += (int64_t)order_rows(batching->order, position + at, count, rows);
        }
        assert_int_equal(found.units, units);
        assert_true(units <= size);
        position += found.positions;
    }
}

static void test_pieces_are_the_whole(void **unused)
{
    (void)unused;
    char folder[256];
    unit_folder_make(folder);
    srand((unsigned)unit_seed());
    for (int64_t units = 40; units <= 4000; units *= 10) {
        struct frame *frame = design_frame(folder, units);
        for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++) {
            struct order *order = design_order(frame, &passing[i], 7);
            for (int round = 0; round < 24; round++) {
                struct batching batching = {.order = order,
                                            .epoch_positions = order_epoch_positions(order),
                                            .epochs = 1 + round % 3,
                                            .tail = (enum tail)(round / 3 % 3)};
                check_walk(&batching, round);
                batching.epochs = 0;
                if (batching.tail == TAIL_DROP)
                    batching.tail = TAIL_KEEP;
                check_limit(&batching, round);
            }
            order_free(order);
        }
        frame_free(frame);
    }
    unit_folder_remove(folder);
}

/* Batch K is the one that K draws come to, also behind epochs of no unit. */
static void test_an_index_counts_as_draws_do(void **unused)
{
    (void)unused;
    struct frame *frame;
    assert_ok(frame_build("range:5", &frame));
    struct design_case empty = {"bernoulli", false, "{\"rate\":0.1}"};
    struct order *order = design_order(frame, &empty, 7);
    for (int tail = TAIL_KEEP; tail <= TAIL_SPAN; tail++) {
        struct batching batching = {
            .order = order, .epoch_positions = 5, .epochs = 400, .tail = (enum tail)tail};
        for (int64_t size = 1; size <= 2; size++) {
            int64_t position = 0;
            for (int64_t index = 0;; index++) {
                struct span drawn, found;
                batching_next(&batching, position, size, &drawn);
                assert_ok(batching_at(&batching, index, size, &found));
                assert_int_equal(found.units, drawn.units);
                assert_int_equal(found.first, drawn.first);
                assert_int_equal(found.positions, drawn.positions);
                if (drawn.units == 0)
                    break;
                position = drawn.first + drawn.positions;
            }
        }
    }
    order_free(order);
    frame_free(frame);
}

/* An order without a unit for very long takes no longer than it is allowed to. */
static void test_a_budget_is_kept(void **unused)
{
    (void)unused;
    struct frame *frame;
    assert_ok(frame_build("range:1000", &frame));
    struct design_case rare = {"bernoulli", false, "{\"rate\":1e-05}"};
    struct order *order = design_order(frame, &rare, 7);
    struct batching batching = {.order = order, .epoch_positions = 1000, .tail = TAIL_SPAN};
    struct batching_search search = {.size = 0};
    struct span span;
    int64_t at = 0;
    for (int i = 0; i < 100; i++) {
        int64_t budget = 100000;
        assert_false(
            batching_search_next(&search, &batching, 0, 1000000, POSITION_LIMIT, &budget, &span));
        assert_true(search.at >= at + 100000 && search.at <= at + 102000);
        at = search.at;
    }
    order_free(order);
    frame_free(frame);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_pieces_are_the_whole),
    cmocka_unit_test(test_an_index_counts_as_draws_do),
    cmocka_unit_test(test_a_budget_is_kept),
};

UNIT_MAIN(tests)

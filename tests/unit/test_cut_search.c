/* A search a piece at a time finds what cut_next() finds at once. */
#include "tests/unit/design_unit.h"

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
static void search(const struct cut *cut, int64_t position, int64_t size, int64_t limit, int round,
                   struct span *ret_span)
{
    struct cut_search search = {.size = 0};
    for (;;) {
        int64_t budget = budget_of(round);
        if (cut_search_next(&search, cut, position, size, limit, &budget, ret_span))
            return;
        assert_true(budget <= 0);
        struct cut_search copy = search;
        budget = budget_of(round + 1);
        (void)cut_search_run(&copy, &budget);
        assert_true(cut_search_is_behind(&search, &copy));
        assert_false(cut_search_is_behind(&copy, &search));
        search = copy;
    }
}

static void check_walk(const struct cut *cut, int round)
{
    int64_t position = 0;
    for (int batch = 0; batch < 40; batch++) {
        struct span wanted;
        struct span found;
        int64_t size = 1 + rand() % 40;
        if (cut_check_size(cut, size))
            size = 1;
        if (cut_check_size(cut, size))
            return;
        cut_next(cut, position, size, &wanted);
        search(cut, position, size, CUT_POSITION_LIMIT, round, &found);
        assert_int_equal(found.first, wanted.first);
        assert_int_equal(found.positions, wanted.positions);
        assert_int_equal(found.units, wanted.units);
        if (wanted.units == 0)
            return;
        position = wanted.first + wanted.positions;
    }
}

/* What lies below a limit: no unit is lost, none is beyond. */
static void check_limit(const struct cut *cut, int round)
{
    int64_t end = cut->epoch_positions + rand() % cut->epoch_positions;
    int64_t rows[1024];
    for (int64_t position = 0; position < end;) {
        struct span found;
        int64_t size = 1 + rand() % 40;
        search(cut, position, size, end, round, &found);
        assert_int_equal(found.first, position);
        assert_true(found.positions > 0 && position + found.positions <= end);
        int64_t units = 0;
        for (int64_t at = 0; at < found.positions; at += 256) {
            int64_t count = found.positions - at < 256 ? found.positions - at : 256;
            units += (int64_t)order_rows(cut->order, position + at, count, rows);
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
    srand(1);
    for (int64_t units = 40; units <= 4000; units *= 10) {
        struct frame *frame = design_frame(folder, units);
        for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++) {
            struct order *order = design_order(frame, &passing[i], 7);
            for (int round = 0; round < 24; round++) {
                struct cut cut = {.order = order,
                                  .epoch_positions = order_epoch_positions(order),
                                  .epochs = 1 + round % 3,
                                  .tail = (enum tail)(round / 3 % 3)};
                check_walk(&cut, round);
                cut.epochs = 0;
                if (cut.tail == TAIL_DROP)
                    cut.tail = TAIL_KEEP;
                check_limit(&cut, round);
            }
            order_free(order);
        }
        frame_free(frame);
    }
    unit_folder_remove(folder);
}

/* An order without a unit for very long takes no longer than it is allowed to. */
static void test_a_budget_is_kept(void **unused)
{
    (void)unused;
    struct frame *frame;
    assert_ok(frame_build("range:1000", &frame));
    struct design_case rare = {"bernoulli", false, "{\"rate\":1e-05}"};
    struct order *order = design_order(frame, &rare, 7);
    struct cut cut = {.order = order, .epoch_positions = 1000, .tail = TAIL_SPAN};
    struct cut_search search = {.size = 0};
    struct span span;
    int64_t at = 0;
    for (int i = 0; i < 100; i++) {
        int64_t budget = 100000;
        assert_false(
            cut_search_next(&search, &cut, 0, 1000000, CUT_POSITION_LIMIT, &budget, &span));
        assert_true(search.at >= at + 100000 && search.at <= at + 102000);
        at = search.at;
    }
    order_free(order);
    frame_free(frame);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_pieces_are_the_whole),
    cmocka_unit_test(test_a_budget_is_kept),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/* Covers sampler/order/batching. */
#include "tests/unit/unit.h"

#include "sampler/order/batching.h"

static const enum tail tails[] = {TAIL_KEEP, TAIL_DROP, TAIL_SPAN};

/* What a walk may give, written again: positions in order, none skipped but by drop at an epoch's
 * end. */
static void check_span(const struct batching *batching, int64_t position, int64_t size,
                       struct span span)
{
    int64_t m = batching->epoch_positions;
    int64_t last = span.first + span.positions - 1;
    assert_true(span.positions >= 1 && span.positions <= size);
    if (batching->epochs > 0)
        assert_true(last < batching->epochs * m);
    switch (batching->tail) {
    case TAIL_KEEP:
        assert_int_equal(span.first, position);
        assert_int_equal(span.first / m, last / m);
        assert_true(span.positions == size || (last + 1) % m == 0);
        break;
    case TAIL_DROP:
        assert_int_equal(span.positions, size);
        assert_int_equal(span.first / m, last / m);
        if (span.first != position) {
            assert_int_equal(span.first % m, 0);
            assert_true(span.first - position < size);
        }
        break;
    case TAIL_SPAN:
        assert_int_equal(span.first, position);
        assert_true(span.positions == size || last + 1 == batching->epochs * m);
        break;
    }
}

static void walk(const struct batching *batching, int64_t size)
{
    int64_t position = 0;
    for (int64_t index = 0; index < 60; index++) {
        struct span next;
        struct span at;
        batching_next(batching, position, size, &next);
        assert_ok(batching_at(batching, index, size, &at));
        assert_int_equal(next.positions, at.positions);
        assert_int_equal(next.first, at.first);
        if (next.positions == 0) {
            assert_int_equal(next.first, batching->epochs * batching->epoch_positions);
            assert_ok(batching_at(batching, INT64_MAX, size, &at));
            assert_int_equal(at.positions, 0);
            return;
        }
        check_span(batching, position, size, next);
        position = next.first + next.positions;
    }
}

static void test_every_small_walk(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (int64_t m = 1; m <= 13; m++) {
            for (int64_t epochs = 0; epochs <= 4; epochs++) {
                struct batching batching = {
                    .epoch_positions = m, .epochs = epochs, .tail = tails[i]};
                assert_ok(batching_check(&batching));
                for (int64_t size = 1; size <= 2 * m + 3; size++) {
                    if (tails[i] != TAIL_DROP || size <= m)
                        walk(&batching, size);
                }
            }
        }
    }
}

static void test_sizes_may_change_on_the_way(void **state)
{
    (void)state;
    static const int64_t sizes[] = {3, 1, 7, 10, 2, 5, 4, 9, 8, 6};
    for (size_t i = 0; i < 3; i++) {
        struct batching batching = {.epoch_positions = 10, .epochs = 5, .tail = tails[i]};
        int64_t position = 0;
        int64_t given = 0;
        for (size_t draw = 0;; draw++) {
            struct span span;
            batching_next(&batching, position, sizes[draw % 10], &span);
            if (span.positions == 0)
                break;
            check_span(&batching, position, sizes[draw % 10], span);
            position = span.first + span.positions;
            given += span.positions;
        }
        if (tails[i] != TAIL_DROP)
            assert_int_equal(given, 50);
    }
}

static void test_far_positions_do_not_overflow(void **state)
{
    (void)state;
    struct span span;
    struct batching batching = {.epoch_positions = 1000000000, .tail = TAIL_KEEP};
    assert_ok(batching_at(&batching, INT64_MAX, 1, &span));
    assert_int_equal(span.positions, 0);
    assert_ok(batching_at(&batching, INT64_MAX, 1000000, &span));
    assert_int_equal(span.positions, 0);
    assert_ok(batching_at(&batching, (POSITION_LIMIT - 1) / 1000, 1000, &span));
    assert_true(span.positions > 0 && span.first + span.positions <= POSITION_LIMIT);
    batching_next(&batching, POSITION_LIMIT, 5, &span);
    assert_int_equal(span.positions, 0);
    batching_next(&batching, POSITION_LIMIT - 2, 5, &span);
    assert_int_equal(span.positions, 2);
    batching = (struct batching){.epoch_positions = 3, .tail = TAIL_SPAN};
    assert_ok(batching_at(&batching, INT64_MAX / 2, 1000000, &span));
    assert_int_equal(span.positions, 0);
}

static void test_impossible_cuts_are_refused(void **state)
{
    (void)state;
    struct batching batching = {.epoch_positions = 10, .epochs = -1};
    assert_fails(batching_check(&batching), ERROR_USAGE, "epochs -1");
    assert_fails(batching_check(&(struct batching){.epochs = 1}), ERROR_INPUT, "0 positions");
    batching.epochs = INT64_MAX / 2;
    assert_fails(batching_check(&batching), ERROR_USAGE, "461168601842738790");
    batching.epochs = (POSITION_LIMIT - 1) / 10;
    assert_ok(batching_check(&batching));
    batching.epochs++;
    assert_fails(batching_check(&batching), ERROR_USAGE, "461168601842738790");
    batching = (struct batching){.epoch_positions = 10, .epochs = 1, .tail = TAIL_DROP};
    assert_ok(batching_check_size(&batching, 10));
    assert_fails(batching_check_size(&batching, 11), ERROR_USAGE, "tail=drop");
    batching.tail = TAIL_SPAN;
    assert_ok(batching_check_size(&batching, 11));
}

static void test_tail_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        enum tail tail;
        assert_ok(tail_of_name(tail_name(tails[i]), &tail));
        assert_int_equal(tail, tails[i]);
    }
    enum tail tail = TAIL_SPAN;
    assert_fails(tail_of_name("keeps", &tail), ERROR_USAGE, "keep, drop, span");
    assert_int_equal(tail, TAIL_SPAN);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_small_walk),
    cmocka_unit_test(test_sizes_may_change_on_the_way),
    cmocka_unit_test(test_far_positions_do_not_overflow),
    cmocka_unit_test(test_impossible_cuts_are_refused),
    cmocka_unit_test(test_tail_names),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/* Covers trainer/ledger/step_batches. */
#include "tests/unit/unit.h"

#include "trainer/ledger/step_batches.h"

static void add(struct index_set *set, int64_t first, int64_t end)
{
    assert_ok(index_set_add(set, (struct index_range){first, end}));
}

/* Learnt from: 0 to 3, 5, 8 and 9. */
static struct index_set holes(void)
{
    struct index_set applied = {.count = 0};
    add(&applied, 0, 4);
    add(&applied, 5, 6);
    add(&applied, 8, 10);
    return applied;
}

static void test_places_are_those_of_what_is_open(void **state)
{
    static const int64_t open[] = {4, 6, 7, 10, 11};
    struct index_set applied = holes();
    (void)state;
    for (int64_t place = 0; place < 5; place++) {
        assert_int_equal(step_batches_at(&applied, place, INT64_MAX), open[place]);
        assert_int_equal(step_batches_at(&applied, place, 11), place < 4 ? open[place] : -1);
    }
    assert_int_equal(step_batches_at(&applied, 0, 4), -1);
    index_set_release(&applied);
}

static void test_steps_fill_the_holes_first(void **state)
{
    struct index_set applied = holes();
    (void)state;
    assert_ok(step_batches_apply(&applied, 2, INT64_MAX));
    assert_int_equal(step_batches_at(&applied, 0, INT64_MAX), 7);
    assert_ok(step_batches_apply(&applied, 3, INT64_MAX));
    assert_int_equal(applied.count, 1);
    assert_int_equal(index_set_end(&applied), 12);
    assert_ok(step_batches_apply(&applied, 0, INT64_MAX));
    assert_int_equal(index_set_end(&applied), 12);
    index_set_release(&applied);
}

static void test_nothing_is_taken_behind_the_end(void **state)
{
    struct index_set applied = holes();
    (void)state;
    assert_ok(step_batches_apply(&applied, 100, 13));
    assert_int_equal(applied.count, 1);
    assert_int_equal(index_set_end(&applied), 13);
    assert_ok(step_batches_apply(&applied, 100, 13));
    assert_int_equal(index_set_size(&applied), 13);
    index_set_release(&applied);
}

/* However many steps at once: what was learnt from follows from their number. */
static void test_many_steps_are_as_one_after_the_other(void **state)
{
    struct index_set one = holes(), all = holes();
    (void)state;
    for (int i = 0; i < 50; i++)
        assert_ok(step_batches_apply(&one, 3, 120));
    assert_ok(step_batches_apply(&all, 150, 120));
    assert_true(index_set_within(&one, &all) && index_set_within(&all, &one));
    index_set_release(&one);
    index_set_release(&all);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_places_are_those_of_what_is_open),
    cmocka_unit_test(test_steps_fill_the_holes_first),
    cmocka_unit_test(test_nothing_is_taken_behind_the_end),
    cmocka_unit_test(test_many_steps_are_as_one_after_the_other),
};

UNIT_MAIN(tests)

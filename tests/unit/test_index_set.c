/* SPDX-License-Identifier: MIT */
/* Covers common/index_set. */
#include "tests/unit/unit.h"

#include <stdbool.h>

#include "common/index_set.h"

#define NUMBERS 200
#define ROUNDS (3000 / UNIT_LESS)

static uint64_t state;

static int64_t below(int64_t limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)limit);
}

static struct index_range some_range(void)
{
    int64_t first = below(NUMBERS);
    int64_t end = first + below(12);
    return (struct index_range){first, end < NUMBERS ? end : NUMBERS};
}

/* Ranges are sorted, not empty, and do not touch; the numbers are those of `has`. */
static void assert_set(const struct index_set *set, const bool has[NUMBERS])
{
    int64_t size = 0;
    for (size_t i = 0; i < set->count; i++) {
        assert_true(set->ranges[i].first < set->ranges[i].end);
        assert_true(i == 0 || set->ranges[i - 1].end < set->ranges[i].first);
    }
    for (int64_t i = 0; i < NUMBERS; i++) {
        assert_int_equal(index_set_has(set, i), has[i]);
        size += has[i];
    }
    assert_int_equal(index_set_size(set), size);
}

static void change(struct index_set *set, bool has[NUMBERS])
{
    struct index_range range = some_range();
    bool add = below(2);
    assert_ok(add ? index_set_add(set, range) : index_set_remove(set, range));
    for (int64_t i = range.first; i < range.end; i++)
        has[i] = add;
}

static void test_it_holds_what_was_added_and_not_removed(void **unused)
{
    struct index_set set = {.count = 0}, copy = {.count = 0};
    bool has[NUMBERS] = {false};
    state = unit_seed();
    for (size_t i = 0; i < ROUNDS; i++) {
        change(&set, has);
        assert_set(&set, has);
    }
    assert_ok(index_set_copy(&copy, &set));
    assert_set(&copy, has);
    index_set_clear(&set);
    assert_int_equal(index_set_size(&set), 0);
    assert_int_equal(index_set_end(&set), 0);
    index_set_release(&set);
    index_set_release(&copy);
    (void)unused;
}

static void test_gaps_are_what_it_does_not_hold(void **unused)
{
    struct index_set set = {.count = 0};
    bool has[NUMBERS] = {false};
    state = unit_seed() + 1;
    for (size_t i = 0; i < ROUNDS; i++) {
        change(&set, has);
        int64_t from = below(NUMBERS), limit = from + below(NUMBERS + 1 - from), first = from;
        while (first < limit && has[first])
            first++;
        int64_t end = first;
        while (end < limit && !has[end])
            end++;
        struct index_range gap = index_set_gap(&set, from, limit);
        assert_int_equal(gap.first < gap.end, first < end);
        if (first == end)
            continue;
        assert_int_equal(gap.first, first);
        assert_int_equal(gap.end, end);
    }
    index_set_release(&set);
    (void)unused;
}

static void test_a_set_within_another_one(void **unused)
{
    struct index_set set = {.count = 0}, other = {.count = 0};
    bool has[NUMBERS] = {false}, others[NUMBERS] = {false};
    state = unit_seed() + 2;
    for (size_t i = 0; i < ROUNDS; i++) {
        struct index_range range = some_range();
        if (i % 3 == 0) { /* often a subset */
            assert_ok(index_set_add(&other, range));
            for (int64_t k = range.first; k < range.end; k++)
                others[k] = true;
        }
        change(&set, has);
        int64_t first = 0;
        while (first < NUMBERS && (!has[first] || others[first]))
            first++;
        assert_int_equal(index_set_within(&set, &other), first == NUMBERS);
    }
    assert_ok(index_set_add(&other, (struct index_range){0, NUMBERS}));
    assert_true(index_set_within(&set, &other));
    index_set_release(&set);
    index_set_release(&other);
    (void)unused;
}

/* At its limit it refuses another range, and takes what needs none. */
static void test_a_full_set_still_changes(void **unused)
{
    struct index_set set = {.count = 0};
    for (int64_t i = 0; i < INDEX_SET_LIMIT; i++)
        assert_ok(index_set_add(&set, (struct index_range){3 * i, 3 * i + 2}));
    assert_int_equal(set.count, INDEX_SET_LIMIT);
    assert_fails(index_set_add(&set, (struct index_range){4 * INDEX_SET_LIMIT, INT64_MAX}),
                 ERROR_MEMORY, "more than 1048576 ranges");
    assert_ok(index_set_add(&set, (struct index_range){3, 4}));
    assert_ok(index_set_remove(&set, (struct index_range){6, 7}));
    assert_int_equal(set.count, INDEX_SET_LIMIT);
    assert_ok(index_set_add(&set, (struct index_range){2, 3}));
    assert_int_equal(set.count, INDEX_SET_LIMIT - 1);
    assert_ok(index_set_remove(&set, (struct index_range){9, 11}));
    assert_int_equal(set.count, INDEX_SET_LIMIT - 2);
    index_set_release(&set);
    (void)unused;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_full_set_still_changes),
    cmocka_unit_test(test_it_holds_what_was_added_and_not_removed),
    cmocka_unit_test(test_gaps_are_what_it_does_not_hold),
    cmocka_unit_test(test_a_set_within_another_one),
};

UNIT_MAIN(tests)

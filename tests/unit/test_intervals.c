/* SPDX-License-Identifier: MIT */
/* Covers sampler/ledger/intervals. */
#include "tests/unit/unit.h"

#include <stdbool.h>

#include "sampler/ledger/intervals.h"

#define NUMBERS 200

/* What the set must be, one flag a number. */
static void check(const struct intervals *intervals, const bool *has)
{
    int64_t size = 0;
    int64_t before = -2;
    for (int64_t number = 0; number < NUMBERS; number++) {
        assert_int_equal(intervals_has(intervals, number), has[number]);
        size += has[number];
    }
    assert_int_equal(intervals->size, size);
    for (size_t i = 0; i < intervals->count; i++) {
        const struct interval *interval = intervals_at(intervals, i);
        assert_true(interval->begin > before && interval->end > interval->begin);
        before = interval->end; /* the next one neither overlaps nor touches */
    }
}

static void test_random_unions(void **unused)
{
    (void)unused;
    srand((unsigned)unit_seed());
    for (int round = 0; round < 300; round++) {
        struct intervals intervals = {0};
        bool has[NUMBERS] = {false};
        for (int step = 0; step < 60; step++) {
            int64_t begin = rand() % NUMBERS;
            int64_t end = begin + 1 + rand() % 9;
            if (end > NUMBERS)
                end = NUMBERS;
            assert_ok(intervals_reserve(&intervals, 1));
            intervals_add(&intervals, begin, end);
            for (int64_t number = begin; number < end; number++)
                has[number] = true;
            if (rand() % 2 == 0) { /* numbers, as acks add them */
                int64_t numbers[NUMBERS];
                size_t count = 0;
                int sparse = 1 + rand() % 40;
                for (int64_t number = 0; number < NUMBERS; number++) {
                    if (rand() % sparse == 0) {
                        numbers[count++] = number;
                        has[number] = true;
                    }
                }
                assert_ok(intervals_reserve(&intervals, count));
                intervals_add_numbers(&intervals, numbers, count);
                check(&intervals, has);
            }
            if (rand() % 4 == 0) { /* from the front, as draws take it */
                const struct interval *first = intervals_at(&intervals, 0);
                int64_t from = first->begin;
                int64_t cut = from + 1 + rand() % (first->end - from);
                intervals_cut_front(&intervals, cut);
                for (int64_t number = from; number < cut; number++)
                    has[number] = false;
            }
            check(&intervals, has);
        }
        intervals_release(&intervals);
    }
}

/* What lies behind a number goes, also the end of what holds it. */
static void test_cut_at_the_back(void **unused)
{
    (void)unused;
    bool has[NUMBERS];
    for (int64_t cut = 0; cut <= 40; cut++) {
        struct intervals intervals = {0};
        assert_ok(intervals_reserve(&intervals, 3));
        memset(has, 0, sizeof(has));
        for (int64_t begin = 5; begin < 35; begin += 10) {
            intervals_add(&intervals, begin, begin + 5);
            for (int64_t number = begin; number < begin + 5; number++)
                has[number] = number < cut;
        }
        intervals_cut_back(&intervals, cut);
        check(&intervals, has);
        intervals_release(&intervals);
    }
}

static void test_the_ends_of_the_numbers(void **unused)
{
    (void)unused;
    struct intervals intervals = {0};
    assert_false(intervals_has(&intervals, 0));
    assert_ok(intervals_reserve(&intervals, 2));
    intervals_add(&intervals, 0, 1);
    intervals_add(&intervals, INT64_MAX - 1, INT64_MAX);
    assert_true(intervals_has(&intervals, 0));
    assert_true(intervals_has(&intervals, INT64_MAX - 1));
    assert_false(intervals_has(&intervals, INT64_MAX));
    assert_false(intervals_has(&intervals, 1));
    intervals_release(&intervals);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_random_unions),
    cmocka_unit_test(test_cut_at_the_back),
    cmocka_unit_test(test_the_ends_of_the_numbers),
};

UNIT_MAIN(tests)

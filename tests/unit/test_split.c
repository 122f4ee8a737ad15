/* SPDX-License-Identifier: MIT */
/* Covers sampler/frame/split: Splits: what --splits may say, and on which side a unit is. */
#include "tests/unit/unit.h"

#include <math.h>

#include "sampler/frame/split.h"

static void test_shares_that_can_be(void **state)
{
    (void)state;
    struct split_shares shares;
    assert_ok(split_shares_parse("0.8,0.1,0.1", &shares));
    assert_true(shares.train == 0.8 && shares.validation == 0.1 && shares.test == 0.1);
    assert_ok(split_shares_parse("1,0,0", &shares));
    assert_ok(split_shares_parse("0,0,1", &shares));
    assert_ok(split_shares_parse("3e-1,.3,0.4", &shares));
    assert_ok(split_shares_parse("0.3333333333,0.3333333333,0.3333333334", &shares));
}

static void test_shares_that_cannot_be(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "0.8",
                                        "0.8,0.2",
                                        "0.8,0.1,0.1,0",
                                        "0.8,0.1,",
                                        ",0.5,0.5",
                                        "0.8,0.1,0.2",
                                        "1.1,-0.1,0",
                                        "-0,0.5,0.6",
                                        "a,b,c",
                                        "nan,0,1",
                                        "inf,0,0",
                                        "0.8 ,0.1,0.1",
                                        "0.8;0.1;0.1",
                                        "0.8,0.1,0.1 ",
                                        "0.9,0.1,0.1",
                                        "0.3,0.3,0.3",
                                        "0.6,-0.1,0.5"};
    struct split_shares shares;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_fails(split_shares_parse(texts[i], &shares), ERROR_USAGE, "0.8,0.1,0.1");
}

static void test_names(void **state)
{
    (void)state;
    enum split split;
    for (enum split side = SPLIT_TRAIN; side <= SPLIT_TEST; side++) {
        assert_ok(split_of_name(split_name(side), &split));
        assert_int_equal(split, side);
    }
    assert_fails(split_of_name("", &split), ERROR_USAGE, "train, validation or test");
    assert_fails(split_of_name("Train", &split), ERROR_USAGE, "Train");
}

static int side_of_id(const struct split_shares *shares, int64_t id, int *ret_sides)
{
    int side = 0;
    *ret_sides = 0;
    for (enum split split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
        struct split_span span;
        split_span_init(&span, shares, split);
        if (split_span_has_id(&span, id)) {
            side = (int)split;
            (*ret_sides)++;
        }
    }
    return side;
}

/* Every id is on one side, whatever the shares; none on a side without a share. */
static void test_every_id_is_on_one_side(void **state)
{
    (void)state;
    static const struct split_shares all[] = {{0.8, 0.1, 0.1},   {1, 0, 0},      {0, 1, 0},
                                              {0, 0, 1},         {0.5, 0.5, 0},  {0, 0.5, 0.5},
                                              {0.7, 0.3, 1e-12}, {0.1, 0.2, 0.7}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        for (int64_t n = 0; n < 20000; n++) {
            int64_t id = n % 2 ? n : (int64_t)(random_mix((uint64_t)n) >> 1);
            int sides;
            int side = side_of_id(&all[i], id, &sides);
            assert_int_equal(sides, 1);
            assert_true(split_share(&all[i], (enum split)side) > 0);
        }
    }
}

/* Shares within 4 standard errors, for ids that count up and for ids in steps. */
static void test_shares_come_out(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    static const struct split_shares shares = {0.8, 0.15, 0.05};
    static const int64_t steps[] = {1, 2, 10, 1000, 65536, 1 << 20, INT64_C(1000000007)};
    for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
        double counts[4] = {0};
        for (int64_t n = 0; n < COUNT; n++) {
            int sides;
            counts[side_of_id(&shares, n * steps[s], &sides)]++;
        }
        for (enum split split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
            double share = split_share(&shares, split);
            double off = counts[split] - COUNT * share;
            assert_true(fabs(off) <= 4 * sqrt(COUNT * share * (1 - share)));
        }
    }
}

/* What was published: sides that never change. */
static void test_published_sides(void **state)
{
    (void)state;
    static const struct split_shares shares = {0.5, 0.25, 0.25};
    static const char expected_ids[] = "1121111112231212311121113233132112323223";
    static const char expected_texts[] = "3222213123111311113323312331311132311131";
    char ids[41] = "", texts[41] = "";
    for (int i = 0; i < 40; i++) {
        struct split_span span;
        char group[16];
        snprintf(group, sizeof(group), "g%d", i);
        for (enum split split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
            split_span_init(&span, &shares, split);
            if (split_span_has_id(&span, (int64_t)i * i * i))
                ids[i] = (char)('0' + split);
            if (split_span_has_text(&span, group))
                texts[i] = (char)('0' + split);
        }
    }
    assert_string_equal(ids, expected_ids);
    assert_string_equal(texts, expected_texts);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_shares_that_can_be),
    cmocka_unit_test(test_shares_that_cannot_be),
    cmocka_unit_test(test_names),
    cmocka_unit_test(test_every_id_is_on_one_side),
    cmocka_unit_test(test_shares_come_out),
    cmocka_unit_test(test_published_sides),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/frame/rank_bitmap: Selections against a plain list of the chosen positions, with
 * every kernel that runs here.
 */
#include "tests/unit/unit.h"

#include "sampler/frame/rank_bitmap.h"
#include "sampler/frame/rank_bitmap_kernels.h"
#include "sampler/shuffle/random.h"

/* How a test chooses: is this position chosen? */
typedef bool chooser(int64_t position, int64_t positions);

static bool all(int64_t position, int64_t positions)
{
    return position < positions;
}

static bool only_first(int64_t position, int64_t positions)
{
    return position == 0 && positions > 0;
}

static bool only_last(int64_t position, int64_t positions)
{
    return position == positions - 1;
}

static bool most(int64_t position, int64_t positions)
{
    (void)positions;
    return random_mix((uint64_t)position) % 10 < 8;
}

static bool few(int64_t position, int64_t positions)
{
    (void)positions;
    return random_mix((uint64_t)position) % 100 == 0;
}

/* Long stretches of none and of all: what groups do. The guess of a line is far off. */
static bool in_stretches(int64_t position, int64_t positions)
{
    (void)positions;
    return random_mix((uint64_t)position / 30011) % 7 == 0;
}

static bool at_both_ends(int64_t position, int64_t positions)
{
    return position < 700 || position >= positions - 700;
}

struct expected {
    int64_t positions, chosen;
    int64_t *at; /* [chosen] */
};

static void ask_every_way(const struct rank_bitmap *bitmap, const struct expected *expected)
{
    size_t positions = (size_t)expected->positions + 1, chosen = (size_t)expected->chosen;
    int64_t *asked = malloc((positions + chosen) * sizeof(*asked));
    int64_t *answers = malloc((positions + chosen) * sizeof(*answers));
    assert_true(asked && answers);
    for (size_t i = 0; i < positions; i++)
        asked[i] = (int64_t)i;
    rank_bitmap_rank_many(bitmap, asked, positions, answers);
    int64_t rank = 0;
    for (int64_t i = 0; i <= expected->positions; i++) {
        assert_int_equal(answers[i], rank);
        bool is_chosen = rank < expected->chosen && expected->at[rank] == i;
        if (i < expected->positions)
            assert_true(rank_bitmap_has(bitmap, i) == is_chosen);
        rank += is_chosen;
    }
    rank_bitmap_select_many(bitmap, asked, chosen, asked); /* in place */
    assert_memory_equal(asked, expected->at, chosen * sizeof(*asked));
    for (int64_t k = 0; k < expected->chosen; k += 1 + k / 3) {
        size_t count = (size_t)(expected->chosen - k) / 2 + 1;
        assert_int_equal(rank_bitmap_select(bitmap, k), expected->at[k]);
        assert_int_equal(rank_bitmap_rank(bitmap, expected->at[k]), k);
        rank_bitmap_read(bitmap, k, count, answers);
        assert_memory_equal(answers, expected->at + k, count * sizeof(*answers));
    }
    free(asked);
    free(answers);
}

static void check(int64_t positions, chooser *choose)
{
    struct rank_bitmap *bitmap;
    struct expected expected = {.positions = positions};
    expected.at = malloc((size_t)positions * sizeof(*expected.at));
    assert_non_null(expected.at);
    assert_ok(rank_bitmap_new(positions, &bitmap));
    for (int64_t i = 0; i < positions; i++) {
        bool is_chosen = choose(i, positions);
        rank_bitmap_put(bitmap, i, is_chosen);
        if (is_chosen)
            expected.at[expected.chosen++] = i;
    }
    assert_ok(rank_bitmap_finish(bitmap));
    assert_int_equal(bitmap->ones, expected.chosen);
    for (size_t i = 0; rank_bitmap_kernels[i]; i++) {
        if (!rank_bitmap_kernels[i]->is_supported())
            continue;
        bitmap->kernel = rank_bitmap_kernels[i];
        ask_every_way(bitmap, &expected);
    }
    rank_bitmap_free(bitmap);
    free(expected.at);
}

static void test_every_question(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1,   2,    31,   32,   33,    479,   480,   481,
                                    960, 4799, 4800, 8192, 20000, 99999, 600000};
    static chooser *const choosers[] = {all, only_first,   only_last,   most,
                                        few, in_stretches, at_both_ends};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (size_t c = 0; c < sizeof(choosers) / sizeof(choosers[0]); c++)
            check(sizes[s], choosers[c]);
    }
}

/* Lines beyond the first base count from 0 again. Only a few positions are chosen: 270 MB, so only
 * long. */
static void test_past_the_first_base(void **state)
{
    (void)state;
    enum { STEP = 1009 };
    int64_t positions = (INT64_C(480) << RANK_BITMAP_BASE_SHIFT) + 100000000;
    struct rank_bitmap *bitmap;
    if (!unit_is_long()) {
        print_message("# 270 MB: with --long only\n");
        skip();
    }
    assert_ok(rank_bitmap_new(positions, &bitmap));
    for (int64_t i = 0; i < positions; i += STEP)
        rank_bitmap_put(bitmap, i, true);
    assert_ok(rank_bitmap_finish(bitmap));
    assert_true(bitmap->bases[1] > 0);
    for (int64_t k = 0; k < bitmap->ones; k += 997) {
        assert_true(rank_bitmap_select(bitmap, k) == k * STEP);
        assert_true(rank_bitmap_rank(bitmap, k * STEP + 1) == k + 1);
    }
    rank_bitmap_free(bitmap);
}

static void test_more_than_memory(void **state)
{
    (void)state;
    struct rank_bitmap *bitmap;
    assert_fails(rank_bitmap_new(INT64_C(1) << 60, &bitmap), ERROR_MEMORY, "split");
    rank_bitmap_free(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_question),
    cmocka_unit_test(test_past_the_first_base),
    cmocka_unit_test(test_more_than_memory),
};

UNIT_MAIN(tests)

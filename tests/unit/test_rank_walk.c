/* SPDX-License-Identifier: MIT */
/* Covers loader/feed/rank_walk: Which batches a rank takes, and (rank_state) where it goes on. */
#include "tests/unit/unit.h"

#include <string.h>

#include "loader/feed/pull_plan.h"
#include "loader/feed/rank_state.h"
#include "loader/feed/rank_walk.h"

#define BATCHES_LIMIT 200

static uint64_t dice = 20261123;

static int64_t dice_below(int64_t limit)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((dice >> 33) % (uint64_t)limit);
}

/* Adds what the rank takes to `counts`; returns how many steps. */
static int64_t walk_to_the_end(struct rank_walk *walk, int counts[BATCHES_LIMIT])
{
    struct grant grant;
    int64_t steps = 0;
    while (rank_walk_next(walk, walk->world * walk->parts == 1 ? 1 + dice_below(9) : -1, &grant))
        for (int64_t i = 0; i < grant.count; i++, steps++)
            counts[grant.first + i]++;
    return steps;
}

static void test_ranks_take_each_batch_once_and_equally_many(void **state)
{
    (void)state;
    for (int round = 0; round < 2000; round++) {
        int64_t world = 1 + dice_below(9), batches = 1 + dice_below(BATCHES_LIMIT);
        int64_t parts = 1 + dice_below(5), first = dice_below(batches + 3), right = 0;
        bool pad = dice_below(2);
        int counts[BATCHES_LIMIT] = {0};
        int64_t left = batches > first ? batches - first : 0;
        for (int64_t rank = 0; rank < world; rank++) {
            int64_t steps = 0;
            for (int64_t part = 0; part < parts; part++) {
                struct rank_walk walk = {.first = first, .rank = rank, .world = world, .pad = pad};
                walk.part = part;
                walk.parts = parts;
                assert_ok(rank_walk_begin(&walk, batches));
                int64_t taken = walk_to_the_end(&walk, counts);
                assert_int_equal(taken, rank_walk_steps(&walk));
                assert_int_equal(rank_walk_left_out(&walk), pad ? 0 : left % world);
                steps += taken;
            }
            right = rank == 0 ? steps : right;
            assert_int_equal(steps, right);
            assert_int_equal(steps, pad ? (left + world - 1) / world : left / world);
        }
        int64_t padded = right * world - left;
        for (int64_t i = 0; i < batches; i++) {
            int64_t once = i >= first && i < first + right * world;
            int64_t more = pad ? padded / batches + (i < padded % batches) : 0;
            assert_int_equal(counts[i], once + more);
        }
    }
}

/* Parts have the rounds in turn, and each part the batches of its rank. */
static void test_a_round_is_the_same_for_all_ranks(void **state)
{
    (void)state;
    for (int round = 0; round < 2000; round++) {
        int64_t world = 1 + dice_below(9), batches = 1 + dice_below(BATCHES_LIMIT);
        int64_t parts = 1 + dice_below(5), first = dice_below(batches);
        bool pad = dice_below(2);
        for (int64_t place = 0; place < world * parts; place++) {
            struct rank_walk walk = {.first = first, .world = world, .parts = parts, .pad = pad};
            walk.rank = place % world;
            walk.part = place / world;
            assert_ok(rank_walk_begin(&walk, batches));
            for (int64_t step = 0; step < rank_walk_steps(&walk); step++)
                assert_int_equal(rank_walk_round(&walk, rank_walk_batch(&walk, step)),
                                 first + (step * parts + walk.part) * world);
        }
    }
}

static void test_steps_before_a_batch(void **state)
{
    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct rank_walk walk = {.first = dice_below(40), .world = 1 + dice_below(5)};
        struct index_set done = {.count = 0};
        int64_t batches = 1 + dice_below(BATCHES_LIMIT), end = dice_below(BATCHES_LIMIT + 40);
        int64_t right = 0;
        walk.parts = 1 + dice_below(4);
        walk.rank = dice_below(walk.world);
        walk.part = dice_below(walk.parts);
        walk.pad = dice_below(2);
        walk.done = dice_below(2) ? &done : NULL;
        assert_ok(index_set_add(&done, (struct index_range){1, 3}));
        assert_ok(index_set_add(&done, (struct index_range){5, 5 + dice_below(9)}));
        assert_ok(rank_walk_begin(&walk, batches));
        for (int64_t step = 0; step < rank_walk_steps(&walk); step++) {
            int64_t first = rank_walk_round(&walk, rank_walk_batch(&walk, step));
            right += first < end && !(walk.done && index_set_has(&done, step));
        }
        assert_int_equal(rank_walk_steps_before(&walk, end), right);
        index_set_release(&done);
    }
    struct rank_walk endless = {.world = 2};
    assert_ok(rank_walk_begin(&endless, INT64_MAX));
    assert_int_equal(rank_walk_steps_before(&endless, 7), 4);
    assert_true(rank_walk_steps_before(&endless, INT64_MAX) == INT64_MAX);
}

static void test_places_that_there_are_not(void **state)
{
    (void)state;
    assert_ok(rank_walk_check(0, 0, 0, 0));
    assert_ok(rank_walk_check(6, 7, 2, 3));
    assert_fails(rank_walk_check(7, 7, 0, 1), ERROR_USAGE, "rank 7 of 7; ranks are 0 to");
    assert_fails(rank_walk_check(-1, 7, 0, 1), ERROR_USAGE, "rank -1 of 7");
    assert_fails(rank_walk_check(0, INT64_MAX, 0, 1), ERROR_USAGE, "world is 1 to");
    assert_fails(rank_walk_check(0, 1, 3, 3), ERROR_USAGE, "part 3 of 3; parts are 0 to");
    assert_fails(rank_walk_check(0, 1, 0, -1), ERROR_USAGE, "part 0 of -1");
}

static struct pull_plan plan_of(const char *design, const char *tail, int64_t epoch_draws,
                                size_t rows)
{
    struct sampler_stream stream = {.epoch_draws = epoch_draws};
    struct pull_plan plan;
    snprintf(stream.design, sizeof(stream.design), "%s", design);
    snprintf(stream.tail, sizeof(stream.tail), "%s", tail);
    pull_plan_init(&plan, &stream, rows, 4096);
    return plan;
}

static void test_the_epoch_of_a_batch(void **state)
{
    (void)state;
    static const struct {
        const char *design, *tail;
        int64_t epoch_draws, index, right;
        size_t rows;
    } cases[] = {
        {"srs", "keep", 250, 2, 0, 100},
        {"srs", "keep", 250, 3, 1, 100},
        {"srs", "drop", 250, 1, 0, 100},
        {"srs", "drop", 250, 2, 1, 100},
        {"srs", "span", 250, 2, 0, 100},
        {"srs", "span", 250, 3, 1, 100},
        {"weighted", "keep", 250, 3, 1, 100},
        {"bernoulli", "keep", 250, 3, -1, 100},
        {"srs", "drop", 250, 3, -1, 300},
        {"srs", "span", 250, INT64_MAX / 50, -1, 100},
        {"srs", "keep", 250, INT64_MAX / 200, INT64_MAX / 600, 100},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pull_plan plan =
            plan_of(cases[i].design, cases[i].tail, cases[i].epoch_draws, cases[i].rows);
        assert_int_equal(pull_plan_epoch(&plan, cases[i].index), cases[i].right);
    }
}

static void test_a_stream_whose_length_only_its_end_shows(void **state)
{
    (void)state;
    struct rank_walk walk = {.first = 3, .rank = 1, .world = 2}, alone = {.world = 1};
    struct grant grant;
    assert_fails(rank_walk_begin(&walk, -1), ERROR_USAGE, "how many batches");
    assert_ok(rank_walk_begin(&alone, -1));
    assert_true(rank_walk_next(&alone, -1, &grant));
    assert_int_equal(grant.first, 0);
    assert_ok(rank_walk_begin(&walk, INT64_MAX));
    for (int64_t i = 0; i < 100; i++) {
        assert_true(rank_walk_next(&walk, -1, &grant));
        assert_int_equal(grant.first, 3 + 2 * i + 1);
        assert_int_equal(grant.count, 1);
    }
}

static void test_how_many_batches_a_stream_has(void **state)
{
    (void)state;
    static const struct {
        const char *design, *tail;
        int64_t epoch_draws, epochs;
        size_t rows;
        int64_t right;
    } cases[] = {
        {"srs", "keep", 250, 2, 100, 6},          {"srs", "drop", 250, 2, 100, 4},
        {"srs", "span", 250, 2, 100, 5},          {"srs", "span", 250, 3, 100, 8},
        {"proportional", "keep", 100, 1, 100, 1}, {"pxk", "keep", 240, 2, 12, 40},
        {"weighted", "keep", 90, 1, 20, 5},       {"bernoulli", "keep", 250, 2, 100, -1},
        {"cluster", "keep", 250, 2, 100, -1},     {"bernoulli", "keep", 250, 0, 100, INT64_MAX},
        {"srs", "keep", 250, 0, 100, INT64_MAX},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pull_plan plan =
            plan_of(cases[i].design, cases[i].tail, cases[i].epoch_draws, cases[i].rows);
        assert_int_equal(pull_plan_batches(&plan, cases[i].epochs), cases[i].right);
    }
}

/* ---- state -------------------------------------------------------------- */

static const struct sampler_stream order = {.name = "default",
                                            .digest = "d",
                                            .design = "srs",
                                            .tail = "keep",
                                            .order = "o",
                                            .seed = INT64_MAX,
                                            .units = 1000,
                                            .epochs = 1,
                                            .epoch_draws = 1000};

/* A rank takes some batches, gives some of them back in any order and is gone; what it wrote down
 * says where it goes on. `counts` counts what was given back. */
static void train(const char *text, int64_t rank, int64_t world, int64_t batches, int64_t takes,
                  bool gives_all, int counts[BATCHES_LIMIT], struct buffer *ret_text)
{
    struct rank_state state = {.rank = rank, .world = world, .batch_rows = 5};
    struct sampler_stream stream = order;
    if (text)
        assert_ok(rank_state_parse(&state, text, &stream));
    assert_int_equal(stream.seed, order.seed);
    struct rank_walk walk = {
        .first = state.first, .rank = rank, .world = world, .done = &state.begun};
    assert_ok(rank_walk_begin(&walk, batches));
    int64_t taken[BATCHES_LIMIT], count = 0;
    struct grant grant;
    while (count < takes && rank_walk_next(&walk, 1, &grant))
        taken[count++] = grant.first;
    for (int64_t left = count; left > 0; left--) {
        int64_t at = gives_all ? left - 1 : dice_below(count);
        if (taken[at] < 0)
            continue; /* it was given back: some never are */
        counts[taken[at]]++;
        taken[at] = -1;
        assert_ok(rank_state_add(&state, at));
    }
    buffer_clear(ret_text);
    assert_ok(rank_state_print(&state, &order, ret_text));
    rank_state_release(&state);
}

/* However often they stop, and whatever was out then. */
static void test_each_rank_goes_on_where_it_was(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        int64_t world = 1 + dice_below(4), batches = world * (1 + dice_below(BATCHES_LIMIT / 4));
        int counts[BATCHES_LIMIT] = {0};
        for (int64_t rank = 0; rank < world; rank++) {
            struct buffer text = BUFFER_INIT(1 << 20);
            for (int stop = 0; stop < 6; stop++) {
                char *before = text.length > 0 ? strdup(text.data) : NULL;
                train(before, rank, world, batches, dice_below(12), false, counts, &text);
                free(before);
            }
            char *before = strdup(text.data);
            train(before, rank, world, batches, BATCHES_LIMIT, true, counts, &text);
            free(before);
            buffer_release(&text);
        }
        for (int64_t i = 0; i < batches; i++)
            assert_int_equal(counts[i], 1);
    }
}

/* Where each rank has given back as many, the text of any serves any number of ranks. */
static void test_another_number_of_ranks_goes_on(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        int64_t batches = 60 + dice_below(BATCHES_LIMIT - 60), at = 0;
        int counts[BATCHES_LIMIT] = {0};
        char *from = NULL;
        for (int stage = 0; stage < 5; stage++) {
            int64_t world = 1 + dice_below(4), takes = dice_below(4);
            int64_t who = dice_below(world);
            struct buffer text = BUFFER_INIT(1 << 20);
            char *kept = NULL;
            for (int64_t rank = 0; rank < world; rank++) {
                train(from, rank, world, batches, takes, true, counts, &text);
                if (rank == who)
                    kept = strdup(text.data);
            }
            at += world * takes;
            free(from);
            from = kept;
            buffer_release(&text);
        }
        free(from);
        for (int64_t i = 0; i < batches; i++)
            assert_int_equal(counts[i], i < at);
    }
}

/* The last round of an epoch that ranks fill up, or that only some parts have, says nothing of the
 * batches behind its end: with more epochs they are trained like all others. */
static void test_more_epochs_begin_where_the_last_round_ended(void **state)
{
    (void)state;
    enum { BATCHES = 10, PLACES = 3 };
    struct sampler_stream one = order;
    one.epoch_draws = 5 * BATCHES;
    for (int pad = 0; pad < 2; pad++) {
        for (int64_t place = 0; place < PLACES; place++) {
            struct rank_walk walk = {.rank = pad ? place : 0,
                                     .world = pad ? PLACES : 1,
                                     .part = pad ? 0 : place,
                                     .parts = pad ? 1 : PLACES,
                                     .pad = pad};
            struct rank_state before = {.rank = place, .world = PLACES, .batch_rows = 5};
            struct rank_state after = {.world = 1, .batch_rows = 5};
            struct sampler_stream stream;
            struct buffer text = BUFFER_INIT(1 << 20);
            assert_ok(rank_walk_begin(&walk, BATCHES));
            for (int64_t step = 0; step < rank_walk_steps(&walk); step++)
                assert_ok(rank_state_add(&before, step));
            assert_ok(rank_state_print(&before, &one, &text));
            assert_ok(rank_state_parse(&after, text.data, &stream));
            assert_int_equal(after.first, !pad && place > 0 ? BATCHES - 1 : BATCHES);
            assert_int_equal(after.begun.count, 0);
            rank_state_release(&before);
            rank_state_release(&after);
            buffer_release(&text);
        }
    }
}

/* With tail `span`, a last batch that is short is another one with more epochs. */
static void test_a_short_batch_that_is_done_binds_the_epochs(void **state)
{
    (void)state;
    static const struct {
        const char *tail;
        int64_t epoch_draws, steps, right;
    } cases[] = {
        {"span", 11, 3, 1},
        {"span", 11, 2, SAMPLER_EPOCHS_ANY},
        {"span", 10, 2, SAMPLER_EPOCHS_ANY},
        {"keep", 11, 3, SAMPLER_EPOCHS_ANY},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rank_state before = {.world = 1, .batch_rows = 5};
        struct rank_state after = {.world = 1, .batch_rows = 5};
        struct sampler_stream one = order, stream;
        struct buffer text = BUFFER_INIT(1 << 20);
        snprintf(one.tail, sizeof(one.tail), "%s", cases[i].tail);
        one.epoch_draws = cases[i].epoch_draws;
        for (int64_t step = 0; step < cases[i].steps; step++)
            assert_ok(rank_state_add(&before, step));
        assert_ok(rank_state_print(&before, &one, &text));
        assert_ok(rank_state_parse(&after, text.data, &stream));
        assert_int_equal(after.first, cases[i].steps);
        assert_int_equal(stream.epochs, cases[i].right);
        rank_state_release(&before);
        rank_state_release(&after);
        buffer_release(&text);
    }
}

static void test_texts_that_are_refused(void **state)
{
    (void)state;
    struct rank_state begin = {.world = 1, .batch_rows = 5};
    struct sampler_stream stream;
    struct buffer text = BUFFER_INIT(1 << 20);
    assert_ok(rank_state_print(&begin, &order, &text));
    struct rank_state other = {.world = 1, .batch_rows = 6};
    assert_fails(rank_state_parse(&other, text.data, &stream), ERROR_CONFLICT,
                 "the state counts batches of 5 rows, this feed has 6");
    assert_fails(rank_state_parse(&begin, "", &stream), ERROR_INPUT, "the state");
    assert_fails(rank_state_parse(&begin, "{}", &stream), ERROR_INPUT, "the state");
    for (size_t cut = 1; cut < text.length; cut++) {
        char *part = strndup(text.data, cut);
        assert_fails(rank_state_parse(&begin, part, &stream), ERROR_INPUT, "the state");
        free(part);
    }
    assert_ok(rank_state_parse(&begin, text.data, &stream));
    rank_state_release(&begin);
    buffer_release(&text);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_ranks_take_each_batch_once_and_equally_many),
    cmocka_unit_test(test_a_round_is_the_same_for_all_ranks),
    cmocka_unit_test(test_steps_before_a_batch),
    cmocka_unit_test(test_places_that_there_are_not),
    cmocka_unit_test(test_the_epoch_of_a_batch),
    cmocka_unit_test(test_a_stream_whose_length_only_its_end_shows),
    cmocka_unit_test(test_how_many_batches_a_stream_has),
    cmocka_unit_test(test_each_rank_goes_on_where_it_was),
    cmocka_unit_test(test_another_number_of_ranks_goes_on),
    cmocka_unit_test(test_more_epochs_begin_where_the_last_round_ended),
    cmocka_unit_test(test_a_short_batch_that_is_done_binds_the_epochs),
    cmocka_unit_test(test_texts_that_are_refused),
};

UNIT_MAIN(tests)

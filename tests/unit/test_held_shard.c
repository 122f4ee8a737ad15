/* SPDX-License-Identifier: MIT */
/* Covers trainer/server/held_shard. */
#include "tests/unit/unit.h"

#include <stdbool.h>

#include "trainer/server/held_shard.h"

#define PARAMETERS 6 /* softmax of two features and two classes */

static const struct engine_options engine = {.device = "cpu", .blas = "plain", .threads = 1};
static struct held_shard held;
static const float ones[PARAMETERS] = {1, 1, 1, 1, 1, 1};

static int open_shard(void **state)
{
    (void)state;
    struct model_shape shape = {.kind = MODEL_SOFTMAX, .features = 2, .outputs = 2};
    struct model_layout layout;
    struct optimizer optimizer;
    struct shard shard;
    struct index_set none = {.count = 0};
    static const float zeros[PARAMETERS];
    assert_ok(optimizer_init(&optimizer, "sgd", 1));
    assert_ok(model_layout_init(&layout, &shape, &optimizer));
    shard_init(&shard, &layout, 1, 0, false);
    assert_ok(held_shard_open(&held, &engine, 0));
    assert_ok(held_shard_shape(&held, &layout, &shard, &optimizer));
    assert_int_equal(held_shard_state_count(&held), PARAMETERS);
    assert_ok(held_shard_begin(&held, 99, zeros, 10, &none));
    return 0;
}

static int close_shard(void **state)
{
    (void)state;
    held_shard_close(&held);
    return 0;
}

/* How often a gradient of ones was applied. */
static int applied(void)
{
    const float *now = held_shard_state(&held);
    for (size_t i = 1; i < PARAMETERS; i++)
        assert_true(now[i] == now[0]);
    return (int)-now[0];
}

static void test_a_batch_is_applied_once(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_ok(held_shard_apply(&held, 5, ones));
    assert_int_equal(applied(), 1);
    assert_int_equal(held.parameters.step, 11);
    assert_ok(held_shard_apply(&held, 4, ones));
    assert_int_equal(applied(), 2);
}

static void test_a_batch_without_rows_changes_nothing_but_counts(void **state)
{
    (void)state;
    assert_ok(held_shard_apply(&held, 5, NULL));
    assert_ok(held_shard_apply(&held, 5, ones));
    assert_int_equal(applied(), 0);
    assert_int_equal(held.parameters.step, 10);
    assert_true(index_set_has(&held.applied, 5));
}

static void test_frozen_it_takes_what_it_has_and_what_the_union_has(void **state)
{
    (void)state;
    struct index_set needed = {.count = 0};
    assert_ok(held_shard_apply(&held, 1, ones));
    held_shard_freeze(&held);
    assert_true(held_shard_takes(&held, 1));
    assert_false(held_shard_takes(&held, 2));
    assert_false(held_shard_is_cut(&held));
    assert_ok(index_set_add(&needed, (struct index_range){1, 3}));
    assert_ok(held_shard_unite(&held, &needed));
    assert_true(held_shard_takes(&held, 2));
    assert_false(held_shard_takes(&held, 3));
    assert_false(held_shard_is_cut(&held));
    assert_ok(held_shard_apply(&held, 2, ones));
    assert_true(held_shard_is_cut(&held));
    held_shard_thaw(&held);
    assert_false(held_shard_is_cut(&held));
    assert_true(held_shard_takes(&held, 3));
    index_set_release(&needed);
}

static void test_a_union_of_what_it_has_is_a_cut_at_once(void **state)
{
    (void)state;
    held_shard_freeze(&held);
    assert_ok(held_shard_unite(&held, &held.applied));
    assert_true(held_shard_is_cut(&held));
}

static void test_a_generation_begins_with_what_it_is_given(void **state)
{
    (void)state;
    struct index_set learnt = {.count = 0};
    assert_ok(held_shard_apply(&held, 7, ones));
    held_shard_freeze(&held);
    assert_ok(index_set_add(&learnt, (struct index_range){0, 3}));
    assert_ok(held_shard_begin(&held, 100, ones, 3, &learnt));
    index_set_release(&learnt);
    assert_int_equal(applied(), -1);
    assert_int_equal(held.parameters.step, 3);
    assert_int_equal(held.generation, 100);
    assert_true(held_shard_takes(&held, 7)); /* it is open, and batch 7 is not learnt from */
    assert_ok(held_shard_apply(&held, 2, ones));
    assert_int_equal(applied(), -1);
    assert_ok(held_shard_apply(&held, 7, ones));
    assert_int_equal(applied(), 0);
}

/* ---- synchronous -------------------------------------------------------- */

static int open_in_step(void **state)
{
    open_shard(state);
    held.aggregate = 3;
    free(held.stored);
    held.stored = calloc(3, sizeof(*held.stored));
    return held.stored ? 0 : -1;
}

static bool make_step(void)
{
    bool made;
    assert_ok(held_shard_make_step(&held, &made));
    return made;
}

/* A gradient whose zeros were left out changes what the whole one does, for every optimizer. */
static void test_parts_of_a_gradient_are_the_whole(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        float weight_decay, l2;
    } optimizers[] = {{"sgd", 0, 0},  {"momentum", 0, 0}, {"adagrad", 0, 0},
                      {"adam", 0, 0}, {"sgd", 0.5f, 0},   {"adagrad", 0, 0.5f}};
    static const float whole[PARAMETERS] = {0, 2, 3, 0, 0, -4};
    static const struct gradient_part parts[] = {{1, 2, whole + 1}, {5, 1, whole + 5}};
    struct model_shape shape = {.kind = MODEL_SOFTMAX, .features = 2, .outputs = 2};
    struct index_set none = {.count = 0};
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(*optimizers); i++) {
        float first[3 * PARAMETERS], begin[3 * PARAMETERS];
        struct model_layout layout;
        struct optimizer optimizer;
        struct shard shard;
        assert_ok(optimizer_init(&optimizer, optimizers[i].name, 0.5));
        optimizer.weight_decay = optimizers[i].weight_decay;
        optimizer.l2 = optimizers[i].l2;
        assert_ok(model_layout_init(&layout, &shape, &optimizer));
        shard_init(&shard, &layout, 1, 0, false);
        assert_ok(held_shard_shape(&held, &layout, &shard, &optimizer));
        size_t count = held_shard_state_count(&held);
        for (size_t j = 0; j < count; j++)
            begin[j] = 1 + (float)j / 8;
        for (int in_parts = 0; in_parts < 2; in_parts++) {
            assert_ok(held_shard_begin(&held, 99, begin, 10, &none));
            for (int64_t batch = 0; batch < 6; batch++) /* the second time it is there */
                assert_ok(in_parts ? held_shard_apply_parts(&held, batch / 2, parts, 2)
                                   : held_shard_apply(&held, batch / 2, whole));
            assert_int_equal(held.parameters.step, 13);
            if (!in_parts)
                memcpy(first, held_shard_state(&held), count * sizeof(*first));
        }
        assert_memory_equal(first, held_shard_state(&held), count * sizeof(*first));
        assert_memory_not_equal(first, begin, count * sizeof(*first));
    }
}

static void store(int64_t batch, float value)
{
    float gradient[PARAMETERS];
    for (size_t i = 0; i < PARAMETERS; i++)
        gradient[i] = value;
    assert_ok(held_shard_store(&held, batch, gradient));
}

static void test_a_step_is_the_mean_of_its_batches_in_their_order(void **state)
{
    (void)state;
    static const int64_t orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
    static const float values[3] = {1e8f, 3, -1e8f}; /* any other order has another sum */
    float first[PARAMETERS];
    struct index_set none = {.count = 0};
    for (size_t i = 0; i < 4; i++) {
        static const float zeros[PARAMETERS];
        assert_ok(held_shard_begin(&held, 99, zeros, 10, &none));
        for (size_t j = 0; j < 3; j++) {
            assert_false(make_step());
            store(orders[i][j], values[orders[i][j]]);
            store(orders[i][j], 77); /* once more: it is there */
        }
        assert_true(make_step());
        assert_false(make_step());
        assert_int_equal(held.parameters.step, 11);
        const float *now = held_shard_state(&held);
        if (i == 0)
            memcpy(first, now, sizeof(first));
        assert_memory_equal(first, now, sizeof(first));
        assert_true(now[0] == -((values[0] + values[1] + values[2]) / 3));
    }
}

static void test_the_next_step_has_the_first_batches_that_are_not_applied(void **state)
{
    (void)state;
    static const float zeros[PARAMETERS];
    struct index_set learnt = {.count = 0};
    assert_ok(index_set_add(&learnt, (struct index_range){0, 2}));
    assert_ok(index_set_add(&learnt, (struct index_range){3, 5}));
    assert_ok(held_shard_begin(&held, 99, zeros, 4, &learnt));
    index_set_release(&learnt);
    static const int64_t next[3] = {2, 5, 6};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(held_shard_next(&held, i), next[i]);
    assert_false(held_shard_is_next(&held, 4));
    assert_false(held_shard_is_next(&held, 7));
    assert_fails(held_shard_store(&held, 7, ones), ERROR_INPUT, "whose first is 2");
    for (size_t i = 0; i < 3; i++) {
        assert_true(held_shard_is_next(&held, next[i]));
        assert_false(held_shard_has(&held, next[i]));
        store(next[i], 1);
        assert_true(held_shard_has(&held, next[i]));
    }
    assert_true(make_step());
    assert_int_equal(applied(), 1);
    assert_ok(held_shard_store(&held, 5, ones)); /* late: it was applied */
    assert_int_equal(held.stored_count, 0);
}

static void test_the_last_step_may_have_fewer_and_batches_without_rows(void **state)
{
    (void)state;
    held_shard_end(&held, 2);
    held_shard_end(&held, 9);
    assert_int_equal(held_shard_next(&held, 2), -1);
    assert_ok(held_shard_store(&held, 1, NULL));
    assert_false(make_step());
    store(0, 5);
    assert_true(make_step());
    assert_int_equal(applied(), 5); /* divided by one: the other has no rows */
    assert_false(held_shard_is_next(&held, 2));
    assert_false(make_step());
}

/* What has arrived are all its gradients, however few. */
static void test_a_step_that_server_0_has_made(void **state)
{
    bool made;
    (void)state;
    assert_ok(held_shard_follow_step(&held, &made));
    assert_false(made);
    store(0, 5);
    assert_false(make_step());
    held_shard_freeze(&held);
    assert_ok(held_shard_follow_step(&held, &made));
    assert_false(made);
    held_shard_thaw(&held);
    assert_ok(held_shard_follow_step(&held, &made));
    assert_true(made);
    assert_int_equal(applied(), 5);
}

static void test_frozen_no_step_is_made_but_those_of_the_union(void **state)
{
    (void)state;
    struct index_set needed = {.count = 0};
    held_shard_freeze(&held);
    for (int64_t k = 0; k < 3; k++)
        store(k, 1);
    assert_false(make_step());
    assert_ok(held_shard_unite(&held, &needed));
    assert_false(make_step());
    assert_ok(index_set_add(&needed, (struct index_range){0, 3}));
    assert_ok(held_shard_unite(&held, &needed));
    assert_false(held_shard_is_cut(&held));
    assert_true(make_step());
    assert_true(held_shard_is_cut(&held));
    index_set_release(&needed);
}

#define STEP_TEST(test) cmocka_unit_test_setup_teardown(test, open_in_step, close_shard)
#define SHARD_TEST(test) cmocka_unit_test_setup_teardown(test, open_shard, close_shard)

static const struct CMUnitTest tests[] = {
    SHARD_TEST(test_a_batch_is_applied_once),
    SHARD_TEST(test_parts_of_a_gradient_are_the_whole),
    SHARD_TEST(test_a_batch_without_rows_changes_nothing_but_counts),
    SHARD_TEST(test_frozen_it_takes_what_it_has_and_what_the_union_has),
    SHARD_TEST(test_a_union_of_what_it_has_is_a_cut_at_once),
    SHARD_TEST(test_a_generation_begins_with_what_it_is_given),
    STEP_TEST(test_a_step_is_the_mean_of_its_batches_in_their_order),
    STEP_TEST(test_the_next_step_has_the_first_batches_that_are_not_applied),
    STEP_TEST(test_the_last_step_may_have_fewer_and_batches_without_rows),
    STEP_TEST(test_a_step_that_server_0_has_made),
    STEP_TEST(test_frozen_no_step_is_made_but_those_of_the_union),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/* Covers trainer/wire/runs: a gradient that is put together from its runs is the same again, however
 * the zeros lie and the parameters are spread; runs of a stranger stay within the shard. */
#include "tests/unit/unit.h"

#include <math.h>

#include "trainer/compute/optimizer.h"
#include "trainer/wire/runs.h"

#define FEATURES 200
#define HIDDEN 7
#define ROUNDS 300

static struct model_layout layout;

static int set_up(void **state)
{
    (void)state;
    struct model_shape shape = {.kind = MODEL_MLP,
                                .features = FEATURES,
                                .outputs = 3,
                                .hidden = {HIDDEN},
                                .hidden_count = 1};
    struct optimizer optimizer;
    assert_ok(optimizer_init(&optimizer, "adagrad", 0.01));
    assert_ok(model_layout_init(&layout, &shape, &optimizer));
    return 0;
}

static float *new_gradient(float value)
{
    float *gradient = malloc(layout.parameters * sizeof(*gradient));
    assert_non_null(gradient);
    for (size_t i = 0; i < layout.parameters; i++)
        gradient[i] = value;
    return gradient;
}

static void clear_rows(float *gradient, size_t first, size_t end)
{
    memset(gradient + layout.layers[0].weights_offset + first * HIDDEN, 0,
           (end - first) * HIDDEN * sizeof(*gradient));
}

/* Sent and put together on the other side. */
static void check_shard(const struct shard *shard, const float *gradient)
{
    struct runs sent, read;
    float *whole = malloc(shard->parameters * sizeof(*whole) + 1);
    float *again = calloc(shard->parameters + 1, sizeof(*again));
    runs_find(shard, &layout, gradient, &sent);
    shard_pack(shard, gradient, whole);
    if (sent.count > 0) {
        size_t bytes = sent.count * sizeof(*sent.list), floats = 0;
        assert_ok(runs_read(sent.list, bytes, sent.count, shard->parameters, &read));
        assert_int_equal(read.floats, sent.floats);
        assert_true(sent.floats < shard->parameters);
        for (size_t i = 0; i < read.count; i++) {
            memcpy(again + read.list[i].first, gradient + sent.offsets[i],
                   read.list[i].count * sizeof(*again));
            floats += read.list[i].count;
        }
        assert_int_equal(floats, sent.floats);
        assert_memory_equal(again, whole, shard->parameters * sizeof(*again));
    }
    free(whole);
    free(again);
}

static void check(const float *gradient)
{
    for (size_t servers = 1; servers <= 5; servers++) {
        for (size_t i = 0; i < 2 * servers; i++) {
            struct shard shard;
            shard_init(&shard, &layout, servers, i / 2, i % 2);
            check_shard(&shard, gradient);
        }
    }
}

static void test_a_gradient_is_the_same_again(void **state)
{
    (void)state;
    srand((unsigned)unit_seed());
    for (int round = 0; round < ROUNDS; round++) {
        float *gradient = new_gradient(1);
        for (int holes = rand() % 60; holes > 0; holes--) {
            size_t first = (size_t)rand() % FEATURES, end = first + (size_t)rand() % 30;
            clear_rows(gradient, first, end < FEATURES ? end : FEATURES);
        }
        check(gradient);
        free(gradient);
    }
}

static size_t count_runs(const float *gradient, size_t *ret_floats)
{
    struct shard shard;
    struct runs runs;
    shard_init(&shard, &layout, 1, 0, false);
    runs_find(&shard, &layout, gradient, &runs);
    *ret_floats = runs.floats;
    return runs.count;
}

static void test_rows_of_zeros_are_left_out(void **state)
{
    (void)state;
    size_t floats;
    float *gradient = new_gradient(1);
    assert_int_equal(count_runs(gradient, &floats), 0); /* there is nothing to spare */
    clear_rows(gradient, 0, 60);
    assert_int_equal(count_runs(gradient, &floats), 0); /* nor enough */
    clear_rows(gradient, 80, 180);
    assert_int_equal(count_runs(gradient, &floats), 2);
    assert_int_equal(floats, layout.parameters - 160 * HIDDEN);
    gradient[layout.layers[0].weights_offset + 120 * HIDDEN + 3] = NAN;
    assert_int_equal(count_runs(gradient, &floats), 3);
    assert_int_equal(floats, layout.parameters - 159 * HIDDEN);
    for (size_t row = 63; row < 78; row += 5) /* gaps of a few floats travel along */
        clear_rows(gradient, row, row + 1);
    assert_int_equal(count_runs(gradient, &floats), 3);
    gradient[0] = -0.0f;
    assert_int_equal(count_runs(gradient, &floats), 3);
    free(gradient);
}

static void test_a_gradient_in_too_many_runs_is_sent_whole(void **state)
{
    (void)state;
    struct model_shape shape = {.kind = MODEL_SOFTMAX, .features = 500, .outputs = 100};
    struct optimizer optimizer;
    assert_ok(optimizer_init(&optimizer, "sgd", 0.01));
    assert_ok(model_layout_init(&layout, &shape, &optimizer));
    size_t floats;
    float *gradient = new_gradient(1);
    for (size_t row = 0; row < 500; row += 2)
        memset(gradient + row * 100, 0, 100 * sizeof(*gradient));
    assert_int_equal(count_runs(gradient, &floats), 0);
    free(gradient);
}

static void test_a_stranger_s_runs(void **state)
{
    (void)state;
    static const struct {
        struct run list[2];
        size_t bytes, count;
    } bad[] = {
        {{{0, 5}, {4, 5}}, 16, 2},
        {{{5, 0}}, 8, 1},
        {{{0, 101}}, 8, 1},
        {{{101, 1}}, 8, 1},
        {{{UINT32_MAX, UINT32_MAX}}, 8, 1},
        {{{1, UINT32_MAX}}, 8, 1},
        {{{0, 5}}, 7, 1},
        {{{0, 5}}, 8, 2},
        {{{0, 5}}, 8, 0},
        {{{0, 5}}, 8, RUNS_LIMIT + 1},
        {{{50, 5}, {10, 5}}, 16, 2},
    };
    struct runs runs;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_fails(runs_read(bad[i].list, bad[i].bytes, bad[i].count, 100, &runs), ERROR_INPUT,
                     "gradient");
    static const struct run good[] = {{0, 5}, {5, 95}};
    assert_ok(runs_read(good, sizeof(good), 2, 100, &runs));
    assert_int_equal(runs.floats, 100);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_a_gradient_is_the_same_again, set_up),
    cmocka_unit_test_setup(test_rows_of_zeros_are_left_out, set_up),
    cmocka_unit_test(test_a_gradient_in_too_many_runs_is_sent_whole),
    cmocka_unit_test(test_a_stranger_s_runs),
};

UNIT_MAIN(tests)

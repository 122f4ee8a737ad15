/* SPDX-License-Identifier: MIT */
/* Covers trainer/wire/shard. */
#include "tests/unit/unit.h"

#include <stdbool.h>

#include "trainer/wire/shard.h"

static struct model_layout layout_of(const char *hidden, const char *optimizer_name)
{
    struct model_shape shape = {.kind = MODEL_MLP, .features = 23, .outputs = 5};
    struct model_layout layout;
    struct optimizer optimizer;
    assert_ok(model_parse_hidden(hidden, &shape));
    assert_ok(optimizer_init(&optimizer, optimizer_name, 0.1));
    assert_ok(model_layout_init(&layout, &shape, &optimizer));
    return layout;
}

/* All shards together: gathered, then scattered into `ret_state`. Their states are the state. */
static void go_round(const struct model_layout *layout, size_t servers, bool round_robin,
                     const float *state, float *ret_state, size_t *ret_least, size_t *ret_most)
{
    size_t parameters = 0, floats = 0;
    *ret_least = SIZE_MAX;
    *ret_most = 0;
    for (size_t i = 0; i < servers; i++) {
        struct shard shard;
        shard_init(&shard, layout, servers, i, round_robin);
        assert_true(shard.piece_count <= SHARD_PIECES_LIMIT);
        float *part = calloc(shard_state_count(&shard, layout) + 1, sizeof(*part));
        assert_non_null(part);
        shard_gather(&shard, layout, state, part);
        shard_scatter(&shard, layout, part, ret_state);
        free(part);
        parameters += shard.parameters;
        floats += shard_state_count(&shard, layout);
        if (shard.parameters < *ret_least)
            *ret_least = shard.parameters;
        if (shard.parameters > *ret_most)
            *ret_most = shard.parameters;
    }
    assert_int_equal(parameters, layout->parameters);
    assert_int_equal(floats, layout->state);
}

static void test_shards_hold_every_parameter_and_slot_once(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"sgd", "adagrad", "adam"};
    for (size_t o = 0; o < 3; o++) {
        struct model_layout layout = layout_of("11,7", optimizers[o]);
        float *before = calloc(layout.state, sizeof(*before));
        float *after = calloc(layout.state, sizeof(*after));
        assert_true(before && after);
        for (size_t i = 0; i < layout.state; i++)
            before[i] = (float)i + 1;
        for (size_t servers = 1; servers < 40; servers++) {
            for (int round_robin = 0; round_robin < 2; round_robin++) {
                size_t least, most;
                memset(after, 0, layout.state * sizeof(*after));
                go_round(&layout, servers, round_robin, before, after, &least, &most);
                assert_memory_equal(before, after, layout.state * sizeof(*after));
                if (!round_robin)
                    assert_true(most - least <= 1);
            }
        }
        free(before);
        free(after);
    }
}

/* hid_w and sm_w with the first of two servers, their biases with the second. */
static void test_tensors_in_turn(void **state)
{
    (void)state;
    struct model_layout layout = layout_of("11", "sgd");
    struct shard first, second;
    shard_init(&first, &layout, 2, 0, true);
    shard_init(&second, &layout, 2, 1, true);
    assert_int_equal(first.piece_count, 2);
    assert_int_equal(first.pieces[0].count, 23 * 11);
    assert_int_equal(first.pieces[1].count, 11 * 5);
    assert_int_equal(second.piece_count, 2);
    assert_int_equal(second.pieces[0].count, 11);
    assert_int_equal(second.pieces[1].count, 5);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_shards_hold_every_parameter_and_slot_once),
    cmocka_unit_test(test_tensors_in_turn),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/compute/kernel: what several devices need to make a step together, on every device
 * there is: sums, their mean, and updates that are made or not.
 */
#include "tests/unit/kernel_unit.h"

#define COUNT ((size_t)70001)

static void test_sums_begin_with_zeros_and_grow(void **state)
{
    open_kernel(state);
    struct array sum = sent_array(COUNT + 1, 100), first = sent_array(COUNT, 80),
                 second = sent_array(COUNT, 80);
    assert_ok(kernel_fill(kernel, 0, COUNT, sum.there));
    assert_ok(kernel_add(kernel, first.there, COUNT, sum.there));
    assert_ok(kernel_add(kernel, second.there, COUNT, sum.there));
    assert_ok(kernel_fill(kernel, 2, 1, sum.there + COUNT));
    fetch(&sum);
    for (size_t i = 0; i < COUNT; i++) {
        volatile float wanted = 0.0f + first.host[i];
        wanted = wanted + second.host[i];
        assert_float_equal(sum.host[i], wanted, 0);
    }
    assert_float_equal(sum.host[COUNT], 2, 0);
    release(&sum);
    release(&first);
    release(&second);
    close_kernel();
}

/* Page-locked memory, as the host and the device share it. */
struct board {
    int32_t stop;
    int64_t made;
};

/* A step from a sum of `gradients`, which counts unless it is stopped: what it makes of parameters
 * and slots, of all optimizers, with what weight decay does. */
static void check_step(const char *optimizer_name, float gradients, bool stops)
{
    struct optimizer optimizer;
    void *board_memory, *makes_memory;
    struct array sum = sent_array(COUNT + 1, 80), mean = sent_array(COUNT, 0);
    struct array parameters = sent_array(COUNT, 100), alone = array_of(COUNT, 0);
    struct array slots = sent_array(2 * COUNT, 0), slots_alone = sent_array(2 * COUNT, 0);
    assert_ok(optimizer_init(&optimizer, optimizer_name, 0.02));
    optimizer.weight_decay = 0.5f;
    assert_ok(device_host_new(device, sizeof(struct board), &board_memory));
    assert_ok(device_memory_new(device, sizeof(int32_t), &makes_memory));
    struct board *board = board_memory;
    *board = (struct board){.stop = stops, .made = 41};
    sum.host[COUNT] = gradients;
    send(&sum);
    memcpy(alone.host, parameters.host, COUNT * sizeof(float));
    send(&alone);
    for (size_t i = 0; i < COUNT; i++)
        mean.host[i] = gradients > 1 ? sum.host[i] / gradients : sum.host[i];
    send(&mean);
    struct kernel_settlement settlement = {.count = COUNT,
                                           .sum = sum.there,
                                           .number = 42,
                                           .stop = &board->stop,
                                           .ret_makes = makes_memory,
                                           .ret_made = &board->made};
    struct kernel_update update = {.count = COUNT,
                                   .gradient = sum.there,
                                   .parameters = parameters.there,
                                   .slots = {slots.there, slots.there + COUNT},
                                   .only_if = makes_memory};
    assert_ok(kernel_settle(kernel, &settlement));
    assert_ok(kernel_update(kernel, &optimizer, 42, &update));
    update = (struct kernel_update){.count = COUNT,
                                    .gradient = mean.there,
                                    .parameters = alone.there,
                                    .slots = {slots_alone.there, slots_alone.there + COUNT}};
    if (!stops)
        assert_ok(kernel_update(kernel, &optimizer, 42, &update));
    struct array *const arrays[] = {&parameters, &alone, &slots, &slots_alone, &sum, &mean};
    for (size_t i = 0; i < 4; i++)
        fetch(arrays[i]);
    assert_int_equal(board->made, stops ? 41 : 42);
    assert_memory_equal(parameters.host, alone.host, COUNT * sizeof(float));
    assert_memory_equal(slots.host, slots_alone.host, 2 * COUNT * sizeof(float));
    for (size_t i = 0; i < 6; i++)
        release(arrays[i]);
    device_memory_free(device, makes_memory);
    device_host_free(device, board_memory);
}

static void test_a_step_is_made_of_the_mean_or_not_at_all(void **state)
{
    static const char *const names[] = {"sgd", "momentum", "adagrad", "adam"};
    open_kernel(state);
    for (size_t i = 0; i < 4; i++) {
        check_step(names[i], 3, false);
        check_step(names[i], 1, false);
        check_step(names[i], 3, true);
    }
    close_kernel();
}

static const struct CMUnitTest tests[] = {
    ON_EACH_DEVICE(test_sums_begin_with_zeros_and_grow),
    ON_EACH_DEVICE(test_a_step_is_made_of_the_mean_or_not_at_all),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/* Covers loader/feed/bucket_order. */
#include "tests/unit/unit.h"

#include "loader/feed/bucket_order.h"

#define MOST 5000

static uint64_t dice(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Lengths of a window, of few different ones or of many. */
static void throw(int64_t lengths[MOST], size_t units, uint64_t *seed)
{
    uint64_t limit = dice(seed) % 2 ? 4 : UINT64_C(1) << (1 + dice(seed) % 31);
    for (size_t i = 0; i < units; i++)
        lengths[i] = (int64_t)(dice(seed) * dice(seed) % limit);
}

/* Every unit once; batches are neighbours in length, all but one are full. */
static void check_order(const struct bucket_order *order, const int64_t *lengths, size_t units)
{
    static int seen[MOST];
    static int64_t least[MOST], most[MOST];
    size_t all = 0, batches = (units + order->batch_rows - 1) / order->batch_rows, short_ones = 0;
    memset(seen, 0, sizeof(seen));
    assert_int_equal(order->batches, batches);
    for (size_t number = 0; number < batches; number++) {
        const uint32_t *batch;
        size_t rows = bucket_order_batch(order, number, &batch);
        size_t turn = order->turns[number];
        assert_true(rows > 0 && rows <= order->batch_rows);
        short_ones += rows < order->batch_rows;
        least[turn] = INT64_MAX;
        most[turn] = -1;
        for (size_t i = 0; i < rows; i++) {
            int64_t length = lengths[batch[i]];
            assert_int_equal(seen[batch[i]]++, 0);
            least[turn] = length < least[turn] ? length : least[turn];
            most[turn] = length > most[turn] ? length : most[turn];
            if (i > 0 && length == lengths[batch[i - 1]])
                assert_true(batch[i] > batch[i - 1]);
        }
        all += rows;
    }
    assert_int_equal(all, units);
    assert_int_equal(short_ones, units % order->batch_rows != 0);
    for (size_t turn = 1; turn < batches; turn++)
        assert_true(least[turn] >= most[turn - 1]);
}

static void test_every_unit_comes_once_beside_its_like(void **state)
{
    static int64_t lengths[MOST];
    uint64_t seed = unit_seed() + 3;
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct bucket_order order;
        size_t rows = 1 + dice(&seed) % 64, batches = 1 + dice(&seed) % 70;
        assert_ok(bucket_order_init(&order, batches, rows));
        for (int window = 0; window < 3; window++) {
            size_t units = 1 + dice(&seed) % (rows * batches);
            throw(lengths, units, &seed);
            bucket_order_make(&order, lengths, units, round, window);
            check_order(&order, lengths, units);
        }
        bucket_order_release(&order);
    }
}

/* The order of batches is a function of seed and window, and another for each of them. */
static void test_the_order_of_batches_is_the_windows_own(void **state)
{
    static const int64_t lengths[MOST];
    struct bucket_order a, b;
    size_t same = 0, first = 0;
    (void)state;
    assert_ok(bucket_order_init(&a, 50, 2));
    assert_ok(bucket_order_init(&b, 50, 2));
    for (int64_t window = 0; window < 100; window++) {
        bucket_order_make(&a, lengths, 100, 7, window);
        bucket_order_make(&b, lengths, 100, 7, window);
        assert_memory_equal(a.turns, b.turns, 50 * sizeof(*a.turns));
        first += a.turns[0] == 0;
        bucket_order_make(&b, lengths, 100, 7, window + 1);
        same += memcmp(a.turns, b.turns, 50 * sizeof(*a.turns)) == 0;
        bucket_order_make(&b, lengths, 100, 8, window);
        same += memcmp(a.turns, b.turns, 50 * sizeof(*a.turns)) == 0;
    }
    assert_int_equal(same, 0);
    assert_true(first < 15); /* 2 are expected */
    bucket_order_release(&a);
    bucket_order_release(&b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_unit_comes_once_beside_its_like),
    cmocka_unit_test(test_the_order_of_batches_is_the_windows_own),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/ledger/lease_set: What a look-up costs, whoever chooses seqs and positions.
 * Counted, not timed: slots that a search may pass, nodes from the root of a tree, bytes.
 */
#include "tests/unit/colliding_unit.h"
#include "tests/unit/unit.h"

#include <malloc.h>

#include "sampler/ledger/lease_set.h"

enum { DEPTH_MOST = 100 };

static uint64_t mixed(uint64_t value)
{
    value ^= value >> 32;
    value *= UINT64_C(0xd6e8feb86659fd93);
    value ^= value >> 32;
    value *= UINT64_C(0xd6e8feb86659fd93);
    return value ^ value >> 32;
}

static uint32_t add(struct lease_set *set, int64_t first, int64_t positions)
{
    assert_ok(lease_set_reserve(set));
    return lease_set_add(set, first, positions, positions, 1);
}

/* Seqs of one worker whose pairs have one home under a hash without a secret. */
static void test_seqs(void **state)
{
    struct lease_list mine = LEASE_LIST_EMPTY;
    struct lease_set set;
    int64_t seq = 0;
    (void)state;
    lease_set_init(&set);
    for (int64_t i = 0; i < COLLIDING; i++, seq += 4) {
        while (mixed((uint64_t)seq / 4) & 4095 & ~UINT64_C(3))
            seq += 4;
        lease_set_assign(&set, add(&set, i, 1), 0, seq, &mine);
    }
    assert_in_range(longest_run(&set.pairs), 1, RUN_MOST);
    lease_set_release(&set);
}

static int depth_of(const struct lease_set *set, uint32_t number)
{
    if (number == LEASE_NONE)
        return 0;
    const struct lease *lease = lease_set_get(set, number);
    int left = depth_of(set, lease->left), right = depth_of(set, lease->right);
    return 1 + (left > right ? left : right);
}

/* Sizes that were chosen so that positions ascend together with their hash without a secret: then a
 * treap by that is a list. */
static void test_positions(void **state)
{
    struct lease_set set;
    int64_t position = 0;
    (void)state;
    lease_set_init(&set);
    for (uint64_t i = 0; i < 500; i++) {
        int64_t size = 1;
        while (mixed((uint64_t)(position + size)) / (UINT64_MAX / 500) != i)
            size++;
        add(&set, position, size);
        position += size;
    }
    assert_in_range(depth_of(&set, set.root), 1, DEPTH_MOST);
    lease_set_release(&set);
}

/* Thousands of streams may have a lease each. */
static void test_one_lease_takes_little_memory(void **state)
{
    struct lease_set set;
    (void)state;
    lease_set_init(&set);
    add(&set, 0, 1);
    assert_int_equal(set.chunk_count, 1);
    assert_in_range(malloc_usable_size(set.chunks[0]), 1, 16384);
    lease_set_release(&set);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_seqs),
    cmocka_unit_test(test_positions),
    cmocka_unit_test(test_one_lease_takes_little_memory),
};

UNIT_MAIN(tests)

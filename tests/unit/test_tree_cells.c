/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/shuffle/tree_cells: One node: each draw in its cell, ways there and
 * back, blocks as single draws, vectors as scalars; over keys, each position left with m / n.
 */
#include "tests/unit/unit.h"

#include <math.h>

#include "sampler/shuffle/random.h"
#include "sampler/shuffle/tree.h"
#include "sampler/shuffle/tree_cells.h"
#include "sampler/shuffle/tree_split.h"

static uint64_t chance_state;

static uint64_t chance(uint64_t below)
{
    if (chance_state == 0)
        chance_state = random_mix(unit_seed());
    chance_state += RANDOM_STEP;
    return random_mix(chance_state) % below;
}

static struct tree_cells some_cells(int64_t size, int64_t left_size)
{
    return (struct tree_cells){.size = size,
                               .left_size = left_size,
                               .fraction = tree_cells_fraction(left_size, size),
                               .key = random_mix(chance(UINT64_MAX))};
}

/* All of a small node: draws ascend and never meet, the right child has the others, and a prefix is
 * less than 1 off. */
static void check_whole(const struct tree_cells *cells)
{
    int64_t left = 0;
    for (int64_t t = 0; t < cells->size; t++) {
        double expected = (double)t * (double)cells->left_size / (double)cells->size;
        assert_true(tree_cells_before(cells, t) == left);
        assert_true(fabs((double)left - expected) < 1);
        if (left < cells->left_size && tree_cells_left(cells, left) == t)
            left++;
        else
            assert_true(tree_cells_right(cells, t - left) == t);
    }
    assert_true(left == cells->left_size);
    assert_true(tree_cells_before(cells, cells->size) == left);
}

static void test_every_small_node(void **state)
{
    (void)state;
    for (int64_t size = 2; size <= 60; size++) {
        for (int64_t left_size = 1; left_size <= size / 2; left_size++) {
            for (int trial = 0; trial < 8; trial++) {
                struct tree_cells cells = some_cells(size, left_size);
                check_whole(&cells);
            }
        }
    }
}

/* Sizes of every order of magnitude, up to 2^62. */
static struct tree_cells any_cells(void)
{
    int64_t size = 2 + (int64_t)chance((UINT64_C(1) << (2 + chance(60))) - 2);
    int64_t half = size / 2;
    int64_t left_size = chance(4) ? 1 + (int64_t)chance((uint64_t)half) : (chance(2) ? 1 : half);
    return some_cells(size, left_size);
}

static void test_ways_there_and_back(void **state)
{
    (void)state;
    for (int trial = 0; trial < 20000; trial++) {
        struct tree_cells cells = any_cells();
        int64_t j = (int64_t)chance((uint64_t)cells.left_size);
        int64_t at = tree_cells_left(&cells, j);
        assert_true(at >= 0 && at < cells.size);
        assert_true(tree_cells_before(&cells, at) == j);
        assert_true(tree_cells_before(&cells, at + 1) == j + 1);
        j = (int64_t)chance((uint64_t)(cells.size - cells.left_size));
        at = tree_cells_right(&cells, j);
        assert_true(at - tree_cells_before(&cells, at) == j);
        assert_true(tree_cells_before(&cells, at + 1) == tree_cells_before(&cells, at));
    }
}

/* A block against single draws. */
static void check_split(tree_split_function *split, const struct tree_cells *cells, int64_t first,
                        uint32_t count)
{
    uint16_t slots[TREE_BLOCK + 1];
    int64_t before;
    for (uint32_t i = 0; i <= TREE_BLOCK; i++)
        slots[i] = (uint16_t)i;
    uint32_t lefts = split(cells, first, slots, count, &before);
    assert_true(before == tree_cells_before(cells, first));
    assert_true(before + lefts == tree_cells_before(cells, first + count));
    for (uint32_t i = 0; i < lefts; i++)
        assert_true(tree_cells_left(cells, before + i) == first + slots[i]);
    for (uint32_t i = lefts + 1; i < count; i++)
        assert_true(slots[i] > slots[i - 1]);
    for (uint32_t i = count; i <= TREE_BLOCK; i++)
        assert_true(slots[i] == i);
}

static void test_blocks(void **state)
{
    (void)state;
    for (int trial = 0; trial < 6000; trial++) {
        struct tree_cells cells = any_cells();
        if (trial % 2) /* cells without rests, and long ones */
            cells = some_cells((int64_t)(1 + chance(100000)) * (int64_t)(2 + chance(70000)), 1);
        if (trial % 4 == 1)
            cells = some_cells(cells.size * 1000, 1000);
        uint32_t most = cells.size < TREE_BLOCK ? (uint32_t)cells.size : TREE_BLOCK;
        uint32_t count = 1 + (uint32_t)chance(chance(2) ? most : (most < 70 ? most : 70));
        int64_t first = (int64_t)chance((uint64_t)(cells.size - count) + 1);
        for (size_t i = 0; tree_splitters[i]; i++) {
            if (tree_splitters[i]->suits(&cells))
                check_split(tree_splitters[i]->split, &cells, first, count);
        }
        check_split(tree_split, &cells, first, count);
    }
}

/* Every position goes left with probability m / n, and none comes more often together with one of
 * the next ten than chance would have it. */
static void check_chances(int64_t size, int64_t left_size)
{
    enum { KEYS = 40000, NEAR = 10, MOST = 64 };
    uint32_t counts[MOST] = {0};
    uint32_t pairs[NEAR + 1][MOST] = {{0}};
    double share = (double)left_size / (double)size;
    for (int trial = 0; trial < KEYS; trial++) {
        struct tree_cells cells = some_cells(size, left_size);
        uint64_t word = 0;
        for (int64_t j = 0; j < left_size; j++)
            word |= UINT64_C(1) << tree_cells_left(&cells, j);
        for (int64_t t = 0; t < size; t++) {
            counts[t] += word >> t & 1;
            for (int64_t d = 1; d <= NEAR && t + d < size; d++)
                pairs[d][t] += word >> t & word >> (t + d) & 1;
        }
    }
    for (int64_t t = 0; t < size; t++) {
        double off = (counts[t] - KEYS * share) / sqrt(KEYS * share * (1 - share));
        if (fabs(off) > 5)
            fail_msg("%d of %d: position %d is %.1f standard errors off", (int)left_size, (int)size,
                     (int)t, off);
        for (int64_t d = 1; d <= NEAR && t + d < size; d++) {
            double both = KEYS * share * share;
            if (pairs[d][t] > both + 5.5 * sqrt(both))
                fail_msg("%d of %d: positions %d and %d come together %u times, %.0f is chance",
                         (int)left_size, (int)size, (int)t, (int)(t + d), pairs[d][t], both);
        }
    }
}

static void test_chances(void **state)
{
    (void)state;
    check_chances(10, 5);
    check_chances(10, 4);
    check_chances(29, 14);
    check_chances(41, 20);
    check_chances(37, 9);
    check_chances(60, 11);
    check_chances(60, 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_small_node),
    cmocka_unit_test(test_ways_there_and_back),
    cmocka_unit_test(test_blocks),
    cmocka_unit_test(test_chances),
};

UNIT_MAIN(tests)

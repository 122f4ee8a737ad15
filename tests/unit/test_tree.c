/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/shuffle/tree: The stratified tree: totals exact, every prefix within the
 * tree's bound of the shares, j without gaps, closed forms equal to counting, on frames of every
 * shape; over keys, each label at each position with its share, at every stride.
 */
#include "tests/unit/unit.h"

#include <math.h>

#include "sampler/shuffle/random.h"
#include "sampler/shuffle/tree.h"
#include "tests/unit/statistics.h"

enum { STRATA = 400 };

static uint64_t chance_state;

static uint64_t chance(uint64_t below)
{
    if (chance_state == 0)
        chance_state = random_mix(unit_seed());
    chance_state += RANDOM_STEP;
    return random_mix(chance_state) % below;
}

static struct random_key some_key(void)
{
    return (struct random_key){.first = random_mix(chance(UINT64_MAX)), .second = chance_state};
}

/* ---- frames ------------------------------------------------------------- */

static void equal_sizes(int64_t *sizes, uint32_t strata)
{
    for (uint32_t h = 0; h < strata; h++)
        sizes[h] = 30;
}

static void zipf_sizes(int64_t *sizes, uint32_t strata)
{
    for (uint32_t h = 0; h < strata; h++)
        sizes[h] = 1 + 3000 / (h + 1);
}

static void one_giant(int64_t *sizes, uint32_t strata)
{
    for (uint32_t h = 0; h < strata; h++)
        sizes[h] = h == 0 ? 10000 : 1 + (int64_t)chance(20);
}

static void any_sizes(int64_t *sizes, uint32_t strata)
{
    for (uint32_t h = 0; h < strata; h++)
        sizes[h] = 1 + (int64_t)chance(100);
}

/* The worst for a Huffman tree: each level's sibling just as large as all below it. */
static void fibonacci_sizes(int64_t *sizes, uint32_t strata)
{
    for (uint32_t h = 0; h < strata; h++) {
        if (h < 4)
            sizes[h] = h == 0 ? 1 : 60;
        else
            sizes[h] = sizes[h - 1] + sizes[h - 2] - (int64_t)chance(3);
        if (sizes[h] > 4000)
            sizes[h] = 4000;
    }
}

static void (*const shapes[])(int64_t *sizes, uint32_t strata) = {
    equal_sizes, zipf_sizes, one_giant, any_sizes, fibonacci_sizes};

enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

/* ---- one epoch ---------------------------------------------------------- */

/* The strata at positions first ... first + count - 1, and their j. */
static void deal(const struct tree *tree, struct random_key key, int64_t first, uint32_t count,
                 uint32_t *ret_strata, int64_t *ret_j)
{
    struct tree_run runs[TREE_BLOCK];
    uint16_t slots[TREE_BLOCK];
    size_t run_count = tree_deal(tree, key, first, count, runs, slots);
    size_t done = 0;
    for (size_t i = 0; i < run_count; i++) {
        for (uint32_t j = 0; j < runs[i].count; j++) {
            ret_strata[slots[done]] = runs[i].stratum;
            ret_j[slots[done++]] = runs[i].first + j;
        }
    }
    assert_int_equal(done, count);
}

struct dealing {
    const struct tree *tree;
    const int64_t *sizes;
    struct random_key key;
    int64_t counts[STRATA];
    int64_t position;
    double worst; /* |count - t * share| */
};

static void take(struct dealing *dealing, uint32_t stratum, int64_t j)
{
    const struct tree *tree = dealing->tree;
    assert_true(j == dealing->counts[stratum]);
    if (dealing->position % 13 == 0)
        assert_true(tree_position(tree, dealing->key, stratum, j) == dealing->position);
    dealing->counts[stratum]++;
    dealing->position++;
    for (uint32_t h = 0; h < tree->strata; h++) {
        double expected =
            (double)dealing->position * (double)dealing->sizes[h] / (double)tree->positions;
        dealing->worst = fmax(dealing->worst, fabs((double)dealing->counts[h] - expected));
    }
    if (dealing->position % 29 == 0) {
        uint32_t asked = (uint32_t)chance(tree->strata);
        assert_true(tree_count(tree, dealing->key, asked, dealing->position) ==
                    dealing->counts[asked]);
    }
}

/* Goes through a whole epoch in batches of `batch` (0: of any size). */
static double walk_epoch(const struct tree *tree, const int64_t *sizes, struct random_key key,
                         uint32_t batch)
{
    struct dealing dealing = {.tree = tree, .sizes = sizes, .key = key};
    while (dealing.position < tree->positions) {
        uint32_t strata[TREE_BLOCK];
        int64_t j[TREE_BLOCK];
        uint32_t count = batch ? batch : 1 + (uint32_t)chance(TREE_BLOCK);
        if (count > tree->positions - dealing.position)
            count = (uint32_t)(tree->positions - dealing.position);
        deal(tree, key, dealing.position, count, strata, j);
        for (uint32_t i = 0; i < count; i++)
            take(&dealing, strata[i], j[i]);
    }
    for (uint32_t h = 0; h < tree->strata; h++) {
        assert_true(dealing.counts[h] == sizes[h]);
        assert_true(tree_count(tree, key, h, tree->positions) == sizes[h]);
        assert_true(tree_count(tree, key, h, 0) == 0);
    }
    return dealing.worst;
}

static double bound_of(const struct tree *tree)
{
    return (double)tree->bound_q32 / 0x1p32;
}

/* 2 to 400 labels of every shape, epochs of their own keys, batches larger and smaller than one
 * unit of each label. */
static void test_every_prefix_within_the_bound(void **state)
{
    (void)state;
    double worst = 0;
    int frames = unit_is_long() ? 600 : 50 / UNIT_LESS;
    for (int frame = 0; frame < frames; frame++) {
        int64_t sizes[STRATA];
        struct tree tree;
        uint32_t strata = 2 + (uint32_t)chance(frame % 2 ? STRATA - 1 : 15);
        int epochs = strata > 20 ? 1 : 8;
        shapes[frame % SHAPES](sizes, strata);
        assert_ok(tree_init(&tree, sizes, strata));
        for (int epoch = 0; epoch < epochs; epoch++) {
            double off = walk_epoch(&tree, sizes, some_key(), epoch % 2 ? 7 : 0);
            worst = fmax(worst, off);
            if (off >= bound_of(&tree))
                fail_msg("frame %d of %u labels: a prefix is %.3f away, %.3f allowed", frame,
                         strata, off, bound_of(&tree));
        }
        assert_true(bound_of(&tree) < 2.5);
        tree_release(&tree);
    }
    print_message("# worst prefix of all frames: %.3f away from its share\n", worst);
}

/* Shares that Huffman's tree allows 2.44, in many epochs. */
static void test_unlucky_draws(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 60, 60, 60, 119, 178, 296, 473};
    struct tree tree;
    assert_ok(tree_init(&tree, sizes, 8));
    assert_true(bound_of(&tree) < 2.02);
    for (int epoch = 0; epoch < (unit_is_long() ? 2000 : 200 / UNIT_LESS); epoch++)
        assert_true(walk_epoch(&tree, sizes, some_key(), 0) < bound_of(&tree));
    tree_release(&tree);
}

/* Few labels, labels of like sizes: never 2 away. */
static void test_bounds(void **state)
{
    (void)state;
    for (uint32_t strata = 2; strata <= 64; strata++) {
        int64_t sizes[STRATA];
        struct tree tree;
        equal_sizes(sizes, strata);
        assert_ok(tree_init(&tree, sizes, strata));
        assert_true(bound_of(&tree) <= (strata <= 32 ? 2 : 2.05));
        tree_release(&tree);
    }
    for (int frame = 0; frame < 2000; frame++) {
        int64_t sizes[4];
        struct tree tree;
        uint32_t strata = 2 + (uint32_t)chance(3);
        for (uint32_t h = 0; h < strata; h++)
            sizes[h] = 1 + (int64_t)chance(UINT64_C(1) << (1 + chance(30)));
        assert_ok(tree_init(&tree, sizes, strata));
        assert_true(bound_of(&tree) <= 2);
        tree_release(&tree);
    }
}

static void test_one_label(void **state)
{
    (void)state;
    int64_t size = 1000;
    struct tree tree;
    assert_ok(tree_init(&tree, &size, 1));
    assert_true(walk_epoch(&tree, &size, some_key(), 0) < 1e-9);
    assert_true(tree_position(&tree, some_key(), 0, 999) == 999);
    tree_release(&tree);
}

/* Sizes near 2^61, where sums and products need every bit. */
static void test_huge_sizes(void **state)
{
    (void)state;
    int64_t sizes[] = {INT64_C(1) << 60, (INT64_C(1) << 60) - 1, 1, INT64_C(1000000000000), 3, 77};
    struct tree tree;
    assert_ok(tree_init(&tree, sizes, 6));
    for (int trial = 0; trial < 2000; trial++) {
        struct random_key key = some_key();
        int64_t first = (int64_t)chance((uint64_t)tree.positions - 8);
        uint32_t strata[8];
        int64_t j[8];
        deal(&tree, key, first, 8, strata, j);
        int64_t sum = 0;
        for (uint32_t h = 0; h < 6; h++)
            sum += tree_count(&tree, key, h, first);
        assert_true(sum == first);
        for (int i = 0; i < 8; i++) {
            assert_true(j[i] >= 0 && j[i] < sizes[strata[i]]);
            assert_true(tree_position(&tree, key, strata[i], j[i]) == first + i);
            assert_true(tree_count(&tree, key, strata[i], first + i) == j[i]);
        }
    }
    tree_release(&tree);
}

/* The deepest tree there can be: Fibonacci sizes up to 2^62. */
static void test_deepest_tree(void **state)
{
    (void)state;
    int64_t sizes[STRATA];
    int64_t sum = 0;
    uint32_t strata = 0;
    struct tree tree;
    for (int64_t a = 1, b = 1; sum + a < INT64_C(1) << 62 && strata < STRATA;) {
        sizes[strata++] = a;
        sum += a;
        int64_t next = a + b;
        a = b;
        b = next;
    }
    assert_ok(tree_init(&tree, sizes, strata));
    for (uint32_t h = 0; h < strata; h++) {
        struct random_key key = some_key();
        int64_t at = tree_position(&tree, key, h, sizes[h] - 1);
        uint32_t found;
        int64_t j;
        deal(&tree, key, at, 1, &found, &j);
        assert_true(found == h && j == sizes[h] - 1);
    }
    tree_release(&tree);
}

/* At each position each label comes with its share as probability, and after it any other. */
static void test_positions_are_fair(void **state)
{
    (void)state;
    static const int64_t sizes[] = {2, 38, 60, 25};
    struct tree tree;
    assert_ok(tree_init(&tree, sizes, 4));
    enum { EPOCHS = 20000, FIRST = 45, POSITIONS = 10 };
    uint32_t counts[POSITIONS][4] = {{0}};
    double shares[4];
    for (int h = 0; h < 4; h++)
        shares[h] = (double)sizes[h] / 125;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        uint32_t strata[POSITIONS];
        int64_t j[POSITIONS];
        deal(&tree, some_key(), FIRST, POSITIONS, strata, j);
        for (int i = 0; i < POSITIONS; i++)
            counts[i][strata[i]]++;
    }
    for (int i = 0; i < POSITIONS; i++)
        assert_true(statistics_errors(statistics_chi_batch(counts[i], shares, 4, EPOCHS), 3) < 5);
    tree_release(&tree);
}

/* Over keys each label's count at a prefix is t times its share, though neighbours in the tree are
 * as unlike as they can be. 4,000 keys; 6 standard errors of what is less than 2 off. */
static void test_counts_are_fair(void **state)
{
    (void)state;
    enum { LABELS = 12, SEEDS = 4000 };
    int64_t sizes[LABELS] = {100, 100};
    double sums[LABELS] = {0};
    struct tree tree;
    for (size_t i = 2; i < LABELS; i++)
        sizes[i] = sizes[i - 1] + sizes[i - 2];
    assert_ok(tree_init(&tree, sizes, LABELS));
    int64_t t = tree.positions / 3;
    for (int seed = 0; seed < SEEDS; seed++) {
        struct random_key key = some_key();
        for (uint32_t label = 0; label < LABELS; label++)
            sums[label] += (double)tree_count(&tree, key, label, t);
    }
    for (size_t label = 0; label < LABELS; label++) {
        double expected = (double)t * (double)sizes[label] / (double)tree.positions;
        assert_true(fabs(sums[label] / SEEDS - expected) < 6 * 1.0 / sqrt(SEEDS));
    }
    tree_release(&tree);
}

/* The label of every position of an epoch. */
static void walk_labels(const struct tree *tree, struct random_key key, uint8_t *ret_labels)
{
    for (int64_t first = 0; first < tree->positions; first += TREE_BLOCK) {
        uint32_t strata[TREE_BLOCK];
        int64_t j[TREE_BLOCK];
        uint32_t count =
            tree->positions - first < TREE_BLOCK ? (uint32_t)(tree->positions - first) : TREE_BLOCK;
        deal(tree, key, first, count, strata, j);
        for (uint32_t i = 0; i < count; i++)
            ret_labels[first + i] = (uint8_t)strata[i];
    }
}

/* Labels come in their shares at each residue of each stride, as those do who take every d-th
 * position: the chi-squares of all residues and epochs, together, are not above chance. (Below it
 * they are, as counts are balanced.) Two labels, ten equal ones, and ten of MNIST's sizes. */
static void test_every_stride_sees_every_label(void **state)
{
    (void)state;
    static const int64_t frames[][10] = {
        {6000, 6000},
        {1200, 1200, 1200, 1200, 1200, 1200, 1200, 1200, 1200, 1200},
        {592, 674, 595, 613, 584, 542, 591, 626, 585, 594}};
    static const uint32_t strata[] = {2, 10, 10};
    enum { EPOCHS = 20, STRIDES = 128 };
    for (size_t f = 0; f < 3; f++) {
        struct tree tree;
        double shares[10];
        double chi[STRIDES + 1] = {0};
        assert_ok(tree_init(&tree, frames[f], strata[f]));
        uint8_t *labels = malloc((size_t)tree.positions);
        assert_non_null(labels);
        for (uint32_t h = 0; h < strata[f]; h++)
            shares[h] = (double)frames[f][h] / (double)tree.positions;
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            walk_labels(&tree, some_key(), labels);
            for (int64_t stride = 2; stride <= STRIDES; stride++) {
                for (int64_t residue = 0; residue < stride; residue++) {
                    uint32_t counts[10] = {0};
                    size_t total = 0;
                    for (int64_t t = residue; t < tree.positions; t += stride, total++)
                        counts[labels[t]]++;
                    chi[stride] += statistics_chi_batch(counts, shares, strata[f], total);
                }
            }
        }
        for (int stride = 2; stride <= STRIDES; stride++) {
            double df = (double)(strata[f] - 1) * stride * EPOCHS;
            if (statistics_errors(chi[stride], df) > 6)
                fail_msg("frame %zu, stride %d: chi-square %.0f of %.0f degrees", f, stride,
                         chi[stride], df);
        }
        free(labels);
        tree_release(&tree);
    }
}

/* A million labels: built at once, 32 bytes each, any position at once. */
static void test_a_million_labels(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    int64_t *sizes = malloc(MANY * sizeof(*sizes));
    struct tree tree;
    assert_non_null(sizes);
    for (uint32_t h = 0; h < MANY; h++)
        sizes[h] = 1 + (int64_t)(1000000 / (h + 1));
    assert_ok(tree_init(&tree, sizes, MANY));
    for (int trial = 0; trial < 200; trial++) {
        struct random_key key = some_key();
        int64_t first = (int64_t)chance((uint64_t)tree.positions - 100);
        uint32_t strata[100];
        int64_t j[100];
        deal(&tree, key, first, 100, strata, j);
        for (int i = 0; i < 100; i++)
            assert_true(tree_position(&tree, key, strata[i], j[i]) == first + i);
    }
    tree_release(&tree);
    free(sizes);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_prefix_within_the_bound),
    cmocka_unit_test(test_unlucky_draws),
    cmocka_unit_test(test_bounds),
    cmocka_unit_test(test_one_label),
    cmocka_unit_test(test_huge_sizes),
    cmocka_unit_test(test_deepest_tree),
    cmocka_unit_test(test_positions_are_fair),
    cmocka_unit_test(test_counts_are_fair),
    cmocka_unit_test(test_every_stride_sees_every_label),
    cmocka_unit_test(test_a_million_labels),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/shuffle/permutation: Permutations are bijections with a working inverse at every
 * size, the same with every kernel and for ever, and cannot be told from uniform ones.
 */
#include "tests/unit/unit.h"

#include "sampler/shuffle/permutation.h"
#include "sampler/shuffle/permutation_kernels.h"
#include "sampler/shuffle/random.h"
#include "tests/unit/statistics.h"

static void run_all(uint64_t units, uint64_t key, uint64_t *ret_units)
{
    struct permutation_run run = {.units = units, .key = key, .first = 0, .count = units};
    permutation_runs(&run, 1, ret_units);
}

/* Every unit once; every `step`-th position is also asked for alone, and back. */
static void check_bijection(uint64_t units, uint64_t key, uint64_t step)
{
    uint64_t *found = malloc(units * sizeof(*found));
    uint8_t *seen = calloc(1, units);
    struct permutation permutation;
    assert_true(found && seen);
    run_all(units, key, found);
    for (uint64_t i = 0; i < units; i++) {
        if (found[i] >= units || seen[found[i]]++)
            fail_msg("units %llu: position %llu gives %llu, out of range or again",
                     (unsigned long long)units, (unsigned long long)i,
                     (unsigned long long)found[i]);
    }
    permutation_init(&permutation, units, key);
    for (uint64_t i = 0; i < units; i += step) {
        if (permutation_at(&permutation, i) != found[i] ||
            permutation_find(&permutation, found[i]) != i)
            fail_msg("units %llu: position %llu is not the same alone, or not found again",
                     (unsigned long long)units, (unsigned long long)i);
    }
    free(seen);
    free(found);
}

static void test_every_size_to_5000(void **state)
{
    (void)state;
    for (uint64_t units = 1; units <= 5000; units++)
        check_bijection(units, random_mix(units), unit_is_long() ? 1 : 3 * UNIT_LESS);
}

/* Also 4^k + 1, where others fail. Large ones: the inverse of every 61st position, of every one
 * with TOMBOLA_LONG=1. A sanitizer sees nothing new of the largest. */
static void test_around_powers_of_two(void **state)
{
    (void)state;
    for (unsigned bits = 12; bits <= (UNIT_LESS > 1 ? 21 : 24); bits++) {
        for (uint64_t more = 0; more <= 2; more++) {
            uint64_t units = (UINT64_C(1) << bits) - 1 + more;
            check_bijection(units, bits * 7 + more, unit_is_long() || bits < 17 ? 1 : 61);
        }
    }
}

/* What cannot be enumerated: there and back again at random positions. */
static void test_huge_sizes(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1000000000,
                                     (UINT64_C(1) << 32) - 1,
                                     UINT64_C(1) << 32,
                                     (UINT64_C(1) << 32) + 1,
                                     UINT64_C(1000000000000),
                                     (UINT64_C(1) << 61) + 1,
                                     PERMUTATION_LIMIT - 1,
                                     PERMUTATION_LIMIT};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        uint64_t units = sizes[s];
        struct permutation permutation;
        permutation_init(&permutation, units, s);
        for (uint64_t i = 0; i < 2000; i++) {
            uint64_t position = i < 10   ? i
                                : i < 20 ? units - 1 - (i - 10)
                                         : random_mix(unit_seed() + i) % units;
            uint64_t unit = permutation_at(&permutation, position);
            assert_true(unit < units);
            assert_true(permutation_find(&permutation, unit) == position);
        }
    }
}

/* Runs of all lengths, from all offsets, small and large mixed: the same as one by one. */
static void test_runs_equal_single_positions(void **state)
{
    (void)state;
    enum { RUNS = 40 };
    struct permutation_run runs[RUNS];
    uint64_t found[RUNS * 700];
    for (uint64_t trial = 0; trial < 300; trial++) {
        size_t total = 0;
        for (uint64_t i = 0; i < RUNS; i++) {
            uint64_t chance = random_mix((unit_seed() + trial) * RUNS + i);
            uint64_t units = 1 + random_mix(chance) % (UINT64_C(1) << chance % 40);
            uint64_t first = random_mix(chance + 1) % units;
            uint64_t most = units - first < 700 ? units - first : 700;
            runs[i] = (struct permutation_run){.units = units,
                                               .key = chance,
                                               .first = first,
                                               .count = (chance >> 40) % (most + 1)};
            total += runs[i].count;
        }
        permutation_runs(runs, RUNS, found);
        size_t done = 0;
        for (size_t i = 0; i < RUNS; i++) {
            struct permutation permutation;
            permutation_init(&permutation, runs[i].units, runs[i].key);
            for (size_t j = 0; j < runs[i].count; j++)
                assert_true(found[done++] == permutation_at(&permutation, runs[i].first + j));
        }
        assert_int_equal(done, total);
    }
}

/* Lanes of many permutations side by side. Whole powers of two need no cycle walking: one pass is
 * the permutation. */
static void check_large_kernel(const struct permutation_kernel *kernel)
{
    struct feistel_block block = {.count = 0};
    uint64_t expected[KERNEL_BLOCK];
    for (unsigned bits = 12; bits <= 62; bits++) {
        struct permutation permutation;
        size_t count = bits % 4 + (bits == 62);
        uint64_t first = random_mix(bits) >> (65 - bits);
        permutation_init(&permutation, UINT64_C(1) << bits, bits);
        for (uint64_t i = 0; i < count; i++)
            expected[block.count + i] = permutation_at(&permutation, first + i);
        kernel->describe(&block, &permutation, block.count, block.count + count);
        kernel->add(&block, &permutation, first, count, (uint32_t)block.count);
    }
    assert_in_range(block.count, KERNEL_LANES * 4, KERNEL_BLOCK);
    kernel->feistel(&block);
    for (size_t i = 0; i < block.count; i++) {
        assert_int_equal(block.target[i], i);
        assert_true(((uint64_t)block.high[i] << block.low_bits[i] | block.low[i]) == expected[i]);
        assert_true(block.value[i] == expected[i]);
    }
}

/* Every kernel that this processor runs gives what the scalar code gives. */
static void test_kernels_agree(void **state)
{
    (void)state;
    const struct permutation_kernel *last = permutation_kernels[0];
    for (size_t k = 0; permutation_kernels[k]; k++) {
        const struct permutation_kernel *kernel = last = permutation_kernels[k];
        if (!kernel->is_supported()) {
            print_message("# %s: not on this processor\n", kernel->name);
            continue;
        }
        check_large_kernel(kernel);
        struct small_block block = {.count = KERNEL_BLOCK};
        for (uint64_t i = 0; i < KERNEL_BLOCK; i++) {
            block.units[i] = 1 + (uint32_t)(i * 16);
            block.value[i] = (uint32_t)(random_mix(i) % block.units[i]);
            block.point_key[i] = (uint32_t)random_mix(i);
            block.coin_key[i] = (uint32_t)(random_mix(i) >> 32);
        }
        struct small_block given = block;
        kernel->small(&block);
        for (size_t i = 0; i < KERNEL_BLOCK; i++) {
            struct permutation permutation;
            permutation_init(&permutation, given.units[i],
                             (uint64_t)given.coin_key[i] << 32 | given.point_key[i]);
            assert_int_equal(block.value[i], permutation_at(&permutation, given.value[i]));
        }
    }
    assert_true(last->is_supported()); /* the one for any processor */
}

/* Few large runs have a kernel of their own: of any size, next to powers of two too, short, long
 * and empty ones side by side; more of them than it takes at once do as well. */
static void test_few_runs(void **state)
{
    (void)state;
    enum { MOST = KERNEL_FEW_RUNS + 1, UNITS = 700 };
    struct permutation_run runs[MOST];
    static uint64_t found[MOST * UNITS + 1];
    for (uint64_t trial = 0; trial < 2000; trial++) {
        size_t count = 1 + random_mix(unit_seed() + trial) % MOST;
        size_t total = 0;
        for (size_t i = 0; i < count; i++) {
            uint64_t chance = random_mix((unit_seed() + trial) << 8 | i);
            uint64_t power = UINT64_C(1) << (12 + chance % 51);
            uint64_t units = chance >> 8 & 1 ? power - power / 2 * (chance >> 9 & 1)
                                             : power - random_mix(chance) % (power / 2);
            if (chance >> 10 & 1 && units < PERMUTATION_LIMIT)
                units++;
            units = units < PERMUTATION_SMALL ? PERMUTATION_SMALL : units;
            uint64_t lengths[] = {0, 1, 15, 31, 32, 33, 100, UNITS};
            runs[i] = (struct permutation_run){.units = units,
                                               .key = chance,
                                               .count = lengths[chance >> 16 & 7],
                                               .first = random_mix(chance + 1) % (units - UNITS)};
            total += runs[i].count;
        }
        found[total] = trial;
        permutation_runs(runs, count, found);
        assert_true(found[total] == trial); /* nothing is written behind the end */
        for (size_t i = 0, done = 0; i < count; i++) {
            struct permutation permutation;
            permutation_init(&permutation, runs[i].units, runs[i].key);
            for (size_t j = 0; j < runs[i].count; j++)
                assert_true(found[done++] == permutation_at(&permutation, runs[i].first + j));
        }
    }
}

/* The values are a contract: these were published. */
static void test_values_stay(void **state)
{
    (void)state;
    static const struct {
        uint64_t units, key, position, unit;
    } golden[] = {
#include "tests/unit/permutation_values.h"
    };
    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
        struct permutation permutation;
        permutation_init(&permutation, golden[i].units, golden[i].key);
        uint64_t unit = permutation_at(&permutation, golden[i].position);
        if (unit != golden[i].unit)
            fail_msg("{%llu, %llu, %llu, %llu} became %llu", (unsigned long long)golden[i].units,
                     (unsigned long long)golden[i].key, (unsigned long long)golden[i].position,
                     (unsigned long long)golden[i].unit, (unsigned long long)unit);
    }
}

/* ---- as good as chance -------------------------------------------------- */

/* The number of a permutation of n units among all n! (its Lehmer code). */
static uint32_t number_of(const uint64_t *units, uint32_t n)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t smaller = 0;
        for (uint32_t j = i + 1; j < n; j++)
            smaller += units[j] < units[i];
        number = number * (n - i) + smaller;
    }
    return number;
}

/* Over many keys each of the n! permutations comes equally often, with keys 0, 1, 2, ... and with
 * hashed ones. */
static void test_tiny_sizes_are_uniform(void **state)
{
    (void)state;
    uint32_t cells = 1;
    for (uint32_t n = 2; n <= 8; n++) {
        cells *= n;
        uint32_t keys = (cells * 20 < 100000 ? 100000 : cells * 20) / UNIT_LESS;
        for (int hashed = 0; hashed < 2; hashed++) {
            uint32_t *counts = calloc(cells, sizeof(*counts));
            assert_non_null(counts);
            for (uint32_t key = 0; key < keys; key++) {
                uint64_t units[8];
                run_all(n, hashed ? random_mix(key) : key, units);
                counts[number_of(units, n)]++;
            }
            double errors = statistics_errors(statistics_chi_equal(counts, cells), cells - 1.0);
            free(counts);
            if (fabs(errors) > 3.5)
                fail_msg("n = %u: the %u permutations are %.1f standard errors from uniform", n,
                         cells, errors);
        }
    }
}

/* Counts in a table of B x B against the product of its margins. */
static double chi_table(const uint32_t *table, const double *rows, const double *columns, int size,
                        double total)
{
    double chi = 0;
    for (int i = 0; i < size; i++) {
        for (int j = 0; j < size; j++) {
            double expected = rows[i] * columns[j] / total;
            double off = table[i * size + j] - expected;
            chi += off * off / expected;
        }
    }
    return chi;
}

enum { BINS = 16 };

/* Three things that must not hang together: position and unit; unit and the next unit; the units
 * that two neighbouring keys put at one position. 16 x 16 bins each. */
struct dependence {
    double position, next, key;
};

static void add_dependence(const uint64_t *units, const uint64_t *others, uint64_t n,
                           struct dependence *sum)
{
    uint32_t by_position[BINS * BINS] = {0};
    uint32_t by_next[BINS * BINS] = {0};
    uint32_t by_key[BINS * BINS] = {0};
    double bins[BINS] = {0};
    double firsts[BINS];
    double nexts[BINS];
    for (uint64_t i = 0; i < n; i++) {
        uint64_t bin = units[i] * BINS / n;
        bins[bin]++;
        by_position[i * BINS / n * BINS + bin]++;
        by_key[bin * BINS + others[i] * BINS / n]++;
        if (i + 1 < n)
            by_next[bin * BINS + units[i + 1] * BINS / n]++;
    }
    memcpy(firsts, bins, sizeof(bins));
    memcpy(nexts, bins, sizeof(bins));
    firsts[units[n - 1] * BINS / n]--;
    nexts[units[0] * BINS / n]--;
    double exact = (double)(n - 1) / (double)n; /* margins are fixed */
    sum->position += exact * chi_table(by_position, bins, bins, BINS, (double)n);
    sum->key += exact * chi_table(by_key, bins, bins, BINS, (double)n);
    sum->next += exact * chi_table(by_next, firsts, nexts, BINS, (double)n - 1);
}

static void test_nothing_hangs_together(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1000, 4095, 4096, 4097, 5000, 8192, 16385, 65537, 1000000};
    uint64_t *units = malloc(1000000 * sizeof(*units));
    uint64_t *others = malloc(1000000 * sizeof(*others));
    assert_true(units && others);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        struct dependence sum = {.position = 0};
        uint64_t n = sizes[s];
        uint64_t keys = n > 100000 ? 4 : 1000000 / UNIT_LESS / n;
        for (uint64_t key = 0; key < keys; key++) {
            run_all(n, key, units);
            run_all(n, key + 1, others);
            add_dependence(units, others, n, &sum);
        }
        double df = (double)keys * (BINS - 1) * (BINS - 1);
        double position = statistics_errors(sum.position, df);
        double next = statistics_errors(sum.next, df);
        double key = statistics_errors(sum.key, df);
        if (fabs(position) > 3.5 || fabs(next) > 3.5 || fabs(key) > 3.5)
            fail_msg("n = %llu: standard errors off: position %.1f, next %.1f, key %.1f",
                     (unsigned long long)n, position, next, key);
    }
    free(others);
    free(units);
}

/* Fixed points, and units followed by their successor: one each on average, as in chance. */
static void test_fixed_points(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {50, 1000, 4095, 4097, 20000};
    uint64_t units[20000];
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        uint64_t n = sizes[s];
        uint64_t keys = (4000000 / n < 5000 ? 4000000 / n : 5000) / UNIT_LESS;
        uint64_t fixed = 0;
        uint64_t successors = 0;
        for (uint64_t key = 0; key < keys; key++) {
            run_all(n, key, units);
            for (uint64_t i = 0; i < n; i++)
                fixed += units[i] == i;
            for (uint64_t i = 1; i < n; i++)
                successors += units[i] == units[i - 1] + 1;
        }
        double error = sqrt((double)keys);
        if (fabs((double)fixed - (double)keys) > 3.5 * error ||
            fabs((double)successors - (double)keys * (double)(n - 1) / (double)n) > 3.5 * error)
            fail_msg("n = %llu: %llu fixed points, %llu successors in %llu permutations",
                     (unsigned long long)n, (unsigned long long)fixed,
                     (unsigned long long)successors, (unsigned long long)keys);
    }
}

/* Half of the permutations are odd, also where all rounds of a network are even. */
static void test_half_are_odd(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {5, 100, 4095, 4096, 4097, 6000, 8192, 65536};
    enum { MOST = 65536 };
    static uint64_t units[MOST];
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        uint64_t n = sizes[s];
        uint32_t keys = n > 10000 ? 100 : 400;
        uint32_t odd = 0;
        for (uint64_t key = 0; key < keys; key++) {
            run_all(n, random_mix(unit_seed() + key), units);
            uint64_t cycles = 0;
            for (uint64_t i = 0; i < n; i++) {
                cycles += units[i] != UINT64_MAX;
                for (uint64_t at = i; units[at] != UINT64_MAX;) {
                    uint64_t next = units[at];
                    units[at] = UINT64_MAX;
                    at = next;
                }
            }
            odd += (n - cycles) % 2;
        }
        if (fabs(odd - keys / 2.0) > 5 * sqrt(keys) / 2)
            fail_msg("n = %llu: %u of %u permutations are odd", (unsigned long long)n, odd, keys);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_size_to_5000),
    cmocka_unit_test(test_around_powers_of_two),
    cmocka_unit_test(test_huge_sizes),
    cmocka_unit_test(test_runs_equal_single_positions),
    cmocka_unit_test(test_kernels_agree),
    cmocka_unit_test(test_few_runs),
    cmocka_unit_test(test_values_stay),
    cmocka_unit_test(test_tiny_sizes_are_uniform),
    cmocka_unit_test(test_nothing_hangs_together),
    cmocka_unit_test(test_fixed_points),
    cmocka_unit_test(test_half_are_odd),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/order/order: Orders: every unit exactly once an epoch, the same however it is
 * asked, and not to be told from chance; stratified ones as even as promised. Frames of any size
 * come from range: stores, where a label-sorted frame is one whose labels are the tenths (halves,
 * hundredths) of its rows.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <pthread.h>

#include "sampler/build/frame_build.h"
#include "sampler/design/designs.h"
#include "sampler/frame/frame.h"
#include "sampler/shuffle/random.h"
#include "tests/unit/order_unit.h"
#include "tests/unit/private_memory.h"
#include "tests/unit/statistics.h"

static struct frame *range_frame(int64_t units, uint32_t labels)
{
    char uri[80];
    struct frame *frame;
    if (labels > 0)
        snprintf(uri, sizeof(uri), "range:%lld?labels=%u", (long long)units, labels);
    else
        snprintf(uri, sizeof(uri), "range:%lld", (long long)units);
    assert_ok(frame_build(uri, &frame));
    return frame;
}

static struct order *new_order(const struct frame *frame, const char *name, uint64_t seed)
{
    struct design design = {.name = name, .seed = seed};
    struct order *order;
    assert_ok(order_new(frame, &design, &order));
    return order;
}

static const char *const without_replacement[] = {"proportional", "srs", "sequential"};

enum { DESIGNS = 3 };

/* ---- exactly once ------------------------------------------------------- */

static void check_epoch(const struct order *order, const struct frame *frame, int64_t epoch)
{
    int64_t units = frame_units(frame);
    int64_t *rows = malloc((size_t)units * sizeof(*rows));
    uint8_t *seen = calloc(1, (size_t)units);
    assert_true(rows && seen);
    assert_true(order_epoch_positions(order) == units);
    order_rows(order, epoch * units, (size_t)units, rows);
    for (int64_t i = 0; i < units; i++) {
        assert_true(rows[i] >= 0 && rows[i] < units);
        assert_int_equal(seen[rows[i]]++, 0);
        if (i % 7 == 0)
            assert_true(order_position(order, rows[i], epoch) == epoch * units + i);
    }
    free(seen);
    free(rows);
}

static void test_every_unit_once_an_epoch(void **state)
{
    (void)state;
    static const int64_t units[] = {1, 2, 3, 10, 99, 1000, 4097, 60000, 65537, 262145};
    static const uint32_t labels[] = {1, 2, 10, 333};
    for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
        for (size_t l = 0; l < sizeof(labels) / sizeof(labels[0]); l++) {
            struct frame *frame = range_frame(units[u], labels[l]);
            for (size_t d = 0; d < DESIGNS; d++) {
                struct order *order = new_order(frame, without_replacement[d], u + l);
                check_epoch(order, frame, 0);
                check_epoch(order, frame, 3);
                order_free(order);
            }
            frame_free(frame);
        }
    }
}

/* Batches of any size, across epochs, from any position: the same sequence. */
static void test_the_same_at_any_batch_size(void **state)
{
    (void)state;
    enum { POSITIONS = 5000 };
    struct frame *frame = range_frame(777, 9);
    for (size_t d = 0; d < 5; d++) {
        struct design design = {
            .name = without_replacement[d % 3], .replacement = d > 2, .seed = 3};
        if (d == 4)
            design.name = "srs";
        struct order *order;
        int64_t whole[POSITIONS], rows[POSITIONS], ids[POSITIONS];
        uint32_t labels[POSITIONS];
        assert_ok(order_new(frame, &design, &order));
        order_rows(order, 0, POSITIONS, whole);
        for (size_t size = 1; size < 2000; size = size * 3 + 1) {
            for (size_t first = 0; first < POSITIONS; first += size) {
                size_t count = POSITIONS - first < size ? POSITIONS - first : size;
                order_units(order, (int64_t)first, count, ids, labels, NULL);
                order_rows(order, (int64_t)first, count, rows);
                for (size_t i = 0; i < count; i++) {
                    assert_true(rows[i] == whole[first + i]);
                    assert_true(ids[i] == frame_id(frame, rows[i]));
                    assert_int_equal(labels[i], frame_label(frame, rows[i]));
                }
            }
        }
        order_units(order, 0, POSITIONS, ids, NULL, NULL);
        assert_memory_equal(ids, whole, sizeof(whole)); /* ids of a range are its rows */
        order_free(order);
    }
    frame_free(frame);
}

/* At 1e9 units: there and back from any position, in epochs far away too. */
static void test_position_and_back_at_a_billion(void **state)
{
    (void)state;
    int64_t units = 1000000000;
    struct frame *frame = range_frame(units, 10);
    for (size_t d = 0; d < DESIGNS; d++) {
        struct order *order = new_order(frame, without_replacement[d], 42);
        for (uint64_t i = 0; i < 3000; i++) {
            int64_t epoch = (int64_t)(random_mix(i) % 4000000000U);
            int64_t position = epoch * units + (int64_t)(random_mix(i + 7) % (uint64_t)units);
            int64_t row;
            order_rows(order, position, 1, &row);
            assert_true(row >= 0 && row < units);
            assert_true(order_position(order, row, epoch) == position);
        }
        order_free(order);
    }
    frame_free(frame);
}

/* ---- as good as chance -------------------------------------------------- */

enum { SEEDS = 20, TENTHS = 10, BATCH = 100 };

/* Batches of srs against `labels` equal parts of the rows, summed over the batches that start at
 * positions first + k * step, k < batches. */
static double batches_chi(const struct order *order, uint32_t labels, int64_t first, int64_t step,
                          size_t batches)
{
    double units = (double)order_epoch_positions(order);
    double shares[100];
    double chi = 0;
    for (uint32_t h = 0; h < labels; h++)
        shares[h] = 1.0 / labels;
    for (size_t k = 0; k < batches; k++) {
        int64_t rows[BATCH];
        uint32_t counts[100] = {0};
        order_rows(order, first + (int64_t)k * step, BATCH, rows);
        for (size_t i = 0; i < BATCH; i++)
            counts[(size_t)((double)rows[i] / units * labels)]++;
        chi += statistics_chi_batch(counts, shares, labels, BATCH);
    }
    return chi;
}

/* Every tenth of an epoch over 20 neighbouring seeds: within 3 standard errors; each seed's tenth
 * alone within 4.5, as is to be expected of 600 of them. */
static void check_tenths(const struct frame *frame, uint32_t labels, size_t batches)
{
    double df = (double)batches * (labels - 1);
    int64_t tenth = frame_units(frame) / TENTHS;
    double sums[TENTHS] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct order *order = new_order(frame, "srs", 1000 + seed);
        for (int t = 0; t < TENTHS; t++) {
            int64_t step = tenth / (int64_t)batches;
            double chi =
                batches_chi(order, labels, t * tenth, step < BATCH ? BATCH : step, batches);
            sums[t] += chi;
            if (fabs(statistics_errors(chi, df)) > 4.5)
                fail_msg("%u labels, seed %llu, tenth %d: chi-square a batch %.3f", labels,
                         (unsigned long long)seed, t, chi / (double)batches);
        }
        order_free(order);
    }
    for (int t = 0; t < TENTHS; t++) {
        double errors = statistics_errors(sums[t], df * SEEDS);
        if (fabs(errors) > 3)
            fail_msg("%u labels, tenth %d: chi-square a batch %.4f, %.2f standard errors off",
                     labels, t, sums[t] / (double)batches / SEEDS, errors);
    }
}

static void test_batches_of_a_million_look_random(void **state)
{
    (void)state;
    struct frame *frame = range_frame(1000000, 0);
    check_tenths(frame, 2, 1000 / UNIT_LESS);
    check_tenths(frame, 10, 1000 / UNIT_LESS);
    check_tenths(frame, 100, 1000 / UNIT_LESS);
    frame_free(frame);
}

static void test_batches_of_a_billion_look_random(void **state)
{
    (void)state;
    struct frame *frame = range_frame(1000000000, 0);
    check_tenths(frame, 2, 1000 / UNIT_LESS);
    check_tenths(frame, 10, 1000 / UNIT_LESS);
    check_tenths(frame, 100, 1000 / UNIT_LESS);
    frame_free(frame);
}

/* The rows that two orders put at the same positions hang together no more than chance. */
static void check_apart(const struct order *a, int64_t a_first, const struct order *b,
                        int64_t b_first, size_t count, const char *what)
{
    enum { BINS = 20 };
    int64_t units = order_epoch_positions(a);
    int64_t *one = malloc(count * sizeof(*one));
    int64_t *other = malloc(count * sizeof(*other));
    uint32_t table[BINS * BINS] = {0};
    size_t equal = 0;
    assert_true(one && other);
    order_rows(a, a_first, count, one);
    order_rows(b, b_first, count, other);
    for (size_t i = 0; i < count; i++) {
        table[one[i] * BINS / units * BINS + other[i] * BINS / units]++;
        equal += one[i] == other[i];
    }
    double errors = statistics_errors(statistics_chi_equal(table, BINS * BINS), BINS * BINS - 1.0);
    double expected = (double)count / (double)units;
    free(other);
    free(one);
    if (fabs(errors) > 4 || (double)equal > expected + 8 * sqrt(expected) + 8)
        fail_msg("%s: %.1f standard errors, %zu equal of %zu", what, errors, equal, count);
}

static void test_seeds_and_epochs_share_nothing(void **state)
{
    (void)state;
    int64_t units = 100000;
    struct frame *frame = range_frame(units, 10);
    struct frame *other_frame = range_frame(units, 5);
    static const char *const designs[] = {"srs", "proportional"};
    for (size_t d = 0; d < 2; d++) {
        struct order *seven = new_order(frame, designs[d], 7);
        struct order *eight = new_order(frame, designs[d], 8);
        struct order *same = new_order(frame, designs[d], 7);
        struct order *elsewhere = new_order(other_frame, designs[d], 7);
        int64_t a[100], b[100];
        check_apart(seven, 0, eight, 0, (size_t)units, "seeds 7 and 8");
        check_apart(seven, units, eight, 0, (size_t)units, "seed 7 epoch 1, seed 8 epoch 0");
        check_apart(seven, 0, seven, units, (size_t)units, "epochs 0 and 1");
        check_apart(seven, 0, elsewhere, 0, (size_t)units, "two frames");
        order_rows(seven, 12345, 100, a);
        order_rows(same, 12345, 100, b);
        assert_memory_equal(a, b, sizeof(a));
        order_free(elsewhere);
        order_free(same);
        order_free(eight);
        order_free(seven);
    }
    frame_free(other_frame);
    frame_free(frame);
}

/* Two strata of one size and epoch have permutations of their own. */
static void test_strata_share_nothing(void **state)
{
    (void)state;
    struct frame *frame = range_frame(40000, 2);
    struct order *order = new_order(frame, "proportional", 5);
    int64_t rows[40000];
    int64_t ranks[2][20000];
    size_t counts[2] = {0};
    size_t equal = 0;
    order_rows(order, 0, 40000, rows);
    for (size_t i = 0; i < 40000; i++) {
        uint32_t label = frame_label(frame, rows[i]);
        ranks[label][counts[label]++] = frame_stratum_rank(frame, rows[i]);
    }
    for (size_t j = 0; j < 20000; j++)
        equal += ranks[0][j] == ranks[1][j];
    assert_in_range(equal, 0, 8);
    order_free(order);
    frame_free(frame);
}

/* Every order of a tiny frame comes equally often over seeds, and over epochs. */
static void test_tiny_frames_are_uniform(void **state)
{
    (void)state;
    enum { UNITS = 4, CELLS = 24, TRIALS = 48000 };
    struct frame *frame = range_frame(UNITS, 0);
    for (int by_epoch = 0; by_epoch < 2; by_epoch++) {
        uint32_t counts[CELLS] = {0};
        struct order *order = new_order(frame, "srs", 1);
        for (uint64_t trial = 0; trial < TRIALS; trial++) {
            int64_t rows[UNITS];
            if (!by_epoch) {
                order_free(order);
                order = new_order(frame, "srs", trial);
            }
            order_rows(order, by_epoch ? (int64_t)trial * UNITS : 0, UNITS, rows);
            size_t number = 0;
            for (size_t i = 0; i < UNITS; i++) {
                size_t smaller = 0;
                for (size_t j = i + 1; j < UNITS; j++)
                    smaller += rows[j] < rows[i];
                number = number * (UNITS - i) + smaller;
            }
            counts[number]++;
        }
        order_free(order);
        assert_true(fabs(statistics_errors(statistics_chi_equal(counts, CELLS), CELLS - 1.0)) <
                    3.5);
    }
    frame_free(frame);
}

/* ---- stratified --------------------------------------------------------- */

/* Counts at every prefix of an epoch, and the closed form of them. */
static void check_prefixes(const struct order *order, const struct frame *frame, int64_t epoch)
{
    enum { MOST = 400 };
    int64_t counts[MOST] = {0};
    uint32_t labels = frame_labels(frame);
    int64_t units = frame_units(frame);
    for (int64_t t = 0; t < units;) {
        int64_t ids[50];
        uint32_t found[50];
        size_t size = units - t < 50 ? (size_t)(units - t) : 50;
        order_units(order, epoch * units + t, size, ids, found, NULL);
        for (size_t i = 0; i < size; i++, t++) {
            counts[found[i]]++;
            for (uint32_t h = 0; h < labels; h++) {
                double share = (double)frame_label_units(frame, h) / (double)units;
                assert_true(fabs((double)counts[h] - share * (double)(t + 1)) < 2);
            }
        }
        int64_t count;
        uint32_t asked = (uint32_t)(t % labels);
        assert_ok(order_label_count(order, asked, epoch, t, &count));
        assert_true(count == counts[asked]);
    }
    for (uint32_t h = 0; h < labels; h++)
        assert_true(counts[h] == frame_label_units(frame, h));
}

static void test_labels_are_even_at_every_prefix(void **state)
{
    (void)state;
    static const struct {
        int64_t units;
        uint32_t labels;
    } frames[] = {{1000, 2}, {1003, 10}, {5000, 400}, {401, 400}, {400, 400}, {2999, 37}};
    for (size_t f = 0; f < sizeof(frames) / sizeof(frames[0]); f++) {
        struct frame *frame = range_frame(frames[f].units, frames[f].labels);
        for (int replacement = 0; replacement < 2; replacement++) {
            struct design design = {.name = "proportional", .replacement = replacement, .seed = f};
            struct order *order;
            assert_ok(order_new(frame, &design, &order));
            check_prefixes(order, frame, 0);
            check_prefixes(order, frame, 5);
            order_free(order);
        }
        frame_free(frame);
    }
}

/* At 1e9, where nothing can be counted: labels' counts add up, and grow with the units. */
static void test_label_counts_at_a_billion(void **state)
{
    (void)state;
    struct frame *frame = range_frame(1000000007, 10);
    struct order *order = new_order(frame, "proportional", 9);
    for (uint64_t trial = 0; trial < 200; trial++) {
        int64_t t = (int64_t)(random_mix(trial) % 1000000006);
        int64_t sum = 0;
        int64_t id;
        uint32_t label;
        order_units(order, t, 1, &id, &label, NULL);
        for (uint32_t h = 0; h < 10; h++) {
            int64_t before;
            int64_t after;
            assert_ok(order_label_count(order, h, 0, t, &before));
            assert_ok(order_label_count(order, h, 0, t + 1, &after));
            assert_true(after - before == (h == label));
            assert_true(fabs((double)before -
                             (double)t * (double)frame_label_units(frame, h) / 1000000007.0) < 2);
            sum += before;
        }
        assert_true(sum == t);
    }
    order_free(order);
    frame_free(frame);
}

static void test_label_counts_of_other_designs(void **state)
{
    (void)state;
    struct frame *frame = range_frame(1000, 3);
    struct frame *unlabeled = range_frame(1000, 0);
    struct order *sequential = new_order(frame, "sequential", 0);
    struct order *srs = new_order(frame, "srs", 0);
    struct order *one_label = new_order(unlabeled, "srs", 0);
    int64_t count;
    assert_ok(order_label_count(sequential, 1, 0, 500, &count));
    assert_int_equal(count, 167);
    assert_ok(order_label_count(srs, 1, 0, 0, &count));
    assert_int_equal(count, 0);
    assert_ok(order_label_count(srs, 1, 0, 1000, &count));
    assert_int_equal(count, 333);
    assert_fails(order_label_count(srs, 1, 0, 500, &count), ERROR_UNAVAILABLE, "srs");
    assert_ok(order_label_count(one_label, 0, 0, 77, &count));
    assert_int_equal(count, 77);
    order_free(one_label);
    order_free(srs);
    order_free(sequential);
    frame_free(unlabeled);
    frame_free(frame);
}

/* ---- with replacement --------------------------------------------------- */

/* Each unit as often as any other over many epochs, and as unevenly within one as chance has it. */
static void check_replacement(const char *name, double expected_distinct)
{
    enum { UNITS = 1000, EPOCHS = 400 };
    struct frame *frame = range_frame(UNITS, 4);
    struct design design = {.name = name, .replacement = true, .seed = 11};
    struct order *order;
    uint32_t counts[UNITS] = {0};
    double distinct = 0;
    assert_ok(order_new(frame, &design, &order));
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        int64_t rows[UNITS];
        uint8_t seen[UNITS] = {0};
        order_rows(order, epoch * UNITS, UNITS, rows);
        for (size_t i = 0; i < UNITS; i++) {
            counts[rows[i]]++;
            distinct += !seen[rows[i]];
            seen[rows[i]] = 1;
        }
    }
    assert_true(order_position(order, 0, 0) == -1);
    assert_true(fabs(statistics_errors(statistics_chi_equal(counts, UNITS), UNITS - 1.0)) < 3.5);
    distinct /= (double)UNITS * EPOCHS;
    assert_true(fabs(distinct - expected_distinct) < 0.002);
    order_free(order);
    frame_free(frame);
}

static void test_with_replacement(void **state)
{
    (void)state;
    check_replacement("srs", 1 - pow(1 - 1 / 1000.0, 1000));
    check_replacement("proportional", 1 - pow(1 - 1 / 250.0, 250));
}

/* ---- errors, threads, contract ------------------------------------------ */

static void test_what_cannot_be(void **state)
{
    (void)state;
    struct frame *frame = range_frame(100, 0);
    struct order *order;
    struct design design = {.name = "simple"};
    assert_fails(order_new(frame, &design, &order), ERROR_USAGE, "proportional, srs, sequential");
    design = (struct design){.name = "proportional"};
    assert_fails(order_new(frame, &design, &order), ERROR_USAGE, "needs labels");
    design = (struct design){.name = "sequential", .replacement = true};
    assert_fails(order_new(frame, &design, &order), ERROR_USAGE, "replacement");
    design = (struct design){.name = "srs", .seed = UINT64_MAX};
    assert_fails(order_new(frame, &design, &order), ERROR_USAGE, "seed");
    order_free(NULL);
    frame_free(frame);
}

struct asker {
    const struct order *order;
    uint64_t sum;
};

static void *ask(void *context)
{
    struct asker *asker = context;
    for (int64_t first = 0; first < 300000; first += 100) {
        int64_t ids[100];
        uint32_t labels[100];
        order_units(asker->order, first, 100, ids, labels, NULL);
        for (size_t i = 0; i < 100; i++)
            asker->sum = random_mix(asker->sum + (uint64_t)ids[i] * 16 + labels[i]);
    }
    return NULL;
}

static void test_many_threads_at_once(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    struct frame *frame = range_frame(100003, 500);
    struct order *order = new_order(frame, "proportional", 1);
    struct asker askers[THREADS];
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        askers[i] = (struct asker){.order = order};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (size_t i = 1; i < THREADS; i++)
        assert_true(askers[i].sum == askers[0].sum);
    order_free(order);
    frame_free(frame);
}

/* Orders are a contract: these were published. */
static void test_orders_stay(void **state)
{
    (void)state;
    static const struct {
        const char *design;
        int replacement;
        uint64_t seed;
        int64_t units;
        uint32_t labels;
        int64_t first;
        int64_t ids[4];
    } golden[] = {
#include "tests/unit/order_values.h"
    };
    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
        struct frame *frame = range_frame(golden[i].units, golden[i].labels);
        struct design design = {
            .name = golden[i].design, .replacement = golden[i].replacement, .seed = golden[i].seed};
        struct order *order;
        int64_t ids[4];
        assert_ok(order_new(frame, &design, &order));
        order_units(order, golden[i].first, 4, ids, NULL, NULL);
        for (size_t k = 0; k < 4; k++) {
            if (ids[k] != golden[i].ids[k])
                fail_msg("value %zu, %s of %lld units: position %lld became %lld", i,
                         golden[i].design, (long long)golden[i].units,
                         (long long)golden[i].first + (long long)k, (long long)ids[k]);
        }
        order_free(order);
        frame_free(frame);
    }
}

/* ---- promise 4 ---------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_OWN_MEMORY 0 /* sanitizers keep shadows */
#else
#define HAS_OWN_MEMORY 1
#endif

static void check_memory(int64_t units, uint32_t labels)
{
    struct frame *frame = range_frame(units, labels);
    struct order *order = new_order(frame, "proportional", 1);
    for (int64_t i = 0; i < 1000; i++) {
        int64_t ids[100];
        uint32_t found[100];
        order_units(order, i * (units - 77), 100, ids, found, NULL);
    }
    long kilobytes = private_memory_kilobytes();
    print_message("# %lld units, %u labels: %ld kB private\n", (long long)units, labels, kilobytes);
    assert_true(kilobytes < 64 * 1024);
    order_free(order);
    frame_free(frame);
}

static void test_memory_does_not_grow_with_units(void **state)
{
    (void)state;
    if (!HAS_OWN_MEMORY) {
        print_message("# not measured: the sanitizer's memory is counted too\n");
        skip();
    }
    assert_true(private_memory_kilobytes() >= 0);
    check_memory(1000000000, 10);
    check_memory(INT64_C(1000000000000), 10);
    check_memory(1000000000, 1000000);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_unit_once_an_epoch),
    cmocka_unit_test(test_batches_of_a_million_look_random),
    cmocka_unit_test(test_batches_of_a_billion_look_random),
    cmocka_unit_test(test_seeds_and_epochs_share_nothing),
    cmocka_unit_test(test_tiny_frames_are_uniform),
    cmocka_unit_test(test_labels_are_even_at_every_prefix),
    cmocka_unit_test(test_memory_does_not_grow_with_units),
    cmocka_unit_test(test_the_same_at_any_batch_size),
    cmocka_unit_test(test_position_and_back_at_a_billion),
    cmocka_unit_test(test_strata_share_nothing),
    cmocka_unit_test(test_label_counts_at_a_billion),
    cmocka_unit_test(test_label_counts_of_other_designs),
    cmocka_unit_test(test_with_replacement),
    cmocka_unit_test(test_what_cannot_be),
    cmocka_unit_test(test_many_threads_at_once),
    cmocka_unit_test(test_orders_stay),
};

UNIT_MAIN(tests)

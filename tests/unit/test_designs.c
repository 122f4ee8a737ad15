/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/design/designs: What every design must keep, whatever it is: the same units
 * however they are asked for, its own inverse, label counts that agree with the walk,
 * probabilities that agree with what comes, and totals estimated without bias from what was drawn.
 */
#include "tests/unit/design_unit.h"

#include <math.h>
#include <pthread.h>

#include "sampler/order/batching.h"
#include "sampler/order/design.h"
#include "sampler/stream/tally.h"

#define UNIT_COUNT_NS INT64_C(60000000000)

enum { UNITS = 60, EPOCHS = 4, ROOM = 4000 };

struct setup {
    char folder[256];
    struct frame *frame;
    const struct design_case *one;
    struct order *order;
};

static void for_every_design(void (*check)(const struct setup *setup))
{
    struct setup setup;
    unit_folder_make(setup.folder);
    setup.frame = design_frame(setup.folder, UNITS);
    for (size_t i = 0; i < DESIGN_CASES; i++) {
        setup.one = &design_cases[i];
        setup.order = design_order(setup.frame, setup.one, 5 + i);
        check(&setup);
        order_free(setup.order);
    }
    frame_free(setup.frame);
    unit_folder_remove(setup.folder);
}

#define FAIL(setup, ...)                                                                           \
    do {                                                                                           \
        char what[400];                                                                            \
        snprintf(what, sizeof(what), __VA_ARGS__);                                                 \
        fail_msg("%s %s %s: %s", (setup)->one->name,                                               \
                 (setup)->one->replacement ? "with replacement" : "", (setup)->one->fields, what); \
    } while (0)

/* The walk: EPOCHS epochs, position by position; -1 where one is passed over. */
static int64_t *walk_of(const struct setup *setup)
{
    int64_t positions = EPOCHS * order_epoch_positions(setup->order);
    int64_t *rows = malloc((size_t)positions * sizeof(*rows));
    assert_true(rows && positions < ROOM);
    for (int64_t p = 0; p < positions; p++) {
        size_t found = order_rows(setup->order, p, 1, &rows[p]);
        assert_true(found <= 1);
        if (found == 0) {
            assert_true(order_skips_positions(setup->order));
            rows[p] = -1;
        } else if (rows[p] < 0 || rows[p] >= UNITS) {
            FAIL(setup, "position %lld is row %lld", (long long)p, (long long)rows[p]);
        }
    }
    return rows;
}

/* ---- pure --------------------------------------------------------------- */

static void check_purity(const struct setup *setup)
{
    int64_t *walk = walk_of(setup);
    int64_t positions = EPOCHS * order_epoch_positions(setup->order);
    static int64_t ids[ROOM], rows[ROOM];
    static uint32_t labels[ROOM];
    for (int64_t size = 1; size < 3 * UNITS; size = size * 2 + 1) {
        for (int64_t first = 0; first < positions; first += size) {
            int64_t count = positions - first < size ? positions - first : size;
            size_t found = order_units(setup->order, first, count, ids, labels, rows);
            size_t expected = 0;
            for (int64_t p = first; p < first + count; p++) {
                if (walk[p] < 0)
                    continue;
                if (expected == found || rows[expected] != walk[p])
                    FAIL(setup, "position %lld by %lld", (long long)p, (long long)size);
                assert_true(ids[expected] == frame_id(setup->frame, walk[p]));
                assert_int_equal(labels[expected], frame_label(setup->frame, walk[p]));
                expected++;
            }
            assert_int_equal(found, expected);
        }
    }
    free(walk);
}

static void test_the_same_however_it_is_asked(void **state)
{
    (void)state;
    for_every_design(check_purity);
}

/* ---- and back ----------------------------------------------------------- */

static void check_row(const struct setup *setup, const int64_t *walk, int64_t row, int64_t epoch)
{
    int64_t m = order_epoch_positions(setup->order);
    int64_t end = epoch * m + (row % 3 == 0 ? m / 2 : m);
    int64_t *positions;
    size_t count, expected = 0;
    int64_t only = -1;
    assert_ok(order_positions(setup->order, row, epoch, end, NULL, &positions, &count));
    for (int64_t p = epoch * m; p < (epoch + 1) * m; p++) {
        if (walk[p] != row)
            continue;
        only = p;
        if (p >= end)
            continue;
        if (expected == count || positions[expected] != p)
            FAIL(setup, "row %lld is at %lld", (long long)row, (long long)p);
        expected++;
    }
    if (count != expected)
        FAIL(setup, "row %lld: %zu positions, not %zu", (long long)row, count, expected);
    free(positions);
    int64_t told = order_position(setup->order, row, epoch);
    if (told != (order_repeats(setup->order) ? -1 : only))
        FAIL(setup, "row %lld is at %lld, not %lld", (long long)row, (long long)only,
             (long long)told);
}

static void check_inverse(const struct setup *setup)
{
    int64_t *walk = walk_of(setup);
    for (int64_t row = 0; row < UNITS; row++) {
        for (int64_t epoch = 0; epoch < EPOCHS; epoch++)
            check_row(setup, walk, row, epoch);
    }
    free(walk);
}

static void test_every_position_is_found_again(void **state)
{
    (void)state;
    for_every_design(check_inverse);
}

static void check_label_counts(const struct setup *setup)
{
    int64_t *walk = walk_of(setup);
    int64_t m = order_epoch_positions(setup->order);
    struct tally *tally;
    assert_ok(tally_new(setup->frame, setup->order, &tally));
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        int64_t expected[3] = {0};
        int64_t counts[3];
        for (int64_t t = 0; t <= m; t++) {
            const struct interval span = {epoch * m, epoch * m + t};
            int64_t left;
            assert_ok(tally_counts(tally, &(struct tally_set){epoch, &span, t > 0}, UNIT_COUNT_NS,
                                   counts, &left));
            assert_int_equal(left, 0);
            for (uint32_t label = 0; label < 3; label++) {
                int64_t closed;
                if (counts[label] != expected[label])
                    FAIL(setup, "label %u before %lld", label, (long long)t);
                if (!order_label_count(setup->order, label, epoch, t, &closed))
                    assert_true(closed == expected[label]);
            }
            if (t < m && walk[epoch * m + t] >= 0)
                expected[frame_label(setup->frame, walk[epoch * m + t])]++;
        }
    }
    tally_free(tally);
    free(walk);
}

static void test_labels_are_counted_as_they_come(void **state)
{
    (void)state;
    for_every_design(check_label_counts);
}

/* ---- probabilities and totals ------------------------------------------- */

enum { SEEDS = 1500 };

/* Counts of each row over SEEDS seeds of two epochs against probabilities, and the total of a
 * column by Horvitz-Thompson (Hansen-Hurwitz where units repeat). */
struct frequencies {
    double sum[UNITS], squares[UNITS];
    double total, total_squares;
    double labels[3], units;
};

static double column(int64_t row)
{
    return 10 + (double)(random_mix((uint64_t)row) % 1000) / 100;
}

static void add_epoch(const struct setup *setup, const struct order *order, int64_t epoch,
                      struct frequencies *found)
{
    static int64_t rows[ROOM];
    static double probabilities[ROOM];
    double counts[UNITS] = {0};
    double total = 0;
    int64_t m = order_epoch_positions(order);
    size_t count = order_rows(order, epoch * m, m, rows);
    order_probabilities(order, rows, count, probabilities);
    for (size_t i = 0; i < count; i++) {
        counts[rows[i]]++;
        total += column(rows[i]) / probabilities[i];
        found->labels[frame_label(setup->frame, rows[i])]++;
    }
    found->units += (double)count;
    found->total += total;
    found->total_squares += total * total;
    for (int64_t row = 0; row < UNITS; row++) {
        found->sum[row] += counts[row];
        found->squares[row] += counts[row] * counts[row];
    }
}

/* How many standard errors a mean of n values is from what was expected. `least` is a variance that
 * it has for certain: few values may by chance show less. */
static double errors_of(double sum, double squares, double n, double expected, double least)
{
    double mean = sum / n;
    double variance = fmax(squares / n - mean * mean, least);
    if (variance < 1e-9 * (1 + mean * mean))
        return fabs(mean - expected) < 1e-6 * (1 + fabs(expected)) ? 0 : INFINITY;
    return (mean - expected) / sqrt(variance / n);
}

static void check_probabilities(const struct setup *setup)
{
    struct frequencies found = {.total = 0};
    double reachable = 0;
    double shares = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct order *order = design_order(setup->frame, setup->one, seed);
        add_epoch(setup, order, (int64_t)(seed % 3), &found);
        order_free(order);
    }
    for (int64_t row = 0; row < UNITS; row++) {
        double probability;
        order_probabilities(setup->order, &row, 1, &probability);
        reachable += probability > 0 ? column(row) : 0;
        double part = probability - floor(probability);
        double errors =
            errors_of(found.sum[row], found.squares[row], SEEDS, probability, part * (1 - part));
        if (fabs(errors) > 4)
            FAIL(setup, "row %lld came %.4f times an epoch, not %.4f: %.1f standard errors",
                 (long long)row, found.sum[row] / SEEDS, probability, errors);
    }
    double errors = errors_of(found.total, found.total_squares, SEEDS, reachable, 0);
    if (fabs(errors) > 4)
        FAIL(setup, "the total is %.2f, not %.2f: %.1f standard errors", found.total / SEEDS,
             reachable, errors);
    for (uint32_t label = 0; label < 3; label++) {
        double share = order_label_share(setup->order, label);
        double spread = sqrt((share * (1 - share) + 1e-9) / found.units);
        shares += share;
        if (fabs(found.labels[label] / found.units - share) > 6 * spread + 0.02)
            FAIL(setup, "label %u has %.4f of the units, not %.4f", label,
                 found.labels[label] / found.units, share);
    }
    assert_true(fabs(shares - 1) < 1e-9);
}

static void test_probabilities_are_what_comes(void **state)
{
    (void)state;
    for_every_design(check_probabilities);
}

/* ---- cut into batches --------------------------------------------------- */

static const enum tail tails[] = {TAIL_KEEP, TAIL_DROP, TAIL_SPAN};

/* A batch as it must be, from the walk: shortest run with `size` units, and so on. */
static struct span expected_span(const struct batching *cut, const int64_t *walk, int64_t position,
                                 int64_t size)
{
    int64_t m = cut->epoch_positions;
    int64_t end = EPOCHS * m;
    struct span span = {.first = position};
    while (span.units < size && span.first + span.positions < end) {
        int64_t p = span.first + span.positions++;
        span.units += walk[p] >= 0;
        int64_t behind = p + 1;
        while (behind % m != 0 && walk[behind] < 0)
            behind++;
        if (behind % m != 0)
            continue;
        span.positions = behind - span.first; /* what is passed over behind the last unit */
        if (cut->tail == TAIL_KEEP && span.units > 0)
            break;
        if (cut->tail == TAIL_DROP && span.units < size)
            span = (struct span){.first = behind};
    }
    return span.units > 0 ? span : (struct span){.first = end};
}

static void check_cut(const struct setup *setup, const int64_t *walk, enum tail tail, int64_t size)
{
    struct batching cut = {.order = setup->order,
                           .epoch_positions = order_epoch_positions(setup->order),
                           .epochs = EPOCHS,
                           .tail = tail};
    int64_t position = 0;
    static int64_t rows[ROOM];
    for (int64_t index = 0; index < ROOM; index++) {
        struct span next, at, expected = expected_span(&cut, walk, position, size);
        batching_next(&cut, position, size, &next);
        assert_ok(batching_at(&cut, index, size, &at));
        if (next.first != expected.first || next.positions != expected.positions ||
            next.units != expected.units)
            FAIL(setup, "tail %s, size %lld at %lld: %lld+%lld (%lld), not %lld+%lld (%lld)",
                 tail_name(tail), (long long)size, (long long)position, (long long)next.first,
                 (long long)next.positions, (long long)next.units, (long long)expected.first,
                 (long long)expected.positions, (long long)expected.units);
        if (at.first != next.first || at.positions != next.positions || at.units != next.units)
            FAIL(setup, "tail %s, size %lld: batch %lld is at %lld, not %lld", tail_name(tail),
                 (long long)size, (long long)index, (long long)at.first, (long long)next.first);
        if (next.units == 0)
            return;
        assert_true(order_rows(setup->order, next.first, next.positions, rows) ==
                    (size_t)next.units);
        position = next.first + next.positions;
    }
    FAIL(setup, "it does not end");
}

/* Of the last epoch first. */
static void check_counts(const struct setup *setup)
{
    int64_t positions = order_epoch_positions(setup->order);
    int64_t counted = -1;
    assert_ok(order_epoch_units(setup->order, EPOCHS - 1, &counted));
    int64_t *walk = walk_of(setup);
    int64_t units = 0;
    for (int64_t p = (EPOCHS - 1) * positions; p < EPOCHS * positions; p++)
        units += walk[p] >= 0;
    if (counted != units)
        FAIL(setup, "%lld units, counted %lld", (long long)units, (long long)counted);
    free(walk);
}

static void test_units_of_a_later_epoch_are_counted(void **state)
{
    (void)state;
    for_every_design(check_counts);
}

static void check_cuts(const struct setup *setup)
{
    int64_t *walk = walk_of(setup);
    for (size_t t = 0; t < 3; t++) {
        for (int64_t size = 1; size < 2 * UNITS; size += size < 8 ? 1 : 17) {
            struct batching cut = {.order = setup->order,
                                   .epoch_positions = order_epoch_positions(setup->order),
                                   .tail = tails[t]};
            if (!batching_check_size(&cut, size))
                check_cut(setup, walk, tails[t], size);
        }
    }
    free(walk);
}

static void test_batches_follow_each_other(void **state)
{
    (void)state;
    for_every_design(check_cuts);
}

/* ---- seeds and fields are other orders ---------------------------------- */

static void test_other_seeds_and_fields_share_nothing(void **state)
{
    (void)state;
    char folder[256];
    int64_t a[UNITS], b[UNITS];
    unit_folder_make(folder);
    struct frame *frame = design_frame(folder, 400);
    static const struct design_case pairs[][2] = {
        {{"systematic", false, "{\"size\":50}"}, {"systematic", false, "{\"size\":51}"}},
        {{"bernoulli", false, "{\"rate\":0.5}"}, {"bernoulli", false, "{\"rate\":0.500001}"}},
        {{"pxk", false, "{\"p\":2,\"k\":2}"}, {"pxk", false, "{\"p\":2,\"k\":3}"}},
    };
    for (size_t i = 0; i < 3; i++) {
        struct order *one = design_order(frame, &pairs[i][0], 1);
        struct order *other = design_order(frame, &pairs[i][1], 1);
        order_rows(one, 0, 30, a);
        order_rows(other, 0, 30, b);
        assert_memory_not_equal(a, b, 8 * sizeof(a[0]));
        order_free(one);
        order_free(other);
    }
    static const struct design_case spelled[] = {
        {"quota", false, "{\"shares\":{\"a\":0.50,\"b\":0,\"c\":1e0}}"},
        {"quota", false, " {\"shares\" : {\"c\":1, \"a\":0.5}}"},
    };
    struct order *one = design_order(frame, &spelled[0], 1);
    struct order *other = design_order(frame, &spelled[1], 1);
    assert_string_equal(order_fields(one), "{\"shares\":{\"a\":0.5,\"c\":1}}");
    order_rows(one, 77, UNITS, a);
    order_rows(other, 77, UNITS, b);
    assert_memory_equal(a, b, sizeof(a));
    order_free(one);
    order_free(other);
    frame_free(frame);
    unit_folder_remove(folder);
}

/* ---- published orders --------------------------------------------------- */

/* The units of the first 1000 positions (3000 where some are passed over) of each case, hashed: the
 * same on every machine, for ever. */
static const uint64_t published[DESIGN_CASES] = {
    0xed5dde89965b963a, 0x11698b245816de8f, 0x81e98bb60d9103e9, 0xd6269fffe9ef0e77,
    0x19b74a9f5d555993, 0xf4119026780effd7, 0x854fd039555a4578, 0x3f22450239738056,
    0x101c0d1c19634c5e, 0x7e4d29dae2ef9512, 0x2ba272a9044fafe8, 0xbbc8be6b3aad0414,
    0xdebe481baecb9814, 0xea153a1995fa37f1, 0x159649d5e813d6a4, 0x190490967c4e20d8,
    0x0122abbb092de97e, 0xa852856fed81ecc9, 0x9de2269887619998, 0x33063b376eb9f980,
    0xc258b8422f996649, 0xe0b65163435b7b82, 0x285820f96fabc63b, 0x4ad40266307e0160,
    0xb21f746095273fea, 0xfb6a52073c0e88f8, 0x6455652684fbc82d};

static void check_published(const struct setup *setup)
{
    static int64_t rows[ROOM];
    uint64_t hash = 0;
    size_t number = (size_t)(setup->one - design_cases);
    int64_t positions = order_skips_positions(setup->order) ? 3000 : 1000;
    size_t found = order_rows(setup->order, 0, positions, rows);
    for (size_t i = 0; i < found; i++)
        hash = random_mix(hash + (uint64_t)rows[i] + 1);
    if (hash != published[number])
        FAIL(setup, "its units hash to 0x%016llx, not 0x%016llx", (unsigned long long)hash,
             (unsigned long long)published[number]);
}

static void test_published_orders_stay(void **state)
{
    (void)state;
    for_every_design(check_published);
}

/* ---- many threads ------------------------------------------------------- */

enum { THREADS = 4 };

struct asker {
    const struct order *order;
    uint64_t sum;
    uint64_t start;
};

/* Jumps between epochs, so that tables and counts are made by several at once. */
static void *ask(void *context)
{
    struct asker *asker = context;
    int64_t m = order_epoch_positions(asker->order);
    struct batching cut = {.order = asker->order, .epoch_positions = m};
    for (uint64_t i = 0; i < 60; i++) {
        int64_t rows[64];
        int64_t epoch = (int64_t)(random_mix(i) % 9);
        int64_t count = m < 64 ? m : 64;
        size_t found = order_rows(asker->order, epoch * m + m / 3, count, rows);
        for (size_t k = 0; k < found; k++)
            asker->sum = random_mix(asker->sum + (uint64_t)rows[k]);
        struct span span;
        if (!batching_at(&cut, (int64_t)(random_mix(i + 100) % 40), 5, &span))
            asker->sum = random_mix(asker->sum + (uint64_t)span.first);
    }
    return NULL;
}

static void check_threads(const struct setup *setup)
{
    struct asker askers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        askers[i] = (struct asker){.order = setup->order};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(askers[i].sum == askers[0].sum);
    }
}

static void test_any_number_of_threads(void **state)
{
    (void)state;
    for_every_design(check_threads);
}

/* Nothing is left to be drawn by chance, and one unit never comes. */
static void test_a_sample_of_all_that_has_weight(void **state)
{
    static const struct design_case all = {"weighted", false, "{\"size\":2}"};
    static const int64_t rows[] = {0, 1, 2};
    char folder[256], path[400], uri[512];
    struct frame *frame;
    double probabilities[3];
    (void)state;
    unit_folder_make(folder);
    snprintf(path, sizeof(path), "%s/units.csv", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("id,label,weight\n5,a,3\n6,a,0\n7,a,4\n", file);
    assert_int_equal(fclose(file), 0);
    snprintf(uri, sizeof(uri), "csv:%s?id=id&label=label&weight=weight", path);
    assert_ok(frame_build(uri, &frame));
    struct order *order = design_order(frame, &all, 1);
    order_probabilities(order, rows, 3, probabilities);
    assert_true(probabilities[0] == 1 && probabilities[1] == 0 && probabilities[2] == 1);
    order_free(order);
    frame_free(frame);
    unit_folder_remove(folder);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_same_however_it_is_asked),
    cmocka_unit_test(test_every_position_is_found_again),
    cmocka_unit_test(test_labels_are_counted_as_they_come),
    cmocka_unit_test(test_probabilities_are_what_comes),
    cmocka_unit_test(test_a_sample_of_all_that_has_weight),
    cmocka_unit_test(test_units_of_a_later_epoch_are_counted),
    cmocka_unit_test(test_batches_follow_each_other),
    cmocka_unit_test(test_other_seeds_and_fields_share_nothing),
    cmocka_unit_test(test_published_orders_stay),
    cmocka_unit_test(test_any_number_of_threads),
};

UNIT_MAIN(tests)

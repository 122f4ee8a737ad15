/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/design/design_strata: What is left to chance, over seeds: every
 * unit may be anywhere, however rare its label; expected counts at a prefix are exact; whoever takes
 * every d-th unit sees all labels; neighbouring seeds share nothing; and the bound that is told is
 * kept.
 */
#include "tests/unit/unit.h"

#include <math.h>

#include "tests/unit/design_unit.h"
#include "tests/unit/statistics.h"

enum { BINS = 20, MOST_LABELS = 16 };

static char folder[256];

static int make_folder(void **state)
{
    (void)state;
    unit_folder_make(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unit_folder_remove(folder);
    return 0;
}

/* Labels r, a, b, ...: sizes[i] units of the i-th, mixed. */
static struct frame *frame_of(const int64_t *sizes, uint32_t labels)
{
    char path[400];
    char uri[512];
    struct frame *frame;
    snprintf(path, sizeof(path), "%s/labels%u.csv", folder, labels);
    snprintf(uri, sizeof(uri), "csv:%s?id=id&label=label", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("id,label\n", file);
    int64_t row = 0;
    for (int64_t i = 0;; i++) {
        bool is_done = true;
        for (uint32_t h = 0; h < labels; h++) {
            if (i < sizes[h]) {
                fprintf(file, "%lld,%c\n", (long long)row++, h == 0 ? 'r' : 'a' + (int)h - 1);
                is_done = false;
            }
        }
        if (is_done)
            break;
    }
    assert_int_equal(fclose(file), 0);
    assert_ok(frame_build(uri, &frame));
    return frame;
}

/* Of shares that no tree of two levels fits. */
static const int64_t rare_sizes[] = {2, 120, 120, 120, 238, 356, 592, 946};
enum { RARE_LABELS = 8 };

static const struct design_case rare_cases[] = {
    {"proportional", false, ""},
    {"proportional", true, ""},
    {"quota", false,
     "{\"shares\":{\"r\":1,\"a\":60,\"b\":60,\"c\":60,\"d\":119,\"e\":178,\"f\":296,\"g\":473}}"},
    {"neyman", false,
     "{\"deviations\":{\"r\":3,\"a\":1,\"b\":2,\"c\":0.5,\"d\":3,\"e\":1,\"f\":1,\"g\":1}}"},
    {"equal", false, ""},
    {"pxk", false, "{\"p\":2,\"k\":1}"},
    {"pxk", false, "{\"p\":1,\"k\":2}"},
};

enum { RARE_CASES = sizeof(rare_cases) / sizeof(rare_cases[0]) };

/* Where one unit of the rare label is: its positions in epoch 1, by bins. Those of one seed are no
 * closer together than chance has them, so that chi-square is at most that of independent ones. */
static void check_anywhere(const struct frame *frame, const struct design_case *one)
{
    uint32_t bins[BINS] = {0};
    uint32_t together[BINS * BINS] = {0};
    size_t bin_before = BINS;
    int64_t row = -1;
    for (int64_t i = 0; row < 0; i++) {
        if (strcmp(frame_label_text(frame, frame_label(frame, i)), "r") == 0)
            row = i;
    }
    struct order *order = design_order(frame, one, 0);
    bool comes_once = !order_repeats(order);
    int64_t positions = order_epoch_positions(order);
    double expected;
    order_probabilities(order, &row, 1, &expected);
    uint64_t seeds = (uint64_t)(expected > 2 ? 200 : 3000) * (unit_is_long() ? 10 : 1);
    for (uint64_t seed = 0; seed < seeds; seed++) {
        int64_t *found;
        size_t count;
        order_free(order);
        order = design_order(frame, one, seed);
        assert_ok(order_positions(order, row, 1, 2 * positions, NULL, &found, &count));
        assert_true(!comes_once || count == 1);
        for (size_t i = 0; i < count; i++)
            bins[(found[i] - positions) * BINS / positions]++;
        if (count > 0) {
            size_t bin = (size_t)((found[0] - positions) * BINS / positions);
            if (bin_before < BINS && comes_once)
                together[bin_before * BINS + bin]++;
            bin_before = bin;
        }
        free(found);
    }
    if (statistics_errors(statistics_chi_equal(bins, BINS), BINS - 1) > 5)
        fail_msg("%s %s: its bins are %u %u %u %u %u %u ...", one->name, one->fields, bins[0],
                 bins[1], bins[2], bins[3], bins[4], bins[5]);
    if (comes_once &&
        statistics_errors(statistics_chi_equal(together, BINS * BINS), BINS * BINS - 1) > 5)
        fail_msg("%s %s: neighbouring seeds hang together", one->name, one->fields);
    order_free(order);
}

static void test_a_rare_unit_may_be_anywhere(void **state)
{
    (void)state;
    struct frame *frame = frame_of(rare_sizes, RARE_LABELS);
    for (size_t i = 0; i < RARE_CASES; i++)
        check_anywhere(frame, &rare_cases[i]);
    frame_free(frame);
}

/* The mean count of each label at a prefix against t times its share. A count is `bound` off at
 * most, so that its standard deviation is, too. */
static void check_expected_counts(const struct frame *frame, const struct design_case *one)
{
    static const int64_t prefixes[] = {1, 7, 447, 1000, 2300};
    enum { PREFIXES = sizeof(prefixes) / sizeof(prefixes[0]), SEEDS = 2000 };
    double sums[PREFIXES][RARE_LABELS] = {{0}};
    double squares[PREFIXES][RARE_LABELS] = {{0}};
    double shares[RARE_LABELS];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct order *order = design_order(frame, one, seed);
        for (uint32_t h = 0; h < RARE_LABELS; h++) {
            shares[h] = order_label_share(order, h);
            for (size_t p = 0; p < PREFIXES; p++) {
                int64_t count;
                assert_ok(order_label_count(order, h, 3, prefixes[p], &count));
                sums[p][h] += (double)count;
                squares[p][h] += (double)count * (double)count;
            }
        }
        order_free(order);
    }
    for (size_t p = 0; p < PREFIXES; p++) {
        for (uint32_t h = 0; h < RARE_LABELS; h++) {
            double mean = sums[p][h] / SEEDS;
            double variance = squares[p][h] / SEEDS - mean * mean;
            double expected = (double)prefixes[p] * shares[h];
            if (fabs(mean - expected) > 5 * sqrt((variance + 1.0 / SEEDS) / SEEDS))
                fail_msg("%s %s: label %u comes %.4f times in %d positions, %.4f is its share",
                         one->name, one->fields, h, mean, (int)prefixes[p], expected);
        }
    }
}

static void test_expected_counts_are_exact(void **state)
{
    (void)state;
    struct frame *frame = frame_of(rare_sizes, RARE_LABELS);
    for (size_t i = 0; i < RARE_CASES; i++)
        check_expected_counts(frame, &rare_cases[i]);
    frame_free(frame);
}

/* ---- every d-th unit ---------------------------------------------------- */

/* The labels of an epoch's units. */
static uint8_t *labels_of(const struct order *order, int64_t epoch, size_t *ret_count)
{
    int64_t positions = order_epoch_positions(order);
    int64_t *ids = malloc((size_t)positions * sizeof(*ids));
    uint32_t *found = malloc((size_t)positions * sizeof(*found));
    uint8_t *labels = malloc((size_t)positions);
    assert_true(ids && found && labels);
    *ret_count = order_units(order, epoch * positions, positions, ids, found, NULL);
    for (size_t i = 0; i < *ret_count; i++)
        labels[i] = (uint8_t)found[i];
    free(ids);
    free(found);
    return labels;
}

/* `worker` of `workers` that take batches of `size` in turn. */
static double chi_of_worker(const uint8_t *labels, size_t units, size_t worker, size_t workers,
                            size_t size, const double *shares, uint32_t kinds)
{
    uint32_t counts[MOST_LABELS] = {0};
    size_t total = 0;
    for (size_t first = worker * size; first < units; first += workers * size) {
        for (size_t i = first; i < first + size && i < units; i++, total++)
            counts[labels[i]]++;
    }
    return statistics_chi_batch(counts, shares, kinds, total);
}

/* Over residues and seeds chi-square is not above chance, for every stride (batches of one), and
 * for workers that take turns with larger ones. */
static void check_turns(const struct frame *frame, const struct design_case *one)
{
    enum { SEEDS = 12, TAKERS = 128, SIZES = 5 };
    static const size_t sizes[SIZES] = {1, 2, 5, 10, 32};
    static double chi[SIZES][TAKERS + 1];
    double shares[MOST_LABELS];
    uint32_t kinds = frame_labels(frame);
    memset(chi, 0, sizeof(chi));
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct order *order = design_order(frame, one, unit_seed() + seed);
        size_t units;
        uint8_t *labels = labels_of(order, seed % 3, &units);
        for (uint32_t h = 0; h < kinds; h++)
            shares[h] = order_label_share(order, h);
        for (size_t s = 0; s < SIZES; s++) {
            for (size_t workers = 2; workers <= (s == 0 ? TAKERS : 16); workers++) {
                for (size_t worker = 0; worker < workers; worker++)
                    chi[s][workers] +=
                        chi_of_worker(labels, units, worker, workers, sizes[s], shares, kinds);
            }
        }
        free(labels);
        order_free(order);
    }
    for (size_t s = 0; s < SIZES; s++) {
        for (size_t workers = 2; workers <= (s == 0 ? TAKERS : 16); workers++) {
            double df = (double)(kinds - 1) * (double)workers * SEEDS;
            if (statistics_errors(chi[s][workers], df) > 6)
                fail_msg("%s %s: %zu workers with batches of %zu: chi-square %.0f of %.0f degrees",
                         one->name, one->fields, workers, sizes[s], chi[s][workers], df);
        }
    }
}

static void test_who_takes_turns_sees_every_label(void **state)
{
    (void)state;
    static const int64_t two[] = {3000, 3000};
    static const int64_t ten[] = {600, 600, 600, 600, 600, 600, 600, 600, 600, 600};
    static const int64_t uneven[] = {130, 1700, 1500, 900, 700, 600, 470};
    static const struct design_case cases[] = {
        {"proportional", false, ""},
        {"equal", false, ""},
        {"quota", false, "{\"shares\":{\"r\":0.5,\"a\":0.5}}"},
        {"neyman", false, "{\"deviations\":{\"r\":3,\"a\":2}}"},
    };
    static const struct design_case turns[] = {{"pxk", false, "{\"p\":3,\"k\":1}"},
                                               {"pxk", false, "{\"p\":1,\"k\":1}"}};
    struct frame *frames[] = {frame_of(two, 2), frame_of(ten, 10), frame_of(uneven, 7)};
    for (size_t f = 0; f < 3; f++) {
        for (size_t i = 0; i < (f == 0 ? 4 : 2); i++)
            check_turns(frames[f], &cases[i]);
    }
    for (size_t i = 0; i < 2; i++)
        check_turns(frames[1], &turns[i]);
    for (size_t f = 0; f < 3; f++)
        frame_free(frames[f]);
}

/* ---- bounds and names --------------------------------------------------- */

static void check_bound(const struct frame *frame, const struct design_case *one)
{
    struct order *order = design_order(frame, one, unit_seed());
    double bound = order_balance_error(order);
    bool balances = strcmp(one->name, "pxk") == 0 || strcmp(one->name, "equal") == 0 ||
                    strcmp(one->name, "quota") == 0 || strcmp(one->name, "neyman") == 0 ||
                    strcmp(one->name, "proportional") == 0;
    assert_true(balances ? bound > 0 : bound == -1);
    for (int64_t epoch = 0; epoch < 3 && balances; epoch++) {
        uint32_t counts[MOST_LABELS] = {0};
        size_t units;
        uint8_t *labels = labels_of(order, epoch, &units);
        for (size_t t = 0; t < units; t++) {
            counts[labels[t]]++;
            for (uint32_t h = 0; h < frame_labels(frame); h++) {
                double share = order_label_share(order, h) * (double)(t + 1);
                assert_true(fabs(counts[h] - share) <= bound + 1e-9);
            }
        }
        free(labels);
    }
    order_free(order);
}

static void test_the_bound_is_kept(void **state)
{
    (void)state;
    struct frame *frame = design_frame(folder, 400);
    struct frame *rare = frame_of(rare_sizes, RARE_LABELS);
    for (size_t i = 0; i < DESIGN_CASES; i++)
        check_bound(frame, &design_cases[i]);
    for (size_t i = 0; i < RARE_CASES; i++)
        check_bound(rare, &rare_cases[i]);
    frame_free(frame);
    frame_free(rare);
}

/* Equal names for equal orders, and for no others. */
static void test_names(void **state)
{
    (void)state;
    struct frame *frames[] = {design_frame(folder, 400), design_frame(folder, 401)};
    static char names[2 * 2 * DESIGN_CASES][ORDER_NAME_BYTES];
    size_t count = 0;
    for (size_t f = 0; f < 2; f++) {
        for (uint64_t seed = 0; seed < 2; seed++) {
            for (size_t i = 0; i < DESIGN_CASES; i++) {
                char again[ORDER_NAME_BYTES];
                struct order *order = design_order(frames[f], &design_cases[i], seed);
                snprintf(names[count], ORDER_NAME_BYTES, "%s", order_name(order));
                order_free(order);
                order = design_order(frames[f], &design_cases[i], seed);
                snprintf(again, sizeof(again), "%s", order_name(order));
                order_free(order);
                assert_int_equal(strlen(again), ORDER_NAME_BYTES - 1);
                assert_string_equal(again, names[count]);
                for (size_t other = 0; other < count; other++)
                    assert_string_not_equal(names[other], names[count]);
                count++;
            }
        }
        frame_free(frames[f]);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_rare_unit_may_be_anywhere),
    cmocka_unit_test(test_expected_counts_are_exact),
    cmocka_unit_test(test_who_takes_turns_sees_every_label),
    cmocka_unit_test(test_the_bound_is_kept),
    cmocka_unit_test(test_names),
};

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

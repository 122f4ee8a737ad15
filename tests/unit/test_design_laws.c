/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/design/designs: What one design promises and others do not: balance at every
 * prefix, batches of p labels and k units, exact shares, weights of any size and number, and which
 * frames and fields are refused.
 */
#include "sampler/design/designs.h"
#include "tests/unit/design_unit.h"

#include <math.h>

#include "sampler/build/frame_build.h"
#include "sampler/design/bernoulli_trials.h"
#include "sampler/design/shares.h"
#include "sampler/design/weight_sums.h"
#include "sampler/frame/frame_private.h"
#include "sampler/order/batching.h"

/* A frame of labels l0, l1, ... with the sizes given, in this order. */
static struct frame *sized_frame(const char *folder, const int64_t *sizes, uint32_t labels)
{
    char path[400], uri[512];
    struct frame *frame;
    snprintf(path, sizeof(path), "%s/sized.csv", folder);
    snprintf(uri, sizeof(uri), "csv:%s?label=label", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("label,x\n", file);
    for (uint32_t label = 0; label < labels; label++) {
        for (int64_t i = 0; i < sizes[label]; i++)
            fprintf(file, "l%03u,%lld\n", label, (long long)(i * i));
    }
    assert_int_equal(fclose(file), 0);
    assert_ok(frame_build(uri, &frame));
    assert_int_equal(frame_labels(frame), labels);
    return frame;
}

static struct frame *range_frame(int64_t units, int64_t labels)
{
    char uri[80];
    struct frame *frame;
    snprintf(uri, sizeof(uri), "range:%lld?labels=%lld", (long long)units, (long long)labels);
    assert_ok(frame_build(uri, &frame));
    return frame;
}

/* Weights for a frame without: weights[N] from malloc, the frame's from here on. */
static struct frame *weighted_frame(int64_t units, double *weights)
{
    struct frame *frame = range_frame(units, 1);
    frame->weights = weights;
    return frame;
}

static struct order *new_order(const struct frame *frame, const char *name, const char *fields,
                               uint64_t seed)
{
    return design_order(frame, &(struct design_case){name, false, fields}, seed);
}

/* ---- balance ------------------------------------------------------------ */

/* Over `epochs` epochs: each label is less than `most` off its share at every prefix, and exact at
 * an epoch's end; n_l draws of a label from a multiple of n_l on are its n_l units. */
static void check_balance(const struct order *order, const struct frame *frame, double most,
                          int64_t epochs)
{
    uint32_t labels = frame_labels(frame);
    int64_t m = order_epoch_positions(order);
    int64_t *counts = calloc(labels, sizeof(*counts));
    int64_t *draws = calloc(labels, sizeof(*draws));
    int64_t *times = calloc((size_t)frame_units(frame), sizeof(*times));
    assert_true(counts && draws && times);
    for (int64_t p = 0; p < epochs * m; p++) {
        int64_t row;
        order_rows(order, p, 1, &row);
        uint32_t label = frame_label(frame, row);
        counts[label]++;
        times[row]++;
        int64_t pass = draws[label]++ / frame_label_units(frame, label);
        if (times[row] != pass + 1)
            fail_msg("row %lld at position %lld: time %lld in pass %lld", (long long)row,
                     (long long)p, (long long)times[row], (long long)pass);
        int64_t t = p % m + 1;
        for (uint32_t other = 0; other < labels; other++) {
            double off = (double)counts[other] - (double)t * order_label_share(order, other);
            if (fabs(off) >= most)
                fail_msg("label %u is %.3f off after %lld", other, off, (long long)t);
        }
        if (t == m) {
            memset(counts, 0, labels * sizeof(*counts));
        }
    }
    free(counts);
    free(draws);
    free(times);
}

static void test_labels_keep_their_shares_at_every_prefix(void **state)
{
    (void)state;
    static const int64_t sizes[][4] = {{1, 1, 1, 1}, {7, 3, 1, 2}, {50, 20, 9, 1}, {16, 16, 17, 5}};
    static const char *const fields[] = {
        "{\"shares\":{\"l000\":0.1,\"l001\":0.2,\"l002\":0.3,\"l003\":0.4}}",
        "{\"shares\":{\"l000\":1,\"l002\":1,\"l003\":0.001}}",
        "{\"shares\":{\"l001\":3}}",
        "{\"shares\":{\"l000\":0.12345678901234567,\"l001\":123.25}}",
    };
    char folder[256];
    unit_folder_make(folder);
    for (size_t i = 0; i < 4; i++) {
        struct frame *frame = sized_frame(folder, sizes[i], 4);
        struct order *order = new_order(frame, "equal", "", i);
        check_balance(order, frame, 2, 5);
        order_free(order);
        for (size_t k = 0; k < 4; k++) {
            order = new_order(frame, "quota", fields[k], i);
            check_balance(order, frame, 2, 3);
            order_free(order);
        }
        order = new_order(frame, "neyman", "{\"deviations\":{\"l000\":0.5,\"l001\":2}}", i);
        check_balance(order, frame, 2, 3);
        order_free(order);
        frame_free(frame);
    }
    unit_folder_remove(folder);
}

static void test_epochs_are_as_long_as_promised(void **state)
{
    (void)state;
    char folder[256];
    static const int64_t sizes[] = {100, 40, 7};
    static const struct {
        const char *name, *fields;
        int64_t positions, draws[3];
    } cases[] = {
        {"equal", "", 300, {100, 100, 100}},
        {"quota", "{\"shares\":{\"l000\":0.1,\"l001\":0.9}}", 1000, {100, 900, 0}},
        {"quota", "{\"shares\":{\"l000\":1,\"l001\":1,\"l002\":1}}", 300, {100, 100, 100}},
        {"quota", "{\"shares\":{\"l002\":0.7,\"l001\":0.3}}", 134, {0, 40, 94}},
        {"neyman", "{\"deviations\":{\"l000\":1,\"l001\":1,\"l002\":1}}", 147, {100, 40, 7}},
        {"neyman", "{\"deviations\":{\"l000\":0,\"l001\":1,\"l002\":2}}", 54, {0, 40, 14}},
        {"pxk", "{\"p\":2,\"k\":7}", 308, {-1, -1, -1}},
    };
    unit_folder_make(folder);
    struct frame *frame = sized_frame(folder, sizes, 3);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct order *order = new_order(frame, cases[i].name, cases[i].fields, i);
        assert_int_equal(order_epoch_positions(order), cases[i].positions);
        for (uint32_t label = 0; label < 3 && cases[i].draws[label] >= 0; label++) {
            int64_t count;
            assert_ok(order_label_count(order, label, 2, cases[i].positions, &count));
            assert_int_equal(count, cases[i].draws[label]);
        }
        order_free(order);
    }
    frame_free(frame);
    unit_folder_remove(folder);
}

/* Shares of any sizes part as the exact proportions do. */
static void test_shares_are_what_the_decimals_say(void **state)
{
    (void)state;
    uint64_t shares[3];
    shares_of_numbers((double[]){0.1, 0.9, 0}, 3, shares);
    assert_true(shares[0] == 1 && shares[1] == 9 && shares[2] == 0);
    shares_of_numbers((double[]){1e-7, 0.3, 2500}, 3, shares);
    assert_true(shares[0] == 1 && shares[1] == 3000000 && shares[2] == 25000000000);
    shares_of_numbers((double[]){1.0 / 3, 1.0 / 3, 1.0 / 3}, 3, shares);
    assert_true(shares[0] == shares[1] && shares[1] == shares[2]);
    static const double wide[][3] = {
        {1e-300, 1, 1}, {1e300, 1e-300, 3e299}, {5e-324, 5e-324, 1e-323}, {1.7e308, 1.7e308, 1}};
    for (size_t i = 0; i < 4; i++) {
        shares_of_numbers(wide[i], 3, shares);
        double sum = (double)shares[0] + (double)shares[1] + (double)shares[2];
        assert_true(sum <= 0x1p62 + 3);
        for (size_t k = 0; k < 3; k++) {
            long double all = (long double)wide[i][0] + wide[i][1] + wide[i][2];
            assert_true(shares[k] >= 1);
            assert_true(fabs((double)shares[k] / sum - (double)(wide[i][k] / all)) < 1e-14);
        }
    }
}

/* ---- p x k -------------------------------------------------------------- */

static void check_batches(const struct order *order, const struct frame *frame, int64_t p,
                          int64_t k)
{
    int64_t size = order_batch_size(order);
    int64_t *rows = malloc((size_t)size * sizeof(*rows));
    int64_t *turns = calloc(frame_labels(frame), sizeof(*turns));
    assert_true(rows && turns);
    assert_int_equal(size, p * k);
    assert_int_equal(order_epoch_positions(order) % size, 0);
    for (int64_t batch = 0; batch < 400; batch++) {
        order_rows(order, batch * size, size, rows);
        for (int64_t i = 0; i < size; i++) {
            uint32_t label = frame_label(frame, rows[i]);
            assert_int_equal(label, frame_label(frame, rows[i / k * k]));
            turns[label] += i % k == 0;
            for (int64_t j = 0; j < i; j++) {
                if (rows[j] == rows[i])
                    fail_msg("p %lld, k %lld, batch %lld: a unit twice", (long long)p, (long long)k,
                             (long long)batch);
                if (i / k != j / k)
                    assert_int_not_equal(label, frame_label(frame, rows[j]));
            }
        }
        int64_t least = turns[0], most = turns[0];
        for (uint32_t label = 0; label < frame_labels(frame); label++) {
            least = turns[label] < least ? turns[label] : least;
            most = turns[label] > most ? turns[label] : most;
        }
        assert_true(most - least <= 1);
    }
    free(turns);
    free(rows);
}

static void test_batches_of_p_labels_with_k_units(void **state)
{
    (void)state;
    char folder[256];
    static const int64_t sizes[][5] = {
        {4, 4, 4, 4, 4}, {7, 4, 5, 9, 30}, {12, 13, 14, 23, 4}, {100, 37, 29, 12, 5}};
    unit_folder_make(folder);
    for (size_t i = 0; i < 4; i++) {
        struct frame *frame = sized_frame(folder, sizes[i], 5);
        for (int64_t p = 1; p <= 5; p++) {
            for (int64_t k = 1; k <= 4; k++) {
                char fields[64];
                snprintf(fields, sizeof(fields), "{\"p\":%lld,\"k\":%lld}", (long long)p,
                         (long long)k);
                struct order *order = new_order(frame, "pxk", fields, (uint64_t)(p * k));
                check_batches(order, frame, p, k);
                check_balance(order, frame, 2.0 * (double)k, 2);
                order_free(order);
            }
        }
        frame_free(frame);
    }
    /* the smallest label has exactly k; the seams of all the others are mended */
    struct frame *frame = sized_frame(folder, (int64_t[]){300, 400, 100, 301}, 4);
    struct order *order = new_order(frame, "pxk", "{\"p\":3,\"k\":100}", 3);
    check_batches(order, frame, 3, 100);
    order_free(order);
    frame_free(frame);
    unit_folder_remove(folder);
}

/* Passes of a label are orders of their own also where its units are no multiple of k, from three
 * times k units on. */
static void test_passes_of_pxk_differ(void **state)
{
    (void)state;
    static const int64_t cases[][2] = {{101, 4}, {13, 4}, {769, 256}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t units = cases[i][0];
        int64_t first[769], second[769];
        char fields[64];
        snprintf(fields, sizeof(fields), "{\"p\":1,\"k\":%lld}", (long long)cases[i][1]);
        struct frame *frame = range_frame(units, 1);
        struct order *order = new_order(frame, "pxk", fields, 3);
        order_rows(order, 0, units, first);
        order_rows(order, units, units, second);
        int64_t same = 0;
        for (int64_t k = 0; k < units; k++)
            same += first[k] == second[k];
        assert_in_range(same, 0, units / 4);
        order_free(order);
        frame_free(frame);
    }
}

/* ---- weights ------------------------------------------------------------ */

static void test_weights_of_any_size(void **state)
{
    (void)state;
    static const double weights[][6] = {{1e300, 1e-300, 3e300, 0, 5e-324, 1e300},
                                        {5e-324, 1e-323, 0, 5e-324, 0, 0},
                                        {1, 1, 1, 1, 1, 1},
                                        {0.1, 0.2, 0.3, 0.4, 0.5, 1e-13},
                                        {1.7e308, 1.7e308, 1.7e308, 1, 0, 2}};
    for (size_t i = 0; i < 5; i++) {
        double *own = malloc(sizeof(weights[i]));
        long double sum = 0;
        for (size_t k = 0; k < 6; k++)
            sum += weights[i][k];
        memcpy(own, weights[i], sizeof(weights[i]));
        struct frame *frame = weighted_frame(6, own);
        struct order *order = design_order(frame, &(struct design_case){"weighted", true, ""}, 1);
        int64_t rows[6] = {0, 1, 2, 3, 4, 5};
        double found[6];
        order_probabilities(order, rows, 6, found);
        for (size_t k = 0; k < 6; k++) {
            double expected = (double)(6 * (weights[i][k] / sum));
            assert_true((found[k] > 0) == (weights[i][k] > 0));
            assert_true(fabs(found[k] - expected) <= 1e-12 * expected + 1e-30);
        }
        order_free(order);
        frame_free(frame);
    }
}

/* Every unit of positive weight holds exactly its own points, also the first and the last. */
static void test_each_weight_holds_its_points(void **state)
{
    (void)state;
    enum { UNITS = 1000 };
    for (uint64_t form = 0; form < 4; form++) {
        double *own = malloc(UNITS * sizeof(*own));
        for (uint64_t row = 0; row < UNITS; row++) {
            uint64_t chance = random_mix(row + 1000 * form);
            own[row] = form == 0   ? 1
                       : form == 1 ? (double)(chance % 7 < 6 ? 0 : chance % 1000)
                       : form == 2 ? ldexp(1, (int)(chance % 200))
                                   : (double)(row > 900) + 1e-9;
        }
        struct frame *frame = weighted_frame(UNITS, own);
        struct weight_sums sums;
        assert_ok(weight_sums_init(&sums, frame, 0));
        weight before = 0;
        for (int64_t row = 0; row < UNITS; row++) {
            weight size = weight_of(&sums, row);
            int64_t found[2] = {row, row};
            assert_true(weight_sums_before(&sums, row) == before);
            if (size > 0)
                weight_sums_find(&sums, (weight[]){before, before + size - 1}, 2, found);
            assert_true(found[0] == row && found[1] == row);
            before += size;
        }
        assert_true(before == sums.total);
        weight_sums_release(&sums);
        frame_free(frame);
    }
}

/* A few heavy units are certain; taking them makes others certain in turn. */
static void test_certain_units_come_in_every_sample(void **state)
{
    (void)state;
    double *own = malloc(100 * sizeof(*own));
    for (int i = 0; i < 100; i++)
        own[i] = i < 5 ? ldexp(1, 40 - 4 * i) : 1 + i % 2;
    struct frame *frame = weighted_frame(100, own);
    struct order *order = new_order(frame, "weighted", "{\"size\":20}", 9);
    int64_t rows[20];
    double probabilities[20];
    for (int64_t epoch = 0; epoch < 50; epoch++) {
        int seen[100] = {0};
        order_rows(order, 20 * epoch, 20, rows);
        order_probabilities(order, rows, 20, probabilities);
        for (int i = 0; i < 20; i++) {
            assert_int_equal(seen[rows[i]]++, 0);
            assert_true((probabilities[i] == 1) == (rows[i] < 5));
            if (rows[i] >= 5)
                assert_true(fabs(probabilities[i] - 15.0 * own[rows[i]] / 143) < 1e-12);
        }
        for (int i = 0; i < 5; i++)
            assert_int_equal(seen[i], 1);
    }
    order_free(order);
    frame_free(frame);
}

/* However heavy the certain units are, the others come by their own weights, and some of them may
 * be certain, too. */
static void test_weights_beside_certain_units(void **state)
{
    (void)state;
    enum { UNITS = 8, SIZE = 4, EPOCHS = 3000 };
    static const double weights[UNITS] = {3, 1e300, 2, 1, 1e280, 5, 1e-300, 4};
    static const double wanted[UNITS] = {0.4, 1, 4.0 / 15, 2.0 / 15, 1, 2.0 / 3, 0, 8.0 / 15};
    int64_t seen[UNITS] = {0}, rows[SIZE];
    double *own = malloc(sizeof(weights)), probability;
    memcpy(own, weights, sizeof(weights));
    struct frame *frame = weighted_frame(UNITS, own);
    struct order *order = new_order(frame, "weighted", "{\"size\":4}", 5);
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        order_rows(order, SIZE * epoch, SIZE, rows);
        for (int i = 0; i < SIZE; i++) {
            seen[rows[i]]++;
            assert_int_equal(order_position(order, rows[i], epoch), SIZE * epoch + i);
        }
    }
    for (int64_t row = 0; row < UNITS; row++) {
        double off = (double)seen[row] - wanted[row] * EPOCHS;
        order_probabilities(order, &row, 1, &probability);
        assert_true(probability > 0 && fabs(probability - wanted[row]) < 1e-12);
        assert_true(fabs(off) <= 5 * sqrt(wanted[row] * (1 - wanted[row]) * EPOCHS));
    }
    order_free(order);
    frame_free(frame);
}

/* More than 2^24 weights: units at the far end come as often as they should. */
static void test_more_weights_than_2_24(void **state)
{
    (void)state;
    enum { DRAWS = 100000 };
    int64_t units = (1 << 24) + 12345;
    double *own = malloc((size_t)units * sizeof(*own));
    int64_t *rows = malloc(DRAWS * sizeof(*rows));
    assert_true(own && rows);
    for (int64_t row = 0; row < units; row++)
        own[row] = row < units / 2 ? 1 : 3;
    struct frame *frame = weighted_frame(units, own);
    struct order *order = design_order(frame, &(struct design_case){"weighted", true, ""}, 1);
    order_rows(order, 0, DRAWS, rows);
    double heavy = 0, odd = 0;
    for (size_t i = 0; i < DRAWS; i++) {
        heavy += rows[i] >= units / 2;
        odd += rows[i] % 2 == 1;
    }
    assert_true(fabs(heavy / DRAWS - 0.75) < 4 * sqrt(0.75 * 0.25 / DRAWS) + 1e-6);
    assert_true(fabs(odd / DRAWS - 0.5) < 4 * sqrt(0.25 / DRAWS));
    order_free(order);
    frame_free(frame);
    free(rows);
}

static void test_wrong_weights_are_named(void **state)
{
    (void)state;
    static const double wrong[] = {-1, NAN, INFINITY, -5e-324};
    struct design design = {.name = "weighted", .replacement = true};
    struct order *order;
    for (size_t i = 0; i < 4; i++) {
        double *own = calloc(10, sizeof(*own));
        own[7] = wrong[i];
        struct frame *frame = weighted_frame(10, own);
        assert_fails(order_new(frame, &design, &order), ERROR_INPUT, "weight of id 7");
        own[7] = -0.0;
        assert_fails(order_new(frame, &design, &order), ERROR_USAGE, "only 0 of the frame's 10");
        own[7] = 2;
        assert_fails(order_new(frame,
                               &(struct design){.name = "weighted", .fields = "{\"size\":2}"},
                               &order),
                     ERROR_USAGE, "only 1 of the frame's 10");
        frame_free(frame);
    }
}

/* ---- edges -------------------------------------------------------------- */

static void test_one_unit(void **state)
{
    (void)state;
    char folder[256], path[400], uri[512];
    unit_folder_make(folder);
    snprintf(path, sizeof(path), "%s/one.csv", folder);
    snprintf(uri, sizeof(uri), "csv:%s?id=id&label=label&weight=w&group=g", path);
    FILE *file = fopen(path, "w");
    fputs("id,label,w,g\n42,x,0.5,y\n", file);
    fclose(file);
    struct frame *frame;
    assert_ok(frame_build(uri, &frame));
    static const struct design_case cases[] = {{"equal", false, ""},
                                               {"equal", true, ""},
                                               {"quota", false, "{\"shares\":{\"x\":7}}"},
                                               {"neyman", false, "{\"deviations\":{\"x\":7}}"},
                                               {"pxk", false, "{\"p\":1,\"k\":1}"},
                                               {"weighted", true, ""},
                                               {"weighted", false, "{\"size\":1}"},
                                               {"systematic", false, "{\"size\":1}"},
                                               {"cluster", false, ""},
                                               {"cluster", false, "{\"groups\":1}"},
                                               {"bernoulli", false, "{\"rate\":1}"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct order *order = design_order(frame, &cases[i], 3);
        int64_t ids[5];
        uint32_t labels[5];
        assert_int_equal(order_epoch_positions(order), 1);
        assert_int_equal(order_units(order, 100, 5, ids, labels, NULL), 5);
        for (int k = 0; k < 5; k++)
            assert_true(ids[k] == 42 && labels[k] == 0);
        order_free(order);
    }
    frame_free(frame);
    unit_folder_remove(folder);
}

static void test_a_million_labels(void **state)
{
    (void)state;
    static const char *const names[] = {"equal", "pxk"};
    struct frame *frame = range_frame(3000001, 1000000);
    for (size_t i = 0; i < 2; i++) {
        struct order *order = new_order(frame, names[i], i ? "{\"p\":999,\"k\":2}" : "", 1);
        int64_t rows[3000], position = 12 * order_epoch_positions(order) + 99;
        int64_t count;
        order_rows(order, position, 3000, rows);
        for (size_t k = 0; k < 3000; k += 100) {
            int64_t *positions;
            int64_t epoch = (position + (int64_t)k) / order_epoch_positions(order);
            bool found = false;
            size_t times;
            assert_ok(order_positions(order, rows[k], epoch, INT64_MAX, NULL, &positions, &times));
            for (size_t t = 0; t < times; t++)
                found = found || positions[t] == position + (int64_t)k;
            assert_true(found);
            free(positions);
        }
        assert_ok(order_label_count(order, 999999, 3, order_epoch_positions(order), &count));
        assert_true(count >= 3 && count <= 6);
        order_free(order);
    }
    frame_free(frame);
}

/* Units of epochs far ahead: counted in pieces, and not without end. */
static void test_far_epochs_are_counted_in_pieces(void **state)
{
    (void)state;
    const int64_t positions = UNIT_LESS > 1 ? 270000000 : 540000000; /* a piece is 268 million */
    int64_t units;
    int pieces = 1;
    struct frame *frame = range_frame(positions, 1);
    struct order *order = new_order(frame, "bernoulli", "{\"rate\":0.25}", 1);
    assert_fails(order_epoch_units(order, 0, &units), ERROR_UNAVAILABLE, "ask again");
    while (order_epoch_units(order, 0, &units) == ERROR_UNAVAILABLE)
        pieces++;
    assert_int_equal(pieces, UNIT_LESS > 1 ? 1 : 2);
    double expected = 0.25 * (double)positions;
    assert_true(fabs((double)units - expected) < 5 * sqrt(expected * 0.75));
    int64_t last = order_unit_position(order, 0, units - 1);
    int64_t row, reached, found;
    assert_int_equal(order_rows(order, last, 1, &row), 1);
    assert_true(order_position(order, row, 0) == last);
    order_reach(order, last, 5, &reached, &found);
    assert_true(found == 1 && last + reached == positions);
    order_free(order);
    frame_free(frame);
    frame = range_frame(10, 1);
    order = new_order(frame, "bernoulli", "{\"rate\":0.25}", 1);
    assert_fails(order_epoch_units(order, ORDER_COUNTED_EPOCHS, &units), ERROR_USAGE, "too far");
    order_free(order);
    frame_free(frame);
}

/* Each call looks through a bounded number of epochs, however few units each has, whether the batch
 * begins far ahead, is longer than any epoch has units for, or goes through many of them. */
static void test_batches_over_many_epochs_are_found_in_pieces(void **state)
{
    (void)state;
    static const struct {
        enum tail tail;
        int64_t index, size, units;
    } cases[] = {
        {TAIL_KEEP, 79, 1 << 19, 1}, {TAIL_DROP, 0, 1 << 19, 0}, {TAIL_SPAN, 0, 18000000, 1}};
    enum { CALLS = 100 };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct frame *frame = range_frame(1 << 20, 1);
        struct order *order = new_order(frame, "bernoulli", "{\"rate\":0.25}", 1);
        const struct batching cut = {
            .order = order, .epoch_positions = 1 << 20, .epochs = 80, .tail = cases[i].tail};
        struct span span, next;
        int calls = 1;
        assert_fails(batching_at(&cut, cases[i].index, cases[i].size, &span), ERROR_UNAVAILABLE,
                     "ask again");
        while (calls < CALLS &&
               batching_at(&cut, cases[i].index, cases[i].size, &span) == ERROR_UNAVAILABLE)
            calls++;
        assert_in_range(calls, 1, CALLS - 1);
        assert_int_equal(span.units > 0, cases[i].units);
        batching_next(&cut, span.first, cases[i].size, &next);
        assert_true(next.first == span.first && next.positions == span.positions &&
                    next.units == span.units);
        order_free(order);
        frame_free(frame);
    }
}

/* Vectors and single coins agree, at any start, length and probability. */
static void test_coins_are_counted_as_they_fall(void **state)
{
    (void)state;
    static const uint64_t limits[] = {0, 1, UINT64_MAX / 3, UINT64_MAX - 1, UINT64_MAX};
    struct random_key key = {.first = 5, .second = 77};
    for (size_t l = 0; l < 5; l++) {
        for (int64_t count = 0; count < 100; count++) {
            int64_t first = (INT64_C(1) << 40) * (count % 3) + count;
            int64_t heads = 0;
            for (int64_t p = first; p < first + count; p++)
                heads += random_at(key, (uint64_t)p) <= limits[l];
            assert_true(bernoulli_trials_count(key, limits[l], first, count) == heads);
            assert_true(__builtin_popcountll(bernoulli_trials_mask(key, limits[l], first)) ==
                        bernoulli_trials_count(key, limits[l], first, 64));
        }
    }
}

static void test_what_a_frame_cannot_serve_is_refused(void **state)
{
    (void)state;
    char folder[256];
    unit_folder_make(folder);
    struct frame *labelled = sized_frame(folder, (int64_t[]){10, 3}, 2);
    struct frame *bare;
    struct order *order;
    assert_ok(frame_build("range:100", &bare));
    static const struct {
        const char *name, *fields, *message;
        bool replacement, on_bare;
    } cases[] = {
        {"equal", "", "needs labels", false, true},
        {"quota", "{\"shares\":{\"0\":1}}", "needs labels", false, true},
        {"pxk", "{\"p\":1,\"k\":1}", "needs labels", false, true},
        {"weighted", "", "weight=COLUMN", true, true},
        {"cluster", "", "group=COLUMN", false, true},
        {"pxk", "{\"p\":3,\"k\":1}", "p is 3; right is 1 to 2", false, false},
        {"pxk", "{\"p\":2,\"k\":4}", "label \"l001\" has 3 units", false, false},
        {"systematic", "{\"size\":14}", "size is 14; right for design systematic is 1 to 13", false,
         false},
        {"bernoulli", "{\"rate\":1e-9}", "hardly an epoch would have a unit", false, true},
        {"neyman", "{\"column\":\"x\"}", "not measured yet", false, false},
        {"quota", "{\"shares\":{\"l000\":1e-300,\"l001\":1}}", "2^62 draws", false, false},
        {"sequential", "", "designs that have it are proportional, srs, equal", true, true},
        {"systematic", "{\"size\":1}", "no replacement", true, true},
        {"cluster", "", "no replacement", true, true},
        {"bernoulli", "{\"rate\":1}", "no replacement", true, true},
        {"pxk", "{\"p\":1,\"k\":1}", "no replacement", true, false},
        {"srs", "{\"size\":1}", "it has none", false, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct design design = {
            .name = cases[i].name, .replacement = cases[i].replacement, .fields = cases[i].fields};
        assert_fails(order_new(cases[i].on_bare ? bare : labelled, &design, &order), ERROR_USAGE,
                     cases[i].message);
    }
    frame_free(bare);
    frame_free(labelled);
    unit_folder_remove(folder);
}

static void test_sizes_that_a_cut_refuses(void **state)
{
    (void)state;
    struct frame *frame = range_frame(100, 2);
    struct order *order = new_order(frame, "pxk", "{\"p\":2,\"k\":3}", 1);
    struct batching cut = {.order = order, .epoch_positions = order_epoch_positions(order)};
    assert_ok(batching_check_size(&cut, 6));
    assert_fails(batching_check_size(&cut, 5), ERROR_USAGE,
                 "not this design's batch size, 6 (p * k)");
    order_free(order);
    order = new_order(frame, "bernoulli", "{\"rate\":0.1}", 1);
    cut = (struct batching){.order = order, .epoch_positions = 100, .tail = TAIL_DROP};
    assert_ok(batching_check_size(&cut, 36)); /* ten units on average */
    assert_fails(batching_check_size(&cut, 40), ERROR_USAGE, "an epoch has 10 units on average");
    assert_fails(batching_check_size(&cut, 100), ERROR_USAGE, "hardly a batch would ever be");
    assert_fails(batching_check_size(&cut, 101), ERROR_USAGE, "more than the 100");
    cut.tail = TAIL_KEEP;
    assert_ok(batching_check_size(&cut, 100));
    order_free(order);
    frame_free(frame);
}

/* Ten groups of 100 units, 990 of one: ten of them have as many as 1000, once in 10^23 epochs. */
static void test_sizes_that_no_ten_groups_have(void **state)
{
    char folder[256], path[300], uri[400];
    struct frame *frame;
    (void)state;
    unit_folder_make(folder);
    snprintf(path, sizeof(path), "%s/groups.csv", folder);
    snprintf(uri, sizeof(uri), "csv:%s?label=label&group=group", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("label,group\n", file);
    for (int row = 0; row < 1990; row++)
        fprintf(file, "0,%d\n", row < 1000 ? row / 100 : row);
    assert_int_equal(fclose(file), 0);
    assert_ok(frame_build(uri, &frame));
    struct order *order = new_order(frame, "cluster", "{\"groups\":10}", 1);
    struct batching cut = {.order = order, .epoch_positions = 1000, .tail = TAIL_DROP};
    assert_int_equal(order_epoch_positions(order), cut.epoch_positions);
    assert_ok(batching_check_size(&cut, 500)); /* 5 of the large ones: once in 10^9 */
    assert_fails(batching_check_size(&cut, 800), ERROR_USAGE, "hardly a batch would ever be");
    assert_fails(batching_check_size(&cut, 1000), ERROR_USAGE, "an epoch has 19.9 units on");
    cut.tail = TAIL_SPAN;
    assert_ok(batching_check_size(&cut, 1000));
    order_free(order);
    order = new_order(frame, "cluster", "", 1); /* all groups: every epoch has all units */
    cut = (struct batching){.order = order, .epoch_positions = 1990, .tail = TAIL_DROP};
    assert_ok(batching_check_size(&cut, 1990));
    order_free(order);
    frame_free(frame);
    unit_folder_remove(folder);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_labels_keep_their_shares_at_every_prefix),
    cmocka_unit_test(test_epochs_are_as_long_as_promised),
    cmocka_unit_test(test_shares_are_what_the_decimals_say),
    cmocka_unit_test(test_batches_of_p_labels_with_k_units),
    cmocka_unit_test(test_passes_of_pxk_differ),
    cmocka_unit_test(test_weights_of_any_size),
    cmocka_unit_test(test_each_weight_holds_its_points),
    cmocka_unit_test(test_certain_units_come_in_every_sample),
    cmocka_unit_test(test_weights_beside_certain_units),
    cmocka_unit_test(test_more_weights_than_2_24),
    cmocka_unit_test(test_wrong_weights_are_named),
    cmocka_unit_test(test_one_unit),
    cmocka_unit_test(test_a_million_labels),
    cmocka_unit_test(test_far_epochs_are_counted_in_pieces),
    cmocka_unit_test(test_batches_over_many_epochs_are_found_in_pieces),
    cmocka_unit_test(test_coins_are_counted_as_they_fall),
    cmocka_unit_test(test_what_a_frame_cannot_serve_is_refused),
    cmocka_unit_test(test_sizes_that_a_cut_refuses),
    cmocka_unit_test(test_sizes_that_no_ten_groups_have),
};

UNIT_MAIN(tests)

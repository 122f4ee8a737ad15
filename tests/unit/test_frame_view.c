/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/frame/frame_view: Views: whatever the frame and whatever the part of it, a view
 * is the frame of a store that holds just these rows. The random test builds both and asks every
 * question of each.
 */
#include "tests/unit/frame_unit.h"

#include "tests/unit/folder_unit.h"

#include <math.h>

#include "sampler/build/frame_build.h"
#include "sampler/design/designs.h"
#include "sampler/frame/frame_view.h"
#include "sampler/shuffle/random.h"

/* ---- lists -------------------------------------------------------------- */

#define TEXT_BYTES 24

struct listed_row {
    int64_t id;
    char label[TEXT_BYTES], group[TEXT_BYTES];
    double weight;
};

struct list {
    struct listed_row *rows;
    size_t count;
    bool has_labels, has_groups, has_weights;
};

/* What the next random choice is; a list is a function of the seed. */
static uint64_t random_state;

static uint64_t below(uint64_t bound)
{
    random_state += RANDOM_STEP;
    return random_mix(random_state) % bound;
}

static struct frame *build(const char *name, const struct list *list)
{
    char uri[600], path[400];
    struct frame *frame;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    snprintf(uri, sizeof(uri), "csv:%s?id=id%s%s", path, list->has_groups ? "&group=group" : "",
             list->has_weights ? "&weight=weight" : "");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(list->has_labels ? "id,label,group,weight\n" : "id,class,group,weight\n", file);
    for (size_t i = 0; i < list->count; i++)
        fprintf(file, "%" PRId64 ",%s,%s,%.17g\n", list->rows[i].id, list->rows[i].label,
                list->rows[i].group, list->rows[i].weight);
    assert_int_equal(fclose(file), 0);
    assert_ok(frame_build(uri, &frame));
    assert_int_equal(frame_has_labels(frame), list->has_labels);
    return frame;
}

static void swap_rows(struct listed_row *a, struct listed_row *b)
{
    int64_t id = a->id;
    a->id = b->id;
    b->id = id;
}

/* Labels of a kind: 0 integers, 1 words and integers mixed, 2 in order, 3 going round. */
static void write_label(char out[TEXT_BYTES], uint64_t kind, uint64_t labels, size_t row,
                        size_t count)
{
    static const char *const words[] = {"dog", "cat", "9", "10", "07", "zebra", "-4", "2"};
    if (kind == 0)
        snprintf(out, TEXT_BYTES, "%" PRIu64, below(labels) * below(labels));
    else if (kind == 1)
        snprintf(out, TEXT_BYTES, "%s", words[below(labels < 8 ? labels : 8)]);
    else if (kind == 2)
        snprintf(out, TEXT_BYTES, "L%" PRIu64, row * labels / count);
    else
        snprintf(out, TEXT_BYTES, "%" PRIu64, row % labels);
}

static void make_list(struct list *list)
{
    static const int64_t steps[] = {1, 3, 1000000007};
    static const uint64_t counts[] = {2, 3, 17, 300, 2500};
    size_t count = 1 + (size_t)below(counts[below(5)]);
    uint64_t labels = 1 + below(below(3) ? 9 : count), kind = below(4);
    int64_t step = steps[below(3)];
    *list = (struct list){.count = count,
                          .has_labels = below(8) > 0,
                          .has_groups = below(3) == 0,
                          .has_weights = below(3) == 0};
    list->rows = calloc(count, sizeof(*list->rows));
    assert_non_null(list->rows);
    for (size_t i = 0; i < count; i++) {
        struct listed_row *row = &list->rows[i];
        row->id = 40 + step * (int64_t)i;
        row->weight = (double)below(1000) / 7;
        write_label(row->label, kind, labels, i, count);
        snprintf(row->group, TEXT_BYTES, "g%" PRIu64, below(1 + count / 5));
    }
    for (size_t i = count - 1; i > 0 && step != 3; i--)
        swap_rows(&list->rows[i], &list->rows[below(i + 1) * (below(2) || step == 1000000007)]);
}

/* The rows of [begin, end) that are on the side. */
static struct list keep(const struct list *list, int64_t begin, int64_t end,
                        const struct split_shares *shares, enum split split)
{
    struct list kept = *list;
    struct split_span span;
    kept.rows = calloc(list->count, sizeof(*kept.rows));
    kept.count = 0;
    assert_non_null(kept.rows);
    split_span_init(&span, shares, split);
    for (int64_t row = begin; row < end; row++) {
        const struct listed_row *here = &list->rows[row];
        bool is_in =
            split == SPLIT_NONE || (list->has_groups ? split_span_has_text(&span, here->group)
                                                     : split_span_has_id(&span, here->id));
        if (is_in)
            kept.rows[kept.count++] = *here;
    }
    return kept;
}

/* ---- questions ---------------------------------------------------------- */

static void check_equal_partitions(const struct partition *a, const struct partition *b)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->units, b->units);
    assert_int_equal(partition_is_cyclic(a), partition_is_cyclic(b));
    size_t units = (size_t)a->units;
    uint32_t *categories = malloc(units * sizeof(*categories));
    uint64_t *ranks = malloc(units * sizeof(*ranks));
    int64_t *rows = malloc(units * sizeof(*rows));
    assert_true(categories && ranks && rows);
    partition_read_categories(a, 0, units, categories);
    for (int64_t row = 0; row < a->units; row++) {
        assert_int_equal(categories[row], partition_category(b, row));
        assert_int_equal(categories[row], partition_category(a, row));
        assert_int_equal(partition_rank(a, row), partition_rank(b, row));
    }
    for (uint32_t category = 0; category < a->count; category++) {
        size_t count = (size_t)partition_units(a, category);
        assert_string_equal(dictionary_text(&a->dictionary, category),
                            dictionary_text(&b->dictionary, category));
        assert_int_equal(count, partition_units(b, category));
        for (size_t j = 0; j < count; j++)
            ranks[j] = count - 1 - j;
        partition_gather(a, category, ranks, count, rows);
        for (size_t j = 0; j < count; j++)
            assert_int_equal(rows[j], partition_row(b, category, (int64_t)ranks[j]));
        for (int64_t row = 0; row <= a->units; row += 1 + a->units / 13)
            assert_int_equal(partition_rows_before(a, category, row),
                             partition_rows_before(b, category, row));
    }
    free(categories);
    free(ranks);
    free(rows);
}

/* Rows in any order, each several times. */
static void check_gathering(const struct frame *view, const struct frame *alone)
{
    enum { COUNT = 3000 };
    int64_t rows[COUNT], ids[COUNT];
    uint32_t labels[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        rows[i] = (int64_t)below((uint64_t)frame_units(view));
    frame_gather_ids(view, rows, COUNT, ids);
    frame_gather_labels(view, rows, COUNT, labels);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(ids[i], frame_id(alone, rows[i]));
        assert_int_equal(labels[i], frame_label(alone, rows[i]));
    }
    frame_gather_ids(view, rows, COUNT, rows); /* in place */
    assert_memory_equal(rows, ids, sizeof(ids));
}

/* The view gives the order of the store that holds just its rows. */
static void check_same_order(const struct frame *view, const struct frame *alone, const char *name)
{
    enum { COUNT = 500 };
    const struct design design = {.name = name, .seed = 5};
    struct order *a, *b;
    int64_t ids[2][COUNT], rows[2][COUNT];
    uint32_t labels[2][COUNT];
    assert_ok(order_new(view, &design, &a));
    assert_ok(order_new(alone, &design, &b));
    order_units(a, 3, COUNT, ids[0], labels[0], rows[0]);
    order_units(b, 3, COUNT, ids[1], labels[1], rows[1]);
    assert_memory_equal(ids[0], ids[1], sizeof(ids[0]));
    assert_memory_equal(labels[0], labels[1], sizeof(labels[0]));
    assert_memory_equal(rows[0], rows[1], sizeof(rows[0]));
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(order_position(a, rows[0][i], 0), order_position(b, rows[0][i], 0));
    order_free(a);
    order_free(b);
}

static void check_view(const struct frame *view, const struct list *kept)
{
    struct frame *alone = build("alone.csv", kept);
    const struct id_column *ids = frame_id_column(view), *alone_ids = frame_id_column(alone);
    check_equal_frames(view, alone);
    check_equal_partitions(frame_strata(view), frame_strata(alone));
    check_gathering(view, alone);
    check_same_order(view, alone, "srs");
    if (kept->has_labels)
        check_same_order(view, alone, "proportional");
    assert_int_equal(id_column_smallest(ids), id_column_smallest(alone_ids));
    assert_int_equal(id_column_largest(ids), id_column_largest(alone_ids));
    assert_int_equal(frame_groups(view) != NULL, kept->has_groups);
    if (kept->has_groups)
        check_equal_partitions(frame_groups(view), frame_groups(alone));
    assert_int_equal(frame_weights(view) != NULL, kept->has_weights);
    if (kept->has_weights)
        assert_memory_equal(frame_weights(view), frame_weights(alone),
                            kept->count * sizeof(double));
    frame_free(alone);
}

/* Ids of the whole that the view has not are not found there. */
static void check_absent(const struct frame *view, const struct list *list, const struct list *kept)
{
    size_t next = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (next < kept->count && kept->rows[next].id == list->rows[i].id)
            next++;
        else
            assert_int_equal(frame_find(view, list->rows[i].id), -1);
    }
    assert_int_equal(next, kept->count);
    assert_int_equal(frame_find(view, INT64_MAX), -1);
}

static void check_part(const struct frame *whole, const struct list *list, int64_t begin,
                       int64_t end, const struct split_shares *shares, enum split split)
{
    struct frame *view;
    struct list kept = keep(list, begin, end, shares, split);
    if (kept.count == 0) {
        assert_fails(frame_view(whole, begin, end, shares, split, &view), ERROR_USAGE,
                     split_name(split));
    } else {
        assert_ok(frame_view(whole, begin, end, shares, split, &view));
        check_view(view, &kept);
        check_absent(view, list, &kept);
        assert_int_equal(frame_view_keeps_labels(view, whole),
                         frame_labels(view) == frame_labels(whole));
        frame_free(view);
    }
    free(kept.rows);
}

/* ---- every part of every frame ------------------------------------------ */

static void check_parts(const struct frame *whole, const struct list *list)
{
    static const struct split_shares all[] = {
        {0.8, 0.1, 0.1}, {0.34, 0.33, 0.33}, {1, 0, 0}, {0.02, 0.96, 0.02}};
    const struct split_shares *shares = &all[below(4)];
    int64_t count = (int64_t)list->count;
    int64_t begin = (int64_t)below(list->count);
    int64_t end = begin + 1 + (int64_t)below((uint64_t)(count - begin));
    check_part(whole, list, begin, end, shares, SPLIT_NONE);
    for (enum split split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
        check_part(whole, list, 0, count, shares, split);
        check_part(whole, list, begin, end, shares, split);
    }
}

static void test_random_parts_of_random_frames(void **state)
{
    (void)state;
    int rounds = (unit_is_long() ? 10000 : 100) / UNIT_LESS;
    char path[300];
    snprintf(path, sizeof(path), "%s/whole.frame", folder);
    for (int round = 0; round < rounds; round++) {
        struct list list;
        random_state = random_mix(unit_seed()) + (uint64_t)round;
        make_list(&list);
        struct frame *whole = build("whole.csv", &list);
        if (round % 2) { /* the same of a mapped file */
            assert_ok(frame_write(whole, path));
            frame_free(whole);
            assert_ok(frame_open(path, &whole));
        }
        check_parts(whole, &list);
        frame_free(whole);
        free(list.rows);
    }
}

/* A range keeps nothing a unit; its sides must agree with the list that it stands for. */
static void test_sides_of_a_range(void **state)
{
    (void)state;
    static const char *const uris[] = {"range:5000?labels=7", "range:5000",
                                       "range:3000?labels=2000"};
    static const struct split_shares shares = {0.7, 0.2, 0.1};
    for (size_t u = 0; u < sizeof(uris) / sizeof(uris[0]); u++) {
        struct frame *whole;
        assert_ok(frame_build(uris[u], &whole));
        struct list list = {.count = (size_t)frame_units(whole),
                            .has_labels = frame_has_labels(whole)};
        list.rows = calloc(list.count, sizeof(*list.rows));
        assert_non_null(list.rows);
        for (size_t i = 0; i < list.count; i++) {
            list.rows[i].id = (int64_t)i;
            snprintf(list.rows[i].label, TEXT_BYTES, "%s",
                     frame_label_text(whole, frame_label(whole, (int64_t)i)));
        }
        for (enum split split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
            check_part(whole, &list, 0, (int64_t)list.count, &shares, split);
            check_part(whole, &list, 1001, 2003, &shares, split);
        }
        free(list.rows);
        frame_free(whole);
    }
}

/* ---- what a split promises ---------------------------------------------- */

/* Every unit is in one of the three views, and its id says which: not its row, label or frame. */
static void test_sides_part_the_frame(void **state)
{
    (void)state;
    static const struct split_shares shares = {0.8, 0.1, 0.1};
    static const char *const uris[] = {"range:30000?labels=10", "range:41000?labels=3"};
    struct frame *wholes[2], *sides[2][4];
    for (size_t u = 0; u < 2; u++) {
        assert_ok(frame_build(uris[u], &wholes[u]));
        int64_t units = 0;
        for (enum split split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
            assert_ok(frame_view(wholes[u], 0, 0, &shares, split, &sides[u][split]));
            units += frame_units(sides[u][split]);
        }
        assert_int_equal(units, frame_units(wholes[u]));
    }
    for (int64_t id = 0; id < 30000; id++) {
        int found = 0;
        for (enum split split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
            bool is_here = frame_find(sides[0][split], id) >= 0;
            assert_int_equal(is_here, frame_find(sides[1][split], id) >= 0);
            found += is_here;
        }
        assert_int_equal(found, 1);
    }
    for (size_t u = 0; u < 2; u++) {
        for (enum split split = SPLIT_TRAIN; split <= SPLIT_TEST; split++)
            frame_free(sides[u][split]);
        frame_free(wholes[u]);
    }
}

/* Rows put in another order, rows added, another store: a group or id stays where it was. */
static void test_a_unit_keeps_its_side_when_the_frame_grows(void **state)
{
    (void)state;
    enum { COUNT = 2000, MORE = 3000 };
    static const struct split_shares shares = {0.6, 0.3, 0.1};
    for (int with_groups = 0; with_groups < 2; with_groups++) {
        struct list list = {.count = COUNT, .has_labels = true, .has_groups = with_groups};
        list.rows = calloc(MORE, sizeof(*list.rows));
        assert_non_null(list.rows);
        for (size_t i = 0; i < MORE; i++) {
            list.rows[i].id = (int64_t)(i * 7919 % 100003);
            snprintf(list.rows[i].label, TEXT_BYTES, "%zu", i % 5);
            snprintf(list.rows[i].group, TEXT_BYTES, "patient %zu", i % 177);
        }
        struct frame *before = build("before.csv", &list);
        struct frame *sides[2][4];
        list.count = MORE;
        for (size_t i = 0; i < COUNT / 2; i++) {
            struct listed_row row = list.rows[i];
            list.rows[i] = list.rows[COUNT - 1 - i];
            list.rows[COUNT - 1 - i] = row;
        }
        struct frame *after = build("after.csv", &list);
        for (enum split split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
            assert_ok(frame_view(before, 0, 0, &shares, split, &sides[0][split]));
            assert_ok(frame_view(after, 0, 0, &shares, split, &sides[1][split]));
            for (int64_t row = 0; row < frame_units(sides[0][split]); row++)
                assert_true(frame_find(sides[1][split], frame_id(sides[0][split], row)) >= 0);
        }
        for (enum split split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
            frame_free(sides[0][split]);
            frame_free(sides[1][split]);
        }
        frame_free(before);
        frame_free(after);
        free(list.rows);
    }
}

/* A group's rows are all on one side, and the three sides have all groups. */
static void test_groups_are_never_cut(void **state)
{
    (void)state;
    enum { COUNT = 5000, GROUPS = 400 };
    static const struct split_shares shares = {0.5, 0.25, 0.25};
    struct list list = {.count = COUNT, .has_labels = true, .has_groups = true};
    int64_t units[GROUPS] = {0};
    uint32_t groups = 0;
    list.rows = calloc(COUNT, sizeof(*list.rows));
    assert_non_null(list.rows);
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t group = random_mix(i) % GROUPS;
        list.rows[i].id = (int64_t)i;
        snprintf(list.rows[i].label, TEXT_BYTES, "%zu", i % 3);
        snprintf(list.rows[i].group, TEXT_BYTES, "%" PRIu64, group);
        units[group]++;
    }
    struct frame *whole = build("groups.csv", &list);
    for (enum split split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
        struct frame *side;
        assert_ok(frame_view(whole, 0, 0, &shares, split, &side));
        const struct partition *here = frame_groups(side);
        groups += here->count;
        for (uint32_t group = 0; group < here->count; group++)
            assert_int_equal(partition_units(here, group),
                             units[dictionary_integer(&here->dictionary, group)]);
        frame_free(side);
    }
    assert_int_equal(groups, GROUPS);
    frame_free(whole);
    free(list.rows);
}

/* Within 4 standard errors, in every label too. */
static void test_shares_come_out_in_every_label(void **state)
{
    (void)state;
    static const struct split_shares shares = {0.8, 0.1, 0.1};
    struct frame *whole;
    assert_ok(frame_build("range:1000000?labels=20", &whole));
    for (enum split split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
        struct frame *side;
        double share = split_share(&shares, split);
        assert_ok(frame_view(whole, 0, 0, &shares, split, &side));
        double off = (double)frame_units(side) - 1e6 * share;
        assert_true(fabs(off) <= 4 * sqrt(1e6 * share * (1 - share)));
        for (uint32_t label = 0; label < 20; label++) {
            off = (double)frame_label_units(side, label) - 5e4 * share;
            assert_true(fabs(off) <= 4 * sqrt(5e4 * share * (1 - share)));
        }
        frame_free(side);
    }
    frame_free(whole);
}

/* ---- edges -------------------------------------------------------------- */

/* 2^61 units: rows of a range cost nothing at any size; their split does not fit in memory. */
static void test_rows_of_a_huge_range(void **state)
{
    (void)state;
    static const struct split_shares shares = {0.8, 0.1, 0.1};
    struct frame *whole, *view;
    int64_t begin = 12345, end = INT64_C(2000000000000000000);
    assert_ok(frame_build("range:2305843009213693952?labels=1000", &whole));
    assert_ok(frame_view(whole, begin, end, NULL, SPLIT_NONE, &view));
    assert_true(frame_units(view) == end - begin);
    assert_true(frame_id(view, 0) == begin && frame_find(view, end - 1) == end - 1 - begin);
    assert_true(frame_find(view, end) == -1 && frame_find(view, begin - 1) == -1);
    assert_int_equal(frame_label(view, 0), 345);
    frame_free(view);
    assert_fails(frame_view(whole, 0, 0, &shares, SPLIT_TRAIN, &view), ERROR_MEMORY, "split");
    frame_free(whole);
}

static void test_all_rows_have_the_digest_of_the_whole(void **state)
{
    (void)state;
    struct frame *whole, *view;
    assert_ok(frame_build("range:1000?labels=3", &whole));
    assert_ok(frame_view(whole, 0, 0, NULL, SPLIT_NONE, &view));
    check_equal_frames(view, whole);
    assert_true(frame_view_is_whole(whole, 0, 1000, SPLIT_NONE));
    assert_false(frame_view_is_whole(whole, 0, 999, SPLIT_NONE));
    assert_false(frame_view_is_whole(whole, 0, 0, SPLIT_TEST));
    frame_free(view);
    frame_free(whole);
}

static void test_views_that_cannot_be(void **state)
{
    (void)state;
    static const struct split_shares shares = {1, 0, 0};
    struct frame *whole, *view;
    assert_ok(frame_build("range:100?labels=4", &whole));
    assert_fails(frame_view(whole, 0, 101, NULL, SPLIT_NONE, &view), ERROR_USAGE, "100 units");
    assert_fails(frame_view(whole, 5, 5, NULL, SPLIT_NONE, &view), ERROR_USAGE, "5:5");
    assert_fails(frame_view(whole, -1, 5, NULL, SPLIT_NONE, &view), ERROR_USAGE, "-1:5");
    assert_fails(frame_view(whole, 0, 0, NULL, SPLIT_TRAIN, &view), ERROR_USAGE, "--splits");
    assert_fails(frame_view(whole, 0, 0, &shares, SPLIT_TEST, &view), ERROR_USAGE,
                 "split test (a share of 0) holds none of the 100 units of 4 labels");
    frame_free(whole);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_random_parts_of_random_frames),
    cmocka_unit_test(test_sides_of_a_range),
    cmocka_unit_test(test_sides_part_the_frame),
    cmocka_unit_test(test_a_unit_keeps_its_side_when_the_frame_grows),
    cmocka_unit_test(test_groups_are_never_cut),
    cmocka_unit_test(test_shares_come_out_in_every_label),
    cmocka_unit_test(test_rows_of_a_huge_range),
    cmocka_unit_test(test_all_rows_have_the_digest_of_the_whole),
    cmocka_unit_test(test_views_that_cannot_be),
};

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

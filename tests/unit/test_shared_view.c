/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/frame/shared_view: Streams of equal rows and split share one view, which is read
 * once.
 */
#include "tests/unit/stream_unit.h"

#include "sampler/stream/stream_private.h"

static struct stream_unit unit;

static int open_unit(void **state)
{
    (void)state;
    unit = (struct stream_unit){.max_streams = 10};
    stream_unit_define(&unit, 0, TAIL_SPAN);
    stream_unit_open(&unit, DURABILITY_NONE);
    return 0;
}

static int close_unit(void **state)
{
    (void)state;
    stream_unit_drop(&unit);
    stream_unit_end(&unit);
    return 0;
}

static _Atomic int views_read;

enum error __real_frame_view(const struct frame *whole, int64_t rows_begin, int64_t rows_end,
                             const struct split_shares *shares, enum split split,
                             struct frame **ret_view);
enum error __wrap_frame_view(const struct frame *whole, int64_t rows_begin, int64_t rows_end,
                             const struct split_shares *shares, enum split split,
                             struct frame **ret_view);
enum error __wrap_frame_view(const struct frame *whole, int64_t rows_begin, int64_t rows_end,
                             const struct split_shares *shares, enum split split,
                             struct frame **ret_view)
{
    views_read++;
    return __real_frame_view(whole, rows_begin, rows_end, shares, split, ret_view);
}

static const struct split_shares shares = {0.5, 0.25, 0.25};

static struct sampling_plan *open_plan(int64_t rows_begin, int64_t rows_end, enum split split)
{
    struct stream_definition definition = unit.definition;
    struct sampling_plan *plan;
    definition.rows_begin = rows_begin;
    definition.rows_end = rows_end;
    definition.split = split;
    assert_ok(sampling_plan_open(unit.frames, &shares, &definition, &plan));
    return plan;
}

static void test_equal_views_are_one(void **state)
{
    (void)state;
    views_read = 0;
    struct sampling_plan *train = open_plan(0, 0, SPLIT_TRAIN);
    struct sampling_plan *same = open_plan(0, 1000, SPLIT_TRAIN);
    struct sampling_plan *test = open_plan(0, 0, SPLIT_TEST);
    struct sampling_plan *rows = open_plan(0, 500, SPLIT_TRAIN);
    assert_ptr_equal(train->frame, same->frame);
    assert_ptr_equal(train->label_texts, same->label_texts);
    assert_true(train->frame != test->frame && train->frame != rows->frame);
    assert_int_equal(views_read, 3);
    sampling_plan_put(train);
    assert_int_equal(frame_units(same->frame), same->binding.units); /* it is there still */
    sampling_plan_put(same);
    sampling_plan_put(open_plan(0, 0, SPLIT_TRAIN)); /* read again, and gone again */
    assert_int_equal(views_read, 4);
    sampling_plan_put(test);
    sampling_plan_put(rows);
}

/* Labels that the view has not are of its own texts. */
static void test_a_view_has_its_own_labels(void **state)
{
    (void)state;
    struct sampling_plan *few = open_plan(0, 5, SPLIT_NONE);
    assert_true(few->label_texts != unit.stream->plan->label_texts);
    struct sampling_plan *same = open_plan(0, 5, SPLIT_NONE);
    assert_ptr_equal(few->label_texts, same->label_texts);
    sampling_plan_put(same);
    sampling_plan_put(few);
    struct stream_definition definition = unit.definition;
    definition.rows_end = 2000; /* more than there are */
    assert_fails(sampling_plan_open(unit.frames, &shares, &definition, &few), ERROR_USAGE, "rows");
}

static void *open_and_put(void *unused)
{
    (void)unused;
    for (int i = 0; i < 50; i++)
        sampling_plan_put(open_plan(0, 0, SPLIT_VALIDATION));
    return NULL;
}

static void test_threads_share_views(void **state)
{
    pthread_t threads[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_put, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void test_a_start_reads_each_view_once(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    struct stream *stream;
    bool waits;
    (void)state;
    stream_unit_drop(&unit);
    unit_folder_make(unit.folder);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    for (int i = 0; i < 4; i++) {
        struct stream_definition definition = unit.definition;
        snprintf(definition.name, sizeof(definition.name), "%s", names[i]);
        definition.rows_end = i < 3 ? 700 : 300;
        struct sampling_plan *plan;
        assert_ok(sampling_plan_open(unit.frames, &shares, &definition, &plan));
        assert_ok(streams_create(unit.streams, &definition, plan, 0, NULL, &stream, &waits));
        stream_put(stream);
    }
    stream_unit_close(&unit);
    views_read = 0;
    stream_unit_open(&unit, DURABILITY_PROCESS);
    assert_int_equal(views_read, 2);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, open_unit, close_unit)

static const struct CMUnitTest tests[] = {
    TEST(test_equal_views_are_one),
    TEST(test_a_view_has_its_own_labels),
    TEST(test_threads_share_views),
    TEST(test_a_start_reads_each_view_once),
};

UNIT_MAIN(tests)

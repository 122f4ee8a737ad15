/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/frame/frame: Every allocation of frames, views, designs and batches fails once
 * (sampler/build, frame, design, order): the program is linked with --wrap. The answer must be
 * ERROR_MEMORY, what was allocated is given back (the sanitizer's leak check looks), and no file
 * is left.
 */
#include "tests/unit/design_unit.h"
#include "tests/unit/folder_unit.h"

#include <dirent.h>

#include "sampler/build/spool_cursor.h"
#include "sampler/frame/frame_view.h"
#include "tests/unit/failing_allocator.h"

static char list_uri[512];
static char frame_path[400];
static struct frame *frame; /* what views and orders stand on; made while nothing fails */

static int entries(void)
{
    DIR *open = opendir(folder);
    int count = 0;
    while (readdir(open))
        count++;
    closedir(open);
    return count;
}

static int entries_before;

/* A realloc that only shrinks may fail, and so may what is only faster: all is well then. */
static void check(long nth, enum error error)
{
    if (error && error != ERROR_MEMORY)
        fail_msg("allocation %ld failed and the answer was %d, %s", nth, error, error_message());
    if (error)
        assert_non_null(strstr(error_message(), "memory"));
    unlink(frame_path);
    assert_int_equal(entries(), entries_before);
}

static void fail_each_allocation(enum error (*work)(void))
{
    entries_before = entries();
    fail_each(work, check);
}

/* ---- frames ------------------------------------------------------------- */

static enum error build_in_memory(void)
{
    struct frame *built = NULL;
    enum error error = frame_build(list_uri, &built);
    if (!error)
        error = frame_write(built, frame_path);
    if (!error)
        assert_memory_equal(frame_digest(built), frame_digest(frame), sizeof(struct frame_digest));
    frame_free(built);
    unlink(frame_path);
    return error;
}

static enum error build_in_a_file(void)
{
    struct frame *built = NULL;
    enum error error = frame_build_file(list_uri, frame_path, 0);
    if (!error)
        error = frame_open(frame_path, &built);
    if (!error)
        error = frame_verify(built);
    if (!error)
        assert_memory_equal(frame_digest(built), frame_digest(frame), sizeof(struct frame_digest));
    frame_free(built);
    unlink(frame_path);
    return error;
}

static enum error scan_a_range(void)
{
    struct frame *built = NULL;
    enum error error = frame_build_by_scan("range:1000?labels=3", &built);
    frame_free(built);
    return error;
}

/* No memory for chunks: they go by the file. The first value is a rule by itself. */
static enum error put_aside(void)
{
    static uint64_t values[SPOOL_CHUNK + 1];
    struct spool_store store;
    struct spool spool;
    struct spool_cursor cursor = {0};
    const uint64_t *read = NULL;
    size_t count = 0;
    for (size_t i = 0; i <= SPOOL_CHUNK; i++)
        values[i] = random_mix(i);
    spool_store_init(&store, frame_path, 0);
    enum error error = spool_init(&spool, &store, false, "values");
    if (!error)
        error = spool_add(&spool, values, SPOOL_CHUNK + 1);
    if (!error)
        error = spool_finish(&spool);
    if (!error)
        error = spool_cursor_open(&cursor, &spool);
    for (size_t at = 0; !error && at <= SPOOL_CHUNK; at += count) {
        error = spool_cursor_next(&cursor, &read, &count);
        if (!error)
            assert_memory_equal(read, values + at, count * sizeof(*read));
        if (!error)
            assert_true(count > 0);
    }
    spool_cursor_close(&cursor);
    spool_release(&spool);
    spool_store_release(&store);
    return error;
}

static enum error view(int64_t begin, int64_t end, enum split split)
{
    static const struct split_shares shares = {0.5, 0.25, 0.25};
    struct frame *seen = NULL;
    enum error error = frame_view(frame, begin, end, &shares, split, &seen);
    if (!error)
        assert_true(frame_units(seen) > 0);
    frame_free(seen);
    return error;
}

static enum error view_rows(void)
{
    return view(20, 180, SPLIT_NONE);
}

static enum error view_a_side(void)
{
    return view(20, 180, SPLIT_VALIDATION);
}

static void test_frames(void **state)
{
    (void)state;
    fail_each_allocation(build_in_memory);
    fail_each_allocation(build_in_a_file);
    fail_each_allocation(scan_a_range);
    fail_each_allocation(put_aside);
}

static void test_views(void **state)
{
    (void)state;
    fail_each_allocation(view_rows);
    fail_each_allocation(view_a_side);
}

/* ---- orders ------------------------------------------------------------- */

static const struct design_case *one;

static int64_t most_frequent(const int64_t *rows, size_t count)
{
    size_t most = 0;
    int64_t found = rows[0];
    for (size_t i = 0; i < count; i++) {
        size_t times = 0;
        for (size_t k = 0; k < count; k++)
            times += rows[k] == rows[i];
        if (times > most) {
            most = times;
            found = rows[i];
        }
    }
    return found;
}

/* The places of a unit in an epoch: with replacement so many that the list of them grows. */
static enum error find_places(const struct order *order, int64_t row)
{
    int64_t *positions = NULL;
    size_t count = 0;
    enum error error = order_positions(order, row, 1, INT64_MAX, NULL, &positions, &count);
    if (!error)
        free(positions);
    return error;
}

/* A design that is made gives a position of its first epoch a unit, and that unit its position. */
static enum error use_design(void)
{
    struct design design = {
        .name = one->name, .replacement = one->replacement, .fields = one->fields};
    struct order *order = NULL;
    enum error error = order_new(frame, &design, &order);
    if (error)
        return error;
    int64_t ids[ORDER_BLOCK], rows[ORDER_BLOCK];
    size_t count = order_units(order, 0, ORDER_BLOCK, ids, NULL, rows);
    assert_true(count > 0 && count <= ORDER_BLOCK);
    int64_t units;
    error = order_epoch_units(order, 1, &units);
    if (!error)
        error = find_places(order, most_frequent(rows, count));
    order_free(order);
    return error;
}

static void test_designs(void **state)
{
    (void)state;
    for (int i = 0; i < DESIGN_CASES; i++) {
        one = &design_cases[i];
        fail_each_allocation(use_design);
    }
}

static int make_frame(void **state)
{
    make_folder(state);
    frame = design_frame(folder, 200);
    snprintf(list_uri, sizeof(list_uri),
             "csv:%s/units200.csv?id=id&label=label&weight=weight&group=group", folder);
    snprintf(frame_path, sizeof(frame_path), "%s/frame", folder);
    return 0;
}

static int free_frame(void **state)
{
    frame_free(frame);
    return remove_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_designs),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_frame, free_frame);
}

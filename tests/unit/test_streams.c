/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/stream/streams: Many streams by name, whoever chooses their names. Counted, not
 * timed: slots that a search may pass, draws of others in between.
 */
#include "tests/unit/colliding_unit.h"
#include "tests/unit/others_unit.h"

static void test_names_of_streams(void **state)
{
    char name[NAME_BYTES];
    uint32_t number = 0;
    bool waits;
    (void)state;
    for (int i = 0; i < MANY; i++) {
        collide(name, &number);
        create(name);
    }
    assert_in_range(longest_run(&unit.streams->names), 1, RUN_MOST);
    number = 0;
    for (int i = 0; i < MANY; i++) {
        collide(name, &number);
        assert_ok(streams_delete(unit.streams, streams_find(unit.streams, name), NULL, &waits));
    }
    assert_in_range(longest_run(&unit.streams->forgotten_names), 1, RUN_MOST);
    assert_in_range(longest_run(&unit.streams->names), 1, 2); /* two of them */
}

static int check_list(int64_t (*number_of)(int at), int count)
{
    struct stream **list;
    size_t listed;
    char name[NAME_BYTES];
    assert_ok(streams_list(unit.streams, &list, &listed));
    assert_int_equal(listed, count + 2);
    assert_string_equal(stream_definition(list[0])->name, "default");
    assert_ptr_equal(list[1], other);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "s%d", (int)number_of(i));
        assert_string_equal(stream_definition(list[i + 2])->name, name);
        assert_ptr_equal(streams_find(unit.streams, name), list[i + 2]);
    }
    streams_put_all(list, listed);
    return 0;
}

static int64_t each(int at)
{
    return at;
}

static int64_t each_other(int at)
{
    return 2 * at + 1;
}

/* More than are listed while the mutex is held, in the order in which they were created; whatever
 * is deleted, the others are found. */
static void test_streams_are_listed_in_order(void **state)
{
    char name[NAME_BYTES];
    bool waits;
    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "s%d", i);
        create(name);
    }
    check_list(each, MANY);
    for (int i = 0; i < MANY; i += 2) {
        snprintf(name, sizeof(name), "s%d", i);
        assert_ok(streams_delete(unit.streams, streams_find(unit.streams, name), NULL, &waits));
        assert_null(streams_find(unit.streams, name));
    }
    check_list(each_other, MANY / 2);
    create("s0");
    assert_int_equal(streams_find(unit.streams, "s0")->generation, 2);
}

static void test_a_list_of_streams_lets_others_draw(void **state)
{
    char name[NAME_BYTES];
    struct stream **list;
    size_t count;
    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "s%d", i);
        create(name);
    }
    let_others_draw();
    assert_ok(streams_list(unit.streams, &list, &count));
    assert_in_range(others_drew(), 8, MANY);
    assert_int_equal(count, MANY + 2);
    streams_put_all(list, count);
}

/* Only the highest generation is known of names that were deleted long ago. */
static void test_names_that_are_forgotten(void **state)
{
    char name[NAME_BYTES];
    (void)state;
    for (int i = 0; i < 2 * FORGOTTEN_LIMIT + 5; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        assert_ok(streams_reserve_name(unit.streams));
        streams_forget_name(unit.streams, name, i == 3 ? 7 : 1);
        if (i == FORGOTTEN_LIMIT - 1)
            streams_forget_name(unit.streams, "f3", 8);
    }
    assert_int_equal(unit.streams->forgotten_count, FORGOTTEN_LIMIT);
    assert_int_equal(unit.streams->generation_floor, 8);
    create("f2");
    assert_int_equal(streams_find(unit.streams, "f2")->generation, 9);
    create(name); /* the last one */
    assert_int_equal(streams_find(unit.streams, name)->generation, 2);
}

/* Whoever gives a large one back last does not free it: others may wait for that thread. */
static void test_what_is_left_of_a_large_stream_is_swept(void **state)
{
    struct stream_batch batch;
    bool waits;
    (void)state;
    struct stream *large = create_taken("large");
    struct stream *small = create_taken("small");
    assert_ok(unit_lease(small, "w", 0, 1, &batch));
    for (int64_t i = 0; i <= STREAM_LEASES_AT_ONCE; i++)
        assert_ok(unit_lease(large, "w", i, 1, &batch));
    assert_ok(streams_delete(unit.streams, large, NULL, &waits));
    assert_ok(streams_delete(unit.streams, small, NULL, &waits));
    stream_put(small);
    assert_null(unit.streams->buried);
    stream_put(large);
    assert_ptr_equal(unit.streams->buried, large);
    streams_sweep(unit.streams);
    assert_null(unit.streams->buried);
}

static const struct CMUnitTest tests[] = {
    TEST(test_names_of_streams),
    TEST(test_streams_are_listed_in_order),
    TEST(test_a_list_of_streams_lets_others_draw),
    TEST(test_names_that_are_forgotten),
    TEST(test_what_is_left_of_a_large_stream_is_swept),
};

UNIT_MAIN(tests)

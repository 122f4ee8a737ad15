/* SPDX-License-Identifier: MIT */
/* Covers trainer/wire/group: a place in a group of GPUs as it was sent, and what is none. */
#include "tests/unit/unit.h"

#include "trainer/wire/group.h"

#define FLOATS ((size_t)5)

struct sent {
    struct group_place place;
    struct index_range ranges[2];
    float state[FLOATS];
};

static struct sent sent;
static struct wire_header header;

/* Rank 0 of 3, which gets a state and is to make an id. */
static int set_up(void **state)
{
    (void)state;
    sent = (struct sent){.place = {.rank = 0, .ranks = 3, .source = 0, .last = 90},
                         .ranges = {{0, 40}, {42, 43}},
                         .state = {1, 2, 3, 4, 5}};
    header = (struct wire_header){.type = WIRE_GROUP,
                                  .bytes = sizeof(sent) - sizeof(float), /* padding */
                                  .batch = 7,
                                  .step = 20,
                                  .stock = 2,
                                  .shared = 1};
    header.bytes = sizeof(sent.place) + sizeof(sent.ranges) + sizeof(sent.state);
    return 0;
}

static void assert_none(const char *says)
{
    struct group_frame frame;
    assert_fails(group_frame_read(&header, &sent, FLOATS, &frame), ERROR_INPUT, says);
    group_frame_release(&frame);
    set_up(NULL);
}

static void test_all_of_it_is_read(void **state)
{
    struct group_frame frame;
    (void)state;
    assert_ok(group_frame_read(&header, &sent, FLOATS, &frame));
    assert_int_equal(frame.place.ranks, 3);
    assert_int_equal(frame.place.last, 90);
    assert_int_equal(index_set_size(&frame.applied), 41);
    assert_float_equal(frame.state[4], 5, 0);
    assert_true(header.bytes <= group_frame_limit(FLOATS));
    group_frame_release(&frame);
}

static void test_a_state_may_be_missing(void **state)
{
    struct group_frame frame;
    (void)state;
    header.shared = 0;
    header.bytes -= sizeof(sent.state);
    sent.place.rank = 2;
    sent.place.has_id = 1;
    assert_ok(group_frame_read(&header, &sent, FLOATS, &frame));
    assert_null(frame.state);
    group_frame_release(&frame);
    set_up(NULL);
}

static void test_what_is_no_place(void **state)
{
    (void)state;
    sent.place.rank = 3;
    assert_none("rank 3 of 3");
    sent.place.ranks = 0;
    assert_none("rank 0 of 0");
    sent.place.ranks = GROUP_RANKS_LIMIT + 1;
    assert_none("of 65537");
    sent.place.source = 3;
    assert_none("values from rank 3");
    sent.place.rank = 1;
    assert_none("without an id for rank 1");
    sent.place.last = 19;
    assert_none("from step 20 to step 19");
    header.batch = 0;
    assert_none("GROUP 0");
    header.step = -1;
    assert_none("from step -1");
    header.bytes--;
    assert_none("2 ranges in");
    header.stock = UINT32_MAX;
    assert_none("4294967295 ranges");
    header.shared = 0;
    assert_none("2 ranges in");
    sent.ranges[1].first = 39;
    assert_none("does not ascend");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_all_of_it_is_read, set_up),
    cmocka_unit_test_setup(test_a_state_may_be_missing, set_up),
    cmocka_unit_test_setup(test_what_is_no_place, set_up),
};

UNIT_MAIN(tests)

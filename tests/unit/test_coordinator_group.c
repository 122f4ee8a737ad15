/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/server/coordinator_group: who is in a group of GPUs, where it begins, and when it
 * is over. Workers are peers whose frames the test writes; time is what the test says it is.
 */
#include "tests/unit/folder_unit.h"

#include <sys/socket.h>

#include "common/log.h"
#include "trainer/server/coordinator_private.h"
#include "trainer/wire/group.h"

#define WORKERS 4
#define GENERATION 7
#define LAST 100

static int64_t now_ns = INT64_C(1000000000000);
static struct coordinator *coordinator;
static struct held_shard held;
static struct peer *peers[WORKERS];
static int far_ends[WORKERS];
static size_t count;

int64_t __wrap_clock_now_ns(void);
int64_t __wrap_clock_deadline_ns(int64_t milliseconds);

int64_t __wrap_clock_now_ns(void)
{
    return now_ns;
}

int64_t __wrap_clock_deadline_ns(int64_t milliseconds)
{
    return milliseconds < 0 ? INT64_MAX : now_ns + milliseconds * 1000000;
}

/* ---- a server, and workers who speak to it ------------------------------- */

static int start(void **state)
{
    const struct engine_options engine = {.device = "cpu", .blas = "plain", .threads = 1};
    const struct coordinator_options options = {
        .servers = 1, .aggregate = 2, .is_grouped = true, .logdir = folder, .train_steps = LAST};
    log_set_level((enum log_level)(LOG_ERROR + 1));
    make_folder(state);
    assert_ok(held_shard_open(&held, &engine, 2));
    assert_ok(coordinator_open(&options, &held, &coordinator));
    coordinator->phase = COORDINATOR_RUNNING;
    coordinator->generation = GENERATION;
    return 0;
}

static int stop(void **state)
{
    while (count > 0) {
        peer_free(peers[--count]);
        close(far_ends[count]);
    }
    coordinator_close(coordinator);
    held_shard_close(&held);
    return remove_folder(state);
}

static void pass(int64_t milliseconds)
{
    now_ns += milliseconds * 1000000;
}

static void tick(void)
{
    assert_ok(group_tick(coordinator, peers, count));
}

/* As the server does with a whole frame, and again when something has changed. */
static enum error handle(struct peer *peer)
{
    peer->waits = false;
    enum error error = coordinator_group(coordinator, peer);
    peer->whole = peer->waits;
    return error;
}

static void handle_waiting(void)
{
    for (size_t i = 0; i < count; i++) {
        if (peers[i]->waits)
            assert_ok(handle(peers[i]));
    }
}

static enum error say(size_t who, struct wire_header header, size_t bytes)
{
    struct peer *peer = peers[who];
    free(peer->payload);
    peer->payload = calloc(1, bytes + 1);
    assert_non_null(peer->payload);
    peer->capacity = bytes + 1;
    peer->payload_bytes = bytes;
    peer->header = header;
    peer->whole = true;
    peer->asked_ns = now_ns;
    return handle(peer);
}

static void join_with(size_t who, uint64_t generation, int64_t step)
{
    struct wire_header header = {.type = WIRE_JOIN,
                                 .generation = generation,
                                 .batch = WIRE_NONE,
                                 .done = WIRE_NONE,
                                 .step = step};
    assert_ok(say(who, header, 0));
}

/* A worker that has nothing yet. */
static size_t come(void)
{
    int ends[2];
    size_t who = count++;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    far_ends[who] = ends[1];
    assert_ok(peer_new(ends[0], "a test", &peers[who]));
    peers[who]->kind = PEER_WORKER;
    peers[who]->index = (int64_t)who;
    snprintf(peers[who]->name, sizeof(peers[who]->name), "worker %zu", who);
    join_with(who, 0, WIRE_NONE);
    return who;
}

static struct wire_header beat_of(int64_t step, uint32_t stock)
{
    return (struct wire_header){.type = WIRE_BEAT,
                                .generation = GENERATION,
                                .batch = coordinator->group.number,
                                .done = WIRE_NONE,
                                .step = step,
                                .stock = stock};
}

static void beat(size_t who, int64_t step, uint32_t stock)
{
    assert_ok(say(who, beat_of(step, stock), 0));
}

static enum error say_id(size_t who, size_t bytes)
{
    struct wire_header header = {.type = WIRE_ID, .batch = coordinator->group.number};
    return say(who, header, bytes);
}

/* The latest answer that came; type 0: none did. */
static struct wire_header heard(size_t who, struct group_place *ret_place)
{
    struct wire_header header, latest = {.type = 0};
    while (read(far_ends[who], &header, sizeof(header)) == sizeof(header)) {
        char payload[4096];
        assert_true(header.bytes <= sizeof(payload));
        assert_int_equal(read(far_ends[who], payload, header.bytes), header.bytes);
        if (header.type == WIRE_GROUP)
            memcpy(ret_place, payload, sizeof(*ret_place));
        latest = header;
    }
    return latest;
}

/* All who wait are placed: those who come first, `first` before all others. */
static void name_group(size_t first)
{
    tick();
    assert_int_equal(coordinator->group.phase, GROUP_NAMING);
    handle_waiting();
    assert_ok(say_id(first, GROUP_ID_BYTES));
    handle_waiting();
    assert_int_equal(coordinator->group.phase, GROUP_TRAINS);
}

static bool stands(int64_t number)
{
    tick();
    return coordinator->group.phase == GROUP_TRAINS && coordinator->group.number == number;
}

/* ---- who is in it -------------------------------------------------------- */

static void test_places(void **state)
{
    struct group_place places[2];
    (void)state;
    come();
    come();
    name_group(0);
    for (size_t who = 0; who < 2; who++) {
        struct wire_header header = heard(who, &places[who]);
        assert_int_equal(header.type, who == 0 ? WIRE_NEWS : WIRE_GROUP);
        assert_int_equal(places[who].rank, who);
        assert_int_equal(places[who].ranks, 2);
        assert_int_equal(places[who].source, 0);
        assert_int_equal(places[who].has_id, who);
        assert_int_equal(places[who].last, LAST);
    }
}

static void test_the_foremost_has_the_values(void **state)
{
    struct group_place place;
    (void)state;
    come();
    come();
    come();
    join_with(0, GENERATION, 4);
    join_with(1, GENERATION + 1, 99); /* of a history that is over: counts as nothing */
    join_with(2, GENERATION, 5);
    name_group(0);
    assert_int_equal(coordinator->group.ranks, 2);
    assert_int_equal(coordinator->group.step, 5);
    assert_false(coordinator->group.sends_state);
    assert_true(peers[1]->waits); /* spare */
    assert_int_equal(heard(2, &place).step, 5);
    assert_int_equal(place.source, 1);
    assert_int_equal(place.rank, 1);
}

/* For its status: steps that others made before it came are not its own. */
static void test_what_each_member_contributed(void **state)
{
    (void)state;
    come();
    come();
    join_with(0, GENERATION, 40);
    name_group(0);
    beat(0, 40, 0);
    beat(1, 42, 0);
    beat(1, 42, 0);
    assert_int_equal(peers[0]->pushes, 0);
    assert_int_equal(peers[1]->pushes, 2);
    join_with(0, GENERATION, 41); /* the next group begins with a step that was made before */
    join_with(1, GENERATION, 41);
    name_group(0);
    beat(1, 43, 0);
    assert_int_equal(peers[1]->pushes, 4);
}

static void test_without_values_it_begins_with_the_servers(void **state)
{
    struct group_place place;
    (void)state;
    come();
    come();
    tick();
    handle_waiting();
    assert_true(coordinator->group.sends_state);
    struct wire_header header = heard(0, &place);
    assert_int_equal(header.type, WIRE_GROUP);
    assert_int_equal(header.shared, 1);
    assert_int_equal(header.step, 0);
}

static void test_it_waits_for_others_for_five_seconds(void **state)
{
    (void)state;
    come();
    tick();
    pass(4900);
    tick();
    assert_int_equal(coordinator->group.phase, GROUP_NONE);
    pass(200);
    name_group(0);
    assert_int_equal(coordinator->group.ranks, 1);
}

static void test_who_comes_is_taken_in_after_two_seconds(void **state)
{
    (void)state;
    come();
    tick();
    pass(5100);
    name_group(0);
    come();
    pass(1900);
    beat(0, 1, 0);
    assert_true(stands(1));
    pass(200);
    assert_false(stands(1));
    join_with(0, GENERATION, 1);
    name_group(0);
    assert_int_equal(coordinator->group.ranks, 2);
    come(); /* for whom there is no place */
    pass(3000);
    beat(0, 1, 0);
    beat(1, 1, 0);
    assert_true(stands(2));
}

/* ---- when it is over ----------------------------------------------------- */

static void test_a_silent_member_ends_it(void **state)
{
    struct group_place place;
    (void)state;
    come();
    come();
    name_group(0);
    beat(1, 0, 0);
    pass(4900);
    beat(0, 1, 0);
    assert_true(stands(1));
    pass(200);
    assert_false(stands(1));
    beat(0, 1, 0);
    assert_int_equal(heard(0, &place).batch, 0);
    join_with(0, GENERATION, 1);
    name_group(0); /* at once, without the silent one */
    assert_int_equal(coordinator->group.ranks, 1);
    assert_int_equal(coordinator->group.step, 1);
    beat(1, 1, 0);
    assert_int_equal(heard(1, &place).batch, 0);
}

/* Both say something every second, and neither gets on, for so long. */
static void hang(int seconds, int64_t step)
{
    for (int i = 0; i < seconds; i++) {
        pass(1000);
        beat(0, step, 1);
        beat(1, step, 2);
        assert_true(stands(coordinator->group.number));
    }
    pass(999);
}

static void join_both(int64_t step)
{
    join_with(0, GENERATION, step);
    join_with(1, GENERATION, step);
    name_group(0);
}

static void test_a_group_in_which_nobody_gets_on_ends(void **state)
{
    (void)state;
    come();
    come();
    name_group(0);
    beat(0, 3, 1);
    hang(59, 3);
    assert_true(stands(1));
    pass(2);
    assert_false(stands(1));
    join_both(3); /* twice as long, in case steps take so long */
    hang(119, 3);
    assert_true(stands(2));
    pass(2);
    assert_false(stands(2));
    join_both(3);
    beat(1, 4, 1); /* they got on: a minute again */
    hang(59, 4);
    assert_true(stands(3));
    pass(2);
    assert_false(stands(3));
}

static void test_one_that_computes_for_long_is_waited_for(void **state)
{
    (void)state;
    come();
    come();
    name_group(0);
    for (int i = 0; i < 1000; i++) {
        pass(1000);
        beat(0, 3, 1);
        beat(1, 3, 0); /* has not given its part yet */
        assert_true(stands(1));
    }
}

/* However often nobody got on, it is found out after 64 minutes. */
static void test_the_time_is_doubled_six_times(void **state)
{
    (void)state;
    come();
    come();
    for (int64_t group = 1; group < 9; group++) {
        int64_t minutes = group < 7 ? INT64_C(1) << (group - 1) : 64;
        join_both(3);
        beat(0, 3, 1);
        hang((int)minutes * 60 - 1, 3);
        assert_true(stands(group));
        pass(2);
        assert_false(stands(group));
    }
}

static void test_a_member_that_is_lost_or_leaves_ends_it(void **state)
{
    (void)state;
    come();
    come();
    name_group(0);
    group_lose(coordinator, peers[1]);
    assert_int_equal(coordinator->group.phase, GROUP_NONE);
    join_both(2);
    join_with(1, GENERATION, 3);
    assert_int_equal(coordinator->group.phase, GROUP_NONE);
    join_with(0, GENERATION, 2);
    name_group(0);
    assert_int_equal(coordinator->group.step, 3);
    come();
    group_lose(coordinator, peers[2]); /* no member */
    assert_true(stands(3));
}

static void test_the_evaluator_ends_it_with_the_step_of_now(void **state)
{
    struct group_place place;
    (void)state;
    come();
    come();
    name_group(0);
    beat(0, 5, 0);
    coordinator->stopped = true;
    assert_false(stands(1));
    join_both(5);
    heard(1, &place);
    assert_int_equal(place.last, 5);
    assert_true(stands(2)); /* until rank 0 has saved it */
}

/* ---- who waits ------------------------------------------------------------ */

/* In case somebody is slow with what it could compute as well. */
static void test_who_waits_is_looked_at_ten_times_a_second(void **state)
{
    (void)state;
    come();
    coordinator_changed(coordinator);
    for (int i = 0; i < 3; i++) {
        assert_ok(work_take_from_silent(coordinator, peers, count));
        assert_true(coordinator_changed(coordinator));
        pass(99);
        assert_ok(work_take_from_silent(coordinator, peers, count));
        assert_false(coordinator_changed(coordinator));
        pass(2);
    }
    peers[0]->waits = false;
    assert_ok(work_take_from_silent(coordinator, peers, count));
    assert_false(coordinator_changed(coordinator));
}

/* ---- what it is told ----------------------------------------------------- */

static void test_words_that_cannot_be(void **state)
{
    (void)state;
    come();
    come();
    join_both(5);
    assert_fails(say(0, beat_of(4, 0), 0), ERROR_INPUT, "BEAT of step 4 in a group of steps 5 to");
    assert_fails(say(0, beat_of(LAST + 1, 0), 0), ERROR_INPUT, "BEAT of step 101");
    assert_ok(say(0, beat_of(LAST, 0), 0));
    assert_fails(say_id(0, GROUP_ID_BYTES - 1), ERROR_INPUT, "ID of 127 bytes, not 128");
    assert_fails(say(0, (struct wire_header){.type = WIRE_STATE, .step = 6}, 12), ERROR_INPUT,
                 "STATE of 12 bytes; it has 0 here");
    assert_int_equal(coordinator_group_limit(coordinator, WIRE_ID), GROUP_ID_BYTES);
    assert_int_equal(coordinator_group_limit(coordinator, WIRE_BEAT), 0);
    coordinator->options.is_grouped = false;
    assert_int_equal(coordinator_group_limit(coordinator, WIRE_ID), 0);
}

static void test_only_rank_0_names_a_group_and_once(void **state)
{
    (void)state;
    come();
    come();
    tick();
    handle_waiting();
    peers[1]->waits = false;
    assert_ok(say_id(1, GROUP_ID_BYTES));
    assert_int_equal(coordinator->group.phase, GROUP_NAMING);
    struct wire_header of_before = {.type = WIRE_ID, .batch = 0};
    assert_ok(say(0, of_before, GROUP_ID_BYTES));
    assert_int_equal(coordinator->group.phase, GROUP_NAMING);
    assert_ok(say_id(0, GROUP_ID_BYTES));
    assert_int_equal(coordinator->group.phase, GROUP_TRAINS);
}

/* Asked of rank 0 alone, and only for what this server does not have. */
static void test_a_state_is_asked_for(void **state)
{
    struct group_place place;
    (void)state;
    come();
    come();
    name_group(0);
    beat(0, 5, 0);
    assert_int_equal(heard(0, &place).detail, 0);
    coordinator->cut_wanted = true;
    beat(0, 5, 0);
    beat(1, 5, 0);
    assert_int_equal(heard(0, &place).detail, 1);
    assert_int_equal(heard(1, &place).detail, 0);
    coordinator->cut_wanted = false;
    coordinator->options.save_ms = 1000;
    coordinator->next_cut_ns = now_ns + 1;
    beat(0, 6, 0);
    assert_int_equal(heard(0, &place).detail, 0);
    coordinator->next_cut_ns = now_ns;
    beat(0, 6, 0);
    assert_int_equal(heard(0, &place).detail, 1);
    coordinator->not_before_ns = now_ns + 1; /* the last one failed */
    beat(0, 6, 0);
    assert_int_equal(heard(0, &place).detail, 0);
}

/* Of rank 0 alone, and of the group of now. */
static void test_states_that_are_not_taken(void **state)
{
    struct wire_header of_state = {.type = WIRE_STATE, .step = 5};
    (void)state;
    come();
    come();
    name_group(0);
    beat(0, 5, 0);
    assert_ok(say(0, of_state, 0)); /* of no group */
    of_state.batch = coordinator->group.number + 1;
    assert_ok(say(0, of_state, 0));
    of_state.batch = coordinator->group.number;
    assert_ok(say(1, of_state, 0));
    assert_int_equal(coordinator_step(coordinator), 0);
    held.parameters.step = 6;
    assert_ok(say(0, of_state, 0)); /* there is a later one */
    assert_int_equal(coordinator_step(coordinator), 6);
    held.parameters.step = 0;
    of_state.step = LAST + 1;
    assert_fails(say(0, of_state, 0), ERROR_INPUT, "STATE of step 101 in a group of steps 0 to");
}

static void test_who_joins_when_it_is_over_is_told(void **state)
{
    struct group_place place;
    (void)state;
    coordinator->phase = COORDINATOR_OVER;
    come();
    struct wire_header header = heard(0, &place);
    assert_int_equal(header.type, WIRE_NEWS);
    assert_int_equal(header.over, 1);
    assert_false(peers[0]->waits);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

static const struct CMUnitTest tests[] = {
    TEST(test_places),
    TEST(test_the_foremost_has_the_values),
    TEST(test_what_each_member_contributed),
    TEST(test_without_values_it_begins_with_the_servers),
    TEST(test_it_waits_for_others_for_five_seconds),
    TEST(test_who_comes_is_taken_in_after_two_seconds),
    TEST(test_a_silent_member_ends_it),
    TEST(test_a_group_in_which_nobody_gets_on_ends),
    TEST(test_one_that_computes_for_long_is_waited_for),
    TEST(test_the_time_is_doubled_six_times),
    TEST(test_a_member_that_is_lost_or_leaves_ends_it),
    TEST(test_the_evaluator_ends_it_with_the_step_of_now),
    TEST(test_words_that_cannot_be),
    TEST(test_only_rank_0_names_a_group_and_once),
    TEST(test_a_state_is_asked_for),
    TEST(test_who_waits_is_looked_at_ten_times_a_second),
    TEST(test_states_that_are_not_taken),
    TEST(test_who_joins_when_it_is_over_is_told),
};

UNIT_MAIN(tests)

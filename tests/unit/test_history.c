/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/service/history: Rates, courses and spans out of readings; steps of seeks;
 * streams that go.
 */
#include "tests/unit/unit.h"

#include "sampler/service/history.h"

#define SECOND_NS INT64_C(1000000000)

static int setup(void **state)
{
    return !history_new((struct history **)state) ? 0 : -1;
}

static int teardown(void **state)
{
    history_free(*state);
    return 0;
}

static void note(struct history *history, const char *name, struct history_counts counts, double at)
{
    int64_t now_ns = 77 * SECOND_NS + (int64_t)(at * 1e9);
    assert_int_equal(history_note(history, name, &counts, now_ns), OK);
}

static void test_unknown_streams_have_nothing(void **state)
{
    struct history_rates rates = {.positions = 1};
    struct history_span spans[HISTORY_SPANS];
    float course[HISTORY_SLOTS];
    assert_false(history_rates(*state, "default", 1, &rates));
    assert_true(rates.seconds == 0 && rates.positions == 0);
    assert_int_equal(history_course(*state, "default", 1, course), 0);
    assert_int_equal(
        history_spans(*state, "default", &(struct history_counts){.generation = 1}, spans), 0);
    note(*state, "default", (struct history_counts){.generation = 1}, 0);
    assert_true(history_rates(*state, "default", 1, &rates));
    assert_true(rates.seconds == 0);
    assert_false(history_rates(*state, "default", 2, &rates));
}

/* Whichever of them go and come: by name and generation. */
static void test_many_streams(void **state)
{
    enum { MANY = 2000 };
    struct history_rates rates;
    char name[16];
    for (int second = 0; second < 6; second++) {
        for (int i = 0; i < MANY; i++) {
            snprintf(name, sizeof(name), "s%d", i);
            if ((i + second) % 3 > 0) /* each third one is away */
                note(*state, name,
                     (struct history_counts){.generation = 1 + i % 2, .position = second * i},
                     second);
        }
        history_sweep(*state);
        for (int i = 0; i < MANY; i++) {
            snprintf(name, sizeof(name), "s%d", i);
            bool is_there = (i + second) % 3 > 0;
            bool was_there = second > 0 && (i + second - 1) % 3 > 0;
            assert_int_equal(history_rates(*state, name, 1 + i % 2, &rates), is_there);
            assert_true(rates.positions == (is_there && was_there ? i : 0));
            assert_false(history_rates(*state, name, 2 - i % 2, &rates));
        }
    }
}

static void test_rates_are_of_the_last_seconds(void **state)
{
    struct history_rates rates;
    struct history_span span[HISTORY_SPANS];
    for (int second = 0; second <= 300; second++) {
        int64_t fast = second > 200 ? second - 200 : 0;
        note(*state, "s",
             (struct history_counts){.generation = 3,
                                     .position = fast * 1000,
                                     .batches = fast * 10,
                                     .acked = fast * 9,
                                     .redelivered = fast},
             second);
        history_sweep(*state);
    }
    assert_true(history_rates(*state, "s", 3, &rates));
    assert_true(rates.seconds == HISTORY_RATE_SECONDS);
    assert_true(rates.positions == 1000 && rates.batches == 10);
    assert_true(rates.acks == 9 && rates.redeliveries == 1);
    struct history_counts now = {.generation = 3, .position = 100000};
    assert_int_equal(history_spans(*state, "s", &now, span), 1);
    assert_int_equal(span[0].first, 40000);
    assert_int_equal(span[0].end, 100000);
    now.position = 100500; /* since the last reading */
    assert_int_equal(history_spans(*state, "s", &now, span), 1);
    assert_int_equal(span[0].end, 100500);
    now = (struct history_counts){.generation = 3, .position = 200000, .jumps = 1};
    assert_int_equal(history_spans(*state, "s", &now, span), 1);
    assert_int_equal(span[0].end, 100000); /* a seek that was not read yet */
}

static void test_a_minute_of_seeks_has_room(void **state)
{
    struct history_span spans[HISTORY_SPANS];
    struct history_counts counts = {.position = 0};
    for (int second = 0; second <= 200; second++) {
        note(*state, "s", counts, second);
        counts.position += 1000;
        if (second % 2 == 1) {
            counts.jumps++;
            counts.position += 5000;
        }
    }
    counts.position += 1;
    assert_true(history_spans(*state, "s", &counts, spans) <= HISTORY_SPANS);
}

/* A batch each 12 s, then each 30: a rate of 8 s would be 0 mostly. */
static void test_where_little_happens_a_rate_is_of_a_minute(void **state)
{
    struct history_rates rates;
    struct history_counts counts = {.position = 0};
    for (int second = 0; second <= 600; second++) {
        if (second % (second <= 300 ? 12 : 30) == 0) {
            counts.position += 100;
            counts.batches++;
        }
        note(*state, "s", counts, second);
        assert_true(history_rates(*state, "s", 0, &rates));
        assert_true(second < 12 || rates.batches > 0);
        assert_true(rates.positions > 99 * rates.batches - 1e-9);
        assert_true(rates.positions < 101 * rates.batches + 1e-9);
        assert_false(rates.stalled);
    }
    assert_true(rates.seconds == 60 && rates.idle_seconds == 0);
}

/* Silence is a stall after ten seconds, and after five times the usual pause. */
static void test_a_stall(void **state)
{
    struct history_rates rates;
    struct history_counts counts = {.position = 0};
    note(*state, "s", counts, -100);
    assert_true(history_rates(*state, "s", 0, &rates));
    assert_true(rates.idle_seconds < 0 && !rates.stalled);
    for (int second = 0; second <= 20; second++) {
        counts.reads += 10; /* whoever reads by index draws nothing */
        counts.read += 1000;
        note(*state, "s", counts, second);
    }
    for (int second = 21; second <= 200; second++) {
        note(*state, "s", counts, second);
        assert_true(history_rates(*state, "s", 0, &rates));
        assert_true(rates.idle_seconds == second - 20);
        assert_int_equal(rates.stalled, second > 20 + HISTORY_STALL_SECONDS);
    }
    assert_true(rates.read == 0);
    counts.reads++;
    note(*state, "s", counts, 201);
    assert_true(history_rates(*state, "s", 0, &rates));
    assert_true(rates.idle_seconds == 0 && !rates.stalled);
    for (int second = 202; second < 1000; second++) {
        counts.reads += second % 20 == 0;
        note(*state, "s", counts, second);
    }
    for (int second = 1001; second <= 1200; second++) {
        note(*state, "s", counts, second);
        assert_true(history_rates(*state, "s", 0, &rates));
        assert_int_equal(rates.stalled, second > 980 + HISTORY_STALL_PAUSES * 20);
    }
}

static void test_what_is_read_is_in_the_course(void **state)
{
    struct history_rates rates;
    float course[HISTORY_SLOTS];
    for (int second = 0; second <= 10; second++)
        note(*state, "s",
             (struct history_counts){.position = 10 * second,
                                     .batches = second,
                                     .reads = 2 * second,
                                     .read = 5000 + 200 * second,
                                     .read_end = 70 * second},
             second);
    assert_int_equal(history_course(*state, "s", 0, course), 2);
    assert_true(course[0] == 210 && course[1] == 210);
    assert_true(history_rates(*state, "s", 0, &rates));
    assert_true(rates.positions == 10 && rates.read == 200);
    assert_true(rates.reads == 2 && rates.read_end == 70);
}

static void test_the_course_has_a_value_every_five_seconds(void **state)
{
    float course[HISTORY_SLOTS];
    for (int second = 0; second <= 21; second++)
        note(*state, "s", (struct history_counts){.position = second * 100}, second);
    assert_int_equal(history_course(*state, "s", 0, course), 4);
    for (int i = 0; i < 4; i++)
        assert_true(course[i] == 100);
    for (int second = 22; second <= 2000; second++)
        note(*state, "s", (struct history_counts){.position = 2100}, second);
    assert_int_equal(history_course(*state, "s", 0, course), HISTORY_SLOTS);
    assert_true(course[0] == 0 && course[HISTORY_SLOTS - 1] == 0);
}

/* The machine slept for 32 s: six slots of the mean, not one of six times as much. */
static void test_late_readings_are_spread(void **state)
{
    float course[HISTORY_SLOTS];
    note(*state, "s", (struct history_counts){.position = 0}, 0);
    note(*state, "s", (struct history_counts){.position = 3200}, 32);
    assert_int_equal(history_course(*state, "s", 0, course), 6);
    for (int i = 0; i < 6; i++)
        assert_true(course[i] == 100);
}

static void test_a_seek_draws_nothing(void **state)
{
    struct history_rates rates;
    struct history_span spans[HISTORY_SPANS];
    note(*state, "s", (struct history_counts){.position = 100}, 0);
    note(*state, "s", (struct history_counts){.position = 200}, 1);
    note(*state, "s", (struct history_counts){.position = 90000, .jumps = 1}, 2);
    note(*state, "s", (struct history_counts){.position = 90100, .jumps = 1}, 3);
    note(*state, "s", (struct history_counts){.position = 50, .jumps = 2}, 4);
    note(*state, "s", (struct history_counts){.position = 150, .jumps = 2}, 5);
    assert_true(history_rates(*state, "s", 0, &rates));
    assert_true(rates.positions == 60);
    struct history_counts now = {.position = 150, .jumps = 2};
    assert_int_equal(history_spans(*state, "s", &now, spans), 3);
    assert_int_equal(spans[0].first, 100);
    assert_int_equal(spans[0].end, 200);
    assert_int_equal(spans[1].first, 90000);
    assert_int_equal(spans[2].end, 150);
}

/* What is drawn out of gaps counts; a restore that sets counters back gives no negative rate. */
static void test_the_end_is_when_it_was_seen(void **state)
{
    note(*state, "s", (struct history_counts){.position = 90}, 1);
    assert_int_equal(history_ended_ns(*state, "s", 0), 0);
    note(*state, "s", (struct history_counts){.position = 100, .ended = true}, 2);
    int64_t ended_ns = history_ended_ns(*state, "s", 0);
    assert_true(ended_ns > 0);
    note(*state, "s", (struct history_counts){.position = 100, .ended = true}, 3);
    assert_int_equal(history_ended_ns(*state, "s", 0), ended_ns);
    note(*state, "s", (struct history_counts){.position = 50, .jumps = 1}, 4);
    assert_int_equal(history_ended_ns(*state, "s", 0), 0);
    note(*state, "s", (struct history_counts){.position = 100, .jumps = 1, .ended = true}, 5);
    assert_true(history_ended_ns(*state, "s", 0) > ended_ns);
    note(*state, "old", (struct history_counts){.position = 100, .ended = true}, 6);
    note(*state, "old", (struct history_counts){.position = 100, .ended = true}, 7);
    assert_int_equal(history_ended_ns(*state, "old", 0), 0);
    assert_int_equal(history_ended_ns(*state, "nobody", 0), 0);
}

static void test_gaps_and_restores(void **state)
{
    struct history_rates rates;
    note(*state, "s", (struct history_counts){.position = 1000, .acked = 50, .jumps = 0}, 0);
    note(*state, "s", (struct history_counts){.position = 1000, .gaps = 500, .jumps = 1}, 1);
    note(*state, "s", (struct history_counts){.position = 1000, .gaps = 300, .jumps = 1}, 2);
    assert_true(history_rates(*state, "s", 0, &rates));
    assert_true(rates.positions == 100);
    assert_true(rates.acks == 0);
}

static void test_streams_that_go_are_forgotten(void **state)
{
    struct history_rates rates;
    char name[16];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 200; i++) {
            if (round == 2 && i % 3 != 0)
                continue;
            snprintf(name, sizeof(name), "s%d", i);
            note(*state, name, (struct history_counts){.position = i * round}, round);
        }
        history_sweep(*state);
    }
    for (int i = 199; i >= 0; i--) {
        snprintf(name, sizeof(name), "s%d", i);
        assert_int_equal(history_rates(*state, name, 0, &rates), i % 3 == 0);
        if (i % 3 == 0)
            assert_true(rates.positions == i);
    }
    history_sweep(*state);
    assert_false(history_rates(*state, "s0", 0, &rates));
    note(*state, "s0", (struct history_counts){.position = 5}, 9);
    assert_true(history_rates(*state, "s0", 0, &rates));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_unknown_streams_have_nothing, setup, teardown),
    cmocka_unit_test_setup_teardown(test_a_minute_of_seeks_has_room, setup, teardown),
    cmocka_unit_test_setup_teardown(test_many_streams, setup, teardown),
    cmocka_unit_test_setup_teardown(test_rates_are_of_the_last_seconds, setup, teardown),
    cmocka_unit_test_setup_teardown(test_where_little_happens_a_rate_is_of_a_minute, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(test_a_stall, setup, teardown),
    cmocka_unit_test_setup_teardown(test_what_is_read_is_in_the_course, setup, teardown),
    cmocka_unit_test_setup_teardown(test_the_course_has_a_value_every_five_seconds, setup,
                                    teardown),
    cmocka_unit_test_setup_teardown(test_late_readings_are_spread, setup, teardown),
    cmocka_unit_test_setup_teardown(test_a_seek_draws_nothing, setup, teardown),
    cmocka_unit_test_setup_teardown(test_the_end_is_when_it_was_seen, setup, teardown),
    cmocka_unit_test_setup_teardown(test_gaps_and_restores, setup, teardown),
    cmocka_unit_test_setup_teardown(test_streams_that_go_are_forgotten, setup, teardown),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/stream/stream_report: Reports on streams with many workers, leases and gaps let
 * others draw in between.
 */
#include "tests/unit/others_unit.h"

static void lease_by_many(void)
{
    char name[NAME_BYTES];
    struct stream_batch batch;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "w%d", i);
        assert_ok(unit_lease(unit.stream, name, 0, 1, &batch));
    }
}

/* The last seen first; of equals the first by name. */
static void test_workers_are_chosen_in_pieces(void **state)
{
    enum { ROOM = 100 };
    struct stream_worker workers[ROOM], all[MANY];
    size_t count, known;
    (void)state;
    lease_by_many();
    for (uint32_t i = 0; i < MANY; i++)
        worker_table_see(&unit.stream->ledger.workers, i, stream_clock_ms() - (i * 7919) % 97);
    assert_ok(stream_workers(unit.stream, all, MANY, &count, &known));
    assert_int_equal(count, MANY);
    let_others_draw();
    assert_ok(stream_workers(unit.stream, workers, ROOM, &count, &known));
    assert_in_range(others_drew(), 15, MANY);
    assert_int_equal(count, ROOM);
    assert_int_equal(known, MANY);
    for (size_t i = 0; i < MANY; i++) {
        if (i < ROOM)
            assert_string_equal(workers[i].name, all[i].name);
        if (i > 0)
            assert_true(all[i - 1].last_seen_ms < all[i].last_seen_ms ||
                        (all[i - 1].last_seen_ms == all[i].last_seen_ms &&
                         strcmp(all[i - 1].name, all[i].name) < 0));
    }
    assert_ok(stream_workers(unit.stream, NULL, 0, &count, &known));
    assert_int_equal(count, 0);
}

static void see_last(int draw)
{
    if (draw > 1)
        return;
    clock_sleep_ms(2);
    worker_table_see(&unit.stream->ledger.workers, MANY - 1, stream_clock_ms());
}

/* Who is seen while they are listed was seen last. */
static void test_a_worker_that_is_seen_meanwhile(void **state)
{
    struct stream_worker workers[2];
    char name[NAME_BYTES];
    size_t count, known;
    (void)state;
    lease_by_many();
    clock_sleep_ms(2);
    let_others_draw();
    also = see_last;
    assert_ok(stream_workers(unit.stream, workers, 2, &count, &known));
    (void)others_drew();
    snprintf(name, sizeof(name), "w%d", MANY - 1);
    assert_string_equal(workers[0].name, name);
    assert_int_equal(workers[0].last_seen_ms, 0);
}

/* Every other position is open. */
static void open_gaps(int gaps)
{
    struct ledger *ledger = &unit.stream->ledger;
    assert_ok(intervals_reserve(&ledger->gaps, (size_t)gaps));
    for (int64_t i = 0; i < gaps; i++)
        intervals_add(&ledger->gaps, 2 * i, 2 * i + 1);
    ledger->position = 2 * gaps;
}

static void test_what_was_drawn_is_listed_in_pieces(void **state)
{
    enum { GAPS = 4000 };
    struct stream_drawn drawn;
    (void)state;
    unit.stream->plan->batching.epoch_positions = 3 * GAPS;
    open_gaps(GAPS);
    let_others_draw();
    assert_ok(stream_drawn(unit.stream, &drawn));
    assert_in_range(others_drew(), 3, GAPS);
    assert_int_equal(drawn.count, GAPS);
    for (size_t i = 0; i < drawn.count; i++) {
        assert_int_equal(drawn.spans[i].begin, 2 * i + 1);
        assert_int_equal(drawn.spans[i].end, 2 * i + 2);
    }
    free(drawn.spans);
}

/* ---- who did it --------------------------------------------------------- */

static int searches;
static size_t most_at_once;

const struct lease_done *__real_lease_history_find(const struct lease_history *history,
                                                   int64_t position, size_t most, uint64_t *number);
const struct lease_done *__wrap_lease_history_find(const struct lease_history *history,
                                                   int64_t position, size_t most, uint64_t *number);
const struct lease_done *__wrap_lease_history_find(const struct lease_history *history,
                                                   int64_t position, size_t most, uint64_t *number)
{
    uint64_t before = *number < history->count ? *number : history->count;
    const struct lease_done *done = __real_lease_history_find(history, position, most, number);
    if (*number > 0 && before - *number > most_at_once)
        most_at_once = before - *number;
    searches++;
    return done;
}

static void find(int64_t position, const char *worker, int64_t seq)
{
    struct stream_place place;
    searches = 0;
    stream_where(unit.stream, position, &place);
    assert_int_equal(place.state, PLACE_DONE);
    assert_string_equal(place.worker, worker);
    assert_int_equal(place.seq, seq);
}

static void seek_away(int draw)
{
    bool waits;
    if (draw == 1)
        assert_ok(stream_seek(unit.stream, 7, NULL, &waits));
}

/* However many batches are remembered, of which the first is found last. */
static void test_who_did_it_is_searched_in_pieces(void **state)
{
    enum { DONE = LEASE_HISTORY_LIMIT + 100 };
    struct stream_batch batch;
    bool waits;
    (void)state;
    for (int64_t i = 0; i < DONE; i++) {
        assert_ok(unit_lease(unit.stream, "w", i, 1, &batch));
        assert_ok(stream_ack(unit.stream, "w", &i, 1, NULL, &waits));
    }
    let_others_draw();
    find(100, "w", 100);
    assert_in_range(others_drew(), 3, 10);
    assert_in_range(most_at_once, 1, LEASE_HISTORY_LIMIT / 4);
    find(99, "", 0); /* forgotten */
    find(DONE - 1, "w", DONE - 1);
    assert_int_equal(searches, 1);
    let_others_draw();
    also = seek_away; /* then nothing is known of it */
    find(100, "", 0);
    assert_int_equal(searches, 2);
    others_drew();
}

static const struct CMUnitTest tests[] = {
    TEST(test_workers_are_chosen_in_pieces),
    TEST(test_a_worker_that_is_seen_meanwhile),
    TEST(test_what_was_drawn_is_listed_in_pieces),
    TEST(test_who_did_it_is_searched_in_pieces),
};

UNIT_MAIN(tests)

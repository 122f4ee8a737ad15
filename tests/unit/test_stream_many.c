/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/stream/stream_many: Acks, extensions and releases of many leases let others draw
 * in between, and are whole or nothing.
 */
#include "tests/unit/others_unit.h"

enum { PIECES = (MANY + STREAM_LEASES_AT_ONCE - 1) / STREAM_LEASES_AT_ONCE };
static int64_t seqs[MANY];

/* Batches of one unit, seqs from 0 on, all of "w". */
static void lease_many(int64_t lease_ms)
{
    struct stream_batch batch;
    unit.stream->ledger.lease_ms = lease_ms;
    for (int64_t i = 0; i < MANY; i++) {
        seqs[i] = MANY - 1 - i;
        assert_ok(unit_lease(unit.stream, "w", i, 1, &batch));
    }
}

static struct lease *lease_of(int64_t seq)
{
    struct ledger *ledger = &unit.stream->ledger;
    uint32_t number = lease_set_find(&ledger->leases, ledger_worker(ledger, "w"), seq);
    return number == LEASE_NONE ? NULL : lease_set_get(&ledger->leases, number);
}

/* The worker itself and an administrator do what would take the leases away. */
static void interfere(int draw)
{
    bool waits;
    int64_t released;
    if (draw < 15) /* before anything is held */
        return;
    if (!unit.stream->holds)
        return;
    assert_fails(stream_release(unit.stream, "w", NULL, &released, &waits), ERROR_UNAVAILABLE,
                 "worker=w acks");
    assert_fails(stream_release_many(unit.stream, "w", &released), ERROR_UNAVAILABLE, "again");
    assert_fails(stream_seek(unit.stream, 0, NULL, &waits), ERROR_UNAVAILABLE, "again");
    assert_ok(stream_release(unit.stream, "v", NULL, &released, &waits));
}

/* While others draw, who do `more`. */
static void ack_all(void (*more)(int draw))
{
    struct stream_status status;
    let_others_draw();
    also = more;
    assert_ok(stream_ack_many(unit.stream, "w", seqs, MANY));
    assert_in_range(others_drew(), 3 * PIECES, 100);
    stream_status(unit.stream, &status);
    assert_int_equal(status.acked, MANY);
}

static void test_an_ack_of_many_lets_others_draw(void **state)
{
    struct stream_status status;
    (void)state;
    lease_many(600000);
    ack_all(interfere);
    stream_status(unit.stream, &status);
    assert_int_equal(status.leased, 0);
    assert_null(unit.stream->holds);
    assert_ok(stream_ack_many(unit.stream, "w", seqs, MANY)); /* again */
    stream_status(unit.stream, &status);
    assert_int_equal(status.acked, MANY);
}

/* Others pull, who would get what expired; all is held by then. */
static void pull(int draw)
{
    struct stream_batch batch;
    if (draw <= 2 * PIECES + 1)
        return;
    assert_ok(unit_lease(unit.stream, "v", draw, 1, &batch));
    assert_false(batch.redelivered);
}

static void test_what_is_acked_does_not_expire(void **state)
{
    (void)state;
    lease_many(600000);
    for (int64_t i = 0; i < MANY; i++)
        lease_of(i)->deadline_ms = 0; /* all alike: any order is a heap */
    ack_all(pull);
}

static void check_nothing_moved(const int64_t *deadlines_ms)
{
    struct stream_status status;
    for (int64_t i = 0; i < MANY; i++) {
        if (lease_of(i))
            assert_int_equal(lease_of(i)->deadline_ms, deadlines_ms[i]);
    }
    stream_status(unit.stream, &status);
    assert_int_equal(status.acked, 0);
    assert_null(unit.stream->holds);
}

/* At the moment in which all were checked. */
static void lose_one(int draw)
{
    struct ledger *ledger = &unit.stream->ledger;
    struct lease *lease = lease_of(MANY - 2);
    if (draw != PIECES || !lease)
        return;
    uint32_t number = lease_set_starting(&ledger->leases, lease->first);
    struct stream_batch batch;
    lease_set_wait(&ledger->leases, number);
    assert_ok(unit_lease(unit.stream, "v", 0, 1, &batch));
    assert_true(batch.redelivered);
}

static void test_an_ack_of_many_is_whole_or_nothing(void **state)
{
    static int64_t deadlines_ms[MANY];
    (void)state;
    lease_many(600000);
    for (int64_t i = 0; i < MANY; i++)
        deadlines_ms[i] = lease_of(i)->deadline_ms;
    seqs[MANY - 1] = MANY + 7;
    assert_fails(stream_ack_many(unit.stream, "w", seqs, MANY), ERROR_CONFLICT, "never leased");
    check_nothing_moved(deadlines_ms);
    assert_fails(stream_extend_many(unit.stream, "w", seqs, MANY), ERROR_CONFLICT, "never leased");
    check_nothing_moved(deadlines_ms);
    assert_fails(stream_ack_many(unit.stream, "x", seqs, MANY), ERROR_CONFLICT, "never leased");
    seqs[MANY - 1] = 0;
    let_others_draw();
    also = lose_one;
    assert_fails(stream_ack_many(unit.stream, "w", seqs, MANY), ERROR_CONFLICT, "was lost");
    assert_in_range(others_drew(), 2 * PIECES, 100);
    check_nothing_moved(deadlines_ms);
}

/* ---- memory ------------------------------------------------------------- */

static int acks_with_memory = -1; /* -1: all of them */

enum error __real_lease_history_reserve(struct lease_history *history, size_t more);
enum error __wrap_lease_history_reserve(struct lease_history *history, size_t more);
enum error __wrap_lease_history_reserve(struct lease_history *history, size_t more)
{
    if (acks_with_memory == 0)
        return error_set(ERROR_MEMORY, "no memory for what is done");
    acks_with_memory -= acks_with_memory > 0;
    return __real_lease_history_reserve(history, more);
}

/* What was not acked runs out when it would have, and what had run out waits for the next pull. */
static void test_an_ack_that_fails_holds_nothing(void **state)
{
    static int64_t deadlines_ms[MANY];
    struct stream_status status;
    struct stream_batch batch;
    (void)state;
    lease_many(600000);
    for (int64_t i = 0; i < MANY; i++)
        deadlines_ms[i] = lease_of(i)->deadline_ms;
    int64_t first = lease_of(MANY - 1)->first;
    lease_set_wait(&unit.stream->ledger.leases,
                   lease_set_starting(&unit.stream->ledger.leases, first));
    acks_with_memory = 2;
    assert_fails(stream_ack_many(unit.stream, "w", seqs, MANY), ERROR_MEMORY, "what is done");
    acks_with_memory = -1;
    assert_null(unit.stream->holds);
    stream_status(unit.stream, &status);
    assert_int_equal(status.acked, 2 * STREAM_LEASES_AT_ONCE);
    for (int64_t i = status.acked; i < MANY - 1; i++)
        assert_int_equal(lease_of(i)->deadline_ms, deadlines_ms[i]);
    assert_ok(unit_lease(unit.stream, "v", 0, 1, &batch));
    assert_true(batch.redelivered);
    assert_int_equal(batch.span.first, first);
}

static void test_an_extension_of_many(void **state)
{
    (void)state;
    lease_many(1000);
    unit.stream->ledger.lease_ms = 600000;
    let_others_draw();
    assert_ok(stream_extend_many(unit.stream, "w", seqs, MANY));
    assert_in_range(others_drew(), 2 * PIECES, 100);
    for (int64_t i = 0; i < MANY; i++)
        assert_true(lease_of(i)->deadline_ms > stream_clock_ms() + 500000);
    assert_ok(stream_ack_many(unit.stream, "w", seqs, 10));
    assert_fails(stream_extend_many(unit.stream, "w", seqs, MANY), ERROR_CONFLICT, "was acked");
}

static void test_a_release_of_many(void **state)
{
    struct stream_status status;
    int64_t released;
    (void)state;
    lease_many(600000);
    let_others_draw();
    assert_ok(stream_release_many(unit.stream, "w", &released));
    assert_in_range(others_drew(), PIECES, 100);
    assert_int_equal(released, MANY);
    stream_status(unit.stream, &status);
    assert_int_equal(status.leased, 0);
    assert_int_equal(status.waiting, MANY);
    assert_ok(stream_release_many(unit.stream, "w", &released));
    assert_int_equal(released, 0);
    assert_ok(stream_release_many(unit.stream, "nobody", &released));
    assert_int_equal(released, 0);
}

static const struct CMUnitTest tests[] = {
    TEST(test_an_ack_of_many_lets_others_draw),
    TEST(test_what_is_acked_does_not_expire),
    TEST(test_an_ack_of_many_is_whole_or_nothing),
    TEST(test_an_ack_that_fails_holds_nothing),
    TEST(test_an_extension_of_many),
    TEST(test_a_release_of_many),
};

UNIT_MAIN(tests)

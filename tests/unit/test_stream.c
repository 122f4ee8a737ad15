/* SPDX-License-Identifier: MIT */
/* Covers sampler/stream/stream: with stream_draw. */
#include "tests/unit/stream_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "sampler/journal/journal_private.h"
#include "sampler/journal/journal_record.h"
#include "sampler/order/batching_search.h"
#include "sampler/stream/checkpoint_token.h"
#include "sampler/stream/stream_private.h"

#define THREADS 8

static _Atomic int refuse_sync; /* errno */
static _Atomic bool hold_sync;

/* Leases run out when a test says so, however long it gets no processor: to its end, the clock of
 * those who compare times is ahead of the one that is waited by. */
static _Atomic int64_t skipped_ns;

int64_t __real_clock_now_ns(void);
int64_t __wrap_clock_now_ns(void);
int64_t __wrap_clock_now_ns(void)
{
    return __real_clock_now_ns() + atomic_load(&skipped_ns);
}

/* By the leases' clock, which a look each second keeps going; on a machine that stood still itself
 * meanwhile, until it has gone so far. */
static void skip_ms(int64_t milliseconds)
{
    int64_t until_ms = stream_clock_ms() + milliseconds, left_ms;
    while ((left_ms = until_ms - stream_clock_ms()) > 0)
        atomic_fetch_add(&skipped_ns, 1000000 * (left_ms < 1000 ? left_ms : 1000));
}

int __real_fdatasync(int descriptor);
int __wrap_fdatasync(int descriptor);
int __wrap_fdatasync(int descriptor)
{
    int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
    while (atomic_load(&hold_sync) && clock_left_ms(deadline_ns) > 0)
        clock_sleep_ms(1);
    int refusal = atomic_load(&refuse_sync);
    if (!refusal)
        return __real_fdatasync(descriptor);
    errno = refusal;
    return -1;
}

static int64_t search_costs;    /* positions that each search looks at besides */
static void (*at_search)(void); /* without the mutex */

bool __real_batching_search_run(struct batching_search *search, int64_t *budget);
bool __wrap_batching_search_run(struct batching_search *search, int64_t *budget);
bool __wrap_batching_search_run(struct batching_search *search, int64_t *budget)
{
    bool is_plan = *budget <= LEDGER_PLAN_POSITIONS; /* with the mutex */
    if (at_search && !is_plan)
        at_search();
    *budget -= is_plan ? 0 : search_costs;
    return __real_batching_search_run(search, budget);
}

static void begin(struct stream_unit *unit, int64_t epochs, enum tail tail)
{
    memset(unit, 0, sizeof(*unit));
    atomic_store(&skipped_ns, 0);
    unit_folder_make(unit->folder);
    stream_unit_define(unit, epochs, tail);
}

/* ---- many threads ------------------------------------------------------- */

struct drawer {
    struct stream *stream;
    int number;
    _Atomic int *times; /* [positions]: how often each was done */
    int refused;
    enum error error;
};

static void count(struct drawer *drawer, const struct span *span)
{
    for (int64_t i = 0; i < span->units; i++)
        atomic_fetch_add(&drawer->times[span->first + i], 1);
}

/* Goes on over a disk that refuses; half of the threads as workers that ack. */
static void *draw_all(void *context)
{
    struct drawer *drawer = context;
    struct stream_batch batch;
    char worker[16];
    snprintf(worker, sizeof(worker), "w%d", drawer->number);
    for (int64_t seq = 0;;) {
        bool leases = drawer->number % 2 != 0;
        enum error error =
            leases ? unit_lease(drawer->stream, worker, seq, 1 + drawer->number * 3, &batch)
                   : unit_draw(drawer->stream, 1 + drawer->number * 3, &batch);
        if (!error && leases) {
            while ((error = unit_ack(drawer->stream, worker, seq)) == ERROR_IO)
                clock_sleep_ms(1);
            seq++;
        }
        if (error == ERROR_IO || error == ERROR_TIMEOUT) {
            drawer->refused++;
            clock_sleep_ms(1);
            continue;
        }
        drawer->error = error;
        if (error)
            return NULL;
        count(drawer, &batch.span);
    }
}

static void check_each_once(enum durability durability, enum tail tail, bool refusals)
{
    static _Atomic int times[6000];
    struct stream_unit unit;
    struct drawer drawers[THREADS];
    pthread_t threads[THREADS];
    memset(times, 0, sizeof(times));
    begin(&unit, 6, tail);
    stream_unit_open(&unit, durability);
    for (int i = 0; i < THREADS; i++) {
        drawers[i] = (struct drawer){.stream = unit.stream, .number = i, .times = times};
        assert_int_equal(pthread_create(&threads[i], NULL, draw_all, &drawers[i]), 0);
    }
    for (int i = 0; refusals && i < 5; i++) {
        clock_sleep_ms(5);
        atomic_store(&refuse_sync, EIO);
        clock_sleep_ms(5);
        atomic_store(&refuse_sync, 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(drawers[i].error, ERROR_END);
    }
    for (int position = 0; position < 6000; position++) {
        int once = atomic_load(&times[position]);
        bool may_be_dropped = tail == TAIL_DROP && position % 1000 >= 1000 - 22;
        if (!(once == 1 || (once == 0 && may_be_dropped)))
            fail_msg("position %d was done %d times", position, once);
    }
    struct stream_status status;
    stream_status(unit.stream, &status);
    assert_int_equal(status.position, 6000);
    assert_int_equal(status.leased, 0);
    assert_int_equal(status.state, STREAM_ENDED);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static void test_each_position_is_done_once(void **unused)
{
    (void)unused;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_NONE; durability++) {
        for (int tail = TAIL_KEEP; tail <= TAIL_SPAN; tail++)
            check_each_once((enum durability)durability, (enum tail)tail, false);
    }
}

static void test_a_disk_that_refuses_loses_and_repeats_nothing(void **unused)
{
    (void)unused;
    check_each_once(DURABILITY_FSYNC, TAIL_KEEP, true);
    check_each_once(DURABILITY_FSYNC, TAIL_SPAN, true);
}

/* ---- starts and ends ---------------------------------------------------- */

static void test_a_restart_goes_on(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_NONE; durability++) {
        begin(&unit, 0, TAIL_KEEP);
        for (int64_t start = 0; start < 5; start++) {
            stream_unit_open(&unit, (enum durability)durability);
            assert_ok(unit_draw(unit.stream, 30, &batch));
            assert_int_equal(batch.span.first, start * 30);
            stream_unit_close(&unit);
        }
        stream_unit_end(&unit);
    }
}

static void test_leases_survive_a_kill(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct stream_batch again;
    for (int durability = DURABILITY_FSYNC; durability <= DURABILITY_PROCESS; durability++) {
        begin(&unit, 1, TAIL_KEEP);
        stream_unit_open(&unit, (enum durability)durability);
        assert_ok(unit_lease(unit.stream, "a", 0, 100, &batch));
        assert_ok(unit_lease(unit.stream, "a", 1, 100, &batch));
        assert_ok(unit_ack(unit.stream, "a", 0));
        stream_unit_drop(&unit);
        stream_unit_open(&unit, (enum durability)durability);
        assert_ok(unit_lease(unit.stream, "a", 1, 100, &again));
        assert_int_equal(again.span.first, batch.span.first);
        assert_int_equal(again.attempt, 1);
        assert_fails(unit_lease(unit.stream, "a", 0, 100, &again), ERROR_CONFLICT, "acked");
        assert_ok(unit_ack(unit.stream, "a", 0));
        assert_ok(unit_ack(unit.stream, "a", 1));
        stream_unit_close(&unit);
        stream_unit_end(&unit);
    }
}

/* As long as the stream's leases are from this start on. */
static void test_leases_start_over_with_the_server(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    begin(&unit, 0, TAIL_KEEP);
    unit.definition.lease_ms = 60000;
    stream_unit_open(&unit, DURABILITY_PROCESS);
    assert_ok(unit_lease(unit.stream, "a", 0, 10, &batch));
    stream_unit_close(&unit);
    unit.definition.lease_ms = 3600000;
    stream_unit_open(&unit, DURABILITY_PROCESS);
    skip_ms(60001);
    assert_ok(unit_lease(unit.stream, "b", 0, 10, &batch));
    assert_int_equal(batch.span.first, 10);
    skip_ms(3600000 - 60001);
    assert_ok(unit_lease(unit.stream, "b", 1, 10, &batch));
    assert_int_equal(batch.span.first, 0);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static void test_another_order_is_refused(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    begin(&unit, 0, TAIL_KEEP);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    stream_unit_close(&unit);
    unit.definition.seed = 2;
    assert_fails(stream_unit_try(&unit, DURABILITY_PROCESS), ERROR_CONFLICT,
                 "seed 1 there, 2 here");
    streams_free(unit.streams);
    state_close(unit.state);
    unit.definition.seed = 1;
    unit.definition.epochs = 3; /* may change */
    unit.definition.tail = TAIL_SPAN;
    unit.definition.lease_ms = 5000;
    stream_unit_open(&unit, DURABILITY_PROCESS);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* ---- leases ------------------------------------------------------------- */

static enum error seek(struct stream *stream, int64_t position)
{
    struct stream_caller caller = {.waiter.ready = stream_caller_ready};
    bool waits;
    enum error error = stream_seek(stream, position, &caller.waiter, &waits);
    return stream_caller_wait(&caller, error, waits);
}

/* Behind its last batch a stream has ended; behind that there is nothing. */
static void test_a_seek_reaches_to_the_end(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    begin(&unit, 2, TAIL_KEEP);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    assert_ok(seek(unit.stream, 1999));
    assert_ok(unit_draw(unit.stream, 10, &batch));
    assert_int_equal(batch.span.units, 1);
    assert_ok(seek(unit.stream, 2000));
    assert_int_equal(unit_draw(unit.stream, 10, &batch), ERROR_END);
    assert_fails(seek(unit.stream, 2001), ERROR_USAGE, "must be from 0 to 2000");
    assert_fails(seek(unit.stream, -1), ERROR_USAGE, "position is -1");
    stream_unit_close(&unit);
    stream_unit_end(&unit);
    begin(&unit, 0, TAIL_KEEP);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    assert_ok(seek(unit.stream, POSITION_LIMIT));
    assert_fails(seek(unit.stream, POSITION_LIMIT + 1), ERROR_USAGE, "must be from 0 to");
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static void test_an_expired_batch_is_redelivered(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    int64_t expires_ms;
    int64_t seq = 0;
    begin(&unit, 1, TAIL_KEEP);
    unit.definition.lease_ms = 3600000;
    stream_unit_open(&unit, DURABILITY_PROCESS);
    assert_ok(unit_lease(unit.stream, "a", 0, 600, &batch));
    assert_ok(unit_lease(unit.stream, "b", 0, 400, &batch));
    assert_fails(unit_draw(unit.stream, 10, &batch), ERROR_TIMEOUT,
                 "the first lease, of worker a, expires in");
    skip_ms(3600001);
    assert_ok(stream_extend(unit.stream, "b", &seq, 1, &expires_ms)); /* nobody else has it yet */
    assert_int_equal(expires_ms, 3600000);
    assert_ok(unit_lease(unit.stream, "c", 0, 10, &batch));
    assert_int_equal(batch.span.units, 600);
    assert_int_equal(batch.attempt, 2);
    assert_true(batch.redelivered);
    assert_fails(unit_ack(unit.stream, "a", 0), ERROR_CONFLICT, "lost");
    assert_fails(unit_lease(unit.stream, "a", 0, 600, &batch), ERROR_CONFLICT, "lost");
    assert_ok(unit_ack(unit.stream, "c", 0));
    skip_ms(3600001);
    assert_ok(unit_ack(unit.stream, "b", 0)); /* late, and still its own */
    assert_int_equal(unit_draw(unit.stream, 10, &batch), ERROR_END);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static void test_a_batch_needs_room(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct stream_caller caller = {.waiter.ready = stream_caller_ready};
    int64_t released;
    bool waits;
    begin(&unit, 1, TAIL_KEEP);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    assert_ok(unit_lease(unit.stream, "a", 0, 600, &batch));
    assert_ok(stream_release(unit.stream, "a", &caller.waiter, &released, &waits));
    assert_int_equal(released, 1);
    struct ledger_pull pull = {.size = 10, .room = 10};
    assert_ok(unit_pull(unit.stream, &pull, &batch));
    assert_int_equal(batch.need, 600);
    pull.room = 600;
    assert_ok(stream_peek(unit.stream, &pull, &batch));
    assert_int_equal(batch.span.units, 600);
    assert_ok(unit_pull(unit.stream, &pull, &batch));
    assert_int_equal(batch.span.units, 600);
    assert_int_equal(batch.attempt, 2);
    assert_ok(unit_pull(unit.stream, &pull, &batch));
    assert_int_equal(batch.span.first, 600);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static enum error peek(struct stream *stream, int64_t seq, const int64_t *acks, size_t count,
                       struct stream_batch *ret_batch)
{
    const struct ledger_pull pull = {
        .size = 400, .worker = "a", .seq = seq, .acks = acks, .ack_count = count, .room = 1000};
    return stream_peek(stream, &pull, ret_batch);
}

/* What single draws would give, as many as there are; asked again, the same; in one piece of the
 * stream, whoever else draws. */
static void test_several_batches_are_those_of_single_draws(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batches[STREAM_DRAWS_AT_ONCE], batch;
    struct ledger_pull pull = {.size = 150, .worker = "a", .seq = 5, .room = 150};
    size_t count;
    bool waits;
    begin(&unit, 1, TAIL_KEEP);
    unit.definition.lease_ms = 3600000;
    stream_unit_open(&unit, DURABILITY_PROCESS);
    for (int round = 0; round < 2; round++) {
        assert_ok(stream_draw_several(unit.stream, &pull, 3, NULL, batches, &count, &waits));
        assert_int_equal(count, 3);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(batches[i].span.first, 150 * i);
            assert_int_equal(batches[i].span.units, 150);
            assert_int_equal(batches[i].attempt, 1);
        }
    }
    assert_ok(unit_lease(unit.stream, "a", 6, 150, &batch));
    assert_int_equal(batch.span.first, 150); /* each has a seq of its own */
    assert_ok(unit_ack(unit.stream, "a", 7));
    pull.seq = 6; /* one that it has, one that is done: the list ends before it */
    assert_ok(stream_draw_several(unit.stream, &pull, 3, NULL, batches, &count, &waits));
    assert_int_equal(count, 1);
    pull.seq = 7;
    assert_fails(stream_draw_several(unit.stream, &pull, 3, NULL, batches, &count, &waits),
                 ERROR_CONFLICT, "seq=7");
    pull.seq = 8; /* up to the end, the last one short */
    assert_ok(stream_draw_several(unit.stream, &pull, STREAM_DRAWS_AT_ONCE, NULL, batches, &count,
                                  &waits));
    assert_int_equal(count, 4);
    assert_int_equal(batches[3].span.first, 900);
    assert_int_equal(batches[3].span.units, 100);
    pull.seq = 12;
    assert_int_equal(stream_draw_several(unit.stream, &pull, 2, NULL, batches, &count, &waits),
                     ERROR_TIMEOUT);
    skip_ms(3600001); /* a first one that needs room comes alone, a later one ends the list */
    pull = (struct ledger_pull){.size = 100, .worker = "b", .seq = 0, .room = 100};
    assert_ok(stream_draw_several(unit.stream, &pull, 3, NULL, batches, &count, &waits));
    assert_int_equal(count, 0);
    assert_int_equal(batches[0].need, 150);
    pull.room = 150;
    assert_ok(stream_draw_several(unit.stream, &pull, 8, NULL, batches, &count, &waits));
    assert_int_equal(count, 6);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(batches[i].attempt, 2);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* However many ran out at once, and are to be logged. */
static void test_several_batches_that_expired(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batches[8], batch;
    const struct ledger_pull pull = {.size = 5, .worker = "b", .room = 5};
    size_t count;
    bool waits;
    begin(&unit, 1, TAIL_KEEP);
    unit.definition.lease_ms = 60000;
    stream_unit_open(&unit, DURABILITY_PROCESS);
    for (int64_t i = 0; i < 2 * LEDGER_EXPIRE_AT_ONCE; i++)
        assert_ok(unit_lease(unit.stream, "a", i, 5, &batch));
    skip_ms(60001);
    assert_ok(stream_draw_several(unit.stream, &pull, 8, NULL, batches, &count, &waits));
    assert_int_equal(count, 8);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(batches[i].attempt, 2);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* Its acks are judged, and count for what comes next; nothing is acked by it. */
static void test_a_peek_says_what_a_draw_would(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct stream_status before;
    struct stream_status after;
    bool waits;
    const int64_t all[] = {0, 1, 2, 0};
    const int64_t never[] = {0, 7};
    begin(&unit, 1, TAIL_KEEP);
    unit.definition.lease_ms = 3600000;
    stream_unit_open(&unit, DURABILITY_PROCESS);
    for (int64_t seq = 0; seq < 3; seq++)
        assert_ok(unit_lease(unit.stream, "a", seq, 400, &batch));
    stream_status(unit.stream, &before);
    assert_int_equal(peek(unit.stream, 3, NULL, 0, &batch), ERROR_TIMEOUT);
    assert_int_equal(peek(unit.stream, 3, all, 2, &batch), ERROR_TIMEOUT);
    assert_int_equal(peek(unit.stream, 3, all, 4, &batch), ERROR_END);
    assert_fails(peek(unit.stream, 3, never, 2, &batch), ERROR_CONFLICT, "seq=7");
    assert_fails(peek(unit.stream, 1, all, 2, &batch), ERROR_CONFLICT, "was acked");
    assert_ok(peek(unit.stream, 2, all, 2, &batch));
    assert_int_equal(batch.span.first, 800);
    stream_status(unit.stream, &after);
    assert_memory_equal(&before, &after, offsetof(struct stream_status, failing)); /* no padding */
    assert_int_equal(before.failing, after.failing);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
    begin(&unit, 1, TAIL_KEEP);
    unit.definition.lease_ms = 3600000;
    stream_unit_open(&unit, DURABILITY_PROCESS);
    for (int64_t seq = 0; seq < 3; seq++)
        assert_ok(
            stream_draw(unit.stream,
                        &(struct ledger_pull){.size = 400, .worker = "a", .seq = seq, .room = 1000},
                        NULL, &batch, &waits));
    skip_ms(3600001); /* all of them wait, and are still its own */
    assert_ok(peek(unit.stream, 0, NULL, 0, &batch));
    assert_int_equal(batch.attempt, 2);
    assert_true(batch.redelivered);
    assert_int_equal(batch.expires_ms, 3600000);
    assert_ok(peek(unit.stream, 3, NULL, 0, &batch));
    assert_int_equal(batch.span.first, 0);
    assert_ok(peek(unit.stream, 3, all, 2, &batch));
    assert_int_equal(batch.span.first, 800);
    assert_int_equal(peek(unit.stream, 3, all, 3, &batch), ERROR_END);
    assert_ok(unit_lease(unit.stream, "a", 0, 400, &batch)); /* nothing was acked */
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* A draw may be refused and its acks accepted: they are on the disk when it is answered. */
static void test_a_refusal_waits_for_its_acks(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    bool waits;
    begin(&unit, 0, TAIL_KEEP);
    stream_unit_open(&unit, DURABILITY_FSYNC);
    for (int64_t seq = 0; seq < 2; seq++)
        assert_ok(unit_lease(unit.stream, "a", seq, 10, &batch));
    for (int64_t seq = 0; seq < 2; seq++) { /* of its own pair, then of a paused stream */
        struct stream_caller caller = {.waiter.ready = stream_caller_ready};
        struct ledger_pull pull = {
            .size = 10, .worker = "a", .seq = 2 * seq, .acks = &seq, .ack_count = 1, .room = 10};
        if (seq == 1)
            assert_ok(stream_pause(unit.stream, NULL, &waits));
        atomic_store(&hold_sync, true);
        enum error error = stream_draw(unit.stream, &pull, &caller.waiter, &batch, &waits);
        bool is_early = atomic_load(&caller.called);
        atomic_store(&hold_sync, false);
        assert_true(waits && !is_early);
        assert_int_equal(stream_caller_wait(&caller, error, waits), ERROR_CONFLICT);
        assert_ok(unit_ack(unit.stream, "a", seq));
    }
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* A refusal is only sent if what it rests on is kept: here a draw of the worker's expired batch. */
static void test_a_refusal_waits_for_what_it_rests_on(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct stream_caller callers[3];
    const struct ledger_pull plain = {.size = 10, .room = 10};
    const struct ledger_pull own = {.size = 10, .room = 10, .worker = "a"};
    const int64_t seq = 0;
    bool waits[3];
    for (int i = 0; i < 3; i++)
        callers[i] = (struct stream_caller){.waiter.ready = stream_caller_ready};
    begin(&unit, 0, TAIL_KEEP);
    unit.definition.lease_ms = 1000;
    stream_unit_open(&unit, DURABILITY_FSYNC);
    assert_ok(unit_lease(unit.stream, "a", seq, 10, &batch));
    skip_ms(1001); /* less than a disk that hangs is given */
    atomic_store(&hold_sync, true);
    assert_ok(stream_draw(unit.stream, &plain, &callers[0].waiter, &batch, &waits[0]));
    assert_int_equal(batch.attempt, 2);
    assert_int_equal(stream_ack(unit.stream, "a", &seq, 1, &callers[1].waiter, &waits[1]),
                     ERROR_CONFLICT);
    assert_int_equal(stream_draw(unit.stream, &own, &callers[2].waiter, &batch, &waits[2]),
                     ERROR_CONFLICT);
    atomic_store(&refuse_sync, EIO);
    atomic_store(&hold_sync, false);
    for (int i = 0; i < 3; i++) {
        assert_true(waits[i]);
        assert_int_equal(stream_caller_wait(&callers[i], OK, true), ERROR_IO);
    }
    atomic_store(&refuse_sync, 0);
    int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
    while (unit_ack(unit.stream, "a", seq))
        assert_true(clock_left_ms(deadline_ns) > 0);
    assert_ok(unit_draw(unit.stream, 10, &batch));
    assert_int_equal(batch.span.first, 10);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* ---- checkpoint and restore --------------------------------------------- */

static void test_what_a_token_calls_done_is_done(void **unused)
{
    (void)unused;
    static _Atomic int times[1000];
    struct stream_unit unit;
    struct stream_batch batch;
    struct drawer drawer = {.times = times};
    struct stream_caller caller = {.waiter.ready = stream_caller_ready};
    char *token;
    bool waits;
    begin(&unit, 1, TAIL_KEEP);
    stream_unit_open(&unit, DURABILITY_FSYNC);
    for (int64_t seq = 0; seq < 20; seq++) {
        assert_ok(unit_lease(unit.stream, "a", seq, 17, &batch));
        if (seq % 3 == 0)
            count(&drawer, &batch.span);
        if (seq % 3 == 0)
            assert_ok(unit_ack(unit.stream, "a", seq));
    }
    assert_ok(stream_checkpoint(unit.stream, NULL, &token, &waits));
    for (int i = 0; i < 5; i++)
        assert_ok(unit_draw(unit.stream, 50, &batch)); /* is forgotten */
    atomic_store(&caller.called, false);
    enum error error = stream_restore(unit.stream, token, &caller.waiter, &waits);
    assert_ok(stream_caller_wait(&caller, error, waits));
    stream_unit_close(&unit);
    stream_unit_open(&unit, DURABILITY_FSYNC);
    while (!unit_draw(unit.stream, 23, &batch))
        count(&drawer, &batch.span);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(atomic_load(&times[i]), 1);
    token[10] = token[10] == 'A' ? 'B' : 'A';
    assert_fails(stream_restore(unit.stream, token, NULL, &waits), ERROR_INPUT, "token");
    free(token);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static enum error restore(struct stream *stream, const char *token)
{
    struct stream_caller caller = {.waiter.ready = stream_caller_ready};
    bool waits;
    enum error error = stream_restore(stream, token, &caller.waiter, &waits);
    return stream_caller_wait(&caller, error, waits);
}

/* A token of this stream by which [begin, end) is to be drawn first, then from `position` on. */
static char *token_of(struct stream *stream, int64_t begin, int64_t end, int64_t position)
{
    struct checkpoint_token token;
    char *text;
    bool waits;
    assert_ok(stream_checkpoint(stream, NULL, &text, &waits));
    assert_ok(checkpoint_token_read(text, &token));
    free(text);
    intervals_clear(&token.open);
    assert_ok(intervals_reserve(&token.open, 1));
    intervals_add(&token.open, begin, end);
    token.position = position;
    assert_ok(checkpoint_token_write(&token, &text));
    checkpoint_token_release(&token);
    return text;
}

/* What is still to be drawn first after a restore is open in the next token, too. */
static void test_a_token_after_a_restore(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    bool waits;
    begin(&unit, 1, TAIL_KEEP);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    char *token = token_of(unit.stream, 100, 200, 1000);
    assert_ok(restore(unit.stream, token));
    free(token);
    assert_ok(unit_draw(unit.stream, 30, &batch));
    assert_int_equal(batch.span.first, 100);
    assert_ok(stream_checkpoint(unit.stream, NULL, &token, &waits));
    assert_ok(seek(unit.stream, 1000));
    assert_ok(restore(unit.stream, token));
    free(token);
    assert_ok(unit_draw(unit.stream, 1000, &batch));
    assert_int_equal(batch.span.first, 130);
    assert_int_equal(batch.span.units, 70);
    assert_int_equal(unit_draw(unit.stream, 1000, &batch), ERROR_END);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* Where every batch has one size, a stream never stands inside one: each batch keeps what its
 * design promises of it. */
static void test_positions_inside_a_batch(void **unused)
{
    (void)unused;
    static char fields[] = "{\"p\":2,\"k\":5}";
    struct stream_unit unit;
    struct sampling_plan *plan;
    struct stream *other;
    struct stream_batch batch;
    bool waits;
    begin(&unit, 2, TAIL_KEEP);
    strcpy(unit.definition.design, "pxk");
    unit.definition.fields = fields;
    stream_unit_open(&unit, DURABILITY_PROCESS);
    assert_fails(seek(unit.stream, 15), ERROR_USAGE,
                 "position is 15, inside a batch; must be a multiple of 10");
    assert_ok(sampling_plan_open(unit.frames, NULL, &unit.definition, &plan));
    strcpy(unit.definition.name, "other");
    assert_fails(streams_create(unit.streams, &unit.definition, plan, 1, NULL, &other, &waits),
                 ERROR_USAGE, "multiple of 10");
    const int64_t spans[][3] = {{10, 20, 31}, {11, 20, 30}, {10, 19, 30}};
    for (size_t i = 0; i < 3; i++) {
        char *token = token_of(unit.stream, spans[i][0], spans[i][1], spans[i][2]);
        assert_fails(restore(unit.stream, token), ERROR_USAGE, "the token's position is");
        free(token);
    }
    char *token = token_of(unit.stream, 10, 20, 30);
    assert_ok(restore(unit.stream, token));
    free(token);
    assert_ok(unit_draw(unit.stream, 10, &batch));
    assert_int_equal(batch.span.first, 10);
    assert_ok(seek(unit.stream, 50));
    assert_ok(seek(unit.stream, 2000)); /* the end */
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* Positions without a unit are to be drawn first: the answer is the first unit behind them. */
static void test_open_positions_without_a_unit(void **unused)
{
    (void)unused;
    static char fields[] = "{\"rate\":0.05}";
    struct stream_unit unit;
    struct stream_batch batch;
    begin(&unit, 1, TAIL_KEEP);
    strcpy(unit.definition.design, "bernoulli");
    unit.definition.fields = fields;
    stream_unit_open(&unit, DURABILITY_PROCESS);
    do
        assert_ok(unit_draw(unit.stream, 1, &batch));
    while (batch.span.positions < 2);
    int64_t end = batch.span.first + batch.span.positions;
    char *token = token_of(unit.stream, batch.span.first, end - 1, end);
    assert_ok(restore(unit.stream, token));
    free(token);
    assert_ok(unit_draw(unit.stream, 1, &batch));
    assert_int_equal(batch.span.first, end);
    assert_int_equal(batch.span.units, 1);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* The same in front of the very last position; a start must read what was passed. */
static void test_a_gap_without_a_unit_at_the_very_end(void **unused)
{
    (void)unused;
    static char fields[] = "{\"rate\":0.05}";
    struct stream_unit unit;
    struct stream_batch batch;
    struct stream_status status;
    int64_t id;
    begin(&unit, 0, TAIL_KEEP);
    strcpy(unit.definition.design, "bernoulli");
    unit.definition.fields = fields;
    stream_unit_open(&unit, DURABILITY_PROCESS);
    const struct order *order = stream_plan(unit.stream)->order;
    assert_int_equal(order_units(order, POSITION_LIMIT - 1, 1, &id, NULL, NULL), 0);
    char *token = token_of(unit.stream, POSITION_LIMIT - 1, POSITION_LIMIT, POSITION_LIMIT);
    assert_ok(restore(unit.stream, token));
    free(token);
    assert_int_equal(unit_draw(unit.stream, 1, &batch), ERROR_END);
    stream_unit_drop(&unit);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    stream_status(unit.stream, &status);
    assert_int_equal(status.gaps, 0);
    assert_int_equal(status.state, STREAM_ENDED);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* A draw that the disk refuses, and the next one that it takes. */
static void draw_refused(struct stream *stream, int64_t size, struct stream_batch *ret_batch)
{
    int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
    atomic_store(&refuse_sync, EIO);
    assert_int_equal(unit_draw(stream, size, ret_batch), ERROR_IO);
    atomic_store(&refuse_sync, 0);
    while (unit_draw(stream, size, ret_batch) == ERROR_IO)
        assert_true(clock_left_ms(deadline_ns) > 0);
}

/* What goes back is what it was: a batch that somebody had before, or positions to be drawn first,
 * which no tail drops. */
static void test_what_goes_back_is_what_it_was(void **unused)
{
    (void)unused;
    struct stream_caller caller = {.waiter.ready = stream_caller_ready};
    struct stream_unit unit;
    struct stream_batch batch;
    struct stream_status status;
    int64_t released;
    bool waits;
    begin(&unit, 2, TAIL_DROP);
    stream_unit_open(&unit, DURABILITY_FSYNC);
    assert_ok(unit_lease(unit.stream, "a", 0, 40, &batch));
    enum error error = stream_release(unit.stream, "a", &caller.waiter, &released, &waits);
    assert_ok(stream_caller_wait(&caller, error, waits));
    draw_refused(unit.stream, 300, &batch);
    assert_int_equal(batch.span.first, 0);
    assert_int_equal(batch.span.units, 40);
    assert_int_equal(batch.attempt, 2);
    assert_true(batch.redelivered);
    stream_status(unit.stream, &status);
    assert_int_equal(status.redelivered, 1);
    char *token = token_of(unit.stream, 990, 1000, 1000);
    assert_ok(restore(unit.stream, token));
    free(token);
    draw_refused(unit.stream, 300, &batch);
    assert_int_equal(batch.span.first, 990);
    assert_int_equal(batch.span.units, 10);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* A batch that ran out is still its worker's after a pull that took it and heard an error. */
static void test_an_expired_batch_goes_back_to_its_worker(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct stream_status status;
    int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
    begin(&unit, 0, TAIL_KEEP);
    unit.definition.lease_ms = 60000;
    stream_unit_open(&unit, DURABILITY_FSYNC);
    assert_ok(unit_lease(unit.stream, "a", 0, 40, &batch));
    assert_ok(unit_lease(unit.stream, "a", 1, 40, &batch));
    skip_ms(60001);
    atomic_store(&refuse_sync, EIO);
    assert_int_equal(unit_draw(unit.stream, 300, &batch), ERROR_IO);
    atomic_store(&refuse_sync, 0);
    while (unit_ack(unit.stream, "a", 0) == ERROR_IO)
        assert_true(clock_left_ms(deadline_ns) > 0);
    stream_status(unit.stream, &status);
    assert_int_equal(status.acked, 1);
    assert_int_equal(status.redelivered, 0);
    assert_int_equal(status.leased, 1);
    assert_ok(unit_lease(unit.stream, "a", 1, 40, &batch)); /* as is the other one */
    assert_int_equal(batch.span.first, 40);
    assert_ok(unit_ack(unit.stream, "a", 1));
    assert_ok(unit_draw(unit.stream, 40, &batch));
    assert_int_equal(batch.span.first, 80);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* What tail drop skipped for a pull that heard an error is ahead again, for a smaller one. */
static void test_what_was_skipped_goes_back(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct stream_status status;
    int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
    begin(&unit, 0, TAIL_DROP);
    stream_unit_open(&unit, DURABILITY_FSYNC);
    assert_ok(seek(unit.stream, 995));
    atomic_store(&refuse_sync, EIO);
    assert_int_equal(unit_draw(unit.stream, 10, &batch), ERROR_IO);
    atomic_store(&refuse_sync, 0);
    stream_status(unit.stream, &status);
    assert_int_equal(status.position, 995);
    while (unit_draw(unit.stream, 5, &batch) == ERROR_IO)
        assert_true(clock_left_ms(deadline_ns) > 0);
    assert_int_equal(batch.span.first, 995);
    assert_ok(unit_draw(unit.stream, 10, &batch));
    assert_int_equal(batch.span.first, 1000);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* Likewise for one that found the stream ended. */
static void test_an_end_that_heard_an_error_is_ahead(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct stream_status status;
    int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
    for (int leased = 0; leased < 2; leased++) {
        begin(&unit, 1, TAIL_DROP);
        stream_unit_open(&unit, DURABILITY_FSYNC);
        assert_ok(unit_draw(unit.stream, 995, &batch));
        atomic_store(&refuse_sync, EIO);
        assert_int_equal(leased ? unit_lease(unit.stream, "a", 0, 10, &batch)
                                : unit_draw(unit.stream, 10, &batch),
                         ERROR_IO);
        atomic_store(&refuse_sync, 0);
        stream_status(unit.stream, &status);
        assert_int_equal(status.position, 995);
        assert_int_equal(status.acked, 1);
        assert_int_equal(status.batches, 1);
        while (unit_draw(unit.stream, 5, &batch) == ERROR_IO)
            assert_true(clock_left_ms(deadline_ns) > 0);
        assert_int_equal(batch.span.first, 995);
        assert_int_equal(unit_draw(unit.stream, 5, &batch), ERROR_END);
        stream_unit_close(&unit);
        stream_unit_end(&unit);
    }
}

/* What tail drop skips at the end is behind the stream when it has ended. */
static void test_a_stream_that_ended_stands_at_its_end(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct stream_status status;
    begin(&unit, 1, TAIL_DROP);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    assert_ok(seek(unit.stream, 995));
    assert_int_equal(unit_draw(unit.stream, 10, &batch), ERROR_END);
    stream_status(unit.stream, &status);
    assert_int_equal(status.position, 1000);
    assert_int_equal(status.state, STREAM_ENDED);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* Also where a stream without epochs ends. */
static void test_a_token_at_the_very_end(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct stream_status status;
    char *token;
    bool waits;
    begin(&unit, 0, TAIL_KEEP);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    assert_ok(seek(unit.stream, POSITION_LIMIT - 1));
    assert_ok(unit_draw(unit.stream, 10, &batch));
    assert_int_equal(batch.span.units, 1);
    assert_ok(stream_checkpoint(unit.stream, NULL, &token, &waits));
    assert_ok(restore(unit.stream, token));
    free(token);
    stream_unit_drop(&unit);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    stream_status(unit.stream, &status);
    assert_int_equal(status.position, POSITION_LIMIT);
    assert_int_equal(status.state, STREAM_ENDED);
    assert_int_equal(unit_draw(unit.stream, 10, &batch), ERROR_END);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* All rows are all rows, however they are named. */
static void test_a_token_of_all_rows(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    bool waits;
    begin(&unit, 1, TAIL_KEEP);
    for (int named = 0; named < 2; named++) {
        char *token;
        unit.definition.rows_end = named ? 1000 : 0;
        stream_unit_open(&unit, DURABILITY_NONE);
        assert_ok(stream_seek(unit.stream, 100 + named, NULL, &waits));
        assert_ok(stream_checkpoint(unit.stream, NULL, &token, &waits));
        stream_unit_drop(&unit);
        unit.definition.rows_end = named ? 0 : 1000;
        stream_unit_open(&unit, DURABILITY_NONE);
        assert_ok(stream_restore(unit.stream, token, NULL, &waits));
        assert_ok(unit_draw(unit.stream, 10, &batch));
        assert_int_equal(batch.span.first, 100 + named);
        stream_unit_drop(&unit);
        unit.definition.rows_end = 500;
        stream_unit_open(&unit, DURABILITY_NONE);
        assert_fails(stream_restore(unit.stream, token, NULL, &waits), ERROR_CONFLICT, "500");
        stream_unit_drop(&unit);
        free(token);
    }
    stream_unit_end(&unit);
}

/* What it calls done is on the disk when it is answered; else it is not answered. */
static void test_a_token_waits_for_the_disk(void **unused)
{
    (void)unused;
    const int refusals[] = {0, EIO};
    for (int i = 0; i < 2; i++) {
        struct stream_unit unit;
        struct stream_batch batch;
        struct stream_status status;
        struct stream_caller puller = {.waiter.ready = stream_caller_ready};
        struct stream_caller saver = {.waiter.ready = stream_caller_ready};
        struct ledger_pull pull = {.size = 10, .room = 10};
        char *token;
        bool waits;
        begin(&unit, 1, TAIL_KEEP);
        stream_unit_open(&unit, DURABILITY_FSYNC);
        atomic_store(&hold_sync, true);
        assert_ok(stream_draw(unit.stream, &pull, &puller.waiter, &batch, &waits));
        assert_true(waits);
        assert_ok(stream_checkpoint(unit.stream, &saver.waiter, &token, &waits));
        assert_true(waits);
        free(token);
        clock_sleep_ms(20);
        assert_false(atomic_load(&saver.called));
        atomic_store(&refuse_sync, refusals[i]);
        atomic_store(&hold_sync, false);
        enum error expected = refusals[i] ? ERROR_IO : OK;
        assert_int_equal(stream_caller_wait(&puller, OK, true), expected);
        assert_int_equal(stream_caller_wait(&saver, OK, true), expected);
        stream_status(unit.stream, &status);
        assert_int_equal(status.position, refusals[i] ? 0 : 10);
        atomic_store(&refuse_sync, 0);
        int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
        while (unit_draw(unit.stream, 10, &batch))
            assert_true(clock_left_ms(deadline_ns) > 0);
        assert_int_equal(batch.span.first, refusals[i] ? 0 : 10);
        atomic_store(&saver.called, false);
        enum error error = stream_checkpoint(unit.stream, &saver.waiter, &token, &waits);
        assert_ok(stream_caller_wait(&saver, error, waits));
        free(token);
        stream_unit_close(&unit);
        stream_unit_end(&unit);
    }
}

/* A file that is found gone between two commits, while a draw waits; and a checkpoint that begins
 * right then, and ends when all is well again. */
enum loss { LOSS_NONE, LOSS_IS_DUE, LOSS_IS_FOUND, LOSS_IS_LISTED };

static struct {
    _Atomic enum loss stage;
    struct stream_unit *unit;
    struct stream_caller puller;
    pthread_t saver;
    char *token;
    enum error error; /* of the checkpoint */
} loss;

static void await_stage(enum loss stage)
{
    int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
    while (atomic_load(&loss.stage) != stage && clock_left_ms(deadline_ns) > 0)
        clock_sleep_ms(1);
}

bool __real_journal_file_is_there(const struct journal_file *file);
bool __wrap_journal_file_is_there(const struct journal_file *file);
bool __wrap_journal_file_is_there(const struct journal_file *file)
{
    static const struct ledger_pull pull = {.size = 10, .room = 10};
    struct stream_batch batch;
    bool waits = false;
    if (atomic_load(&loss.stage) != LOSS_IS_DUE)
        return __real_journal_file_is_there(file);
    if (!stream_draw(loss.unit->stream, &pull, &loss.puller.waiter, &batch, &waits) && waits)
        atomic_store(&loss.stage, LOSS_IS_FOUND);
    return false;
}

static void *save_lost(void *unused)
{
    struct stream_caller caller = {.waiter.ready = stream_caller_ready};
    bool waits;
    loss.error = stream_checkpoint(loss.unit->stream, &caller.waiter, &loss.token, &waits);
    atomic_store(&loss.stage, LOSS_IS_LISTED); /* if it was refused */
    if (!loss.error)
        loss.error = stream_caller_wait(&caller, OK, waits);
    return unused;
}

bool __real_journal_work(struct journal *journal, int64_t deadline_ns, bool stopping);
bool __wrap_journal_work(struct journal *journal, int64_t deadline_ns, bool stopping);
bool __wrap_journal_work(struct journal *journal, int64_t deadline_ns, bool stopping)
{
    if (atomic_load(&loss.stage) == LOSS_IS_FOUND &&
        !pthread_create(&loss.saver, NULL, save_lost, NULL))
        await_stage(LOSS_IS_LISTED);
    return __real_journal_work(journal, deadline_ns, stopping);
}

static void wait_until_it_works(struct stream_unit *unit)
{
    int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
    while (streams_failing(unit->streams) && clock_left_ms(deadline_ns) > 0)
        clock_sleep_ms(1);
}

enum error __real_checkpoint_token_write(const struct checkpoint_token *token, char **ret_text);
enum error __wrap_checkpoint_token_write(const struct checkpoint_token *token, char **ret_text);
enum error __wrap_checkpoint_token_write(const struct checkpoint_token *token, char **ret_text)
{
    if (atomic_load(&loss.stage) == LOSS_IS_FOUND) {
        atomic_store(&loss.stage, LOSS_IS_LISTED);
        wait_until_it_works(loss.unit);
    }
    return __real_checkpoint_token_write(token, ret_text);
}

/* No token calls done what a draw took that hears an error. */
static void test_a_token_while_a_draw_is_refused(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct checkpoint_token token = {.position = 0};
    begin(&unit, 1, TAIL_KEEP);
    stream_unit_open(&unit, DURABILITY_FSYNC);
    assert_ok(unit_lease(unit.stream, "a", 0, 10, &batch));
    loss.unit = &unit;
    loss.puller = (struct stream_caller){.waiter.ready = stream_caller_ready};
    loss.token = NULL;
    skip_ms(1001);
    atomic_store(&loss.stage, LOSS_IS_DUE);
    (void)unit_ack(unit.stream, "a", 0); /* wakes the committer, which looks at the file then */
    await_stage(LOSS_IS_LISTED);
    assert_int_equal(pthread_join(loss.saver, NULL), 0);
    atomic_store(&loss.stage, LOSS_NONE);
    assert_int_equal(stream_caller_wait(&loss.puller, OK, true), ERROR_IO);
    if (!loss.error) {
        assert_ok(checkpoint_token_read(loss.token, &token));
        assert_int_equal(token.position, 10);
        checkpoint_token_release(&token);
    }
    free(loss.token);
    wait_until_it_works(&unit);
    assert_ok(unit_draw(unit.stream, 10, &batch));
    assert_int_equal(batch.span.first, 10);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* ---- designs that pass positions over ----------------------------------- */

static void *draw_rare(void *context)
{
    struct drawer *drawer = context;
    struct stream_batch batch;
    drawer->error = unit_draw(drawer->stream, 1000000, &batch);
    atomic_store(&drawer->times[0], 1);
    return NULL;
}

/* Beside `default`; its next million units are very far. */
static struct stream *open_rare(struct stream_unit *unit)
{
    static char fields[] = "{\"rate\":1e-05}";
    struct sampling_plan *plan;
    struct stream *stream;
    bool waits;
    begin(unit, 0, TAIL_KEEP);
    struct stream_definition rare = unit->definition;
    strcpy(rare.name, "rare");
    strcpy(rare.design, "bernoulli");
    rare.fields = fields;
    rare.tail = TAIL_SPAN;
    stream_unit_open(unit, DURABILITY_PROCESS);
    assert_ok(sampling_plan_open(unit->frames, NULL, &rare, &plan));
    assert_ok(streams_create(unit->streams, &rare, plan, 0, NULL, &stream, &waits));
    return stream;
}

/* A batch that is very far is searched for beside the others, for so long and no longer. */
static void test_a_rare_design_holds_nobody_up(void **unused)
{
    (void)unused;
    static _Atomic int finished[1];
    struct stream_unit unit;
    struct stream_batch batch;
    struct drawer drawer = {.stream = open_rare(&unit), .times = finished};
    pthread_t thread;
    int meanwhile = 0;
    assert_int_equal(pthread_create(&thread, NULL, draw_rare, &drawer), 0);
    while (!atomic_load(&finished[0])) {
        assert_ok(unit_draw(unit.stream, 1, &batch));
        meanwhile++;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(drawer.error, ERROR_TIMEOUT); /* come again: it goes on from there */
    assert_true(meanwhile > 10);
    struct ledger_pull pull = {.size = 1000000, .room = 1000000};
    assert_int_equal(stream_peek(drawer.stream, &pull, &batch), ERROR_TIMEOUT);
    stream_put(drawer.stream);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static void *ack_and_draw_rare(void *context)
{
    static const int64_t acked = 0;
    struct drawer *drawer = context;
    struct stream_batch batch;
    bool waits;
    const struct ledger_pull pull = {
        .worker = "w", .seq = 1, .size = 1000000, .room = 1000000, .acks = &acked, .ack_count = 1};
    drawer->error = stream_draw(drawer->stream, &pull, NULL, &batch, &waits);
    return NULL;
}

static int searches;

static void count_searches(void)
{
    searches++;
}

/* However many batches are asked for, a request looks no further than one batch's would. */
static void test_several_rare_batches_hold_nobody_up(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batches[STREAM_DRAWS_AT_ONCE];
    struct stream *rare = open_rare(&unit);
    struct ledger_pull pull = {.worker = "w", .size = 1, .room = 1};
    size_t count;
    bool waits;
    searches = 0;
    search_costs = INT64_C(1) << 25;
    at_search = count_searches;
    assert_ok(
        stream_draw_several(rare, &pull, STREAM_DRAWS_AT_ONCE, NULL, batches, &count, &waits));
    assert_in_range(searches, 2, 4);
    assert_in_range(count, 1, STREAM_DRAWS_AT_ONCE - 1);
    pull.seq = (int64_t)count; /* the next request goes on */
    assert_ok(
        stream_draw_several(rare, &pull, STREAM_DRAWS_AT_ONCE, NULL, batches, &count, &waits));
    assert_in_range(searches, 4, 8);
    search_costs = 0;
    at_search = NULL;
    stream_put(rare);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* The leases went with it, and maybe the ack: the batch must not come as if that stood. */
static void test_a_seek_ends_a_search(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct stream_status status;
    struct drawer drawer = {.stream = open_rare(&unit)};
    pthread_t thread;
    assert_ok(unit_lease(drawer.stream, "w", 0, 1, &batch));
    assert_int_equal(pthread_create(&thread, NULL, ack_and_draw_rare, &drawer), 0);
    do
        stream_status(drawer.stream, &status);
    while (status.acked == 0);
    assert_ok(seek(drawer.stream, 0));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(drawer.error, ERROR_UNAVAILABLE);
    stream_put(drawer.stream);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static struct stream *sought;

/* Once a batch is leased. */
static void seek_once(void)
{
    struct stream_status status;
    stream_status(sought, &status);
    if (status.leased > 0 && status.jumps == 0)
        assert_ok(seek(sought, 0));
}

/* Between two batches of one request: what was leased before it must not come. */
static void test_a_seek_ends_several_draws(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batches[8];
    struct ledger_pull pull = {.worker = "w", .size = 1, .room = 1};
    size_t count;
    bool waits;
    sought = open_rare(&unit);
    at_search = seek_once;
    assert_fails(stream_draw_several(sought, &pull, 8, NULL, batches, &count, &waits),
                 ERROR_UNAVAILABLE, "sought");
    assert_int_equal(count, 0);
    at_search = NULL;
    stream_put(sought);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* ---- the table of streams ----------------------------------------------- */

struct change {
    struct stream_caller caller;
    bool waits;
};

static struct stream *create_eval(struct stream_unit *unit, struct change *change)
{
    struct stream_definition eval = unit->definition;
    struct sampling_plan *plan;
    struct stream *stream;
    strcpy(eval.name, "eval");
    eval.rows_end = 100;
    assert_ok(sampling_plan_open(unit->frames, NULL, &eval, &plan));
    change->caller = (struct stream_caller){.waiter.ready = stream_caller_ready};
    assert_ok(streams_create(unit->streams, &eval, plan, 10, &change->caller.waiter, &stream,
                             &change->waits));
    return stream;
}

static void test_names_come_and_go(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_definition eval;
    struct stream *stream;
    struct stream_batch batch;
    struct stream_status status;
    bool waits;
    begin(&unit, 1, TAIL_KEEP);
    eval = unit.definition;
    strcpy(eval.name, "eval");
    eval.rows_end = 100;
    for (int64_t generation = 1; generation <= 3; generation++) {
        struct sampling_plan *plan;
        stream_unit_open(&unit, DURABILITY_PROCESS);
        assert_ok(sampling_plan_open(unit.frames, NULL, &eval, &plan));
        assert_ok(streams_create(unit.streams, &eval, plan, 10, NULL, &stream, &waits));
        stream_status(stream, &status);
        assert_int_equal(status.generation, generation);
        assert_int_equal(status.position, 10);
        assert_ok(sampling_plan_open(unit.frames, NULL, &eval, &plan));
        assert_fails(streams_create(unit.streams, &eval, plan, 0, NULL, &stream, &waits),
                     ERROR_CONFLICT, "in use");
        assert_ok(unit_draw(stream, 5, &batch));
        stream_put(stream);
        stream_unit_close(&unit);
        stream_unit_open(&unit, DURABILITY_PROCESS);
        stream = streams_take(unit.streams, "eval");
        assert_non_null(stream);
        assert_ok(unit_draw(stream, 5, &batch));
        assert_int_equal(batch.span.first, 15);
        assert_ok(streams_delete(unit.streams, stream, NULL, &waits));
        assert_fails(unit_draw(stream, 5, &batch), ERROR_NOT_FOUND, "deleted");
        assert_null(streams_take(unit.streams, "eval"));
        stream_put(stream);
        stream_unit_close(&unit);
    }
    stream_unit_open(&unit, DURABILITY_PROCESS);
    assert_fails(streams_delete(unit.streams, unit.stream, NULL, &waits), ERROR_CONFLICT,
                 "default");
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* Not of the one that has its name now. */
static void test_a_deletion_is_of_one_stream(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct change change;
    begin(&unit, 1, TAIL_KEEP);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    struct stream *first = create_eval(&unit, &change);
    assert_ok(streams_delete(unit.streams, first, NULL, &change.waits));
    struct stream *second = create_eval(&unit, &change);
    assert_fails(streams_delete(unit.streams, first, NULL, &change.waits), ERROR_NOT_FOUND,
                 "deleted");
    stream_put(first);
    stream_put(second);
    second = streams_take(unit.streams, "eval");
    assert_non_null(second);
    stream_put(second);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static void test_a_batch_knows_who_did_it(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct stream_place place;
    struct stream_worker workers[4];
    size_t count_of_workers;
    size_t known;
    begin(&unit, 1, TAIL_KEEP);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    assert_ok(unit_lease(unit.stream, "a", 3, 10, &batch));
    assert_ok(unit_lease(unit.stream, "b", 0, 10, &batch));
    assert_ok(unit_ack(unit.stream, "a", 3));
    stream_unit_close(&unit);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    stream_where(unit.stream, 5, &place);
    assert_int_equal(place.state, PLACE_DONE);
    assert_string_equal(place.worker, "a");
    assert_int_equal(place.seq, 3);
    stream_where(unit.stream, 15, &place);
    assert_int_equal(place.state, PLACE_LEASED);
    assert_string_equal(place.worker, "b");
    stream_where(unit.stream, 25, &place);
    assert_int_equal(place.state, PLACE_AHEAD);
    assert_ok(stream_workers(unit.stream, workers, 4, &count_of_workers, &known));
    assert_int_equal(known, 2);
    assert_int_equal(count_of_workers, 1); /* "a" was not seen since this start */
    assert_string_equal(workers[0].name, "b");
    assert_int_equal(workers[0].leased, 1);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

/* ---- what heard an error ------------------------------------------------ */

static void check_eval(struct stream_unit *unit, const struct stream_status *right)
{
    struct stream_status status;
    struct stream *stream = streams_take(unit->streams, "eval");
    assert_non_null(stream);
    stream_status(stream, &status);
    assert_int_equal(status.generation, right->generation);
    assert_int_equal(status.position, right->position);
    assert_int_equal(status.acked, right->acked);
    assert_int_equal(status.state, STREAM_PAUSED);
    stream_put(stream);
    stream_status(unit->stream, &status);
    assert_int_equal(status.state, STREAM_RUNNING);
    assert_int_equal(status.position, 10);
}

/* Pause, resume, delete and create, of one group that fails: each is undone, the newest first. */
static void test_changes_that_heard_an_error_are_undone(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct stream_status right;
    struct change changes[8] = {0};
    const struct ledger_pull pull = {.size = 7, .room = 1000};
    for (size_t i = 0; i < 8; i++)
        changes[i].caller.waiter.ready = stream_caller_ready;
    begin(&unit, 0, TAIL_KEEP);
    stream_unit_open(&unit, DURABILITY_FSYNC);
    assert_ok(unit_draw(unit.stream, 10, &batch));
    struct stream *eval = create_eval(&unit, &changes[0]);
    assert_ok(stream_caller_wait(&changes[0].caller, OK, changes[0].waits));
    assert_ok(unit_draw(eval, 7, &batch));
    assert_ok(stream_pause(eval, &changes[1].caller.waiter, &changes[1].waits));
    assert_ok(stream_caller_wait(&changes[1].caller, OK, changes[1].waits));
    stream_status(eval, &right);
    for (size_t i = 0; i < 8; i++)
        atomic_store(&changes[i].caller.called, false);
    atomic_store(&hold_sync, true);
    assert_ok(stream_pause(unit.stream, &changes[0].caller.waiter, &changes[0].waits));
    assert_ok(stream_resume(eval, &changes[1].caller.waiter, &changes[1].waits));
    assert_ok(stream_draw(eval, &pull, &changes[2].caller.waiter, &batch, &changes[2].waits));
    assert_ok(stream_pause(eval, &changes[3].caller.waiter, &changes[3].waits));
    assert_ok(streams_delete(unit.streams, eval, &changes[4].caller.waiter, &changes[4].waits));
    struct stream *second = create_eval(&unit, &changes[5]);
    assert_ok(streams_delete(unit.streams, second, &changes[6].caller.waiter, &changes[6].waits));
    struct stream *third = create_eval(&unit, &changes[7]);
    atomic_store(&refuse_sync, EIO);
    atomic_store(&hold_sync, false);
    for (size_t i = 0; i < 8; i++) {
        assert_true(changes[i].waits);
        assert_int_equal(stream_caller_wait(&changes[i].caller, OK, true), ERROR_IO);
    }
    check_eval(&unit, &right);
    assert_fails(unit_draw(second, 7, &batch), ERROR_NOT_FOUND, "deleted");
    assert_fails(unit_draw(third, 7, &batch), ERROR_NOT_FOUND, "deleted");
    stream_put(second);
    stream_put(third);
    stream_put(eval);
    stream_unit_drop(&unit); /* killed while the disk still refuses */
    atomic_store(&refuse_sync, 0);
    stream_unit_open(&unit, DURABILITY_FSYNC);
    check_eval(&unit, &right);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

enum jumps { SEEKS = 1, RESTORES = 2, BOTH = 3 };

/* A stream with a lease, a batch that was acked and a gap; its checkpoint. */
static char *begin_to_jump(struct stream_unit *unit)
{
    struct stream_batch batch;
    bool waits;
    char *token;
    begin(unit, 0, TAIL_KEEP);
    stream_unit_open(unit, DURABILITY_FSYNC);
    char *with_gap = token_of(unit->stream, 3, 8, 100);
    assert_ok(restore(unit->stream, with_gap));
    free(with_gap);
    assert_ok(unit_lease(unit->stream, "a", 0, 3, &batch));
    assert_ok(unit_lease(unit->stream, "a", 1, 1, &batch));
    assert_ok(unit_ack(unit->stream, "a", 0));
    assert_ok(stream_checkpoint(unit->stream, NULL, &token, &waits));
    return token;
}

/* [3, 6) is acked, [6, 7) leased, [7, 8) a gap. */
static void check_not_jumped(struct stream_unit *unit)
{
    struct stream_status status;
    struct stream_place place;
    stream_status(unit->stream, &status);
    assert_int_equal(status.position, 100);
    assert_int_equal(status.gaps, 1);
    assert_int_equal(status.leased, 1);
    assert_int_equal(status.acked, 1);
    assert_int_equal(status.workers, 1);
    assert_int_equal(status.state, STREAM_RUNNING);
    stream_where(unit->stream, 6, &place);
    assert_int_equal(place.state, PLACE_LEASED);
    stream_where(unit->stream, 4, &place);
    assert_int_equal(place.state, PLACE_DONE);
}

static void ask_draw(struct stream *stream, const char *worker, struct change *change)
{
    struct stream_batch batch;
    const struct ledger_pull pull = {.size = 7, .room = 1000, .worker = worker};
    assert_ok(stream_draw(stream, &pull, &change->caller.waiter, &batch, &change->waits));
}

/* A draw, an ack, a lease; then, as `jumps` says, a seek, a restore or both, each with a draw; a
 * pause. Returns how many. */
static size_t ask_and_jump(struct stream *stream, const char *token, enum jumps jumps,
                           struct change *changes)
{
    const int64_t acked = 1;
    struct change *next = &changes[3];
    ask_draw(stream, NULL, &changes[0]);
    assert_ok(stream_ack(stream, "a", &acked, 1, &changes[1].caller.waiter, &changes[1].waits));
    ask_draw(stream, "b", &changes[2]);
    if (jumps & SEEKS) {
        assert_ok(stream_seek(stream, 500, &next->caller.waiter, &next->waits));
        ask_draw(stream, NULL, next + 1);
        next += 2;
    }
    if (jumps & RESTORES) {
        assert_ok(stream_restore(stream, token, &next->caller.waiter, &next->waits));
        ask_draw(stream, NULL, next + 1);
        next += 2;
    }
    assert_ok(stream_pause(stream, &next->caller.waiter, &next->waits));
    return (size_t)(next - changes) + 1;
}

/* All of it in one group, which fails. */
static void jump_and_fail(struct stream_unit *unit, const char *token, enum jumps jumps)
{
    struct change changes[8];
    for (size_t i = 0; i < 8; i++)
        changes[i].caller = (struct stream_caller){.waiter.ready = stream_caller_ready};
    atomic_store(&hold_sync, true);
    size_t count = ask_and_jump(unit->stream, token, jumps, changes);
    atomic_store(&refuse_sync, EIO);
    atomic_store(&hold_sync, false);
    for (size_t i = 0; i < count; i++) {
        assert_true(changes[i].waits);
        assert_int_equal(stream_caller_wait(&changes[i].caller, OK, true), ERROR_IO);
    }
}

/* The same again, on a disk that works. */
static void jump(struct stream_unit *unit, const char *token)
{
    struct stream_batch batch;
    assert_ok(unit_lease(unit->stream, "a", 1, 1, &batch));
    assert_int_equal(batch.span.first, 6);
    assert_int_equal(batch.attempt, 1);
    assert_ok(unit_draw(unit->stream, 7, &batch));
    assert_int_equal(batch.span.first, 7);
    assert_ok(unit_ack(unit->stream, "a", 1));
    assert_ok(unit_lease(unit->stream, "b", 0, 7, &batch));
    assert_int_equal(batch.span.first, 100);
    assert_int_equal(batch.attempt, 1);
    assert_ok(seek(unit->stream, 500));
    assert_ok(unit_draw(unit->stream, 7, &batch));
    assert_int_equal(batch.span.first, 500);
    assert_ok(restore(unit->stream, token));
    assert_ok(unit_draw(unit->stream, 7, &batch));
    assert_int_equal(batch.span.first, 6);
}

/* A seek, a restore, and all that came with them are undone before anybody hears of it; also in
 * what a kill leaves, while the disk still refuses. */
static void check_undone(enum jumps jumps, bool killed)
{
    struct stream_unit unit;
    char *token = begin_to_jump(&unit);
    jump_and_fail(&unit, token, jumps);
    check_not_jumped(&unit);
    if (killed)
        stream_unit_drop(&unit);
    atomic_store(&refuse_sync, 0);
    if (killed)
        stream_unit_open(&unit, DURABILITY_FSYNC);
    wait_until_it_works(&unit);
    check_not_jumped(&unit);
    jump(&unit, token);
    free(token);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static void test_a_seek_that_heard_an_error_is_undone(void **unused)
{
    (void)unused;
    for (int jumps = SEEKS; jumps <= BOTH; jumps++) {
        check_undone((enum jumps)jumps, false);
        check_undone((enum jumps)jumps, true);
    }
}

/* Turns over a bit of the journal's first record. */
static void turn_bit(const struct stream_unit *unit)
{
    char path[512];
    uint8_t byte;
    snprintf(path, sizeof(path), "%s/journal", unit->folder);
    int file = open(path, O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(pread(file, &byte, 1, JOURNAL_HEADER_BYTES), 1);
    byte ^= 1;
    assert_int_equal(pwrite(file, &byte, 1, JOURNAL_HEADER_BYTES), 1);
    assert_int_equal(close(file), 0);
}

/* Before it can be read what a seek replaced, a stream does nothing, however well the disk writes. */
static void test_a_seek_is_undone_when_the_journal_can_be_read(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    struct journal_counts counts;
    const struct ledger_pull pull = {.size = 7, .room = 1000};
    bool waits;
    char *text;
    char *token = begin_to_jump(&unit);
    turn_bit(&unit);
    jump_and_fail(&unit, token, BOTH);
    atomic_store(&refuse_sync, 0);
    streams_journal_counts(unit.streams, &counts);
    uint64_t enough = counts.failures + 2;
    int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
    while (counts.failures < enough && clock_left_ms(deadline_ns) > 0) {
        clock_sleep_ms(1);
        streams_journal_counts(unit.streams, &counts);
    }
    assert_true(counts.failures >= enough);
    assert_fails(unit_draw(unit.stream, 7, &batch), ERROR_IO, "not what was written");
    assert_fails(stream_peek(unit.stream, &pull, &batch), ERROR_IO, "not what was written");
    assert_fails(stream_checkpoint(unit.stream, NULL, &text, &waits), ERROR_IO, "not what was");
    turn_bit(&unit);
    wait_until_it_works(&unit);
    check_not_jumped(&unit);
    jump(&unit, token);
    free(token);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static int unions;

void __real_intervals_add_numbers(struct intervals *intervals, const int64_t *numbers,
                                  size_t count);
void __wrap_intervals_add_numbers(struct intervals *intervals, const int64_t *numbers,
                                  size_t count);
void __wrap_intervals_add_numbers(struct intervals *intervals, const int64_t *numbers, size_t count)
{
    unions++;
    __real_intervals_add_numbers(intervals, numbers, count);
}

/* Each union moves those behind it. */
static void test_acks_in_any_order_are_one_union(void **unused)
{
    (void)unused;
    enum { COUNT = STREAM_LEASES_AT_ONCE };
    struct stream_unit unit = {0};
    struct stream_batch batch;
    struct stream_status status;
    int64_t acks[COUNT], pulled[COUNT];
    bool waits;
    stream_unit_define(&unit, 0, TAIL_SPAN);
    stream_unit_open(&unit, DURABILITY_NONE);
    for (int64_t i = 0; i < 4 * COUNT; i++)
        assert_ok(unit_lease(unit.stream, "w", i, 1, &batch));
    for (int64_t i = 0; i < COUNT; i++) {
        acks[i] = 4 * ((i * 77) % COUNT);
        pulled[i] = 4 * ((i * 91) % COUNT) + 2;
    }
    pulled[COUNT - 1] = pulled[0]; /* twice */
    unions = 0;
    assert_ok(stream_ack(unit.stream, "w", acks, COUNT, NULL, &waits));
    assert_int_equal(unions, 1);
    const struct ledger_pull pull = {
        .size = 1, .worker = "w", .seq = 4 * COUNT, .room = 1, .acks = pulled, .ack_count = COUNT};
    assert_ok(unit_pull(unit.stream, &pull, &batch));
    assert_int_equal(unions, 2);
    stream_status(unit.stream, &status);
    assert_int_equal(status.acked, 2 * COUNT - 1);
    acks[0] = 4 * COUNT + 1;
    acks[1] = 4 * COUNT + 9;
    assert_fails(stream_ack(unit.stream, "w", acks, COUNT, NULL, &waits), ERROR_CONFLICT,
                 "seq=1025");
    stream_unit_drop(&unit);
    stream_unit_end(&unit);
}

static int silence(void **unused)
{
    (void)unused;
    log_set_level((enum log_level)(LOG_ERROR + 1));
    return 0;
}

/* The process stood still, and who has a batch could not renew it. */
static void test_no_lease_runs_while_nobody_looks(void **unused)
{
    (void)unused;
    struct stream_unit unit;
    struct stream_batch batch;
    begin(&unit, 0, TAIL_KEEP);
    unit.definition.lease_ms = 60000;
    stream_unit_open(&unit, DURABILITY_PROCESS);
    assert_ok(unit_lease(unit.stream, "a", 0, 10, &batch));
    atomic_fetch_add(&skipped_ns, INT64_C(1000000) * 3600000);
    assert_ok(unit_lease(unit.stream, "b", 0, 10, &batch));
    assert_int_equal(batch.span.first, 10);
    skip_ms(1000);
    assert_ok(unit_lease(unit.stream, "b", 1, 10, &batch));
    assert_int_equal(batch.span.first, 20);
    skip_ms(60000);
    assert_ok(unit_lease(unit.stream, "b", 2, 10, &batch));
    assert_int_equal(batch.span.first, 0);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_each_position_is_done_once, silence),
    cmocka_unit_test(test_a_disk_that_refuses_loses_and_repeats_nothing),
    cmocka_unit_test(test_a_restart_goes_on),
    cmocka_unit_test(test_leases_survive_a_kill),
    cmocka_unit_test(test_leases_start_over_with_the_server),
    cmocka_unit_test(test_another_order_is_refused),
    cmocka_unit_test(test_a_seek_reaches_to_the_end),
    cmocka_unit_test(test_an_expired_batch_is_redelivered),
    cmocka_unit_test(test_a_batch_needs_room),
    cmocka_unit_test(test_several_batches_are_those_of_single_draws),
    cmocka_unit_test_setup(test_several_batches_that_expired, silence),
    cmocka_unit_test(test_a_peek_says_what_a_draw_would),
    cmocka_unit_test(test_a_refusal_waits_for_its_acks),
    cmocka_unit_test_setup(test_a_refusal_waits_for_what_it_rests_on, silence),
    cmocka_unit_test(test_a_token_after_a_restore),
    cmocka_unit_test(test_positions_inside_a_batch),
    cmocka_unit_test(test_open_positions_without_a_unit),
    cmocka_unit_test(test_a_gap_without_a_unit_at_the_very_end),
    cmocka_unit_test_setup(test_what_goes_back_is_what_it_was, silence),
    cmocka_unit_test_setup(test_an_expired_batch_goes_back_to_its_worker, silence),
    cmocka_unit_test_setup(test_what_was_skipped_goes_back, silence),
    cmocka_unit_test_setup(test_an_end_that_heard_an_error_is_ahead, silence),
    cmocka_unit_test(test_a_stream_that_ended_stands_at_its_end),
    cmocka_unit_test(test_a_token_at_the_very_end),
    cmocka_unit_test(test_a_token_of_all_rows),
    cmocka_unit_test(test_a_token_waits_for_the_disk),
    cmocka_unit_test_setup(test_a_token_while_a_draw_is_refused, silence),
    cmocka_unit_test(test_a_rare_design_holds_nobody_up),
    cmocka_unit_test(test_several_rare_batches_hold_nobody_up),
    cmocka_unit_test(test_a_seek_ends_a_search),
    cmocka_unit_test(test_a_seek_ends_several_draws),
    cmocka_unit_test(test_what_a_token_calls_done_is_done),
    cmocka_unit_test(test_names_come_and_go),
    cmocka_unit_test(test_a_deletion_is_of_one_stream),
    cmocka_unit_test_setup(test_changes_that_heard_an_error_are_undone, silence),
    cmocka_unit_test_setup(test_a_seek_that_heard_an_error_is_undone, silence),
    cmocka_unit_test_setup(test_a_seek_is_undone_when_the_journal_can_be_read, silence),
    cmocka_unit_test(test_a_batch_knows_who_did_it),
    cmocka_unit_test(test_acks_in_any_order_are_one_union),
    /* The last: the clock of the next one would be behind its own. */
    cmocka_unit_test(test_no_lease_runs_while_nobody_looks),
};

UNIT_MAIN(tests)

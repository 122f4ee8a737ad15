/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/journal/journal_rewrite: The journal compacted again and again, beside draws,
 * acks, releases and leases that expire. The answers that each caller got stand in a plain list;
 * before and after a start each position must be what the lists say. */
#include "tests/unit/stream_unit.h"

#include <pthread.h>

#include "sampler/journal/journal_private.h"
#include "sampler/stream/stream_private.h"

#define THREADS 4
#define ROUNDS 4000
#define POSITIONS_MOST (THREADS * ROUNDS * 8)

/* The last answer about a position. */
enum said { SAID_NOTHING, SAID_DONE, SAID_LEASED, SAID_ACKED, SAID_LOST };

struct given {
    int64_t first, units, seq;
    enum said said;
};

struct caller {
    struct stream *stream;
    int number;
    char worker[16];
    unsigned dice;
    int64_t seq;
    struct given given[ROUNDS];
    size_t count;
};

static struct caller callers[THREADS];
static _Atomic bool forcing;

static unsigned roll(struct caller *caller, unsigned sides)
{
    caller->dice = caller->dice * 1664525u + 1013904223u;
    return (caller->dice >> 12) % sides;
}

static void note(struct caller *caller, const struct stream_batch *batch, enum said said)
{
    caller->given[caller->count++] =
        (struct given){batch->span.first, batch->span.units, caller->seq, said};
}

static void ack_one(struct caller *caller)
{
    if (caller->count == 0)
        return;
    struct given *given = &caller->given[roll(caller, (unsigned)caller->count)];
    if (given->said != SAID_LEASED)
        return;
    enum error error = unit_ack(caller->stream, caller->worker, given->seq);
    assert_true(!error || error == ERROR_CONFLICT);
    given->said = !error ? SAID_ACKED : SAID_LOST;
}

static void release_all(struct caller *caller)
{
    struct stream_caller waiting = {.waiter.ready = stream_caller_ready};
    int64_t released;
    bool waits;
    enum error error =
        stream_release(caller->stream, caller->worker, &waiting.waiter, &released, &waits);
    assert_ok(stream_caller_wait(&waiting, error, waits));
    for (size_t i = 0; i < caller->count; i++) {
        if (caller->given[i].said == SAID_LEASED)
            caller->given[i].said = SAID_LOST;
    }
}

static void *call(void *context)
{
    struct caller *caller = context;
    struct stream_batch batch;
    for (int round = 0; round < ROUNDS; round++) {
        unsigned side = roll(caller, 100);
        int64_t size = 1 + roll(caller, 7);
        if (side < 25) {
            assert_ok(unit_draw(caller->stream, size, &batch));
            note(caller, &batch, SAID_DONE);
        } else if (side < 70) {
            caller->seq++;
            assert_ok(unit_lease(caller->stream, caller->worker, caller->seq, size, &batch));
            note(caller, &batch, SAID_LEASED);
        } else if (side < 99) {
            ack_one(caller);
        } else {
            release_all(caller);
        }
    }
    return NULL;
}

/* Long enough at any time. */
static void *force(void *context)
{
    struct streams *streams = context;
    while (atomic_load(&forcing)) {
        pthread_mutex_lock(&streams->mutex);
        if (streams->journal->rewrite_at != UINT64_MAX)
            streams->journal->rewrite_at = 0;
        pthread_mutex_unlock(&streams->mutex);
        clock_sleep_ms(1);
    }
    return NULL;
}

static uint64_t rewrites(struct streams *streams)
{
    struct journal_counts counts;
    streams_journal_counts(streams, &counts);
    return counts.rewrites;
}

static void run(struct stream_unit *unit)
{
    pthread_t threads[THREADS];
    pthread_t forces;
    uint64_t before = rewrites(unit->streams);
    atomic_store(&forcing, true);
    assert_int_equal(pthread_create(&forces, NULL, force, unit->streams), 0);
    for (int i = 0; i < THREADS; i++) {
        callers[i].stream = unit->stream;
        callers[i].count = 0;
        assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
    while (rewrites(unit->streams) < before + 3 && clock_left_ms(deadline_ns) > 0)
        clock_sleep_ms(1);
    atomic_store(&forcing, false);
    pthread_join(forces, NULL);
    assert_true(rewrites(unit->streams) >= before + 3);
}

/* The last answer about a position overrides earlier ones: who lost it, and who then had it. */
static void check_lists(struct stream *stream)
{
    static unsigned char times[POSITIONS_MOST];
    struct stream_place place;
    memset(times, 0, sizeof(times));
    for (int i = 0; i < THREADS; i++) {
        for (size_t j = 0; j < callers[i].count; j++) {
            const struct given *given = &callers[i].given[j];
            if (given->said == SAID_LOST)
                continue;
            stream_where(stream, given->first, &place);
            bool mine = strcmp(place.worker, callers[i].worker) == 0 && place.seq == given->seq;
            if (given->said == SAID_LEASED && !(place.state == PLACE_LEASED && mine))
                continue; /* it expired, and somebody else got it: that list tells */
            assert_true(given->said == SAID_LEASED || place.state == PLACE_DONE);
            assert_true(given->said != SAID_ACKED || mine);
            for (int64_t at = 0; at < given->units; at++)
                times[given->first + at]++;
        }
    }
    struct stream_status status;
    stream_status(stream, &status);
    for (int64_t at = 0; at < status.position; at++) {
        stream_where(stream, at, &place);
        bool nobodys = place.state == PLACE_AHEAD; /* released */
        if (times[at] != !nobodys)
            fail_msg("position %lld is in %d lists", (long long)at, times[at]);
    }
}

struct snapshot {
    struct stream_status status;
    struct stream_place *places; /* [status.position] */
};

static void take_snapshot(struct stream *stream, struct snapshot *snapshot)
{
    stream_status(stream, &snapshot->status);
    snapshot->places = calloc((size_t)snapshot->status.position + 1, sizeof(struct stream_place));
    assert_non_null(snapshot->places);
    for (int64_t at = 0; at < snapshot->status.position; at++)
        stream_where(stream, at, &snapshot->places[at]);
}

static void compare_snapshots(const struct snapshot *a, const struct snapshot *b)
{
    assert_int_equal(a->status.position, b->status.position);
    assert_int_equal(a->status.acked, b->status.acked);
    assert_int_equal(a->status.leased, b->status.leased);
    assert_int_equal(a->status.redelivered, b->status.redelivered);
    assert_int_equal(a->status.batches, b->status.batches);
    assert_int_equal(a->status.workers, b->status.workers);
    assert_int_equal(a->status.lease_ms, b->status.lease_ms);
    for (int64_t at = 0; at < a->status.position; at++) {
        if (memcmp(&a->places[at], &b->places[at], sizeof(a->places[at])) != 0)
            fail_msg("position %lld: state %d, %s seq %lld attempt %lld; then %d, %s, %lld, %lld",
                     (long long)at, a->places[at].state, a->places[at].worker,
                     (long long)a->places[at].seq, (long long)a->places[at].attempt,
                     b->places[at].state, b->places[at].worker, (long long)b->places[at].seq,
                     (long long)b->places[at].attempt);
    }
}

static void check_rewrites(enum durability durability, int64_t lease_ms)
{
    struct stream_unit unit = {0};
    struct snapshot before;
    struct snapshot after;
    unit_folder_make(unit.folder);
    stream_unit_define(&unit, 0, TAIL_SPAN);
    unit.definition.lease_ms = lease_ms;
    stream_unit_open(&unit, durability);
    memset(callers, 0, sizeof(callers));
    for (int i = 0; i < THREADS; i++) {
        callers[i].number = i;
        callers[i].dice = (unsigned)(i + 1) * 7919u;
        snprintf(callers[i].worker, sizeof(callers[i].worker), "w%d", i);
    }
    run(&unit);
    check_lists(unit.stream);
    take_snapshot(unit.stream, &before);
    stream_unit_drop(&unit);
    stream_unit_open(&unit, durability);
    take_snapshot(unit.stream, &after);
    compare_snapshots(&before, &after);
    check_lists(unit.stream);
    free(before.places);
    free(after.places);
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static void test_all_that_was_told_is_kept(void **unused)
{
    (void)unused;
    log_set_level((enum log_level)(LOG_ERROR + 1));
    check_rewrites(DURABILITY_PROCESS, 3600000);
    check_rewrites(DURABILITY_FSYNC, 3600000);
}

static void test_leases_run_out_meanwhile(void **unused)
{
    (void)unused;
    check_rewrites(DURABILITY_PROCESS, 5);
    check_rewrites(DURABILITY_FSYNC, 20);
}

/* Streams come, pause, are sought and go while their book is listed. */
static void test_streams_come_and_go_meanwhile(void **unused)
{
    (void)unused;
    struct stream_unit unit = {0};
    struct stream_batch batch;
    pthread_t forces;
    unit_folder_make(unit.folder);
    stream_unit_define(&unit, 0, TAIL_SPAN);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    atomic_store(&forcing, true);
    assert_int_equal(pthread_create(&forces, NULL, force, unit.streams), 0);
    int64_t deadline_ns = clock_deadline_ns(UNIT_STREAM_PATIENCE_MS);
    for (int round = 0; round < 60; round++) {
        struct stream_definition definition = unit.definition;
        struct stream *stream;
        struct sampling_plan *plan;
        bool waits;
        snprintf(definition.name, sizeof(definition.name), "s%d", round);
        assert_ok(sampling_plan_open(unit.frames, NULL, &definition, &plan));
        assert_ok(streams_create(unit.streams, &definition, plan, 100, NULL, &stream, &waits));
        for (int64_t seq = 0; seq < 100; seq++)
            assert_ok(unit_lease(stream, "w", seq, 3, &batch));
        if (round % 3 == 0)
            assert_ok(stream_seek(stream, 50, NULL, &waits));
        if (round % 2 == 0)
            assert_ok(stream_pause(stream, NULL, &waits));
        if (round % 4 == 3)
            assert_ok(streams_delete(unit.streams, stream, NULL, &waits));
        stream_put(stream);
        do {
            clock_sleep_ms(2);
        } while (rewrites(unit.streams) < (uint64_t)(round + 1) / 20 &&
                 clock_left_ms(deadline_ns) > 0);
    }
    assert_true(rewrites(unit.streams) >= 3);
    atomic_store(&forcing, false);
    pthread_join(forces, NULL);
    stream_unit_drop(&unit);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    for (int round = 0; round < 60; round++) {
        char name[16];
        struct stream_status status;
        snprintf(name, sizeof(name), "s%d", round);
        struct stream *stream = streams_take(unit.streams, name);
        if (round % 4 == 3) {
            assert_null(stream);
            continue;
        }
        assert_non_null(stream);
        stream_status(stream, &status);
        assert_int_equal(status.position, round % 3 == 0 ? 50 : 400);
        assert_int_equal(status.leased, round % 3 == 0 ? 0 : 100);
        assert_int_equal(status.state, round % 2 == 0 ? STREAM_PAUSED : STREAM_RUNNING);
        stream_put(stream);
    }
    stream_unit_close(&unit);
    stream_unit_end(&unit);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_all_that_was_told_is_kept),
    cmocka_unit_test(test_leases_run_out_meanwhile),
    cmocka_unit_test(test_streams_come_and_go_meanwhile),
};

UNIT_MAIN(tests)

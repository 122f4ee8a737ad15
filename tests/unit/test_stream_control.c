/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/stream/stream_control: Checkpoints, seeks and restores of streams with many leases
 * let others draw in between, whatever these do. Counted, not timed: what is done with the mutex.
 */
#include "tests/unit/others_unit.h"

#include "sampler/ledger/ledger_past.h"
#include "sampler/ledger/ledger_skipped.h"

/* Batches of one unit, seqs from 0 on, all of "w". */
static void lease_many(void)
{
    struct stream_batch batch;
    unit.stream->ledger.lease_ms = 600000;
    for (int64_t i = 0; i < MANY; i++)
        assert_ok(unit_lease(unit.stream, "w", i, 1, &batch));
}

/* ---- checkpoints -------------------------------------------------------- */

static char *token_now(void)
{
    char *token;
    bool waits;
    assert_ok(stream_checkpoint(unit.stream, NULL, &token, &waits));
    return token;
}

/* Acks before and behind what is listed, draws out of gaps and of what is new. */
static void change(int draw)
{
    struct stream_batch batch;
    int64_t acked[] = {draw, MANY - draw, MANY / 2 + draw};
    assert_ok(stream_ack_many(unit.stream, "w", acked, 3));
    assert_ok(unit_lease(unit.stream, "v", draw, 7, &batch));
    assert_ok(unit_draw(unit.stream, 3, &batch));
}

static void seek(int draw)
{
    bool waits;
    if (draw == 2)
        assert_ok(stream_seek(unit.stream, 77, NULL, &waits));
}

/* What a token says was so at one moment, whatever happens while it is made. */
static void test_a_checkpoint_is_of_one_moment(void **state)
{
    bool waits;
    int64_t released;
    struct stream_batch batch;
    (void)state;
    lease_many();
    assert_ok(unit_draw(unit.stream, 1000, &batch));
    char *token = token_now();
    assert_ok(stream_restore(unit.stream, token, NULL, &waits)); /* what was leased are gaps now */
    free(token);
    for (int64_t i = 0; i < MANY / 2; i++)
        assert_ok(unit_lease(unit.stream, "w", i, 1, &batch));
    for (int64_t i = MANY / 2; i < MANY; i++) {
        assert_ok(unit_lease(unit.stream, "w", i, 3, &batch));
        if (i % 3 == 0)
            assert_ok(unit_lease(unit.stream, "u", i, 1, &batch));
    }
    assert_ok(stream_release(unit.stream, "u", NULL, &released, &waits));
    char *before = token_now();
    let_others_draw();
    also = change;
    char *during = token_now();
    assert_in_range(others_drew(), 5, 100);
    assert_string_equal(before, during);
    free(before);
    free(during);
    let_others_draw();
    also = seek;
    during = token_now();
    assert_in_range(others_drew(), 2, 100);
    before = token_now();
    assert_string_equal(before, during);
    assert_null(unit.stream->ledger.listings);
    free(before);
    free(during);
}

/* ---- seeks and restores ------------------------------------------------- */

/* By this thread or another one: it is held. */
static bool is_mutex_held(void)
{
    if (pthread_mutex_trylock(&unit.streams->mutex) != 0)
        return true;
    assert_int_equal(__real_pthread_mutex_unlock(&unit.streams->mutex), 0);
    return false;
}

static _Atomic int adds_with_mutex;     /* of intervals */
static _Atomic int releases_with_mutex; /* of workers */
static _Atomic int starts_with_mutex;   /* of ledgers */
static _Atomic int lists_encoded;       /* without it */
static void (*meanwhile)(void);         /* while a seek merges, or NULL */

void __real_lease_set_each(const struct lease_set *set,
                           void (*visit)(void *context, const struct lease *lease), void *context);
void __wrap_lease_set_each(const struct lease_set *set,
                           void (*visit)(void *context, const struct lease *lease), void *context);
void __wrap_lease_set_each(const struct lease_set *set,
                           void (*visit)(void *context, const struct lease *lease), void *context)
{
    void (*now)(void) = meanwhile;
    meanwhile = NULL;
    if (now) {
        assert_false(is_mutex_held());
        now();
    }
    __real_lease_set_each(set, visit, context);
}

void __real_intervals_add(struct intervals *intervals, int64_t begin, int64_t end);
void __wrap_intervals_add(struct intervals *intervals, int64_t begin, int64_t end);
void __wrap_intervals_add(struct intervals *intervals, int64_t begin, int64_t end)
{
    adds_with_mutex += unit.streams && is_mutex_held();
    __real_intervals_add(intervals, begin, end);
}

void __real_worker_table_release(struct worker_table *table);
void __wrap_worker_table_release(struct worker_table *table);
void __wrap_worker_table_release(struct worker_table *table)
{
    releases_with_mutex += unit.streams && is_mutex_held();
    __real_worker_table_release(table);
}

void __real_ledger_start(struct ledger *ledger, int64_t now_ms);
void __wrap_ledger_start(struct ledger *ledger, int64_t now_ms);
void __wrap_ledger_start(struct ledger *ledger, int64_t now_ms)
{
    starts_with_mutex += unit.streams && is_mutex_held();
    __real_ledger_start(ledger, now_ms);
}

enum error __real_entry_encode_list(struct entry *entry, uint8_t **ret_bytes);
enum error __wrap_entry_encode_list(struct entry *entry, uint8_t **ret_bytes);
enum error __wrap_entry_encode_list(struct entry *entry, uint8_t **ret_bytes)
{
    lists_encoded += !is_mutex_held();
    return __real_entry_encode_list(entry, ret_bytes);
}

/* Every other of the first MANY positions is leased, the others are done. */
static void lease_each_other(void)
{
    struct stream_batch batch;
    for (int64_t i = 0; i < MANY / 2; i++) {
        assert_ok(unit_lease(unit.stream, "w", i, 1, &batch));
        assert_ok(unit_draw(unit.stream, 1, &batch));
    }
}

static void check_places(void)
{
    struct stream_place place;
    for (int64_t i = 0; i < MANY + 10; i++) {
        stream_where(unit.stream, i, &place);
        assert_int_equal(place.state, i < MANY && i % 2 == 1 ? PLACE_DONE : PLACE_SKIPPED);
    }
}

static enum error apply_to_copy(void *context, const struct entry *entry)
{
    struct ledger *copy = context;
    assert_ok(ledger_check(copy, entry));
    assert_ok(ledger_prepare(copy, entry));
    ledger_apply(copy, entry, 0);
    return OK;
}

/* What a failing disk asks for: the ledger as entries. */
static void check_written(void)
{
    struct ledger copy;
    ledger_init(&copy);
    pthread_mutex_lock(&unit.streams->mutex);
    assert_ok(ledger_write(&unit.stream->ledger, 0, apply_to_copy, &copy));
    pthread_mutex_unlock(&unit.streams->mutex);
    for (int64_t i = 0; i < MANY + 10; i++)
        assert_int_equal(intervals_has(&copy.skipped, i), i >= MANY || i % 2 == 0);
    ledger_release(&copy);
}

static void look_meanwhile(void)
{
    struct stream_batch batch;
    assert_non_null(unit.stream->ledger.past);
    check_places();
    check_written();
    assert_ok(unit_lease(unit.stream, "w", MANY, 5, &batch));
    assert_int_equal(batch.span.first, MANY + 10);
    check_places();
}

/* The stream goes on at the new position at once. */
static void test_a_seek_merges_without_the_mutex(void **state)
{
    struct stream_status status;
    struct stream_drawn drawn;
    bool waits;
    (void)state;
    lease_each_other();
    meanwhile = look_meanwhile;
    assert_ok(stream_seek(unit.stream, MANY + 10, NULL, &waits));
    assert_null(meanwhile); /* it was called */
    assert_null(unit.stream->ledger.past);
    check_places();
    check_written();
    stream_status(unit.stream, &status);
    assert_int_equal(status.leased, 1);
    assert_int_equal(status.position, MANY + 15);
    unit.stream->plan->batching.epoch_positions = 3 * MANY;
    assert_ok(stream_drawn(unit.stream, &drawn));
    assert_int_equal(drawn.count, MANY / 2 + 1); /* those that are done, and the new lease */
    free(drawn.spans);
}

/* As tail `drop` does it at the end of each epoch. */
static void skip_much(void)
{
    const struct entry none = {.type = ENTRY_DRAW};
    struct ledger *ledger = &unit.stream->ledger;
    struct stream_batch batch;
    for (int64_t i = 0; i < LEDGER_PAST_SINCE; i++) {
        assert_ok(ledger_prepare(ledger, &none));
        ledger_skipped_add(ledger, MANY + 10 + 2 * i, MANY + 11 + 2 * i);
    }
    ledger->position = MANY + 10 + 2 * LEDGER_PAST_SINCE;
    assert_fails(unit_draw(unit.stream, 1, &batch), ERROR_TIMEOUT, "ask again");
}

/* What is skipped before a seek is settled has its room. */
static void test_a_seek_keeps_what_is_skipped_since(void **state)
{
    const struct intervals *skipped = &unit.stream->ledger.skipped;
    struct stream_batch batch;
    bool waits;
    (void)state;
    lease_each_other();
    meanwhile = skip_much;
    assert_ok(stream_seek(unit.stream, MANY + 10, NULL, &waits));
    assert_int_equal(skipped->count, MANY / 2 + LEDGER_PAST_SINCE);
    assert_int_equal(skipped->size, MANY / 2 + 10 + LEDGER_PAST_SINCE);
    assert_ok(unit_draw(unit.stream, 1, &batch));
}

static void *seek_too(void *unused)
{
    bool waits;
    (void)unused;
    assert_ok(stream_seek(unit.stream, 77, NULL, &waits));
    return NULL;
}

static pthread_t seeker;

static void begin_seek(void)
{
    assert_int_equal(pthread_create(&seeker, NULL, seek_too, NULL), 0);
}

static void test_another_seek_waits_for_it(void **state)
{
    struct stream_status status;
    bool waits;
    (void)state;
    lease_each_other();
    meanwhile = begin_seek;
    assert_ok(stream_seek(unit.stream, MANY + 10, NULL, &waits));
    pthread_join(seeker, NULL);
    stream_status(unit.stream, &status);
    assert_int_equal(status.position, 77);
    assert_null(unit.stream->ledger.past);
}

/* The ledgers as of a commit before the seek. */
static void *kept;

static void take_back(void)
{
    pthread_mutex_lock(&unit.streams->mutex);
    unit.stream->jumped = true;
    pthread_mutex_unlock(&unit.streams->mutex);
    streams_take_back(unit.streams, kept);
    streams_ledgers_free(kept);
}

static void test_a_seek_that_is_taken_back_meanwhile(void **state)
{
    struct stream_status status;
    struct stream_place place;
    bool waits;
    (void)state;
    lease_each_other();
    assert_ok(streams_ledgers_new(&kept));
    assert_ok(streams_write(unit.streams, streams_replay, kept));
    meanwhile = take_back;
    starts_with_mutex = 0;
    assert_ok(stream_seek(unit.stream, MANY + 10, NULL, &waits));
    assert_int_equal(starts_with_mutex, 0);
    stream_status(unit.stream, &status);
    assert_int_equal(status.position, MANY);
    assert_int_equal(status.leased, MANY / 2);
    stream_where(unit.stream, 0, &place);
    assert_int_equal(place.state, PLACE_LEASED);
    assert_int_equal(unit.stream->ledger.skipped.count, 0);
    assert_null(unit.stream->ledger.past);
}

static void test_a_restore_builds_and_frees_without_the_mutex(void **state)
{
    struct stream_status status;
    bool waits;
    (void)state;
    lease_each_other();
    char *token = token_now();
    adds_with_mutex = releases_with_mutex = lists_encoded = 0;
    assert_ok(stream_restore(unit.stream, token, NULL, &waits));
    assert_int_equal(adds_with_mutex, 0);
    assert_int_equal(releases_with_mutex, 0);
    assert_int_equal(lists_encoded, 1);
    stream_status(unit.stream, &status);
    assert_int_equal(status.gaps, MANY / 2);
    assert_int_equal(status.leased, 0);
    assert_int_equal(status.workers, 0);
    free(token);
}

static const struct CMUnitTest tests[] = {
    TEST(test_a_checkpoint_is_of_one_moment),
    TEST(test_a_seek_merges_without_the_mutex),
    TEST(test_a_seek_keeps_what_is_skipped_since),
    TEST(test_another_seek_waits_for_it),
    TEST(test_a_seek_that_is_taken_back_meanwhile),
    TEST(test_a_restore_builds_and_frees_without_the_mutex),
};

UNIT_MAIN(tests)

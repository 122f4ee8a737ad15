/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/ledger/worker_table: Who is forgotten when a stream has as many workers as it
 * may, and what stays known of them.
 */
#include "tests/unit/colliding_unit.h"
#include "tests/unit/unit.h"

#include "sampler/ledger/conflicts.h"
#include "sampler/ledger/ledger.h"
#include "sampler/ledger/ledger_plan.h"

static const struct batching cut = {.epoch_positions = INT64_C(1) << 40, .tail = TAIL_KEEP};

/* ---- a table that a stream would have ----------------------------------- */

static void apply(struct ledger *ledger, const struct entry *entry)
{
    assert_ok(ledger_check(ledger, entry));
    assert_ok(ledger_prepare(ledger, entry));
    ledger_apply(ledger, entry, 0);
}

static enum error apply_to_copy(void *context, const struct entry *entry)
{
    apply(context, entry);
    return OK;
}

static enum error plan(struct ledger *ledger, const char *worker, int64_t seq,
                       struct ledger_plan *plan)
{
    struct batching_search search = {.size = 0};
    struct ledger_pull pull = {.worker = worker, .seq = seq, .size = 1};
    return ledger_plan_draw(ledger, &cut, &search, &pull, ledger_worker(ledger, worker), 0, plan);
}

/* As a stream does it (stream.c). */
static enum error lease_batch(struct ledger *ledger, const char *worker, int64_t seq)
{
    struct ledger_plan planned;
    struct worker_table *table = &ledger->workers;
    enum error error = plan(ledger, worker, seq, &planned);
    if (error || planned.kind == PLAN_KEPT)
        return error;
    uint32_t number = worker_table_find(table, worker);
    if (number == WORKER_NONE) {
        error = worker_table_room(table, worker, &number);
        if (error)
            return error;
        apply(ledger, &(struct entry){.type = ENTRY_WORKER,
                                      .worker = number < table->count ? (int64_t)number : -1,
                                      .seq = worker_table_forgotten_below(table, worker),
                                      .text = worker,
                                      .text_bytes = strlen(worker)});
    }
    apply(ledger, &(struct entry){.type = ENTRY_DRAW,
                                  .first = planned.span.first,
                                  .positions = 1,
                                  .units = 1,
                                  .worker = number,
                                  .seq = seq,
                                  .asked = 1});
    return OK;
}

static void ack(struct ledger *ledger, const char *worker, int64_t seq)
{
    apply(ledger, &(struct entry){.type = ENTRY_ACK,
                                  .worker = worker_table_find(&ledger->workers, worker),
                                  .list = &seq,
                                  .count = 1});
}

static const char *name_of(int64_t i)
{
    static char name[WORKER_NAME_BYTES];
    snprintf(name, sizeof(name), "w%lld", (long long)i);
    return name;
}

/* Workers [from, to) that have each had a batch, and have it no more. */
static void come_and_go(struct ledger *ledger, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        assert_ok(lease_batch(ledger, name_of(i), 0));
        ack(ledger, name_of(i), 0);
    }
}

static void assert_refused(struct ledger *ledger, const char *worker, int64_t seq, const char *kind)
{
    struct ledger_plan planned;
    assert_int_equal(plan(ledger, worker, seq, &planned), ERROR_CONFLICT);
    assert_string_equal(error_kind(), kind);
}

static void assert_ack_refused(struct ledger *ledger, const char *worker, int64_t seq,
                               const char *kind)
{
    size_t live;
    int64_t mean_ms;
    struct ledger_pull pull = {.worker = worker, .acks = &seq, .ack_count = 1};
    assert_int_equal(
        ledger_plan_acks(ledger, &pull, ledger_worker(ledger, worker), 0, &live, &mean_ms),
        ERROR_CONFLICT);
    assert_string_equal(error_kind(), kind);
}

/* ---- the tests ---------------------------------------------------------- */

static void test_the_longest_idle_one_makes_room(void **state)
{
    (void)state;
    struct ledger ledger;
    ledger_init(&ledger);
    assert_ok(lease_batch(&ledger, "holder", 7)); /* first, and never idle */
    assert_ok(lease_batch(&ledger, "released", 3));
    come_and_go(&ledger, 0, WORKER_TABLE_LIMIT - 2);
    ack(&ledger, "released", 3); /* idle since now */
    worker_table_see(&ledger.workers, worker_table_find(&ledger.workers, "w0"), 5);
    assert_int_equal(ledger.workers.count, WORKER_TABLE_LIMIT);
    come_and_go(&ledger, 1000000, 1000003);
    assert_int_equal(ledger.workers.count, WORKER_TABLE_LIMIT);
    for (int64_t i = 1; i <= 3; i++) {
        assert_int_equal(worker_table_find(&ledger.workers, name_of(i)), WORKER_NONE);
        assert_refused(&ledger, name_of(i), 0, PROBLEM_WORKER_FORGOTTEN);
        assert_ack_refused(&ledger, name_of(i), 0, PROBLEM_WORKER_FORGOTTEN);
    }
    assert_refused(&ledger, name_of(0), 0, PROBLEM_PAIR_ACKED);
    assert_refused(&ledger, name_of(4), 0, PROBLEM_PAIR_ACKED);
    assert_refused(&ledger, "released", 3, PROBLEM_PAIR_ACKED);
    struct ledger_plan kept;
    assert_ok(plan(&ledger, "holder", 7, &kept));
    assert_int_equal(kept.kind, PLAN_KEPT);
    for (int64_t i = 4; i < WORKER_TABLE_LIMIT - 2; i++) /* all are found, whoever went */
        assert_int_not_equal(worker_table_find(&ledger.workers, name_of(i)), WORKER_NONE);
    ledger_release(&ledger);
}

static void test_who_comes_back_counts_on(void **state)
{
    (void)state;
    struct ledger ledger;
    ledger_init(&ledger);
    assert_ok(lease_batch(&ledger, "old", 0));
    assert_ok(lease_batch(&ledger, "old", 5));
    ack(&ledger, "old", 0);
    ack(&ledger, "old", 5);
    come_and_go(&ledger, 0, WORKER_TABLE_LIMIT);
    for (int64_t seq = 0; seq <= 5; seq++) /* the holes too: who knows what they were */
        assert_refused(&ledger, "old", seq, PROBLEM_WORKER_FORGOTTEN);
    assert_ok(lease_batch(&ledger, "old", 6));
    assert_refused(&ledger, "old", 5, PROBLEM_WORKER_FORGOTTEN);
    assert_ack_refused(&ledger, "old", 5, PROBLEM_WORKER_FORGOTTEN);
    assert_ack_refused(&ledger, "old", 7, PROBLEM_NEVER_LENT);
    ack(&ledger, "old", 6);
    assert_refused(&ledger, "old", 6, PROBLEM_PAIR_ACKED);
    come_and_go(&ledger, 2000000, 2000000 + WORKER_TABLE_LIMIT); /* forgotten once more */
    assert_refused(&ledger, "old", 6, PROBLEM_WORKER_FORGOTTEN);
    assert_ok(lease_batch(&ledger, "old", 7));
    ledger_release(&ledger);
}

static void test_the_books_that_are_written_know_it_too(void **state)
{
    (void)state;
    struct ledger ledger;
    struct ledger copy;
    ledger_init(&ledger);
    ledger_init(&copy);
    come_and_go(&ledger, 0, WORKER_TABLE_LIMIT + 10);
    worker_table_see(&ledger.workers, worker_table_find(&ledger.workers, "w10"), 5);
    assert_ok(lease_batch(&ledger, "w3", 1));
    assert_ok(ledger_write(&ledger, 0, apply_to_copy, &copy));
    struct ledger *both[] = {&ledger, &copy};
    for (int i = 0; i < 2; i++) {
        for (int64_t w = 0; w < 10; w++)
            assert_refused(both[i], name_of(w), 0, PROBLEM_WORKER_FORGOTTEN);
        assert_ok(lease_batch(both[i], "new", 0)); /* w11 went for w3, w12 goes for this one */
        assert_refused(both[i], "w10", 0, PROBLEM_PAIR_ACKED);
        assert_refused(both[i], "w11", 0, PROBLEM_WORKER_FORGOTTEN);
        assert_refused(both[i], "w12", 0, PROBLEM_WORKER_FORGOTTEN);
        assert_refused(both[i], "w13", 0, PROBLEM_PAIR_ACKED);
        uint64_t at = LEASE_HISTORY_NEWEST;
        const struct lease_done *done =
            lease_history_find(&both[i]->history, WORKER_TABLE_LIMIT, SIZE_MAX, &at);
        assert_non_null(done); /* of w100000, whose number was another's */
        assert_string_equal(worker_table_get(&both[i]->workers, done->worker)->name, "w100000");
    }
    ledger_release(&ledger);
    ledger_release(&copy);
}

static void test_when_all_have_batches_nobody_is_forgotten(void **state)
{
    (void)state;
    struct ledger ledger;
    uint32_t number;
    ledger_init(&ledger);
    for (int64_t i = 0; i < WORKER_TABLE_LIMIT; i++)
        assert_ok(lease_batch(&ledger, name_of(i), 0));
    assert_fails(lease_batch(&ledger, "one-more", 0), ERROR_MEMORY, "100000 workers");
    ack(&ledger, "w77", 0);
    assert_ok(worker_table_room(&ledger.workers, "one-more", &number));
    assert_int_equal(number, 77);
    assert_ok(lease_batch(&ledger, "one-more", 0));
    assert_refused(&ledger, "w77", 0, PROBLEM_WORKER_FORGOTTEN);
    assert_fails(lease_batch(&ledger, "another", 0), ERROR_MEMORY, "100000 workers");
    apply(&ledger, &(struct entry){.type = ENTRY_SEEK, .worker = -1, .value = 0});
    assert_ok(lease_batch(&ledger, "another", 0)); /* all are idle now */
    ledger_release(&ledger);
}

static void test_a_journal_cannot_forget_who_has_batches(void **state)
{
    (void)state;
    struct ledger ledger;
    ledger_init(&ledger);
    assert_ok(lease_batch(&ledger, "a", 0));
    struct entry entry = {.type = ENTRY_WORKER, .worker = 0, .text = "b", .text_bytes = 1};
    assert_fails(ledger_check(&ledger, &entry), ERROR_INPUT, "has batches");
    entry.worker = 1;
    assert_fails(ledger_check(&ledger, &entry), ERROR_INPUT, "not known");
    const int64_t idle[] = {0, 1};
    entry = (struct entry){.type = ENTRY_IDLE, .worker = -1, .list = idle, .count = 2};
    assert_fails(ledger_check(&ledger, &entry), ERROR_INPUT, "not known");
    const int64_t forgotten[] = {5, 0};
    entry = (struct entry){
        .type = ENTRY_FORGOTTEN_WORKERS, .worker = -1, .list = forgotten, .count = 2};
    assert_fails(ledger_check(&ledger, &entry), ERROR_INPUT, "forgotten");
    entry.count = 1;
    assert_fails(ledger_check(&ledger, &entry), ERROR_INPUT, "forgotten");
    ledger_release(&ledger);
}

/* Those that were forgotten before stay the older ones, and go first, after a compaction too. */
static void test_generations_come_back_from_the_journal(void **state)
{
    (void)state;
    const int64_t older[] = {1, 11}, newer[] = {2, 22};
    struct ledger ledger, copy;
    ledger_init(&ledger);
    ledger_init(&copy);
    struct entry entry = {
        .type = ENTRY_FORGOTTEN_WORKERS, .worker = -1, .value = 1, .list = older, .count = 2};
    apply(&ledger, &entry);
    entry.value = 0;
    entry.list = newer;
    apply(&ledger, &entry);
    assert_ok(ledger_write(&ledger, 0, apply_to_copy, &copy));
    forgotten_workers_turn(&copy.workers.forgotten);
    assert_int_equal(forgotten_workers_find(&copy.workers.forgotten, 1), 0);
    assert_int_equal(forgotten_workers_find(&copy.workers.forgotten, 2), 22);
    ledger_release(&ledger);
    ledger_release(&copy);
}

static void test_the_last_ones_forgotten_are_known(void **state)
{
    (void)state;
    struct forgotten_workers forgotten = {.newer = {.workers = NULL}};
    const int64_t count = 3 * FORGOTTEN_WORKERS_LIMIT;
    for (int64_t i = 0; i < count; i++) {
        int64_t name = forgotten_workers_hash(name_of(i), strlen(name_of(i)));
        assert_ok(forgotten_workers_reserve(&forgotten, 1));
        forgotten_workers_add(&forgotten, name, i + 1);
    }
    for (int64_t i = count - FORGOTTEN_WORKERS_LIMIT; i < count; i++) {
        int64_t name = forgotten_workers_hash(name_of(i), strlen(name_of(i)));
        assert_int_equal(forgotten_workers_find(&forgotten, name), i + 1);
    }
    assert_true(forgotten.newer.count + forgotten.older.count <= 2 * FORGOTTEN_WORKERS_LIMIT);
    int64_t last = forgotten_workers_hash(name_of(count - 1), strlen(name_of(count - 1)));
    assert_ok(forgotten_workers_reserve(&forgotten, 1));
    forgotten_workers_add(&forgotten, last, 1); /* the higher one stays */
    assert_int_equal(forgotten_workers_find(&forgotten, last), count);
    forgotten_workers_add(&forgotten, last, count + 5);
    forgotten_workers_add(&forgotten, last, 2);
    assert_int_equal(forgotten_workers_find(&forgotten, last), count + 5);
    forgotten_workers_release(&forgotten);
}

/* Whatever the number of workers: a record is not touched before it is asked for. */
static void test_leases_are_withdrawn_from_all_at_once(void **state)
{
    struct worker_table table = {.records = NULL};
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        assert_ok(worker_table_add(&table, i, name_of(i), strlen(name_of(i)), 0, 0));
    for (uint32_t i = 0; i < 3; i++)
        worker_table_lease(&table, i);
    worker_table_disown(&table, 1);
    worker_table_withdraw(&table);
    assert_int_equal(table.records[0]->leased, 1);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(worker_table_get(&table, i)->leased, 0);
    static const uint32_t longest_idle[] = {3, 1, 0, 2};
    const struct worker_record *record = table.idle.first;
    for (int i = 0; i < 4; i++, record = record->after)
        assert_int_equal(record->number, longest_idle[i]);
    assert_null(record);
    assert_null(table.busy.first);
    worker_table_lease(&table, 2);
    worker_table_withdraw(&table);
    worker_table_withdraw(&table);
    worker_table_lease(&table, 2);
    worker_table_disown(&table, 2);
    assert_int_equal(table.idle.last->number, 2);
    worker_table_release(&table);
}

static void test_names_that_collide(void **state)
{
    char name[COLLIDING_BYTES];
    uint32_t number = 0;
    struct worker_table table = {.records = NULL};
    (void)state;
    for (uint32_t i = 0; i < COLLIDING; i++) {
        collide(name, &number);
        assert_ok(worker_table_add(&table, i, name, strlen(name), 0, 0));
    }
    assert_in_range(longest_run(&table.names), 1, RUN_MOST);
    worker_table_release(&table);
}

static void test_forgotten_names_that_collide(void **state)
{
    struct forgotten_workers forgotten = {.newer = {.workers = NULL}};
    (void)state;
    assert_ok(forgotten_workers_reserve(&forgotten, COLLIDING));
    for (int64_t i = 1; i <= COLLIDING; i++)
        forgotten_workers_add(&forgotten, i << 13, i);
    assert_in_range(longest_run(&forgotten.newer.names), 1, RUN_MOST);
    for (int64_t i = 1; i <= COLLIDING; i++)
        assert_int_equal(forgotten_workers_find(&forgotten, i << 13), i);
    forgotten_workers_release(&forgotten);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_longest_idle_one_makes_room),
    cmocka_unit_test(test_who_comes_back_counts_on),
    cmocka_unit_test(test_the_books_that_are_written_know_it_too),
    cmocka_unit_test(test_when_all_have_batches_nobody_is_forgotten),
    cmocka_unit_test(test_a_journal_cannot_forget_who_has_batches),
    cmocka_unit_test(test_generations_come_back_from_the_journal),
    cmocka_unit_test(test_the_last_ones_forgotten_are_known),
    cmocka_unit_test(test_leases_are_withdrawn_from_all_at_once),
    cmocka_unit_test(test_names_that_collide),
    cmocka_unit_test(test_forgotten_names_that_collide),
};

UNIT_MAIN(tests)

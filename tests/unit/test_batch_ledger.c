/* SPDX-License-Identifier: MIT */
/* Covers trainer/ledger/batch_ledger. */
#include "tests/unit/unit.h"

#include "trainer/ledger/batch_ledger.h"

#define BATCHES 500
#define WORKERS 5

static uint64_t state;

static int64_t below(int64_t limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)limit);
}

static struct index_range grant(struct batch_ledger *ledger, struct batch_holder *holder,
                                int64_t most)
{
    struct index_range range;
    assert_ok(batch_ledger_grant(ledger, holder, most, &range));
    return range;
}

static void assert_range(struct index_range range, int64_t first, int64_t end)
{
    assert_int_equal(range.first, first);
    assert_int_equal(range.end, end);
}

static void test_what_was_given_back_comes_first(void **unused)
{
    struct batch_ledger ledger;
    struct index_set none = {.count = 0};
    struct batch_holder one = {.held = {.count = 0}}, two = {.held = {.count = 0}};
    assert_ok(batch_ledger_init(&ledger, &none));
    assert_range(grant(&ledger, &one, 4), 0, 4);
    assert_range(grant(&ledger, &two, 4), 4, 8);
    assert_ok(batch_ledger_done(&ledger, &one, 1));
    assert_ok(batch_ledger_give_back(&ledger, &one));
    assert_int_equal(index_set_size(&one.held), 0);
    assert_range(grant(&ledger, &two, 9), 0, 1);
    assert_range(grant(&ledger, &two, 9), 2, 4);
    assert_range(grant(&ledger, &one, 9), 8, 17);
    batch_ledger_release(&ledger);
    index_set_release(&one.held);
    index_set_release(&two.held);
    (void)unused;
}

/* The connection of `one` is lost behind its push: it was done, and is granted to nobody. */
static void test_a_late_word_counts(void **unused)
{
    struct batch_ledger ledger;
    struct index_set none = {.count = 0};
    struct batch_holder one = {.held = {.count = 0}};
    assert_ok(batch_ledger_init(&ledger, &none));
    assert_range(grant(&ledger, &one, 2), 0, 2);
    assert_ok(batch_ledger_give_back(&ledger, &one));
    assert_ok(batch_ledger_done(&ledger, NULL, 0));
    assert_range(grant(&ledger, &one, 2), 1, 2);
    assert_ok(batch_ledger_done(&ledger, NULL, 1)); /* while it is held: not free again */
    assert_ok(batch_ledger_give_back(&ledger, &one));
    assert_range(grant(&ledger, &one, 2), 2, 4);
    batch_ledger_release(&ledger);
    index_set_release(&one.held);
    (void)unused;
}

static void test_it_goes_on_where_a_checkpoint_was(void **unused)
{
    struct batch_ledger ledger;
    struct index_set done = {.count = 0};
    struct batch_holder one = {.held = {.count = 0}};
    assert_ok(index_set_add(&done, (struct index_range){0, 10}));
    assert_ok(index_set_add(&done, (struct index_range){12, 13}));
    assert_ok(index_set_add(&done, (struct index_range){15, 20}));
    assert_ok(batch_ledger_init(&ledger, &done));
    index_set_release(&done);
    assert_range(grant(&ledger, &one, 100), 10, 12);
    assert_range(grant(&ledger, &one, 100), 13, 15);
    assert_range(grant(&ledger, &one, 3), 20, 23);
    batch_ledger_release(&ledger);
    index_set_release(&one.held);
    (void)unused;
}

static void test_one_batch_is_granted_and_those_before_stay_free(void **unused)
{
    struct batch_ledger ledger;
    struct index_set none = {.count = 0};
    struct batch_holder one = {.held = {.count = 0}}, two = {.held = {.count = 0}};
    assert_ok(batch_ledger_init(&ledger, &none));
    assert_ok(batch_ledger_grant_one(&ledger, &one, 0)); /* the next one */
    assert_ok(batch_ledger_grant_one(&ledger, &one, 4)); /* further on */
    assert_ok(batch_ledger_grant_one(&ledger, &one, 2)); /* of those between */
    assert_int_equal(index_set_size(&one.held), 3);
    assert_range(grant(&ledger, &two, 9), 1, 2);
    assert_range(grant(&ledger, &two, 9), 3, 4);
    assert_range(grant(&ledger, &two, 2), 5, 7);
    assert_ok(batch_ledger_grant_one(&ledger, &one, 7)); /* the next one, later */
    assert_range(grant(&ledger, &two, 1), 8, 9);
    assert_ok(batch_ledger_give_back(&ledger, &one));
    assert_range(grant(&ledger, &two, 9), 0, 1);
    batch_ledger_release(&ledger);
    index_set_release(&one.held);
    index_set_release(&two.held);
    (void)unused;
}

/* Of what is held, given back or yet to come, nothing behind it is granted or waited for. */
static void test_the_end_of_the_stream(void **unused)
{
    struct batch_ledger ledger;
    struct index_set none = {.count = 0};
    struct batch_holder one = {.held = {.count = 0}}, two = {.held = {.count = 0}};
    assert_ok(batch_ledger_init(&ledger, &none));
    assert_range(grant(&ledger, &one, 10), 0, 10);
    assert_range(grant(&ledger, &two, 5), 10, 15);
    assert_ok(batch_ledger_give_back(&ledger, &two));
    assert_ok(batch_ledger_end(&ledger, 12));
    assert_ok(batch_ledger_end(&ledger, 14)); /* known to be 12 */
    assert_range(grant(&ledger, &two, 9), 10, 12);
    assert_range(grant(&ledger, &two, 9), 12, 12);
    assert_ok(batch_ledger_end(&ledger, 8)); /* what is held is cut off, too */
    assert_ok(batch_ledger_done(&ledger, &one, 3));
    assert_ok(batch_ledger_give_back(&ledger, &one));
    assert_ok(batch_ledger_give_back(&ledger, &two));
    assert_range(grant(&ledger, &one, 99), 0, 3);
    assert_range(grant(&ledger, &one, 99), 4, 8);
    assert_range(grant(&ledger, &two, 99), 8, 8);
    for (int64_t batch = 7; batch >= 0; batch--) {
        assert_false(batch_ledger_is_finished(&ledger));
        assert_ok(batch_ledger_done(&ledger, &one, batch));
    }
    assert_true(batch_ledger_is_finished(&ledger));
    assert_int_equal(ledger.done.count, 1);
    assert_int_equal(one.held.count, 0);
    batch_ledger_release(&ledger);
    index_set_release(&one.held);
    index_set_release(&two.held);
    (void)unused;
}

/* Workers come, go, lose what they hold and say so late: in the end every batch is done, and none
 * was held by two at a time. */
static void test_every_batch_is_done_once(void **unused)
{
    struct batch_ledger ledger;
    struct index_set none = {.count = 0};
    struct batch_holder workers[WORKERS] = {{.held = {.count = 0}}};
    state = unit_seed();
    assert_ok(batch_ledger_init(&ledger, &none));
    for (size_t round = 0; !batch_ledger_is_finished(&ledger); round++) {
        struct batch_holder *worker = &workers[below(WORKERS)];
        assert_true(round < 100000);
        switch (below(4)) {
        case 0:
            grant(&ledger, worker, 1 + below(20));
            break;
        case 1:
            if (below(10) == 0)
                assert_ok(batch_ledger_give_back(&ledger, worker));
            break;
        case 2:
            if (below(50) == 0)
                assert_ok(batch_ledger_end(&ledger, BATCHES + below(5)));
            break;
        default:
            if (worker->held.count > 0)
                assert_ok(batch_ledger_done(&ledger, worker, worker->held.ranges[0].end - 1));
        }
        int64_t held = 0;
        struct index_set all = {.count = 0};
        for (size_t i = 0; i < WORKERS; i++) {
            held += index_set_size(&workers[i].held);
            for (size_t j = 0; j < workers[i].held.count; j++)
                assert_ok(index_set_add(&all, workers[i].held.ranges[j]));
        }
        assert_int_equal(index_set_size(&all), held);
        assert_true(ledger.done.count == 0 || all.count == 0 ||
                    !index_set_within(&all, &ledger.done));
        index_set_release(&all);
    }
    assert_true(ledger.end >= BATCHES && ledger.end < BATCHES + 5);
    assert_true(index_set_size(&ledger.done) >= ledger.end);
    for (size_t i = 0; i < WORKERS; i++)
        index_set_release(&workers[i].held);
    batch_ledger_release(&ledger);
    (void)unused;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_what_was_given_back_comes_first),
    cmocka_unit_test(test_a_late_word_counts),
    cmocka_unit_test(test_it_goes_on_where_a_checkpoint_was),
    cmocka_unit_test(test_one_batch_is_granted_and_those_before_stay_free),
    cmocka_unit_test(test_the_end_of_the_stream),
    cmocka_unit_test(test_every_batch_is_done_once),
};

UNIT_MAIN(tests)

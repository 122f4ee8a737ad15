/* SPDX-License-Identifier: MIT */
/* Covers loader/feed/lease_list: Leases by seq, beside a plain table of them. */
#include "tests/unit/unit.h"

#include "loader/feed/lease_list.h"

#define SEQS 700
#define FIRST INT64_C(1764000000000000) /* as that of a worker with a name */
#define STEPS 40000

static uint64_t dice = 20261124;

static size_t dice_below(size_t limit)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(dice >> 33) % limit;
}

/* What is there, by seq - FIRST: the pieces; 0: nothing. */
static void compare(struct lease_list *list, const size_t pieces[SEQS])
{
    size_t count = 0;
    for (size_t i = 0; i < SEQS; i++) {
        const struct lease *lease = lease_list_find(list, FIRST + (int64_t)i);
        assert_int_equal(lease != NULL, pieces[i] > 0);
        if (!lease)
            continue;
        assert_int_equal(lease->seq, FIRST + (int64_t)i);
        assert_int_equal(lease->pieces, pieces[i]);
        count++;
    }
    assert_int_equal(list->count, count);
    assert_null(lease_list_find(list, FIRST + SEQS));
    assert_null(lease_list_find(list, 0));
}

static void test_leases_come_and_go(void **state)
{
    (void)state;
    struct lease_list list = {.count = 0};
    size_t pieces[SEQS] = {0};
    compare(&list, pieces);
    for (size_t step = 1; step <= STEPS; step++) {
        size_t i = dice_below(SEQS);
        if (pieces[i] > 0) {
            lease_list_remove(&list, lease_list_find(&list, FIRST + (int64_t)i));
            pieces[i] = 0;
        } else if (dice_below(SEQS) < step % SEQS) { /* full and nearly empty in turn */
            struct lease lease = {.seq = FIRST + (int64_t)i, .pieces = step};
            assert_ok(lease_list_add(&list, &lease));
            pieces[i] = step;
        }
        if (step % 97 == 0)
            compare(&list, pieces);
    }
    while (list.count > 0)
        lease_list_remove(&list, &list.leases[dice_below(list.count)]);
    compare(&list, (size_t[SEQS]){0});
    lease_list_release(&list);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_leases_come_and_go),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/* Covers loader/store/id_index. */
#include "tests/unit/store_unit.h"

#include "loader/store/id_index.h"

static int64_t *list(const int64_t *ids, size_t count)
{
    int64_t *copy = malloc(count * sizeof(*copy) + 1);
    memcpy(copy, ids, count * sizeof(*copy));
    return copy;
}

static void check(const int64_t *ids, int64_t rows, const int64_t *absent, size_t absent_count)
{
    struct id_index index;
    int64_t twice[2];
    assert_ok(id_index_init(&index, list(ids, (size_t)rows), rows, twice));
    for (int64_t row = 0; row < rows; row++) {
        assert_int_equal(id_index_row(&index, ids[row]), row);
        assert_int_equal(id_index_id(&index, row), ids[row]);
    }
    for (size_t i = 0; i < absent_count; i++)
        assert_int_equal(id_index_row(&index, absent[i]), -1);
    id_index_release(&index);
}

static void test_row_numbers(void **state)
{
    struct id_index index;
    int64_t twice[2];
    (void)state;
    assert_ok(id_index_init(&index, NULL, 5, twice));
    assert_int_equal(id_index_row(&index, 0), 0);
    assert_int_equal(id_index_row(&index, 4), 4);
    assert_int_equal(id_index_row(&index, 5), -1);
    assert_int_equal(id_index_row(&index, -1), -1);
    assert_int_equal(id_index_row(&index, INT64_MAX), -1);
    id_index_release(&index);
}

static void test_ids_of_every_kind(void **state)
{
    static const int64_t absent[] = {-1, 1, 8, 12345, INT64_MAX - 1, INT64_MIN};
    static const int64_t consecutive[] = {5, 6, 7};
    static const int64_t ascending[] = {0, 2, 5, 9};
    static const int64_t shuffled[] = {9, 0, INT64_MAX, 5, 2};
    static const int64_t inside[] = {10, 12, 11,
                                     13}; /* first and last are as of consecutive ones */
    static const int64_t one[] = {INT64_MAX};
    static const int64_t ends[] = {0, INT64_MAX};
    (void)state;
    check(consecutive, 3, absent, 6);
    check(ascending, 4, absent, 6);
    check(shuffled, 5, absent, 6);
    check(inside, 4, absent, 6);
    check(one, 1, absent, 6);
    check(ends, 2, absent, 6);
}

static void test_many_ids(void **state)
{
    enum { ROWS = 50000 };
    static int64_t ids[ROWS];
    static const int64_t steps[] = {1, 3, 4096, (int64_t)1 << 32};
    (void)state;
    for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
        for (int64_t i = 0; i < ROWS; i++)
            ids[i] = (i * 7919 % ROWS) * steps[k];
        check(ids, ROWS, NULL, 0);
    }
}

static void check_twice(const int64_t *ids, int64_t rows, int64_t first, int64_t second)
{
    struct id_index index;
    int64_t twice[2];
    int64_t *copy = list(ids, (size_t)rows);
    assert_int_equal(id_index_init(&index, copy, rows, twice), ERROR_CONFLICT);
    assert_int_equal(twice[0], first);
    assert_int_equal(twice[1], second);
    free(copy); /* stays the caller's */
}

static void test_ids_that_come_twice(void **state)
{
    static const int64_t neighbours[] = {1, 2, 2, 3};
    static const int64_t inside[] = {0, 1, 1, 3}; /* instead of 2 */
    static const int64_t apart[] = {7, 1, 9, 7, 1};
    static const int64_t same[] = {0, 0};
    (void)state;
    check_twice(neighbours, 4, 1, 2);
    check_twice(inside, 4, 1, 2);
    check_twice(apart, 5, 0, 3);
    check_twice(same, 2, 0, 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_row_numbers),
    cmocka_unit_test(test_ids_of_every_kind),
    cmocka_unit_test(test_many_ids),
    cmocka_unit_test(test_ids_that_come_twice),
};

UNIT_MAIN(tests)

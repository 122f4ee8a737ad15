/* SPDX-License-Identifier: MIT */
/* Covers loader/feed/resident_set: Which rows of a batch are on the device, and where. */
#include "tests/unit/unit.h"

#include "loader/feed/resident_set.h"

#define ROWS 4
#define SLOTS 2

static struct device *cpu;

struct batch {
    uint32_t places[ROWS];
    double labels[ROWS];
    enum row_status status[ROWS];
    struct resident_rows missing;
};

static struct resident_set *make_set(bool has_ids, int64_t limit, int64_t rows)
{
    struct store_info store = {
        .rows = rows, .features = 3, .element = ELEMENT_U8, .id_column = has_ids ? "id" : NULL};
    struct resident_set *set;
    assert_ok(resident_set_new(&store, cpu, limit, ROWS, SLOTS, &set));
    return set;
}

static void find(struct resident_set *set, struct batch *batch, const int64_t ids[ROWS],
                 int64_t sequence)
{
    *batch = (struct batch){.places = {0}};
    assert_ok(resident_rows_init(&batch->missing, ROWS));
    resident_set_find(set, ids, ROWS, sequence, (size_t)sequence % SLOTS, batch->places,
                      batch->labels, batch->status, &batch->missing);
}

/* The label of a row is its id; 13 is bad. */
static void fetched(struct resident_set *set, struct batch *batch)
{
    for (size_t i = 0; i < batch->missing.count; i++) {
        batch->missing.labels[i] = (double)batch->missing.ids[i];
        batch->missing.status[i] = batch->missing.ids[i] == 13 ? ROW_BAD : ROW_OK;
    }
    resident_set_fetched(set, &batch->missing, batch->places, ROWS, batch->labels, batch->status);
}

static void check(struct batch *batch, const int64_t ids[ROWS])
{
    for (size_t i = 0; i < ROWS; i++) {
        assert_true(batch->labels[i] == (double)ids[i]);
        assert_int_equal(batch->status[i], ids[i] == 13 ? ROW_BAD : ROW_OK);
    }
    resident_rows_release(&batch->missing);
}

static void test_a_row_comes_once(void **state)
{
    static const int64_t first[ROWS] = {5, 13, 2, 7}, second[ROWS] = {2, 9, 13, 5};
    (void)state;
    for (int has_ids = 0; has_ids < 2; has_ids++) {
        struct resident_set *set = make_set(has_ids, 20, 20);
        struct batch batch;
        find(set, &batch, first, 0);
        assert_int_equal(batch.missing.count, 4);
        assert_int_equal(batch.missing.kept, 4);
        assert_int_equal(batch.missing.first, 0);
        fetched(set, &batch);
        check(&batch, first);
        find(set, &batch, second, 1);
        assert_int_equal(batch.missing.count, 1);
        assert_int_equal(batch.missing.ids[0], 9);
        assert_int_equal(batch.missing.first, 4);
        assert_memory_equal(batch.places, ((uint32_t[]){2, 4, 1, 0}), sizeof(batch.places));
        fetched(set, &batch);
        check(&batch, second);
        assert_int_equal(resident_set_count(set), 5);
        assert_int_equal(resident_set_copied(set), 5);
        resident_set_free(set);
    }
}

static void test_an_id_twice_in_a_batch_has_one_place(void **state)
{
    static const int64_t ids[ROWS] = {3, 8, 3, 3};
    (void)state;
    struct resident_set *set = make_set(true, 20, 20);
    struct batch batch;
    find(set, &batch, ids, 0);
    assert_int_equal(batch.missing.count, 2);
    assert_memory_equal(batch.places, ((uint32_t[]){0, 1, 0, 0}), sizeof(batch.places));
    fetched(set, &batch);
    check(&batch, ids);
    resident_set_free(set);
}

/* What a later batch brings, or one that is not fetched yet, is fetched again, for this batch. */
static void test_a_batch_that_is_behind(void **state)
{
    static const int64_t late[ROWS] = {1, 2, 3, 4}, early[ROWS] = {9, 3, 8, 2},
                         third[ROWS] = {9, 8, 4, 1};
    (void)state;
    struct resident_set *set = make_set(true, 20, 20);
    struct batch later, earlier, last;
    find(set, &later, late, 1);
    find(set, &earlier, early, 0);
    assert_int_equal(earlier.missing.count, 4);
    assert_int_equal(earlier.missing.kept, 2);
    assert_memory_equal(earlier.missing.ids, ((int64_t[]){9, 8, 2, 3}), sizeof(early));
    uint32_t own = resident_set_own(set, 0);
    assert_int_equal(own, 20);
    assert_memory_equal(earlier.places, ((uint32_t[]){4, own + 1, 5, own}), sizeof(earlier.places));
    fetched(set, &later);
    check(&later, late);
    find(set, &last, third, 2); /* the earlier one is not fetched yet */
    assert_int_equal(last.missing.kept, 0);
    assert_int_equal(last.missing.count, 2);
    fetched(set, &earlier);
    check(&earlier, early);
    fetched(set, &last);
    check(&last, third);
    find(set, &earlier, late, 0); /* fetched, but by a batch that comes behind */
    assert_int_equal(earlier.missing.count, 4);
    assert_int_equal(earlier.missing.kept, 0);
    fetched(set, &earlier);
    check(&earlier, late);
    assert_int_equal(resident_set_count(set), 6);
    resident_set_free(set);
}

static void test_room_has_an_end(void **state)
{
    static const int64_t ids[ROWS] = {1, 2, 3, 4}, again[ROWS] = {4, 3, 2, 1},
                         beyond[ROWS] = {1, 500, 501, 2};
    (void)state;
    for (int has_ids = 0; has_ids < 2; has_ids++) {
        struct resident_set *set = make_set(has_ids, 2, 20);
        struct batch batch;
        for (int64_t i = 0; i < 4; i += 2) {
            find(set, &batch, i ? again : ids, i);
            assert_int_equal(batch.missing.count, i ? 2 : 4);
            assert_int_equal(batch.missing.kept, i ? 0 : 2);
            uint32_t own = resident_set_own(set, 0);
            assert_int_equal(own, 2);
            assert_int_equal(batch.places[i ? 1 : 3], own); /* from the last one on */
            fetched(set, &batch);
            check(&batch, i ? again : ids);
        }
        find(set, &batch, beyond, 5); /* ids that no row of the store has */
        assert_int_equal(batch.missing.count, 2);
        assert_int_equal(resident_set_own(set, 1), 2 + ROWS);
        assert_int_equal(batch.places[2], resident_set_own(set, 1));
        fetched(set, &batch);
        check(&batch, beyond);
        assert_int_equal(resident_set_count(set), 2);
        resident_set_free(set);
    }
}

static void test_bytes(void **state)
{
    struct store_info store = {.rows = 1000, .features = 10, .element = ELEMENT_F32};
    struct resident_set *set;
    (void)state;
    assert_int_equal(resident_set_bytes(&store, 1000, 100, 5), 1500 * 40);
    assert_true(resident_set_bytes(&store, (int64_t)1 << 32, 1, 2) == UINT64_MAX);
    assert_true(resident_set_bytes(&store, INT64_MAX, SIZE_MAX, 2) == UINT64_MAX);
    store.features = SIZE_MAX / 4;
    assert_true(resident_set_bytes(&store, 1000, 100, 5) == UINT64_MAX);
    assert_fails(resident_set_new(&store, cpu, 1000, 100, 5, &set), ERROR_MEMORY, "1000 rows");
    resident_set_free(NULL);
}

static int open_cpu(void **state)
{
    (void)state;
    return device_open("cpu", &cpu);
}

static int close_cpu(void **state)
{
    (void)state;
    device_close(cpu);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_row_comes_once),
        cmocka_unit_test(test_an_id_twice_in_a_batch_has_one_place),
        cmocka_unit_test(test_a_batch_that_is_behind),
        cmocka_unit_test(test_room_has_an_end),
        cmocka_unit_test(test_bytes),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}

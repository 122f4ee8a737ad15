/* SPDX-License-Identifier: MIT */
/*
 * Covers common/hash_table: Of common: the hash table against a list that is searched from end to
 * end, with hashes that are kind and such that are not.
 */
#include "tests/unit/unit.h"

#include <sys/mman.h>

#include <stdbool.h>

#include "common/hash_table.h"

enum { NUMBERS = 3000, STEPS = 20000 };

/* ---- keys whose hashes are chosen --------------------------------------- */

typedef uint64_t hash_function(uint64_t key);

struct model {
    hash_function *hash;
    uint64_t keys[NUMBERS];
    bool is_in[NUMBERS];
    size_t count;
    struct hash_table table;
};

static uint64_t mixed(uint64_t key)
{
    key *= UINT64_C(0x9e3779b97f4a7c15);
    return (key ^ key >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

static uint64_t all_alike(uint64_t key)
{
    (void)key;
    return UINT64_C(0x123456789abcdef0);
}

static uint64_t one_home(uint64_t key)
{
    return mixed(key) << 32 | 63; /* the last slot of the first table: runs go round its end */
}

static uint64_t one_tag(uint64_t key)
{
    return mixed(key) >> 32;
}

static uint64_t few_homes(uint64_t key)
{
    return mixed(key) & UINT64_C(0xffffffff00000007);
}

static size_t hashed; /* how often a number was hashed */

static uint64_t hash_of(const void *keys, uint32_t number)
{
    const struct model *model = keys;
    hashed++;
    assert_true(model->is_in[number]);
    return model->hash(model->keys[number]);
}

struct search {
    const struct model *model;
    uint64_t key;
};

static bool matches(const void *key, uint32_t number)
{
    const struct search *search = key;
    assert_true(search->model->is_in[number]);
    return search->model->keys[number] == search->key;
}

static uint32_t find(const struct model *model, uint64_t key)
{
    struct search search = {.model = model, .key = key};
    return hash_table_find(&model->table, model->hash(key), matches, &search);
}

static uint32_t find_naively(const struct model *model, uint64_t key)
{
    for (uint32_t i = 0; i < NUMBERS; i++) {
        if (model->is_in[i] && model->keys[i] == key)
            return i;
    }
    return HASH_TABLE_NONE;
}

static void check_all(const struct model *model)
{
    size_t found = 0;
    for (uint32_t i = 0; i < NUMBERS; i++) {
        if (model->is_in[i])
            assert_int_equal(find(model, model->keys[i]), i);
    }
    for (size_t slot = 0; model->table.slots && slot <= model->table.slot_mask; slot++)
        found += model->table.slots[slot] != 0;
    for (size_t slot = 0; model->table.before && slot <= model->table.before_mask; slot++)
        found += model->table.before[slot] != 0;
    assert_int_equal(found, model->count);
}

static void add(struct model *model, uint32_t number, uint64_t key)
{
    assert_ok(hash_table_reserve(&model->table, number + 1, hash_of, model, "a test"));
    model->keys[number] = key;
    model->is_in[number] = true;
    model->count++;
    hash_table_put(&model->table, model->hash(key), number);
}

static void drop(struct model *model, uint32_t number)
{
    hash_table_remove(&model->table, number, hash_of, model);
    model->is_in[number] = false;
    model->count--;
}

/* Numbers come, go and come again, up to `numbers` of them. */
static void check_steps(hash_function *hash, uint32_t numbers)
{
    static struct model model;
    uint64_t state = 7;
    memset(&model, 0, sizeof(model));
    model.hash = hash;
    assert_int_equal(find(&model, 1), HASH_TABLE_NONE);
    for (int step = 0; step < STEPS; step++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t number = (uint32_t)(state >> 33) % numbers;
        uint64_t key = (state >> 20) % (2 * numbers);
        assert_int_equal(find(&model, key), find_naively(&model, key));
        if (model.is_in[number])
            drop(&model, number);
        else if (find_naively(&model, key) == HASH_TABLE_NONE)
            add(&model, number, key);
        if (step % 4000 == 0)
            check_all(&model);
    }
    check_all(&model);
    hash_table_clear(&model.table);
    memset(model.is_in, 0, sizeof(model.is_in));
    assert_int_equal(find(&model, 1), HASH_TABLE_NONE);
    hash_table_release(&model.table);
}

static void test_kind_hashes(void **state)
{
    (void)state;
    check_steps(mixed, 20);
    check_steps(mixed, NUMBERS);
}

static void test_hashes_that_collide(void **state)
{
    (void)state;
    check_steps(all_alike, 30);
    check_steps(all_alike, 200);
    check_steps(one_home, 30);
    check_steps(one_home, 200);
    check_steps(few_homes, 300);
    check_steps(one_tag, NUMBERS);
}

/* Nobody pays for all numbers when a table grows: not one step in which more than some dozens are
 * hashed, and the slots of before are through by the time in which it grows again. */
static void test_growth_is_spread(void **state)
{
    static struct model model;
    size_t growths = 0;
    (void)state;
    memset(&model, 0, sizeof(model));
    model.hash = mixed;
    for (uint32_t number = 0; number < NUMBERS; number++) {
        const uint32_t *slots = model.table.slots;
        hashed = 0;
        bool pending = model.table.before != NULL;
        add(&model, number, number);
        if (number > 1024)
            assert_in_range(hashed, 0, 150);
        if (model.table.slots != slots && number > 1024) {
            assert_false(pending);
            assert_non_null(model.table.before);
            growths++;
        }
        if (number % 100 == 0)
            check_all(&model);
        if (number % 7 == 3) { /* one that may be in either */
            drop(&model, number / 2);
            add(&model, number / 2, number / 2);
        }
    }
    assert_in_range(growths, 1, 3);
    check_all(&model);
    for (uint32_t number = 0; number < NUMBERS; number++)
        drop(&model, number);
    check_all(&model);
    hash_table_release(&model.table);
}

/* ---- room --------------------------------------------------------------- */

static void test_half_full(void **state)
{
    struct hash_table table = {.slots = NULL};
    (void)state;
    hash_table_clear(&table);
    assert_ok(hash_table_reserve(&table, 0, NULL, NULL, "a test"));
    assert_ok(hash_table_reserve(&table, 32, NULL, NULL, "a test"));
    uint32_t *slots = table.slots;
    assert_int_equal(table.slot_mask, 63);
    assert_ok(hash_table_reserve(&table, 1, NULL, NULL, "a test"));
    assert_ptr_equal(table.slots, slots);
    assert_ok(hash_table_reserve(&table, 33, NULL, NULL, "a test"));
    assert_int_equal(table.slot_mask, 127);
    hash_table_release(&table);
    assert_null(table.slots);
}

/* Whatever was freed before: who reserves may hold a lock. Counted in pages that were touched. */
static void test_a_large_one_is_not_written(void **state)
{
    enum { COUNT = 1 << 18, LARGER_BYTES = 16 << 20 };
    struct hash_table table = {.slots = NULL};
    unsigned char touched[2 * COUNT * sizeof(uint32_t) / 4096];
    size_t pages = 0;
    (void)state;
    void *volatile larger = malloc(LARGER_BYTES); /* malloc() gives a part of it next */
    assert_non_null(larger);
    memset(larger, 1, LARGER_BYTES);
    free(larger);
    assert_ok(hash_table_reserve(&table, COUNT, NULL, NULL, "a test"));
    assert_int_equal(mincore(table.slots, 2 * COUNT * sizeof(uint32_t), touched), 0);
    for (size_t i = 0; i < sizeof(touched); i++)
        pages += touched[i] & 1;
    assert_int_equal(pages, 0);
    hash_table_release(&table);
}

static void test_too_many(void **state)
{
    struct hash_table table = {.slots = NULL};
    (void)state;
    assert_ok(hash_table_reserve(&table, 1, NULL, NULL, "a test"));
    uint32_t *slots = table.slots;
    assert_fails(hash_table_reserve(&table, SIZE_MAX / 16, NULL, NULL, "a test"), ERROR_MEMORY,
                 "a test");
    assert_ptr_equal(table.slots, slots);
    hash_table_release(&table);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_kind_hashes),
    cmocka_unit_test(test_hashes_that_collide),
    cmocka_unit_test(test_growth_is_spread),
    cmocka_unit_test(test_half_full),
    cmocka_unit_test(test_a_large_one_is_not_written),
    cmocka_unit_test(test_too_many),
};

UNIT_MAIN(tests)

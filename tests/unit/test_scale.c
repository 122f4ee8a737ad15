/* SPDX-License-Identifier: MIT */
/*
 * Covers sampler/stream/streams: What many streams, workers and leases cost, whoever chooses their
 * names. Counted, not timed: slots that a search may pass, nodes from the root of a tree.
 */
#include "tests/unit/stream_unit.h"

#include <xxhash.h>

#include "sampler/stream/streams_private.h"

enum { MANY = 2000, NAME_BYTES = 24, RUN_MOST = 150, DEPTH_MOST = 100 };

static struct stream_unit unit;

static int open_unit(void **state)
{
    (void)state;
    unit = (struct stream_unit){.max_streams = 2 * MANY};
    stream_unit_define(&unit, 0, TAIL_SPAN);
    stream_unit_open(&unit, DURABILITY_NONE);
    return 0;
}

static int close_unit(void **state)
{
    (void)state;
    stream_unit_drop(&unit);
    stream_unit_end(&unit);
    return 0;
}

/* ---- names and numbers that were chosen to collide ---------------------- */

/* The next name whose hash without a secret has the last 13 bits of all of them. */
static void collide(char name[NAME_BYTES], uint32_t *number)
{
    do
        snprintf(name, NAME_BYTES, "n%u", (unsigned)(*number)++);
    while (XXH3_64bits(name, strlen(name)) & 8191);
}

static uint64_t mixed(uint64_t value)
{
    value ^= value >> 32;
    value *= UINT64_C(0xd6e8feb86659fd93);
    value ^= value >> 32;
    value *= UINT64_C(0xd6e8feb86659fd93);
    return value ^ value >> 32;
}

/* The most slots side by side that are taken: so far may a search go. */
static size_t longest_run(const struct hash_table *table)
{
    size_t longest = 0, run = 0;
    for (size_t slot = 0; slot <= table->slot_mask; slot++) {
        run = table->slots[slot] != 0 ? run + 1 : 0;
        if (run > longest)
            longest = run;
    }
    return longest;
}

static struct stream *create(const char *name)
{
    struct stream_definition definition = unit.definition;
    struct stream *stream;
    bool waits;
    sampling_plan_take(unit.stream->plan);
    snprintf(definition.name, sizeof(definition.name), "%s", name);
    assert_ok(
        streams_create(unit.streams, &definition, unit.stream->plan, 0, NULL, &stream, &waits));
    stream_put(stream);
    return stream;
}

static void test_names_of_streams(void **state)
{
    char name[NAME_BYTES];
    uint32_t number = 0;
    bool waits;
    (void)state;
    for (int i = 0; i < MANY; i++) {
        collide(name, &number);
        create(name);
    }
    assert_in_range(longest_run(&unit.streams->names), 1, RUN_MOST);
    number = 0;
    for (int i = 0; i < MANY; i++) {
        collide(name, &number);
        assert_ok(streams_delete(unit.streams, name, NULL, &waits));
    }
    assert_in_range(longest_run(&unit.streams->forgotten_names), 1, RUN_MOST);
    assert_int_equal(longest_run(&unit.streams->names), 1); /* `default` */
}

static void test_names_of_workers(void **state)
{
    char name[NAME_BYTES];
    uint32_t number = 0;
    struct stream_batch batch;
    (void)state;
    for (int i = 0; i < MANY; i++) {
        collide(name, &number);
        assert_ok(unit_lease(unit.stream, name, 0, 1, &batch));
    }
    assert_in_range(longest_run(&unit.stream->ledger.workers.names), 1, RUN_MOST);
}

static void test_names_of_forgotten_workers(void **state)
{
    struct forgotten_workers forgotten = {0};
    (void)state;
    assert_ok(forgotten_workers_reserve(&forgotten, MANY));
    for (int64_t i = 1; i <= MANY; i++)
        forgotten_workers_add(&forgotten, i << 13, i);
    assert_in_range(longest_run(&forgotten.newer.names), 1, RUN_MOST);
    for (int64_t i = 1; i <= MANY; i++)
        assert_int_equal(forgotten_workers_find(&forgotten, i << 13), i);
    forgotten_workers_release(&forgotten);
}

static void test_names_of_readers(void **state)
{
    char name[NAME_BYTES];
    uint32_t number = 0;
    const struct span batch = {.positions = 1, .units = 1};
    struct readers *readers = stream_readers(unit.stream);
    (void)state;
    for (int i = 0; i < MANY; i++) {
        collide(name, &number);
        readers_note(readers, name, 0, &batch, clock_now_ns());
    }
    for (int i = 0; i < READER_STRIPES; i++)
        assert_in_range(longest_run(&readers->stripes[i].names), 1, RUN_MOST);
}

/* Seqs of one worker whose pairs have one home under a hash without a secret. */
static void test_seqs(void **state)
{
    struct stream_batch batch;
    int64_t seq = 0;
    (void)state;
    for (int i = 0; i < MANY; i++, seq += 4) {
        while (mixed((uint64_t)seq / 4) & 4095 & ~UINT64_C(3))
            seq += 4;
        assert_ok(unit_lease(unit.stream, "w", seq, 1, &batch));
    }
    assert_in_range(longest_run(&unit.stream->ledger.leases.pairs), 1, RUN_MOST);
}

static int depth_of(const struct lease_set *set, uint32_t number)
{
    if (number == LEASE_NONE)
        return 0;
    const struct lease *lease = lease_set_get(set, number);
    int left = depth_of(set, lease->left), right = depth_of(set, lease->right);
    return 1 + (left > right ? left : right);
}

/* Sizes that were chosen so that positions ascend together with their hash without a secret: then a
 * treap by that is a list. */
static void test_positions(void **state)
{
    struct stream_batch batch;
    const struct lease_set *set = &unit.stream->ledger.leases;
    int64_t position = 0;
    (void)state;
    for (uint64_t i = 0; i < 500; i++) {
        int64_t size = 1;
        while (mixed((uint64_t)(position + size)) / (UINT64_MAX / 500) != i)
            size++;
        assert_ok(unit_lease(unit.stream, "w", (int64_t)i, size, &batch));
        position += size;
    }
    assert_in_range(depth_of(set, set->root), 1, DEPTH_MOST);
}

/* ---- lists -------------------------------------------------------------- */

static int check_list(int64_t (*number_of)(int at), int count)
{
    struct stream **list;
    size_t listed;
    char name[NAME_BYTES];
    assert_ok(streams_list(unit.streams, &list, &listed));
    assert_int_equal(listed, count + 1);
    assert_string_equal(stream_definition(list[0])->name, "default");
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "s%d", (int)number_of(i));
        assert_string_equal(stream_definition(list[i + 1])->name, name);
        assert_ptr_equal(streams_find(unit.streams, name), list[i + 1]);
    }
    streams_put_all(list, listed);
    return 0;
}

static int64_t each(int at)
{
    return at;
}

static int64_t each_other(int at)
{
    return 2 * at + 1;
}

/* More than are listed while the mutex is held, in the order in which they were created; whatever
 * is deleted, the others are found. */
static void test_streams_are_listed_in_order(void **state)
{
    char name[NAME_BYTES];
    bool waits;
    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "s%d", i);
        create(name);
    }
    check_list(each, MANY);
    for (int i = 0; i < MANY; i += 2) {
        snprintf(name, sizeof(name), "s%d", i);
        assert_ok(streams_delete(unit.streams, name, NULL, &waits));
        assert_null(streams_find(unit.streams, name));
    }
    check_list(each_other, MANY / 2);
    create("s0");
    assert_int_equal(streams_find(unit.streams, "s0")->generation, 2);
}

/* Only the highest generation is known of names that were deleted long ago. */
static void test_names_that_are_forgotten(void **state)
{
    char name[NAME_BYTES];
    (void)state;
    for (int i = 0; i < 2 * FORGOTTEN_LIMIT + 5; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        assert_ok(streams_reserve_name(unit.streams));
        streams_forget_name(unit.streams, name, i == 3 ? 7 : 1);
        if (i == FORGOTTEN_LIMIT - 1)
            streams_forget_name(unit.streams, "f3", 8);
    }
    assert_int_equal(unit.streams->forgotten_count, FORGOTTEN_LIMIT);
    assert_int_equal(unit.streams->generation_floor, 8);
    create("f2");
    assert_int_equal(streams_find(unit.streams, "f2")->generation, 9);
    create(name); /* the last one */
    assert_int_equal(streams_find(unit.streams, name)->generation, 2);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, open_unit, close_unit)

static const struct CMUnitTest tests[] = {
    TEST(test_names_of_streams),
    TEST(test_names_of_workers),
    TEST(test_names_of_forgotten_workers),
    TEST(test_names_of_readers),
    TEST(test_seqs),
    TEST(test_positions),
    TEST(test_streams_are_listed_in_order),
    TEST(test_names_that_are_forgotten),
};

UNIT_MAIN(tests)

/* SPDX-License-Identifier: MIT */
/* Covers sampler/stream/readers: counts, rates, who is forgotten, and threads that meet. */
#include "tests/unit/colliding_unit.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "sampler/stream/readers.h"

#define SECOND_NS INT64_C(1000000000)
#define START_NS (100 * SECOND_NS)

/* Batches of `ids` units each, one behind the other. */
static void note(struct readers *set, const char *worker, int64_t index, int64_t ids,
                 int64_t now_ns)
{
    const struct span batch = {.first = index * ids, .positions = ids, .units = ids};
    readers_note(set, worker, index, &batch, now_ns);
}

static const struct reader *find(const struct reader *list, size_t count, const char *worker)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].worker, worker) == 0)
            return &list[i];
    }
    return NULL;
}

static void test_what_a_reader_read_is_counted(void **state)
{
    (void)state;
    struct readers set;
    struct reader *list;
    size_t count;
    readers_init(&set);
    assert_ok(readers_list(&set, &list, &count));
    assert_int_equal(count, 0);
    free(list);
    note(&set, "w0", 5, 100, START_NS);
    note(&set, "w1", 6, 100, START_NS + 1);
    note(&set, "w0", 7, 40, START_NS + 2);
    assert_int_equal(readers_count(&set), 2);
    assert_ok(readers_list(&set, &list, &count));
    assert_int_equal(count, 2);
    assert_string_equal(list[0].worker, "w0"); /* the last seen first */
    assert_string_equal(list[1].worker, "w1");
    assert_int_equal(list[0].batches, 2);
    assert_int_equal(list[0].ids, 140);
    assert_int_equal(list[0].newest, 7);
    assert_int_equal(list[0].seen_ns, START_NS + 2);
    free(list);
    readers_release(&set);
}

/* Who has gone does not hold the rest back, nor does who begins again keep it ahead. */
static void test_progress_is_that_of_the_furthest_who_still_reads(void **state)
{
    (void)state;
    struct readers set;
    struct readers_progress progress;
    int64_t later_ns = START_NS + 60 * SECOND_NS;
    readers_init(&set);
    readers_progress(&set, &progress);
    assert_true(progress.batches == 0 && progress.positions == 0 && progress.end == 0);
    note(&set, "w0", 9, 100, START_NS);
    note(&set, "w1", 4, 100, START_NS + SECOND_NS);
    readers_progress(&set, &progress);
    assert_int_equal(progress.end, 1000);
    note(&set, "w1", 0, 100, later_ns);
    note(&set, "w2", 1, 100, later_ns + READER_RATE_SECONDS * SECOND_NS);
    readers_progress(&set, &progress);
    assert_int_equal(progress.end, 200);
    note(&set, "w1", 5, 10, later_ns + 2);
    readers_progress(&set, &progress);
    assert_int_equal(progress.end, 200);
    note(&set, "w1", 7, 100, later_ns + 3);
    readers_progress(&set, &progress);
    assert_int_equal(progress.end, 800);
    assert_int_equal(progress.batches, 6);
    assert_int_equal(progress.positions, 510);
    readers_release(&set);
}

/* 1,000 ids a second for twenty seconds, then silence. */
static void test_a_rate_is_of_the_last_seconds(void **state)
{
    (void)state;
    struct readers set;
    struct reader *list;
    size_t count;
    readers_init(&set);
    note(&set, "w", 0, 1000, START_NS);
    assert_ok(readers_list(&set, &list, &count));
    assert_true(reader_ids_per_s(list, START_NS) == 1000); /* as if a second had passed */
    free(list);
    for (int i = 1; i < 200; i++)
        note(&set, "w", i, i < 10 ? 0 : 100, START_NS + i * SECOND_NS / 10);
    assert_ok(readers_list(&set, &list, &count));
    int64_t end_ns = START_NS + 20 * SECOND_NS;
    assert_true(reader_ids_per_s(list, end_ns - 1) > 990);
    assert_true(reader_ids_per_s(list, end_ns - 1) < 1010);
    assert_true(reader_ids_per_s(list, end_ns + 3 * SECOND_NS) < 700);
    assert_true(reader_ids_per_s(list, end_ns + READER_RATE_SECONDS * SECOND_NS) == 0);
    free(list);
    note(&set, "w", 200, 8, end_ns + 3600 * SECOND_NS); /* nothing of old comes back */
    assert_ok(readers_list(&set, &list, &count));
    assert_true(reader_ids_per_s(list, end_ns + 3600 * SECOND_NS) <= 8);
    free(list);
    readers_release(&set);
}

/* A thread that read its clock before another one may come after it. */
static void test_time_does_not_go_back(void **state)
{
    (void)state;
    struct readers set;
    struct reader *list;
    size_t count;
    readers_init(&set);
    note(&set, "w", 1, 10, START_NS + SECOND_NS);
    note(&set, "w", 0, 10, START_NS + SECOND_NS - 1);
    assert_ok(readers_list(&set, &list, &count));
    assert_int_equal(list[0].seen_ns, START_NS + SECOND_NS);
    assert_true(reader_ids_per_s(list, START_NS + SECOND_NS) == 20);
    free(list);
    readers_release(&set);
}

static void test_the_last_ten_thousand_are_listed(void **state)
{
    (void)state;
    struct readers set;
    struct reader *list;
    size_t count;
    char name[WORKER_NAME_BYTES];
    readers_init(&set);
    for (int i = 0; i <= READERS_MOST; i++) {
        snprintf(name, sizeof(name), "worker-%d", i);
        note(&set, name, i, 1, START_NS + i);
    }
    assert_int_equal(readers_count(&set), READERS_MOST);
    assert_ok(readers_list(&set, &list, &count));
    assert_int_equal(count, READERS_MOST);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(list[i].newest, READERS_MOST - (int)i); /* all but number 0 */
    free(list);
    readers_release(&set);
}

/* Ten times as many names, and one that reads all the while. */
static void test_who_reads_is_not_forgotten(void **state)
{
    (void)state;
    struct readers set;
    struct reader *list;
    size_t count;
    char name[WORKER_NAME_BYTES];
    size_t kept = 0;
    readers_init(&set);
    for (int i = 0; i < 10 * READERS_MOST; i++) {
        snprintf(name, sizeof(name), "worker-%d", i);
        note(&set, name, i, 1, START_NS + 2 * i);
        if (i % 100 == 0)
            note(&set, "steady", i, 1, START_NS + 2 * i + 1);
    }
    for (int i = 0; i < READER_STRIPES; i++)
        kept += set.stripes[i].count;
    assert_int_equal(kept, 2 * READERS_MOST); /* the memory has a bound */
    assert_ok(readers_list(&set, &list, &count));
    assert_int_equal(count, READERS_MOST);
    const struct reader *steady = find(list, count, "steady");
    assert_non_null(steady);
    assert_int_equal(steady->batches, 10 * READERS_MOST / 100);
    for (size_t i = 0; i < count; i++)
        assert_true(list[i].newest >= 9 * READERS_MOST); /* the last ones, of all stripes */
    free(list);
    readers_release(&set);
}

/* More streams than may have full tables: the later ones replace their own, and a stream that
 * goes makes room. */
static void test_all_streams_together_have_a_bound(void **state)
{
    (void)state;
    enum { STREAMS = 14 };
    static struct readers sets[STREAMS];
    char name[WORKER_NAME_BYTES];
    size_t kept = 0;
    for (int k = 0; k < STREAMS; k++) {
        readers_init(&sets[k]);
        for (int i = 0; i < 3 * READERS_MOST; i++) {
            snprintf(name, sizeof(name), "worker-%d", i);
            note(&sets[k], name, i, 1, START_NS + i);
        }
        for (int i = 0; i < READER_STRIPES; i++)
            kept += sets[k].stripes[i].capacity;
    }
    assert_in_range(kept, READERS_ALL_MOST / 2, READERS_ALL_MOST);
    for (int k = 0; k < STREAMS; k++)
        readers_release(&sets[k]);
    readers_init(&sets[0]);
    note(&sets[0], "w", 0, 1, START_NS);
    assert_int_equal(readers_count(&sets[0]), 1);
    readers_release(&sets[0]);
}

/* ---- threads ------------------------------------------------------------ */

#define THREADS 4
#define ROUNDS 20000

struct meeting {
    struct readers set;
    _Atomic int left;
};

static void *read_batches(void *context)
{
    struct meeting *meeting = context;
    char name[WORKER_NAME_BYTES];
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(name, sizeof(name), "worker-%d", i % 50);
        note(&meeting->set, name, i, 10, START_NS + i);
    }
    atomic_fetch_sub(&meeting->left, 1);
    return NULL;
}

static void test_threads_that_meet_count_exactly(void **state)
{
    (void)state;
    struct meeting meeting;
    pthread_t threads[THREADS];
    struct reader *list;
    size_t count;
    readers_init(&meeting.set);
    atomic_init(&meeting.left, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_batches, &meeting), 0);
    while (atomic_load(&meeting.left) > 0) {
        assert_ok(readers_list(&meeting.set, &list, &count));
        assert_true(count <= 50);
        free(list);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_ok(readers_list(&meeting.set, &list, &count));
    assert_int_equal(count, 50);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(list[i].batches, THREADS * ROUNDS / 50);
        assert_int_equal(list[i].ids, 10 * THREADS * ROUNDS / 50);
    }
    free(list);
    readers_release(&meeting.set);
}

static void test_names_that_collide(void **state)
{
    char name[COLLIDING_BYTES];
    uint32_t number = 0;
    struct readers set;
    (void)state;
    readers_init(&set);
    for (int i = 0; i < COLLIDING; i++) {
        collide(name, &number);
        note(&set, name, 0, 1, START_NS);
    }
    for (int i = 0; i < READER_STRIPES; i++)
        assert_in_range(longest_run(&set.stripes[i].names), 1, RUN_MOST);
    readers_release(&set);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_who_reads_is_not_forgotten),
    cmocka_unit_test(test_all_streams_together_have_a_bound),
    cmocka_unit_test(test_what_a_reader_read_is_counted),
    cmocka_unit_test(test_progress_is_that_of_the_furthest_who_still_reads),
    cmocka_unit_test(test_a_rate_is_of_the_last_seconds),
    cmocka_unit_test(test_time_does_not_go_back),
    cmocka_unit_test(test_the_last_ten_thousand_are_listed),
    cmocka_unit_test(test_threads_that_meet_count_exactly),
    cmocka_unit_test(test_names_that_collide),
};

UNIT_MAIN(tests)

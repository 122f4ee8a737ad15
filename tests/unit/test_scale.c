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
static struct stream *other; /* from which others draw, taken */

/* It is taken. */
static struct stream *create_taken(const char *name)
{
    struct stream_definition definition = unit.definition;
    struct stream *stream;
    bool waits;
    sampling_plan_take(unit.stream->plan);
    snprintf(definition.name, sizeof(definition.name), "%s", name);
    assert_ok(
        streams_create(unit.streams, &definition, unit.stream->plan, 0, NULL, &stream, &waits));
    return stream;
}

static void create(const char *name)
{
    stream_put(create_taken(name));
}

static int open_unit(void **state)
{
    (void)state;
    unit = (struct stream_unit){.max_streams = 2 * MANY};
    stream_unit_define(&unit, 0, TAIL_SPAN);
    stream_unit_open(&unit, DURABILITY_NONE);
    other = create_taken("other");
    return 0;
}

static int close_unit(void **state)
{
    (void)state;
    stream_put(other);
    stream_unit_drop(&unit);
    stream_unit_end(&unit);
    return 0;
}

/* ---- others that draw whenever the mutex is free ------------------------ */

static bool draws_between;
static int draws;              /* while something else was in the middle of its work */
static void (*also)(int draw); /* or NULL: what else is done then */

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct stream_batch batch;
    int status = __real_pthread_mutex_unlock(mutex);
    if (!draws_between || mutex != &unit.streams->mutex)
        return status;
    draws_between = false;
    assert_ok(unit_draw(other, 1, &batch));
    draws++;
    if (also)
        also(draws);
    draws_between = true;
    return status;
}

static void let_others_draw(void)
{
    draws = 0;
    draws_between = true;
}

/* How often somebody could draw since then. */
static int others_drew(void)
{
    draws_between = false;
    also = NULL;
    return draws;
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
    assert_in_range(longest_run(&unit.streams->names), 1, 2); /* two of them */
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
    assert_int_equal(listed, count + 2);
    assert_string_equal(stream_definition(list[0])->name, "default");
    assert_ptr_equal(list[1], other);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "s%d", (int)number_of(i));
        assert_string_equal(stream_definition(list[i + 2])->name, name);
        assert_ptr_equal(streams_find(unit.streams, name), list[i + 2]);
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

static void test_a_list_of_streams_lets_others_draw(void **state)
{
    char name[NAME_BYTES];
    struct stream **list;
    size_t count;
    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "s%d", i);
        create(name);
    }
    let_others_draw();
    assert_ok(streams_list(unit.streams, &list, &count));
    assert_in_range(others_drew(), 8, MANY);
    assert_int_equal(count, MANY + 2);
    streams_put_all(list, count);
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

/* ---- reports ------------------------------------------------------------ */

static void lease_by_many(void)
{
    char name[NAME_BYTES];
    struct stream_batch batch;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "w%d", i);
        assert_ok(unit_lease(unit.stream, name, 0, 1, &batch));
    }
}

/* The last seen first; of equals the first by name. */
static void test_workers_are_chosen_in_pieces(void **state)
{
    enum { ROOM = 100 };
    struct stream_worker workers[ROOM], all[MANY];
    size_t count, known;
    (void)state;
    lease_by_many();
    for (uint32_t i = 0; i < MANY; i++)
        worker_table_see(&unit.stream->ledger.workers, i, stream_clock_ms() - (i * 7919) % 97);
    assert_ok(stream_workers(unit.stream, all, MANY, &count, &known));
    assert_int_equal(count, MANY);
    let_others_draw();
    assert_ok(stream_workers(unit.stream, workers, ROOM, &count, &known));
    assert_in_range(others_drew(), 15, MANY);
    assert_int_equal(count, ROOM);
    assert_int_equal(known, MANY);
    for (size_t i = 0; i < MANY; i++) {
        if (i < ROOM)
            assert_string_equal(workers[i].name, all[i].name);
        if (i > 0)
            assert_true(all[i - 1].last_seen_ms < all[i].last_seen_ms ||
                        (all[i - 1].last_seen_ms == all[i].last_seen_ms &&
                         strcmp(all[i - 1].name, all[i].name) < 0));
    }
    assert_ok(stream_workers(unit.stream, NULL, 0, &count, &known));
    assert_int_equal(count, 0);
}

/* Every other position is open. */
static void open_gaps(int gaps)
{
    struct ledger *ledger = &unit.stream->ledger;
    assert_ok(intervals_reserve(&ledger->gaps, (size_t)gaps));
    for (int64_t i = 0; i < gaps; i++)
        intervals_add(&ledger->gaps, 2 * i, 2 * i + 1);
    ledger->position = 2 * gaps;
}

static void test_what_was_drawn_is_listed_in_pieces(void **state)
{
    enum { GAPS = 4000 };
    struct stream_drawn drawn;
    (void)state;
    unit.stream->plan->batching.epoch_positions = 3 * GAPS;
    open_gaps(GAPS);
    let_others_draw();
    assert_ok(stream_drawn(unit.stream, &drawn));
    assert_in_range(others_drew(), 3, GAPS);
    assert_int_equal(drawn.count, GAPS);
    for (size_t i = 0; i < drawn.count; i++) {
        assert_int_equal(drawn.spans[i].begin, 2 * i + 1);
        assert_int_equal(drawn.spans[i].end, 2 * i + 2);
    }
    free(drawn.spans);
}

/* ---- acks, extensions and releases of many ------------------------------ */

enum { PIECES = (MANY + STREAM_LEASES_AT_ONCE - 1) / STREAM_LEASES_AT_ONCE };
static int64_t seqs[MANY];

/* Batches of one unit, seqs from 0 on, all of "w". */
static void lease_many(int64_t lease_ms)
{
    struct stream_batch batch;
    unit.stream->ledger.lease_ms = lease_ms;
    for (int64_t i = 0; i < MANY; i++) {
        seqs[i] = MANY - 1 - i;
        assert_ok(unit_lease(unit.stream, "w", i, 1, &batch));
    }
}

static struct lease *lease_of(int64_t seq)
{
    struct ledger *ledger = &unit.stream->ledger;
    uint32_t number = lease_set_find(&ledger->leases, ledger_worker(ledger, "w"), seq);
    return number == LEASE_NONE ? NULL : lease_set_get(&ledger->leases, number);
}

/* The worker itself and an administrator do what would take the leases away. */
static void interfere(int draw)
{
    bool waits;
    int64_t released;
    if (draw < 15) /* before anything is held */
        return;
    if (!unit.stream->holds)
        return;
    assert_fails(stream_release(unit.stream, "w", NULL, &released, &waits), ERROR_UNAVAILABLE,
                 "worker=w acks");
    assert_fails(stream_release_many(unit.stream, "w", &released), ERROR_UNAVAILABLE, "again");
    assert_fails(stream_seek(unit.stream, 0, NULL, &waits), ERROR_UNAVAILABLE, "again");
    assert_ok(stream_release(unit.stream, "v", NULL, &released, &waits));
}

/* While others draw, who do `more`. */
static void ack_all(void (*more)(int draw))
{
    struct stream_status status;
    let_others_draw();
    also = more;
    assert_ok(stream_ack_many(unit.stream, "w", seqs, MANY));
    assert_in_range(others_drew(), 3 * PIECES, 100);
    stream_status(unit.stream, &status);
    assert_int_equal(status.acked, MANY);
}

static void test_an_ack_of_many_lets_others_draw(void **state)
{
    struct stream_status status;
    (void)state;
    lease_many(600000);
    ack_all(interfere);
    stream_status(unit.stream, &status);
    assert_int_equal(status.leased, 0);
    assert_null(unit.stream->holds);
    assert_ok(stream_ack_many(unit.stream, "w", seqs, MANY)); /* again */
    stream_status(unit.stream, &status);
    assert_int_equal(status.acked, MANY);
}

/* Others pull, who would get what expired; all is held by then. */
static void pull(int draw)
{
    struct stream_batch batch;
    if (draw <= 2 * PIECES + 1)
        return;
    assert_ok(unit_lease(unit.stream, "v", draw, 1, &batch));
    assert_false(batch.redelivered);
}

static void test_what_is_acked_does_not_expire(void **state)
{
    (void)state;
    lease_many(600000);
    for (int64_t i = 0; i < MANY; i++)
        lease_of(i)->deadline_ms = 0; /* all alike: any order is a heap */
    ack_all(pull);
}

static void check_nothing_moved(const int64_t *deadlines_ms)
{
    struct stream_status status;
    for (int64_t i = 0; i < MANY; i++) {
        if (lease_of(i))
            assert_int_equal(lease_of(i)->deadline_ms, deadlines_ms[i]);
    }
    stream_status(unit.stream, &status);
    assert_int_equal(status.acked, 0);
    assert_null(unit.stream->holds);
}

/* At the moment in which all were checked. */
static void lose_one(int draw)
{
    struct ledger *ledger = &unit.stream->ledger;
    struct lease *lease = lease_of(MANY - 2);
    if (draw != PIECES || !lease)
        return;
    uint32_t number = lease_set_starting(&ledger->leases, lease->first);
    struct stream_batch batch;
    lease_set_wait(&ledger->leases, number);
    assert_ok(unit_lease(unit.stream, "v", 0, 1, &batch));
    assert_true(batch.redelivered);
}

static void test_an_ack_of_many_is_whole_or_nothing(void **state)
{
    static int64_t deadlines_ms[MANY];
    (void)state;
    lease_many(600000);
    for (int64_t i = 0; i < MANY; i++)
        deadlines_ms[i] = lease_of(i)->deadline_ms;
    seqs[MANY - 1] = MANY + 7;
    assert_fails(stream_ack_many(unit.stream, "w", seqs, MANY), ERROR_CONFLICT, "never leased");
    check_nothing_moved(deadlines_ms);
    assert_fails(stream_extend_many(unit.stream, "w", seqs, MANY), ERROR_CONFLICT, "never leased");
    check_nothing_moved(deadlines_ms);
    assert_fails(stream_ack_many(unit.stream, "x", seqs, MANY), ERROR_CONFLICT, "never leased");
    seqs[MANY - 1] = 0;
    let_others_draw();
    also = lose_one;
    assert_fails(stream_ack_many(unit.stream, "w", seqs, MANY), ERROR_CONFLICT, "was lost");
    assert_in_range(others_drew(), 2 * PIECES, 100);
    check_nothing_moved(deadlines_ms);
}

static void test_an_extension_of_many(void **state)
{
    (void)state;
    lease_many(1000);
    unit.stream->ledger.lease_ms = 600000;
    let_others_draw();
    assert_ok(stream_extend_many(unit.stream, "w", seqs, MANY));
    assert_in_range(others_drew(), 2 * PIECES, 100);
    for (int64_t i = 0; i < MANY; i++)
        assert_true(lease_of(i)->deadline_ms > stream_clock_ms() + 500000);
    assert_ok(stream_ack_many(unit.stream, "w", seqs, 10));
    assert_fails(stream_extend_many(unit.stream, "w", seqs, MANY), ERROR_CONFLICT, "was acked");
}

static void test_a_release_of_many(void **state)
{
    struct stream_status status;
    int64_t released;
    (void)state;
    lease_many(600000);
    let_others_draw();
    assert_ok(stream_release_many(unit.stream, "w", &released));
    assert_in_range(others_drew(), PIECES, 100);
    assert_int_equal(released, MANY);
    stream_status(unit.stream, &status);
    assert_int_equal(status.leased, 0);
    assert_int_equal(status.waiting, MANY);
    assert_ok(stream_release_many(unit.stream, "w", &released));
    assert_int_equal(released, 0);
    assert_ok(stream_release_many(unit.stream, "nobody", &released));
    assert_int_equal(released, 0);
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
    lease_many(600000);
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

/* ---- views -------------------------------------------------------------- */

static _Atomic int views_read;

enum error __real_frame_view(const struct frame *whole, int64_t rows_begin, int64_t rows_end,
                             const struct split_shares *shares, enum split split,
                             struct frame **ret_view);
enum error __wrap_frame_view(const struct frame *whole, int64_t rows_begin, int64_t rows_end,
                             const struct split_shares *shares, enum split split,
                             struct frame **ret_view);
enum error __wrap_frame_view(const struct frame *whole, int64_t rows_begin, int64_t rows_end,
                             const struct split_shares *shares, enum split split,
                             struct frame **ret_view)
{
    views_read++;
    return __real_frame_view(whole, rows_begin, rows_end, shares, split, ret_view);
}

static const struct split_shares shares = {0.5, 0.25, 0.25};

static struct sampling_plan *open_plan(int64_t rows_begin, int64_t rows_end, enum split split)
{
    struct stream_definition definition = unit.definition;
    struct sampling_plan *plan;
    definition.rows_begin = rows_begin;
    definition.rows_end = rows_end;
    definition.split = split;
    assert_ok(sampling_plan_open(unit.frames, &shares, &definition, &plan));
    return plan;
}

static void test_equal_views_are_one(void **state)
{
    (void)state;
    views_read = 0;
    struct sampling_plan *train = open_plan(0, 0, SPLIT_TRAIN);
    struct sampling_plan *same = open_plan(0, 1000, SPLIT_TRAIN);
    struct sampling_plan *test = open_plan(0, 0, SPLIT_TEST);
    struct sampling_plan *rows = open_plan(0, 500, SPLIT_TRAIN);
    assert_ptr_equal(train->frame, same->frame);
    assert_ptr_equal(train->label_texts, same->label_texts);
    assert_true(train->frame != test->frame && train->frame != rows->frame);
    assert_int_equal(views_read, 3);
    sampling_plan_put(train);
    assert_int_equal(frame_units(same->frame), same->binding.units); /* it is there still */
    sampling_plan_put(same);
    sampling_plan_put(open_plan(0, 0, SPLIT_TRAIN)); /* read again, and gone again */
    assert_int_equal(views_read, 4);
    sampling_plan_put(test);
    sampling_plan_put(rows);
}

/* Labels that the view has not are of its own texts. */
static void test_a_view_has_its_own_labels(void **state)
{
    (void)state;
    struct sampling_plan *few = open_plan(0, 5, SPLIT_NONE);
    assert_true(few->label_texts != unit.stream->plan->label_texts);
    struct sampling_plan *same = open_plan(0, 5, SPLIT_NONE);
    assert_ptr_equal(few->label_texts, same->label_texts);
    sampling_plan_put(same);
    sampling_plan_put(few);
    struct stream_definition definition = unit.definition;
    definition.rows_end = 2000; /* more than there are */
    assert_fails(sampling_plan_open(unit.frames, &shares, &definition, &few), ERROR_USAGE, "rows");
}

static void *open_and_put(void *unused)
{
    (void)unused;
    for (int i = 0; i < 50; i++)
        sampling_plan_put(open_plan(0, 0, SPLIT_VALIDATION));
    return NULL;
}

static void test_threads_share_views(void **state)
{
    pthread_t threads[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_put, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void test_a_start_reads_each_view_once(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    struct stream *stream;
    bool waits;
    (void)state;
    stream_put(other);
    stream_unit_drop(&unit);
    unit_folder_make(unit.folder);
    stream_unit_open(&unit, DURABILITY_PROCESS);
    for (int i = 0; i < 4; i++) {
        struct stream_definition definition = unit.definition;
        snprintf(definition.name, sizeof(definition.name), "%s", names[i]);
        definition.rows_end = i < 3 ? 700 : 300;
        struct sampling_plan *plan;
        assert_ok(sampling_plan_open(unit.frames, &shares, &definition, &plan));
        assert_ok(streams_create(unit.streams, &definition, plan, 0, NULL, &stream, &waits));
        stream_put(stream);
    }
    stream_unit_close(&unit);
    views_read = 0;
    stream_unit_open(&unit, DURABILITY_PROCESS);
    assert_int_equal(views_read, 2);
    other = create_taken("other");
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
    TEST(test_a_list_of_streams_lets_others_draw),
    TEST(test_names_that_are_forgotten),
    TEST(test_workers_are_chosen_in_pieces),
    TEST(test_what_was_drawn_is_listed_in_pieces),
    TEST(test_an_ack_of_many_lets_others_draw),
    TEST(test_what_is_acked_does_not_expire),
    TEST(test_an_ack_of_many_is_whole_or_nothing),
    TEST(test_an_extension_of_many),
    TEST(test_a_release_of_many),
    TEST(test_a_checkpoint_is_of_one_moment),
    TEST(test_equal_views_are_one),
    TEST(test_a_view_has_its_own_labels),
    TEST(test_threads_share_views),
    TEST(test_a_start_reads_each_view_once),
};

UNIT_MAIN(tests)

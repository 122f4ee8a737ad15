/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/server/server_zero: server 1, whose server 0 the test plays, and server 0 of two,
 * whose other one it plays; so of coordinator, coordinator_cut and server_peers, too.
 */
#include "tests/unit/server_unit.h"

#define MANY 100000 /* steps: it does not end by itself */
#define OWN 1       /* parameters of server 0 */
#define OTHER 2     /* and of server 1 */

static struct served served;
static struct wire_header values;
static uint64_t generation;
static bool is_saved_end; /* does the checkpoint that was asserted last say that training ended? */

static int prepare(void **state)
{
    log_set_level((enum log_level)(LOG_ERROR + 1));
    make_folder(state);
    describe_server(&served, 0, 2, MANY);
    return 0;
}

static int clear(void **state)
{
    end_server(&served);
    return remove_folder(state);
}

static struct wire_header word(enum wire_type type, int64_t cut)
{
    return (struct wire_header){.type = (uint16_t)type, .generation = generation, .batch = cut};
}

/* ---- server 1, as server 0 sees it --------------------------------------- */

static int call_as_server(uint64_t of_generation)
{
    struct hello hello = hello_of(&served, "ps", 1);
    hello.generation = of_generation;
    return call_with(&served, &hello);
}

/* FACTS and RESTORE, whose state begins with `first`. */
static struct wire_header expect_restore(int server, float first)
{
    expect(server, WIRE_FACTS);
    struct wire_header header = expect(server, WIRE_RESTORE);
    size_t before = header.stock * sizeof(struct index_range);
    float state[OTHER];
    assert_int_equal(header.bytes, before + sizeof(state));
    memcpy(state, frame_bytes + before, sizeof(state));
    assert_true(state[0] == first);
    assert_int_not_equal(header.generation, 0);
    generation = header.generation;
    return header;
}

static int call_restored(void)
{
    int server = call_as_server(0);
    expect_restore(server, 0);
    say(server, word(WIRE_RESTORED, WIRE_NONE), NULL, 0);
    return server;
}

/* A training that runs: its worker, and the other server. */
static int begin(int *ret_server)
{
    start_server(&served);
    int worker = call_first(&served);
    *ret_server = call_restored();
    return worker;
}

static struct index_range pull(int worker, float value)
{
    say(worker, pull_header(), NULL, 0);
    return expect_values_of(worker, OWN, value, &values);
}

/* `done`: a batch that server 1 has, too. */
static void push(int worker, int64_t batch, int64_t done, float value)
{
    struct wire_header header = push_header(generation, batch);
    header.done = done;
    say(worker, header, ones, OWN * sizeof(*ones));
    expect_values_of(worker, OWN, value, &values);
}

static void say_set(int server, enum wire_type type, int64_t cut, struct index_range range)
{
    struct wire_header header = word(type, cut);
    header.stock = 1;
    say(server, header, &range, sizeof(range));
}

/* A union of one range. */
static void assert_union(int server, int64_t cut, int64_t first, int64_t end)
{
    struct wire_header header = expect(server, WIRE_UNION);
    struct index_range range;
    assert_int_equal(header.batch, cut);
    assert_int_equal(header.stock, 1);
    memcpy(&range, frame_bytes, sizeof(range));
    assert_int_equal(range.first, first);
    assert_int_equal(range.end, end);
}

/* Plays a server that has the batches below `end` as the cut begins; its number. All have them. */
static int64_t unite(int server, int64_t end)
{
    int64_t cut = expect(server, WIRE_FREEZE).batch;
    say_set(server, WIRE_FROZEN, cut, (struct index_range){0, end});
    assert_union(server, cut, 0, end);
    return cut;
}

static void say_copy(int server, int64_t cut)
{
    static const float state[OTHER] = {7, 8};
    say(server, word(WIRE_COPIED, cut), NULL, 0);
    say(server, word(WIRE_COPY, cut), state, sizeof(state));
}

/* What the newest checkpoint holds, once there is one of this step. */
static void assert_saved(int64_t step, float own, float other)
{
    struct logdir *logdir;
    struct checkpoint *newest = NULL;
    struct model_layout layout;
    float all[PARAMETERS];
    assert_ok(model_layout_init(&layout, &served.model.shape, &served.model.optimizer));
    for (int i = 0; i < 1000; i++) {
        checkpoint_close(newest);
        assert_ok(logdir_open_read(folder, &logdir));
        assert_ok(logdir_newest(logdir, &newest));
        logdir_close(logdir);
        if (newest && checkpoint_step(newest) == step)
            break;
        clock_sleep_ms(20);
    }
    assert_non_null(newest);
    assert_int_equal(checkpoint_step(newest), step);
    assert_ok(checkpoint_read_state(newest, &layout, all));
    is_saved_end = checkpoint_get_facts(newest)->position.ended;
    checkpoint_close(newest);
    assert_true(all[0] == own && all[1] == other);
}

static void test_the_other_server_is_waited_for(void **state)
{
    (void)state;
    start_server(&served);
    int worker = call_first(&served);
    say(worker, pull_header(), NULL, 0);
    clock_sleep_ms(60);
    assert_int_equal(recv(worker, frame_bytes, 1, MSG_DONTWAIT), -1);
    int server = call_as_server(0);
    expect_restore(server, 0);
    clock_sleep_ms(60);
    assert_int_equal(recv(worker, frame_bytes, 1, MSG_DONTWAIT), -1); /* it has not begun */
    say(server, word(WIRE_RESTORED, WIRE_NONE), NULL, 0);
    expect_values_of(worker, OWN, 0, &values);
    assert_int_equal(values.generation, generation);
    close(server);
    close(worker);
}

/* A cut is what any server has applied; nothing else is until it is copied. */
static void test_a_cut(void **state)
{
    int server;
    (void)state;
    served.options.coordinator.save_ms = 60000;
    int worker = begin(&server), other = call_next(&served, 1);
    pull(worker, 0);
    push(worker, 0, WIRE_NONE, -1);
    pass(61);
    struct wire_header freeze = expect(server, WIRE_FREEZE);
    assert_int_equal(freeze.generation, generation);
    push(worker, 0, WIRE_NONE, -1); /* it has that one */
    say(other, push_header(generation, 2), ones, OWN * sizeof(*ones));
    say_set(server, WIRE_FROZEN, freeze.batch, (struct index_range){0, 2});
    assert_union(server, freeze.batch, 0, 2);
    say_copy(server, freeze.batch);
    push(worker, 1, 0, -2); /* server 1 had it: it is of the cut */
    expect_values_of(other, OWN, -3, &values);
    assert_saved(2, -2, 7);
    close(other);
    close(server);
    close(worker);
}

/* One that is too late is off, and tried again. */
static void test_a_cut_that_takes_too_long_is_off(void **state)
{
    int server;
    (void)state;
    served.options.coordinator.save_ms = 60000;
    int worker = begin(&server);
    pull(worker, 0);
    push(worker, 0, WIRE_NONE, -1);
    pass(61);
    int64_t cut = expect(server, WIRE_FREEZE).batch;
    say(worker, push_header(generation, 1), ones, OWN * sizeof(*ones));
    pass(2);
    assert_int_equal(expect(server, WIRE_THAW).batch, cut);
    expect_values_of(worker, OWN, -2, &values);
    say_set(server, WIRE_FROZEN, cut, (struct index_range){0, 9}); /* too late: of no cut */
    pass(3);
    assert_int_equal(expect(server, WIRE_FREEZE).batch, cut + 1);
    say_set(server, WIRE_FROZEN, cut, (struct index_range){0, 9}); /* of another one */
    say_set(server, WIRE_FROZEN, cut + 1, (struct index_range){0, 1});
    assert_union(server, cut + 1, 0, 2);
    say_copy(server, cut);
    say_copy(server, cut + 1);
    assert_saved(2, -2, 7);
    close(server);
    close(worker);
}

/* A gradient takes longer than a cut has: the next one has more time, unless its worker is lost. */
static void test_a_cut_that_waits_for_a_slow_gradient(void **state)
{
    int server;
    (void)state;
    served.options.coordinator.save_ms = 60000;
    int worker = begin(&server);
    pull(worker, 0);
    push(worker, 0, WIRE_NONE, -1);
    pass(61);
    int64_t cut;
    for (int64_t seconds = 2; seconds < 5; seconds += 2) {
        cut = unite(server, 2);
        pass(seconds);
        assert_int_equal(expect(server, WIRE_THAW).batch, cut);
        pass(3);
    }
    cut = unite(server, 2); /* has four seconds */
    pass(1);
    clock_sleep_ms(60);
    push(worker, 1, 0, -2);
    say_copy(server, cut);
    assert_saved(2, -2, 7);
    push(worker, 2, 1, -3);
    pass(61);
    cut = unite(server, 4);
    close(worker);
    clock_sleep_ms(60);
    pass(1);
    assert_int_equal(expect(server, WIRE_THAW).batch, cut);
    close(server);
}

/* Who does not even say what it has is named once, and the training goes on. */
static void test_a_server_that_is_silent_at_each_cut(void **state)
{
    int server;
    (void)state;
    served.options.coordinator.save_ms = 60000;
    int worker = begin(&server);
    pull(worker, 0);
    for (int64_t i = 0; i < 3; i++) {
        push(worker, i, WIRE_NONE, (float)-i - 1);
        pass(61);
        expect(server, WIRE_FREEZE);
        pass(2);
        expect(server, WIRE_THAW);
    }
    close(server);
    close(worker);
}

static void test_copies_of_another_size(void **state)
{
    static const float state_of[OTHER + 1];
    int server;
    (void)state;
    served.options.coordinator.save_ms = 60000;
    int worker = begin(&server);
    pull(worker, 0);
    push(worker, 0, WIRE_NONE, -1);
    pass(61);
    int64_t cut = unite(server, 1);
    say(server, word(WIRE_COPIED, cut), NULL, 0);
    say(server, word(WIRE_COPY, cut), state_of, sizeof(float));
    expect_refused(server, ERROR_INPUT, "a copy of 4 bytes is not of shard 1");
    server = call_as_server(generation); /* the cut is off: it will not come */
    clock_sleep_ms(60);
    pass(61);
    cut = expect(server, WIRE_FREEZE).batch;
    struct wire_header header = word(WIRE_COPY, cut);
    header.bytes = sizeof(state_of);
    wire_header_seal(&header);
    assert_int_equal(write(server, &header, sizeof(header)), sizeof(header));
    enum wire_type heard;
    do /* a server that is late began it before the minute passed, and takes it for too old */
        heard = hear(server).type;
    while (heard == WIRE_THAW || heard == WIRE_FREEZE);
    assert_int_equal(heard, 0);
    close(server);
    push(worker, 0, WIRE_NONE, -1);
    close(worker);
}

static void test_another_server_asks_for_a_cut(void **state)
{
    int server;
    (void)state;
    int worker = begin(&server);
    pull(worker, 0);
    push(worker, 0, WIRE_NONE, -1);
    say(server, word(WIRE_FREEZE, WIRE_NONE), NULL, 0);
    int64_t cut = unite(server, 1);
    say_copy(server, cut);
    assert_int_equal(expect(server, WIRE_STORED).batch, cut);
    assert_saved(1, -1, 7);
    close(server);
    close(worker);
}

/* It asks during a cut that has what its shard lacks so far: nothing is left to be saved. */
static void test_another_server_asks_during_a_cut(void **state)
{
    int server;
    (void)state;
    served.options.coordinator.save_ms = 60000;
    int worker = begin(&server);
    pull(worker, 0);
    push(worker, 0, WIRE_NONE, -1);
    pass(61);
    int64_t cut = expect(server, WIRE_FREEZE).batch;
    say(server, word(WIRE_FREEZE, WIRE_NONE), NULL, 0);
    say(server, word(WIRE_FROZEN, cut), NULL, 0);
    assert_union(server, cut, 0, 1);
    say_copy(server, cut);
    assert_int_equal(expect(server, WIRE_STORED).batch, cut);
    close(server);
    close(worker);
}

/* When all is saved there is none; a batch that server 1 alone has is waited for. */
static void test_another_server_leaves_without_a_cut(void **state)
{
    int server;
    (void)state;
    served.options.coordinator.save_ms = 60000;
    int worker = begin(&server);
    struct wire_header leaving = word(WIRE_FREEZE, WIRE_NONE);
    say(server, leaving, NULL, 0);
    expect(server, WIRE_STORED);
    leaving.step = 1;
    say(server, leaving, NULL, 0);
    clock_sleep_ms(60);
    assert_int_equal(recv(server, frame_bytes, 1, MSG_DONTWAIT), -1);
    pull(worker, 0);
    push(worker, 0, WIRE_NONE, -1);
    int64_t cut = unite(server, 1);
    say_copy(server, cut);
    expect(server, WIRE_STORED);
    assert_saved(1, -1, 7);
    say(server, leaving, NULL, 0);
    expect(server, WIRE_STORED);
    close(server);
    close(worker);
}

/* The stream ends while copies are on their way: that is not the cut's end. */
static void test_a_cut_before_the_last_batch_is_not_the_end(void **state)
{
    static const float copy[OTHER] = {7, 8};
    int server;
    (void)state;
    served.options.coordinator.save_ms = 60000;
    int worker = begin(&server);
    pull(worker, 0);
    push(worker, 0, WIRE_NONE, -1);
    pass(61);
    int64_t cut = unite(server, 1);
    say(server, word(WIRE_COPIED, cut), NULL, 0);
    push(worker, 1, 0, -2);
    struct wire_header none = pull_header();
    none.generation = generation;
    none.batch = 2;
    none.done = 1;
    say(worker, none, NULL, 0);
    clock_sleep_ms(60);
    say(server, word(WIRE_COPY, cut), copy, sizeof(copy));
    assert_saved(1, -1, 7);
    assert_false(is_saved_end);
    close(server);
    close(worker);
}

static void test_words_that_no_server_says(void **state)
{
    int server;
    (void)state;
    close(begin(&server));
    say(server, word(WIRE_UNION, WIRE_NONE), NULL, 0);
    expect_refused(server, ERROR_INPUT, "UNION is not a frame that a parameter server sends");
}

/* It is lost between its word that it has copied and the copy, while this server still waits for a
 * gradient: the cut is off at once, and a later one is whole. */
static void test_a_server_that_is_lost_before_its_copy(void **state)
{
    int server;
    (void)state;
    served.options.coordinator.save_ms = 60000;
    int worker = begin(&server);
    pull(worker, 0);
    push(worker, 0, WIRE_NONE, -1);
    pass(61);
    int64_t cut = unite(server, 2);
    say(server, word(WIRE_COPIED, cut), NULL, 0);
    clock_sleep_ms(60);
    close(server);
    clock_sleep_ms(60);
    server = call_as_server(generation);
    push(worker, 1, 0, -2);
    say(server, word(WIRE_FREEZE, WIRE_NONE), NULL, 0); /* it wants one */
    cut = unite(server, 2);
    say_copy(server, cut);
    assert_saved(2, -2, 7);
    close(server);
    close(worker);
}

/* ---- servers that come and go -------------------------------------------- */

static void test_a_server_that_lost_its_connection_keeps_its_shard(void **state)
{
    int server;
    (void)state;
    int worker = begin(&server);
    pull(worker, 0);
    uint64_t first = generation;
    push(worker, 0, WIRE_NONE, -1);
    close(server);
    clock_sleep_ms(60);
    server = call_as_server(first);
    push(worker, 1, 0, -2);
    say(server, word(WIRE_FREEZE, WIRE_NONE), NULL, 0);
    assert_int_equal(expect(server, WIRE_FREEZE).generation, first); /* no RESTORE before */
    close(server);
    close(worker);
}

/* Its connection was lost unnoticed: server 0 still has it. */
static void test_a_server_that_comes_by_a_second_connection(void **state)
{
    int server;
    (void)state;
    int worker = begin(&server);
    pull(worker, 0);
    int again = call_as_server(generation);
    assert_int_equal(hear(server).type, 0);
    close(server);
    push(worker, 0, WIRE_NONE, -1); /* without a step, no cut is due */
    say(again, word(WIRE_FREEZE, WIRE_NONE), NULL, 0);
    assert_int_equal(expect(again, WIRE_FREEZE).generation, generation);
    close(again);
    close(worker);
}

static void test_a_second_process_of_one_index(void **state)
{
    int server;
    (void)state;
    int worker = begin(&server);
    pull(worker, 0);
    for (int i = 0; i < 8; i++) { /* for 30 s it may be that the first is lost */
        expect_refused(call_as_server(0), ERROR_TIMEOUT, "parameter server 1 is there already");
        pass(4);
    }
    expect_refused(call_as_server(0), ERROR_CONFLICT, "parameter server 1 is there already");
    pass(6);
    expect_refused(call_as_server(0), ERROR_TIMEOUT, "parameter server 1 is there already");
    push(worker, 0, WIRE_NONE, -1);
    close(server);
    close(worker);
}

static void test_a_server_without_its_shard_takes_all_back(void **state)
{
    int server;
    (void)state;
    int worker = begin(&server);
    pull(worker, 0);
    uint64_t first = generation;
    push(worker, 0, WIRE_NONE, -1);
    close(server);
    clock_sleep_ms(60);
    server = call_as_server(0);
    expect_restore(server, 0);
    assert_int_not_equal(generation, first);
    say(worker, push_header(first, 1), ones, OWN * sizeof(*ones)); /* waits, and is stale */
    clock_sleep_ms(30);
    say(server, word(WIRE_RESTORED, WIRE_NONE), NULL, 0);
    assert_int_equal(expect(worker, WIRE_STALE).generation, generation);
    struct index_range range = pull(worker, 0);
    assert_int_equal(range.first, 0);
    assert_int_equal(values.step, 0);
    close(server);
    close(worker);
}

/* An evaluator ended it before the step of now was saved, and has gone: it goes on. */
static void test_an_end_is_forgotten_with_its_generation(void **state)
{
    int server;
    (void)state;
    served.options.coordinator.aggregate = 2;
    int worker = begin(&server);
    struct index_range range = pull(worker, 0);
    assert_int_equal(range.end, 1);
    int evaluator = call_as(&served, "evaluator", 0);
    expect(evaluator, WIRE_WELCOME);
    say(evaluator, (struct wire_header){.type = WIRE_STOP}, NULL, 0);
    expect(evaluator, WIRE_WELCOME);
    close(evaluator);
    close(server);
    server = call_restored();
    assert_int_equal(pull(worker, 0).end, 1);
    push(worker, 0, WIRE_NONE, 0);
    push(worker, 1, 0, -1);
    range = pull(worker, -1);
    assert_int_equal(range.first, 2);
    assert_int_equal(range.end, 3);
    close(server);
    close(worker);
}

/* What it was sent may not have arrived. */
static void test_a_server_that_is_lost_before_it_has_begun(void **state)
{
    (void)state;
    start_server(&served);
    int worker = call_first(&served), server = call_as_server(0);
    expect_restore(server, 0);
    uint64_t first = generation;
    close(server);
    clock_sleep_ms(60);
    server = call_as_server(first);
    expect_restore(server, 0);
    assert_int_not_equal(generation, first);
    struct wire_header late = word(WIRE_RESTORED, WIRE_NONE);
    late.generation = first;
    say(server, late, NULL, 0); /* of the one before */
    say(worker, pull_header(), NULL, 0);
    clock_sleep_ms(60);
    assert_int_equal(recv(worker, frame_bytes, 1, MSG_DONTWAIT), -1);
    say(server, word(WIRE_RESTORED, WIRE_NONE), NULL, 0);
    expect_values_of(worker, OWN, 0, &values);
    close(server);
    close(worker);
}

static void test_the_end_of_all_servers(void **state)
{
    int server;
    (void)state;
    describe_server(&served, 0, 2, 1);
    int worker = begin(&server);
    pull(worker, 0);
    push(worker, 0, WIRE_NONE, -1); /* server 1 may not have it yet */
    struct wire_header header = pull_header();
    header.generation = generation;
    header.done = 0;
    say(worker, header, NULL, 0);
    int64_t cut = unite(server, 1);
    say_copy(server, cut);
    expect(server, WIRE_END);
    expect_values_of(worker, OWN, -1, &values);
    assert_int_equal(values.over, 1);
    close(server);
    server = call_as_server(generation); /* hears it again */
    expect(server, WIRE_END);
    close(server);
    close(worker);
    assert_int_equal(join_server(&served), OK);
    assert_saved(1, -1, 7);
}

/* A batch that one server has and another does not is granted again. */
static void test_a_batch_that_not_all_servers_have(void **state)
{
    int server;
    (void)state;
    describe_server(&served, 0, 2, 1);
    int worker = begin(&server), other = call_next(&served, 1);
    pull(worker, 0);
    push(worker, 0, WIRE_NONE, -1);
    say(other, pull_header(), NULL, 0);
    close(worker);
    struct index_range range = expect_values_of(other, OWN, -1, &values);
    assert_int_equal(range.first, 0);
    assert_int_equal(range.end, 1);
    close(server);
    close(other);
}

/* A worker that comes back says of an earlier generation that all had it. */
static void test_a_batch_that_all_servers_had_before(void **state)
{
    int server;
    (void)state;
    describe_server(&served, 0, 2, 1);
    int worker = begin(&server), other = call_next(&served, 1);
    pull(worker, 0);
    push(worker, 0, WIRE_NONE, -1);
    struct wire_header header = pull_header();
    header.generation = generation;
    header.done = 0;
    close(server);
    clock_sleep_ms(60);
    server = call_restored();
    assert_int_equal(pull(other, 0).end, 1);
    push(other, 0, WIRE_NONE, -1);
    say(worker, header, NULL, 0);
    clock_sleep_ms(60);
    close(other);
    assert_int_equal(expect_values_of(worker, OWN, -1, &values).end, 1);
    close(server);
    close(worker);
}

static void test_a_signal_ends_it_with_a_cut_of_all(void **state)
{
    int server;
    (void)state;
    int worker = begin(&server);
    pull(worker, 0);
    push(worker, 0, WIRE_NONE, -1);
    atomic_store(&served.stop, true);
    int64_t cut = unite(server, 1);
    say(worker, push_header(generation, 1), ones,
        OWN * sizeof(*ones)); /* is lost, so not applied */
    say_copy(server, cut);
    assert_ended(&served, ERROR_CANCELLED, "at step 1; training can go on from step 1");
    assert_saved(1, -1, 7);
    close(server);
    close(worker);
}

/* The other server does not answer: eight seconds. */
static void test_a_signal_where_no_cut_is_to_be_had(void **state)
{
    int server;
    (void)state;
    int worker = begin(&server);
    pull(worker, 0);
    push(worker, 0, WIRE_NONE, -1);
    atomic_store(&served.stop, true);
    expect(server, WIRE_FREEZE);
    clock_sleep_ms(60);
    assert_false(atomic_load(&served.ended));
    pass(9);
    assert_ended(&served, ERROR_CANCELLED, "at step 1; training can go on from step 0");
    close(server);
    close(worker);
}

static void test_what_is_not_the_business_of_others(void **state)
{
    struct hello evaluator;
    (void)state;
    describe_server(&served, 1, 2, MANY);
    start_server(&served);
    evaluator = hello_of(&served, "evaluator", 0);
    expect_refused(call_with(&served, &evaluator), ERROR_CONFLICT,
                   "a evaluator connects to server 0 only");
    int worker = call_as(&served, "worker", 0);
    expect(worker, WIRE_WELCOME);
    say(worker, (struct wire_header){.type = WIRE_STOP}, NULL, 0);
    expect_refused(worker, ERROR_INPUT, "STOP is nothing to say here");
}

/* ---- server 0, as server 1 sees it --------------------------------------- */

static int zero_listener;

static int prepare_other(void **state)
{
    prepare(state);
    describe_server(&served, 1, 2, MANY);
    zero_listener = listen_anywhere(&served.options.zero_port);
    generation = 7;
    return 0;
}

static int clear_other(void **state)
{
    end_server(&served);
    close(zero_listener);
    return remove_folder(state);
}

/* Server 1's connection, and its HELLO. */
static int accept_server(uint64_t of_generation)
{
    int zero = -1;
    struct hello hello;
    for (int i = 0; i < 3000 && zero < 0; i++) {
        zero = accept(zero_listener, NULL, NULL);
        if (zero < 0)
            clock_sleep_ms(10);
    }
    assert_true(zero >= 0);
    set_patience(zero);
    struct wire_header header = expect(zero, WIRE_HELLO);
    assert_ok(hello_parse(frame_bytes, header.bytes, &hello));
    assert_string_equal(hello.role, "ps");
    assert_int_equal(hello.index, 1);
    assert_int_equal(hello.servers, 2);
    assert_int_equal(hello.generation, of_generation);
    return zero;
}

static void say_facts(int zero)
{
    struct checkpoint_facts facts = small_facts();
    struct buffer text = BUFFER_INIT(WIRE_FACTS_LIMIT);
    facts.model = served.model;
    assert_ok(checkpoint_print_facts(&facts, 0, &text));
    say(zero, (struct wire_header){.type = WIRE_FACTS}, text.data, text.length);
    buffer_release(&text);
}

/* It has learnt from batch 4, and is at step 10. */
static void say_restore(int zero)
{
    struct {
        struct index_range applied;
        float state[OTHER];
    } payload = {{4, 5}, {0, 0}};
    struct wire_header header = word(WIRE_RESTORE, WIRE_NONE);
    header.stock = 1;
    header.step = 10;
    say(zero, header, &payload, sizeof(payload));
}

static int begin_other(void)
{
    start_server(&served);
    int zero = accept_server(0);
    say_facts(zero);
    say_restore(zero);
    assert_int_equal(expect(zero, WIRE_RESTORED).generation, generation);
    return zero;
}

static int call_other(void)
{
    int worker = call_as(&served, "worker", 0);
    expect(worker, WIRE_WELCOME);
    return worker;
}

static void push_other(int worker, int64_t batch, float value)
{
    say(worker, push_header(generation, batch), ones, OTHER * sizeof(*ones));
    expect_values_of(worker, OTHER, value, &values);
}

static void test_another_server_trains(void **state)
{
    (void)state;
    start_server(&served);
    int early = call_other();
    say(early, pull_header(), NULL, 0);
    assert_int_equal(expect(early, WIRE_STALE).generation, 0); /* it has no shard yet */
    int zero = accept_server(0);
    say_facts(zero);
    say_restore(zero);
    expect(zero, WIRE_RESTORED);
    struct wire_header header = pull_header();
    header.generation = generation;
    say(early, header, NULL, 0);
    expect_values_of(early, OTHER, 0, &values);
    assert_int_equal(values.step, 10);
    assert_int_equal(values.stock, 0);
    push_other(early, 4, 0);
    push_other(early, 5, -1);
    header.generation++;
    say(early, header, NULL, 0);
    assert_int_equal(expect(early, WIRE_STALE).generation, generation);
    say(zero, word(WIRE_END, WIRE_NONE), NULL, 0);
    header.generation = generation;
    for (values.over = 0; values.over == 0;) {
        say(early, header, NULL, 0);
        expect_values_of(early, OTHER, -1, &values);
    }
    close(early);
    assert_int_equal(join_server(&served), OK);
    close(zero);
}

static void test_another_server_is_cut(void **state)
{
    struct index_range got;
    float copy[OTHER];
    (void)state;
    int zero = begin_other(), worker = call_other(), second = call_other();
    push_other(worker, 0, -1);
    say(zero, word(WIRE_FREEZE, 3), NULL, 0);
    struct wire_header frozen = expect(zero, WIRE_FROZEN);
    assert_int_equal(frozen.batch, 3);
    assert_int_equal(frozen.stock, 2); /* 0 and 4 */
    memcpy(&got, frame_bytes, sizeof(got));
    assert_int_equal(got.end, 1);
    push_other(worker, 0, -1);
    say(worker, push_header(generation, 1), ones, OTHER * sizeof(*ones)); /* of the union */
    say(second, push_header(generation, 2), ones, OTHER * sizeof(*ones)); /* behind it */
    say_set(zero, WIRE_UNION, 2, (struct index_range){0, 3});             /* of an earlier cut */
    say_set(zero, WIRE_UNION, 3, (struct index_range){0, 2});
    expect_values_of(worker, OTHER, -2, &values);
    assert_int_equal(expect(zero, WIRE_COPIED).batch, 3);
    assert_int_equal(expect(zero, WIRE_COPY).bytes, sizeof(copy));
    memcpy(copy, frame_bytes, sizeof(copy));
    assert_true(copy[0] == -2 && copy[1] == -2);
    expect_values_of(second, OTHER, -3, &values);
    close(second);
    close(worker);
    close(zero);
}

/* Server 0 may have applied it, and nobody else would send it again if all workers are to stop. */
static void test_a_gradient_of_a_worker_that_left_meanwhile(void **state)
{
    float copy[OTHER];
    (void)state;
    int zero = begin_other(), worker = call_other(), second = call_other();
    say(zero, word(WIRE_FREEZE, 3), NULL, 0);
    expect(zero, WIRE_FROZEN);
    say(worker, push_header(generation, 1), ones, OTHER * sizeof(*ones));
    say(second, push_header(generation, 2), ones, OTHER * sizeof(*ones));
    clock_sleep_ms(60);
    close(worker);
    close(second);
    clock_sleep_ms(60);
    say_set(zero, WIRE_UNION, 3, (struct index_range){1, 2});
    expect(zero, WIRE_COPIED);
    assert_int_equal(expect(zero, WIRE_COPY).bytes, sizeof(copy));
    memcpy(copy, frame_bytes, sizeof(copy));
    assert_true(copy[0] == -1 && copy[1] == -1); /* of batch 1 alone */
    worker = call_other();
    push_other(worker, 2, -2); /* which is there already */
    close(worker);
    close(zero);
}

/* THAW, or the loss of server 0: training goes on. */
static void test_a_cut_that_is_off(void **state)
{
    (void)state;
    int zero = begin_other(), worker = call_other();
    for (int lost = 0; lost < 2; lost++) {
        say(zero, word(WIRE_FREEZE, 3), NULL, 0);
        expect(zero, WIRE_FROZEN);
        say(worker, push_header(generation, lost), ones, OTHER * sizeof(*ones));
        clock_sleep_ms(60);
        assert_int_equal(recv(worker, frame_bytes, 1, MSG_DONTWAIT), -1);
        if (lost)
            close(zero);
        else
            say(zero, word(WIRE_THAW, 3), NULL, 0);
        expect_values_of(worker, OTHER, (float)-lost - 1, &values);
    }
    zero = accept_server(generation); /* it comes again, with its shard */
    push_other(worker, 2, -3);
    close(zero);
    close(worker);
}

static void test_server_0_has_its_doubts(void **state)
{
    (void)state;
    start_server(&served);
    for (int i = 0; i < 2; i++) {
        int zero = accept_server(0);
        struct wire_header refused = {.type = WIRE_REFUSED, .detail = (uint16_t)-ERROR_TIMEOUT};
        say(zero, refused, "there is one already", 20);
        assert_int_equal(hear(zero).type, 0);
        close(zero);
        pass(1);
    }
    int zero = accept_server(0);
    struct wire_header refused = {.type = WIRE_REFUSED, .detail = (uint16_t)-ERROR_CONFLICT};
    say(zero, refused, "there is one already", 20);
    assert_ended(&served, ERROR_CONFLICT, "parameter server 0: there is one already");
    close(zero);
}

static void test_nonsense_of_server_0_ends_it(void **state)
{
    static const float short_state[1];
    static const char *const texts[] = {"RESTORE before FACTS",
                                        "RESTORE with 4 bytes of state; this shard has 8",
                                        "RESTORE with 9 ranges in 4 bytes",
                                        "PULL is not a frame that server 0 sends",
                                        "parameter server 0",
                                        "UNION with 2 ranges in 0 bytes"};
    for (int what = 0; what < 6; what++) {
        struct wire_header header = word(WIRE_RESTORE, WIRE_NONE);
        start_server(&served);
        int zero = accept_server(0);
        if (what > 0 && what != 4)
            say_facts(zero);
        if (what == 0)
            say(zero, header, NULL, 0);
        header.stock = what == 2 ? 9 : 0;
        if (what == 1 || what == 2)
            say(zero, header, short_state, sizeof(short_state));
        if (what == 3)
            say(zero, word(WIRE_PULL, WIRE_NONE), NULL, 0);
        if (what == 4)
            say(zero, (struct wire_header){.type = WIRE_FACTS}, "nonsense", 8);
        header.type = WIRE_UNION;
        header.stock = 2;
        if (what == 5)
            say(zero, header, NULL, 0);
        assert_ended(&served, ERROR_INPUT, texts[what]);
        close(zero);
        clear_other(state);
        prepare_other(state);
    }
}

/* It has nothing to save that server 0 would take. */
static void test_another_server_is_stopped(void **state)
{
    (void)state;
    start_server(&served);
    int zero = accept_server(0);
    atomic_store(&served.stop, true);
    assert_ended(&served, ERROR_CANCELLED, "parameter server 1 was stopped by SIGTERM");
    assert_int_equal(hear(zero).type, 0);
    close(zero);
}

/* Server 0 takes a cut first; one that is off is none. */
static void test_another_server_asks_before_it_stops(void **state)
{
    (void)state;
    int zero = begin_other(), worker = call_other();
    push_other(worker, 0, -1);
    atomic_store(&served.stop, true);
    assert_int_equal(expect(zero, WIRE_FREEZE).batch, WIRE_NONE);
    say(zero, word(WIRE_FREEZE, 4), NULL, 0);
    expect(zero, WIRE_FROZEN);
    say(zero, word(WIRE_THAW, 4), NULL, 0);
    clock_sleep_ms(60);
    assert_false(atomic_load(&served.ended));
    say(zero, word(WIRE_FREEZE, 5), NULL, 0);
    expect(zero, WIRE_FROZEN);
    clock_sleep_ms(60);
    assert_false(atomic_load(&served.ended));
    say_set(zero, WIRE_UNION, 5, (struct index_range){0, 1});
    expect(zero, WIRE_COPIED);
    expect(zero, WIRE_COPY);
    clock_sleep_ms(60);
    assert_false(atomic_load(&served.ended)); /* another may be late, and the cut off after all */
    say(zero, word(WIRE_STORED, 5), NULL, 0);
    assert_ended(&served, ERROR_CANCELLED, "parameter server 1 was stopped by SIGTERM");
    close(zero);
    close(worker);
}

/* One that does not answer has twenty seconds. */
static void test_another_server_does_not_wait_for_ever(void **state)
{
    (void)state;
    int zero = begin_other();
    atomic_store(&served.stop, true);
    expect(zero, WIRE_FREEZE);
    pass(19);
    clock_sleep_ms(60);
    assert_false(atomic_load(&served.ended));
    pass(2);
    assert_ended(&served, ERROR_CANCELLED, "parameter server 1 was stopped by SIGTERM");
    close(zero);
}

/* Server 0 is away for good: the logdir says that the last step is saved. */
static void save_the_end(void)
{
    struct engine engine;
    struct model *model;
    struct logdir *logdir;
    struct checkpoint_facts facts = small_facts();
    assert_ok(engine_open(&served.options.engine, &engine)); /* before there are threads */
    assert_ok(model_new(&facts.model, engine.kernel, &model));
    model_set_step(model, 1);
    start_server(&served);
    clock_sleep_ms(60);
    assert_ok(logdir_open(folder, 0, &logdir));
    assert_ok(save_checkpoint(logdir, model, &facts));
    pass(2);
    logdir_close(logdir);
    model_free(model);
    engine_close(&engine);
}

static void test_the_training_ended_while_server_0_was_away(void **state)
{
    (void)state;
    describe_server(&served, 1, 2, 1);
    served.options.zero_port = 1; /* nobody is there */
    save_the_end();
    assert_int_equal(join_server(&served), OK);
}

/* A proxy takes connections for it, and closes them. */
static void test_the_training_ended_and_a_proxy_hides_it(void **state)
{
    (void)state;
    served.options.coordinator.train_steps = 1;
    save_the_end();
    for (int i = 0; i < 3000 && !atomic_load(&served.ended); i++) {
        int zero = accept(zero_listener, NULL, NULL);
        if (zero >= 0)
            close(zero);
        clock_sleep_ms(10);
    }
    assert_true(atomic_load(&served.ended));
    assert_int_equal(join_server(&served), OK);
}

/* ---- synchronous --------------------------------------------------------- */

/* Server 1 keeps what comes until server 0 has made the step. */
static void test_another_server_makes_the_steps_of_server_0(void **state)
{
    (void)state;
    served.options.coordinator.aggregate = 2;
    int zero = begin_other(), worker = call_other();
    for (int64_t batch = 0; batch < 2; batch++) {
        say(worker, push_header(generation, batch), ones, OTHER * sizeof(*ones));
        assert_int_equal(expect(worker, WIRE_STORED).batch, batch);
    }
    struct wire_header header = pull_header();
    header.generation = generation;
    header.step = 10;
    say(worker, header, NULL, 0);
    expect_values_of(worker, OTHER, 0, &values); /* those of before */
    header.step = 11;
    say(worker, header, NULL, 0);
    expect_values_of(worker, OTHER, -1, &values);
    assert_int_equal(values.step, 11);
    say(worker, push_header(generation, 2), ones, OTHER * sizeof(*ones));
    expect(worker, WIRE_STORED);
    say(worker, push_header(generation, 3), ones, OTHER * sizeof(*ones));
    expect(worker, WIRE_STORED);
    say(worker, push_header(generation, 5), ones, OTHER * sizeof(*ones)); /* of the step behind */
    expect(worker, WIRE_STORED);
    struct wire_header skip = push_header(generation, 6);
    skip.type = WIRE_SKIP;
    say(worker, skip, NULL, 0);
    expect(worker, WIRE_STORED);
    skip.batch = 9;
    skip.step = 13;
    say(worker, skip, NULL, 0);
    expect_refused(worker, ERROR_INPUT, "batch 9 is not of the next step");
    close(zero);
}

static void test_another_server_in_step_is_cut(void **state)
{
    (void)state;
    served.options.coordinator.aggregate = 2;
    int zero = begin_other(), worker = call_other();
    for (int64_t batch = 0; batch < 2; batch++) {
        say(worker, push_header(generation, batch), ones, OTHER * sizeof(*ones));
        expect(worker, WIRE_STORED);
    }
    say(zero, word(WIRE_FREEZE, 1), NULL, 0);
    expect(zero, WIRE_FROZEN);
    say_set(zero, WIRE_UNION, 1, (struct index_range){0, 2});
    expect(zero, WIRE_COPIED); /* the step is server 0's, and made here too */
    expect(zero, WIRE_COPY);
    assert_true(((const float *)(const void *)frame_bytes)[0] == -1);
    close(worker);
    close(zero);
}

/* The last step has one batch, as the stream has no other: server 0 has made it. */
static void test_another_server_makes_a_shorter_step_of_server_0(void **state)
{
    (void)state;
    served.options.coordinator.aggregate = 2;
    int zero = begin_other(), worker = call_other();
    say(worker, push_header(generation, 0), ones, OTHER * sizeof(*ones));
    expect(worker, WIRE_STORED);
    struct wire_header header = pull_header();
    header.generation = generation;
    header.step = 10;
    say(worker, header, NULL, 0);
    expect_values_of(worker, OTHER, 0, &values); /* those of before */
    header.step = 11;
    say(worker, header, NULL, 0);
    expect_values_of(worker, OTHER, -1, &values);
    close(worker);
    close(zero);
}

static void test_another_server_is_cut_after_a_shorter_step(void **state)
{
    (void)state;
    served.options.coordinator.aggregate = 2;
    int zero = begin_other(), worker = call_other();
    say(worker, push_header(generation, 0), ones, OTHER * sizeof(*ones));
    expect(worker, WIRE_STORED);
    say(zero, word(WIRE_FREEZE, 1), NULL, 0);
    expect(zero, WIRE_FROZEN);
    say_set(zero, WIRE_UNION, 1, (struct index_range){0, 1});
    expect(zero, WIRE_COPIED);
    expect(zero, WIRE_COPY);
    assert_true(((const float *)(const void *)frame_bytes)[0] == -1);
    close(worker);
    close(zero);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, prepare, clear)
#define OTHER_TEST(name) cmocka_unit_test_setup_teardown(name, prepare_other, clear_other)

static const struct CMUnitTest tests[] = {
    TEST(test_the_other_server_is_waited_for),
    TEST(test_a_cut),
    TEST(test_a_cut_that_takes_too_long_is_off),
    TEST(test_a_cut_that_waits_for_a_slow_gradient),
    TEST(test_a_server_that_is_silent_at_each_cut),
    TEST(test_copies_of_another_size),
    TEST(test_another_server_asks_for_a_cut),
    TEST(test_another_server_asks_during_a_cut),
    TEST(test_another_server_leaves_without_a_cut),
    TEST(test_a_server_that_is_lost_before_its_copy),
    TEST(test_a_cut_before_the_last_batch_is_not_the_end),
    TEST(test_words_that_no_server_says),
    TEST(test_a_server_that_lost_its_connection_keeps_its_shard),
    TEST(test_a_server_that_comes_by_a_second_connection),
    TEST(test_a_second_process_of_one_index),
    TEST(test_a_server_without_its_shard_takes_all_back),
    TEST(test_an_end_is_forgotten_with_its_generation),
    TEST(test_a_server_that_is_lost_before_it_has_begun),
    TEST(test_the_end_of_all_servers),
    TEST(test_a_batch_that_not_all_servers_have),
    TEST(test_a_batch_that_all_servers_had_before),
    TEST(test_a_signal_ends_it_with_a_cut_of_all),
    TEST(test_a_signal_where_no_cut_is_to_be_had),
    OTHER_TEST(test_what_is_not_the_business_of_others),
    OTHER_TEST(test_another_server_trains),
    OTHER_TEST(test_another_server_is_cut),
    OTHER_TEST(test_a_gradient_of_a_worker_that_left_meanwhile),
    OTHER_TEST(test_a_cut_that_is_off),
    OTHER_TEST(test_server_0_has_its_doubts),
    OTHER_TEST(test_nonsense_of_server_0_ends_it),
    OTHER_TEST(test_another_server_is_stopped),
    OTHER_TEST(test_another_server_asks_before_it_stops),
    OTHER_TEST(test_another_server_does_not_wait_for_ever),
    OTHER_TEST(test_the_training_ended_while_server_0_was_away),
    OTHER_TEST(test_the_training_ended_and_a_proxy_hides_it),
    OTHER_TEST(test_another_server_makes_the_steps_of_server_0),
    OTHER_TEST(test_another_server_in_step_is_cut),
    OTHER_TEST(test_another_server_makes_a_shorter_step_of_server_0),
    OTHER_TEST(test_another_server_is_cut_after_a_shorter_step),
};

UNIT_MAIN(tests)

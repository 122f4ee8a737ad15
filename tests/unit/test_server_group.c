/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/server/coordinator_group: a server whose workers exchange gradients by themselves
 * (--exchange nccl), in the words that two workers say to it: from the first JOIN to the last
 * STATE. test_coordinator_group has groups that begin and end.
 */
#include "tests/unit/server_unit.h"

#include <netinet/tcp.h>

#include "trainer/wire/group.h"

#define LAST 3

int __real_fsync(int descriptor);
int __wrap_fsync(int descriptor);

static struct served served;
static int workers[2];
static _Atomic bool is_disk_busy, is_disk_broken;
static _Atomic int refused; /* by the disk */
static uint64_t generation;
static int64_t group;

int __wrap_fsync(int descriptor)
{
    while (atomic_load(&is_disk_busy))
        clock_sleep_ms(5);
    if (!atomic_load(&is_disk_broken))
        return __real_fsync(descriptor);
    atomic_fetch_add(&refused, 1);
    errno = EIO;
    return -1;
}

static int prepare(void **state)
{
    log_set_level((enum log_level)(LOG_ERROR + 1));
    make_folder(state);
    describe_server(&served, 0, 1, LAST);
    served.options.coordinator.is_grouped = true;
    served.options.coordinator.aggregate = 2;
    return 0;
}

static int clear(void **state)
{
    atomic_store(&is_disk_busy, false);
    atomic_store(&is_disk_broken, false);
    end_server(&served);
    return remove_folder(state);
}

/* ---- words --------------------------------------------------------------- */

/* `done`: the stream has no such batch; WIRE_NONE: nothing is known of that. */
static void say_join(int worker, int64_t done)
{
    struct wire_header header = {
        .type = WIRE_JOIN, .batch = WIRE_NONE, .done = done, .step = WIRE_NONE};
    say(worker, header, NULL, 0);
}

static struct wire_header expect_place(int worker, uint32_t rank, struct group_place *ret_place)
{
    struct wire_header header = expect(worker, WIRE_GROUP);
    memcpy(ret_place, frame_bytes, sizeof(*ret_place));
    assert_int_equal(ret_place->rank, rank);
    assert_int_equal(ret_place->ranks, 2);
    generation = header.generation;
    group = header.batch;
    return header;
}

/* The answer to a BEAT of `step`. */
static struct wire_header beat(size_t who, int64_t step, bool is_last)
{
    struct wire_header header = {.type = WIRE_BEAT,
                                 .generation = generation,
                                 .batch = group,
                                 .done = WIRE_NONE,
                                 .step = step,
                                 .over = is_last};
    say(workers[who], header, NULL, 0);
    return expect(workers[who], WIRE_NEWS);
}

static struct wire_header say_state(int64_t step, float value)
{
    const float state[PARAMETERS] = {value, value, value};
    struct wire_header header = {
        .type = WIRE_STATE, .generation = generation, .batch = group, .step = step};
    say(workers[0], header, state, sizeof(state));
    return expect(workers[0], WIRE_NEWS);
}

static bool wants_state(struct wire_header news)
{
    return (news.detail & WIRE_WANTS_STATE) != 0;
}

/* Until rank 0 is asked for its state. */
static void beat_until_wanted(int64_t step, bool is_last)
{
    for (int i = 0; i < 1000 && !wants_state(beat(0, step, is_last)); i++)
        clock_sleep_ms(5);
    assert_true(wants_state(beat(0, step, is_last)));
    assert_false(wants_state(beat(1, step, is_last)));
}

/* Two workers in their first group, which begins with the server's state. */
static void begin_with_end(int64_t end)
{
    char id[GROUP_ID_BYTES] = "an id";
    struct group_place place;
    start_server(&served);
    workers[0] = call_first(&served);
    workers[1] = call_next(&served, 1);
    for (size_t i = 0; i < 2; i++)
        say_join(workers[i], end);
    struct wire_header header = expect_place(workers[0], 0, &place);
    assert_int_equal(header.shared, 1);
    assert_int_equal(header.bytes, sizeof(place) + sizeof(ones));
    assert_int_equal(place.last, LAST);
    struct wire_header of_id = {.type = WIRE_ID, .generation = generation, .batch = 1};
    say(workers[0], of_id, id, sizeof(id));
    assert_int_equal(expect(workers[0], WIRE_NEWS).batch, 1);
    header = expect_place(workers[1], 1, &place);
    assert_int_equal(header.shared, 0);
    assert_int_equal(place.has_id, 1);
    assert_string_equal(place.id, id);
}

static void begin(void)
{
    begin_with_end(WIRE_NONE);
}

static void hang_up(void)
{
    close(workers[0]);
    close(workers[1]);
}

/* Of the newest checkpoint. */
static void assert_saved(int64_t step, int64_t batches, float value, bool ended)
{
    struct logdir *logdir;
    struct checkpoint *newest;
    struct model_layout layout;
    float all[PARAMETERS];
    assert_ok(model_layout_init(&layout, &served.model.shape, &served.model.optimizer));
    assert_ok(logdir_open_read(folder, &logdir));
    assert_ok(logdir_newest(logdir, &newest));
    assert_non_null(newest);
    assert_int_equal(checkpoint_step(newest), step);
    const struct checkpoint_facts *facts = checkpoint_get_facts(newest);
    assert_int_equal(index_set_end(&facts->done), batches);
    assert_int_equal(index_set_size(&facts->done), batches);
    assert_int_equal(facts->position.ended, ended);
    assert_ok(checkpoint_read_state(newest, &layout, all));
    assert_true(all[0] == value && all[2] == value);
    checkpoint_close(newest);
    logdir_close(logdir);
}

static void await_saved(int64_t step)
{
    uint64_t seen = 0;
    for (int i = 0; i < 1000 && !logdir_is_trained(folder, step, LOGDIR_LAST_STEP, &seen); i++)
        clock_sleep_ms(5);
}

/* ---- a training ---------------------------------------------------------- */

static void test_the_last_state_is_the_end(void **state)
{
    (void)state;
    begin();
    assert_false(wants_state(beat(0, 1, false)));
    assert_false(wants_state(beat(1, LAST, true)));
    beat_until_wanted(LAST, true);
    assert_true(beat(0, LAST, true).detail & WIRE_IS_SAVED); /* the beginning is */
    say_state(LAST, 5);
    for (int i = 0; i < 1000 && beat(1, LAST, true).over == 0; i++)
        clock_sleep_ms(5);
    assert_int_equal(beat(0, LAST, true).over, 1);
    int late = call_next(&served, 2); /* is told so at once */
    say_join(late, WIRE_NONE);
    assert_int_equal(expect(late, WIRE_NEWS).over, 1);
    close(late);
    hang_up();
    assert_int_equal(join_server(&served), OK);
    assert_saved(LAST, 2 * LAST, 5, false);
}

/* The five seconds for which a worker waited for others are none in which it was silent. */
static void test_who_waited_for_others_is_not_silent(void **state)
{
    char id[GROUP_ID_BYTES] = "an id";
    (void)state;
    start_server(&served);
    int worker = call_first(&served);
    say_join(worker, WIRE_NONE);
    clock_sleep_ms(60);
    pass(6);
    struct wire_header header = expect(worker, WIRE_GROUP);
    clock_sleep_ms(100);
    header = (struct wire_header){
        .type = WIRE_ID, .generation = header.generation, .batch = header.batch};
    say(worker, header, id, sizeof(id));
    assert_int_equal(expect(worker, WIRE_NEWS).batch, header.batch);
    close(worker);
}

/* A member of whose state, or to whom of its values, something arrives all the time is not silent,
 * however long the whole takes. */
static void test_a_state_that_takes_long(void **state)
{
    const float values[PARAMETERS] = {5, 5, 5};
    int on = 1;
    (void)state;
    begin();
    assert_int_equal(setsockopt(workers[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
    beat(0, 1, false);
    struct wire_header header = {.type = WIRE_STATE,
                                 .generation = generation,
                                 .batch = group,
                                 .step = 1,
                                 .bytes = sizeof(values)};
    wire_header_seal(&header);
    assert_int_equal(send(workers[0], &header, sizeof(header), MSG_NOSIGNAL), sizeof(header));
    for (size_t i = 0; i < PARAMETERS; i++) {
        beat(1, 1, false);
        pass(3);
        beat(1, 1, false);
        assert_int_equal(send(workers[0], values + i, sizeof(*values), MSG_NOSIGNAL),
                         sizeof(*values));
    }
    assert_int_equal(expect(workers[0], WIRE_NEWS).batch, group);
    hang_up();
    atomic_store(&served.stop, true);
    (void)join_server(&served);
    assert_saved(1, 2, 5, false);
}

static void test_values_that_take_long(void **state)
{
    const size_t features = 1000000;
    char id[GROUP_ID_BYTES] = "an id";
    struct wire_header header;
    int little = 65536;
    (void)state;
    served.model.shape.features = features;
    assert_ok(optimizer_init(&served.model.optimizer, "adam", 1));
    start_server(&served);
    int worker = call_first(&served);
    assert_int_equal(setsockopt(worker, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
    say_join(worker, WIRE_NONE);
    clock_sleep_ms(60);
    pass(6);
    assert_int_equal(recv(worker, &header, sizeof(header), MSG_WAITALL), sizeof(header));
    assert_int_equal(header.type, WIRE_GROUP);
    assert_true(header.bytes > 3 * features * sizeof(float));
    char *half = malloc(header.bytes / 2 + 1);
    assert_non_null(half);
    for (size_t i = 0; i < 2; i++) {
        size_t bytes = i == 0 ? header.bytes / 2 : header.bytes - header.bytes / 2;
        assert_int_equal(recv(worker, half, bytes, MSG_WAITALL), bytes);
        pass(3);
        clock_sleep_ms(60);
    }
    free(half);
    header = (struct wire_header){
        .type = WIRE_ID, .generation = header.generation, .batch = header.batch};
    say(worker, header, id, sizeof(id));
    assert_int_equal(expect(worker, WIRE_NEWS).batch, header.batch);
    close(worker);
}

static void test_the_stream_ends_before(void **state)
{
    (void)state;
    begin_with_end(3); /* a step and a half */
    beat_until_wanted(2, true);
    say_state(2, 7);
    for (int i = 0; i < 1000 && beat(1, 2, true).over == 0; i++)
        clock_sleep_ms(5);
    hang_up();
    assert_int_equal(join_server(&served), OK);
    assert_saved(2, 3, 7, true);
}

/* Its GPUs agree on the last batch before they begin. */
static void test_streams_that_end_at_different_times(void **state)
{
    (void)state;
    start_server(&served);
    workers[0] = call_first(&served);
    for (int i = 0; i < 2; i++) {
        say(workers[0], (struct wire_header){.type = WIRE_STREAM, .batch = 2}, NULL, 0);
        expect(workers[0], WIRE_WELCOME);
    }
    for (int64_t epochs = 1; epochs <= 3; epochs += 2) {
        int other = call_next(&served, 1);
        say(other, (struct wire_header){.type = WIRE_STREAM, .batch = epochs}, NULL, 0);
        expect_refused(other, ERROR_CONFLICT, epochs == 1 ? "ends earlier" : "ends later");
    }
    close(workers[0]);
}

static void test_a_checkpoint_from_time_to_time(void **state)
{
    (void)state;
    served.options.coordinator.save_ms = 2000;
    begin();
    assert_false(wants_state(beat(0, 1, false))); /* of the first step the beginning is saved */
    beat(1, 1, false);
    pass(3);
    beat_until_wanted(1, false);
    say_state(1, 4);
    hang_up();
    atomic_store(&served.stop, true);
    (void)join_server(&served);
    assert_saved(1, 2, 4, false);
}

/* The server is stopped: rank 0 has eight seconds to send what was made. */
static void test_a_signal(void **state)
{
    (void)state;
    begin();
    beat(1, 2, false);
    atomic_store(&served.stop, true);
    beat_until_wanted(2, false);
    say_state(2, 6);
    assert_ended(&served, ERROR_CANCELLED, "at step 2; training can go on from step 2");
    hang_up();
    assert_saved(2, 4, 6, false);
}

/* All are stopped while a checkpoint is saved: what rank 0 sends before it leaves is saved, too. */
static void test_a_state_that_comes_while_one_is_saved(void **state)
{
    (void)state;
    served.options.coordinator.save_ms = 2000;
    begin();
    beat(0, 1, false);
    pass(3);
    beat_until_wanted(1, false);
    atomic_store(&is_disk_busy, true);
    say_state(1, 4);
    atomic_store(&served.stop, true);
    say_state(2, 6);
    hang_up();
    clock_sleep_ms(60);
    atomic_store(&is_disk_busy, false);
    assert_ended(&served, ERROR_CANCELLED, "training can go on from step 2");
    assert_saved(2, 4, 6, false);
}

/* The disk refuses at first what rank 0 sent before it left. */
static void test_a_last_state_that_is_not_saved_at_once(void **state)
{
    (void)state;
    begin();
    beat(1, 2, false);
    atomic_store(&served.stop, true);
    beat_until_wanted(2, false);
    int before = atomic_load(&refused);
    atomic_store(&is_disk_broken, true);
    say_state(2, 6);
    hang_up();
    for (int i = 0; i < 1000 && atomic_load(&refused) == before; i++)
        clock_sleep_ms(5);
    atomic_store(&is_disk_broken, false);
    assert_ended(&served, ERROR_CANCELLED, "at step 2; training can go on from step 2");
    assert_saved(2, 4, 6, false);
}

/* Others begin where it ended. */
static void test_another_server_goes_on(void **state)
{
    struct group_place place;
    (void)state;
    test_a_signal(state);
    atomic_store(&served.stop, false);
    start_server(&served);
    workers[0] = call_next(&served, 0);
    workers[1] = call_next(&served, 1);
    for (size_t i = 0; i < 2; i++)
        say_join(workers[i], WIRE_NONE);
    struct wire_header header = expect_place(workers[0], 0, &place);
    assert_int_equal(header.step, 2);
    assert_int_equal(header.stock, 1); /* batches 0 to 3 */
    const float *values = (const float *)(const void *)(frame_bytes + header.bytes) - PARAMETERS;
    assert_true(values[0] == 6);
    hang_up();
}

static void say_stop(void)
{
    int evaluator = call_as(&served, "evaluator", 0);
    expect(evaluator, WIRE_WELCOME);
    say(evaluator, (struct wire_header){.type = WIRE_STOP}, NULL, 0);
    expect(evaluator, WIRE_WELCOME);
    close(evaluator);
}

/* The group is over; both have `step`, with which the next one ends. */
static void join_last_group(int64_t step)
{
    for (int i = 0; i < 1000 && beat(0, step, false).batch != 0; i++)
        clock_sleep_ms(5);
    for (size_t i = 0; i < 2; i++) {
        struct wire_header join = {.type = WIRE_JOIN,
                                   .generation = generation,
                                   .batch = WIRE_NONE,
                                   .done = WIRE_NONE,
                                   .step = step};
        say(workers[i], join, NULL, 0);
    }
    struct group_place place;
    expect_place(workers[0], 0, &place);
    assert_int_equal(place.last, step);
}

static void test_an_evaluator_ends_it(void **state)
{
    (void)state;
    begin();
    int evaluator = call_as(&served, "evaluator", 0);
    expect(evaluator, WIRE_WELCOME);
    say(evaluator, (struct wire_header){.type = WIRE_STOP}, NULL, 0);
    assert_int_equal(hear(evaluator).type, 0); /* nothing was learnt yet */
    close(evaluator);
    beat(0, 1, false);
    say_stop();
    join_last_group(1);
    hang_up();
}

/* The step with which it ends is saved already: it is saved again, as the end, for which the
 * evaluator waits. */
static void end_with_a_saved_step(bool is_refused)
{
    char id[GROUP_ID_BYTES] = "another";
    served.options.coordinator.save_ms = 2000;
    begin();
    beat(0, 1, false);
    beat(1, 1, false);
    pass(3);
    beat_until_wanted(1, false);
    say_state(1, 4);
    await_saved(1);
    assert_saved(1, 2, 4, false);
    say_stop();
    join_last_group(1);
    struct wire_header of_id = {.type = WIRE_ID, .generation = generation, .batch = group};
    say(workers[0], of_id, id, sizeof(id));
    expect(workers[0], WIRE_NEWS);
    expect(workers[1], WIRE_GROUP);
    beat_until_wanted(1, true);
    int before = atomic_load(&refused);
    atomic_store(&is_disk_broken, is_refused);
    say_state(1, 4);
    for (int i = 0; i < 1000 && is_refused && atomic_load(&refused) == before; i++)
        clock_sleep_ms(5);
    atomic_store(&is_disk_broken, false);
    for (int i = 0; i < 1000 && beat(0, 1, true).over == 0; i++)
        clock_sleep_ms(5);
    assert_int_equal(beat(0, 1, true).over, 1);
    assert_saved(1, 2, 4, true);
    hang_up();
}

static void test_an_evaluator_ends_it_with_a_saved_step(void **state)
{
    (void)state;
    end_with_a_saved_step(false);
}

/* What the disk refused at first is not the end that was saved. */
static void test_an_end_that_is_not_saved_at_once(void **state)
{
    (void)state;
    end_with_a_saved_step(true);
}

/* They were made between two words of a member; then another one was lost, and the last step is the
 * first of a group. */
static void test_steps_that_nobody_had_told(void **state)
{
    char id[GROUP_ID_BYTES] = "another";
    (void)state;
    begin();
    assert_int_equal(shutdown(workers[1], SHUT_RDWR), 0);
    struct wire_header header = {.type = WIRE_JOIN,
                                 .generation = generation,
                                 .batch = WIRE_NONE,
                                 .done = WIRE_NONE,
                                 .step = LAST};
    say(workers[0], header, NULL, 0);
    header = expect(workers[0], WIRE_GROUP);
    assert_int_equal(header.step, LAST);
    group = header.batch;
    header = (struct wire_header){.type = WIRE_ID, .generation = generation, .batch = group};
    say(workers[0], header, id, sizeof(id));
    expect(workers[0], WIRE_NEWS);
    for (int i = 0; i < 1000 && !wants_state(beat(0, LAST, true)); i++)
        clock_sleep_ms(5);
    say_state(LAST, 5);
    for (int i = 0; i < 1000 && beat(0, LAST, true).over == 0; i++)
        clock_sleep_ms(5);
    assert_saved(LAST, 2 * LAST, 5, false);
    hang_up();
}

/* ---- words that cannot be ------------------------------------------------- */

static void test_nonsense_is_refused(void **state)
{
    (void)state;
    begin();
    int other = call_next(&served, 2);
    say(other, pull_header(), NULL, 0);
    expect_refused(other, ERROR_INPUT, "PULL is nothing to say here");
    other = call_next(&served, 2);
    say(other, (struct wire_header){.type = WIRE_ID, .batch = 1}, "short", 5);
    expect_refused(other, ERROR_INPUT, "ID of 5 bytes, not 128");
    other = call_next(&served, 2);
    struct wire_header large = {.type = WIRE_STATE, .bytes = sizeof(ones) + 1};
    wire_header_seal(&large);
    assert_int_equal(send(other, &large, sizeof(large), MSG_NOSIGNAL), sizeof(large));
    assert_int_equal(hear(other).type, 0);
    close(other);
    other = call_next(&served, 2);
    struct wire_header join = {.type = WIRE_JOIN,
                               .generation = generation,
                               .batch = WIRE_NONE,
                               .done = WIRE_NONE,
                               .step = LAST + 1};
    say(other, join, NULL, 0);
    expect_refused(other, ERROR_INPUT, "JOIN of step 4 in a training of 3");
    assert_int_equal(say_state(0, 1).batch, 1); /* of now, and nothing new: not taken */
    struct wire_header header = {
        .type = WIRE_BEAT, .generation = generation, .batch = 1, .step = LAST + 1};
    say(workers[1], header, NULL, 0);
    expect_refused(workers[1], ERROR_INPUT, "BEAT of step 4 in a group of steps 0 to 3");
    close(workers[0]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, prepare, clear)

static const struct CMUnitTest tests[] = {
    TEST(test_the_last_state_is_the_end),
    TEST(test_who_waited_for_others_is_not_silent),
    TEST(test_a_state_that_takes_long),
    TEST(test_values_that_take_long),
    TEST(test_the_stream_ends_before),
    TEST(test_streams_that_end_at_different_times),
    TEST(test_a_checkpoint_from_time_to_time),
    TEST(test_a_signal),
    TEST(test_a_state_that_comes_while_one_is_saved),
    TEST(test_a_last_state_that_is_not_saved_at_once),
    TEST(test_another_server_goes_on),
    TEST(test_an_evaluator_ends_it),
    TEST(test_an_evaluator_ends_it_with_a_saved_step),
    TEST(test_an_end_that_is_not_saved_at_once),
    TEST(test_steps_that_nobody_had_told),
    TEST(test_nonsense_is_refused),
};

UNIT_MAIN(tests)

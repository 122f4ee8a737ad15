/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/server/server_worker: one parameter server, what workers and an evaluator ask of
 * it, and what they must not; so of server, server_status and coordinator_work, too.
 */
#include "tests/unit/server_unit.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include "trainer/server/status_port.h"
#include "trainer/wire/runs.h"
#include "trainer/wire/shared_memory.h"

#define MANY 100000            /* steps: it does not end by itself */
#define LARGE_FEATURES 1000000 /* 4 MB of parameters */

static struct served served;
static uint64_t files_limit; /* of open files; 0: the system's */

uint64_t __real_machine_raise_files(void);
uint64_t __wrap_machine_raise_files(void);

uint64_t __wrap_machine_raise_files(void)
{
    return files_limit ? files_limit : __real_machine_raise_files();
}

static _Atomic int unwatched; /* how many connections cannot be watched, from now on */

int __real_epoll_ctl(int epoll, int operation, int descriptor, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int operation, int descriptor, struct epoll_event *event);

int __wrap_epoll_ctl(int epoll, int operation, int descriptor, struct epoll_event *event)
{
    if (operation == EPOLL_CTL_DEL || unwatched == 0 || unwatched-- == 0)
        return __real_epoll_ctl(epoll, operation, descriptor, event);
    errno = ENOMEM;
    return -1;
}

static int prepare(void **state)
{
    log_set_level((enum log_level)(LOG_ERROR + 1));
    make_folder(state);
    describe_server(&served, 0, 1, MANY);
    files_limit = 0;
    unwatched = 0;
    return 0;
}

static int clear(void **state)
{
    end_server(&served);
    return remove_folder(state);
}

/* Starts the server and a training; the worker that has said of what. */
static int begin(void)
{
    start_server(&served);
    return call_first(&served);
}

static struct wire_header values;

/* Asks for work; the range that it gets with parameters of this value. */
static struct index_range pull(int worker, float value)
{
    say(worker, pull_header(), NULL, 0);
    return expect_values(worker, value, &values);
}

static void say_push(int worker, int64_t batch)
{
    say(worker, push_header(values.generation, batch), ones, sizeof(ones));
}

static struct index_range push(int worker, int64_t batch, float value)
{
    say_push(worker, batch);
    return expect_values(worker, value, &values);
}

static void assert_range(struct index_range range, int64_t first, int64_t end)
{
    assert_int_equal(range.first, first);
    assert_int_equal(range.end, end);
}

/* The newest checkpoint of the folder; -1: there is none. */
static int64_t saved_step(bool *ret_ended)
{
    struct logdir *logdir;
    struct checkpoint *newest;
    int64_t step = -1;
    assert_ok(logdir_open_read(folder, &logdir));
    assert_ok(logdir_newest(logdir, &newest));
    if (newest) {
        step = checkpoint_step(newest);
        *ret_ended = checkpoint_get_facts(newest)->position.ended;
    }
    checkpoint_close(newest);
    logdir_close(logdir);
    return step;
}

/* ---- HTTP ---------------------------------------------------------------- */

/* The answer with its head, until the server closes. */
static const char *ask_http(const char *path)
{
    static char answer[16384];
    char request[200];
    size_t length = 0;
    ssize_t got;
    int caller = call_port(served.port);
    int bytes = snprintf(request, sizeof(request),
                         "GET %s HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n", path);
    assert_int_equal(send(caller, request, (size_t)bytes, MSG_NOSIGNAL), bytes);
    while ((got = recv(caller, answer + length, sizeof(answer) - 1 - length, 0)) > 0)
        length += (size_t)got;
    answer[length] = '\0';
    close(caller);
    return answer;
}

static void assert_http(const char *path, const char *text)
{
    const char *answer = ask_http(path);
    if (!strstr(answer, text))
        fail_msg("%s answers\n%s\nwithout %s", path, answer, text);
}

/* Once more until it is so: it is published from time to time. */
static void await_http(const char *path, const char *text)
{
    for (int i = 0; i < 1000 && !strstr(ask_http(path), text); i++)
        clock_sleep_ms(20);
    assert_http(path, text);
}

/* ---- a training ---------------------------------------------------------- */

static void test_from_the_first_word_to_the_last(void **state)
{
    bool ended = true;
    (void)state;
    describe_server(&served, 0, 1, 3);
    start_server(&served);
    int first = call_as(&served, "worker", 0);
    expect(first, WIRE_PROPOSE);
    int second = call_as(&served, "chief", 0); /* waits for what the first one will say */
    propose(&served, first);
    expect(first, WIRE_FACTS);
    expect(second, WIRE_FACTS);
    assert_range(pull(first, 0), 0, 1);
    assert_range(pull(second, 0), 1, 2);
    assert_range(push(first, 0, -1), 2, 3);
    assert_range(push(second, 1, -2), 0, 0); /* all that is left is somebody's */
    assert_range(push(first, 2, -3), 0, 0);
    assert_int_equal(values.step, 3);
    for (int i = 0; i < 2; i++) {
        assert_range(pull(i ? second : first, -3), 0, 0);
        assert_int_equal(values.over, 1);
    }
    close(first);
    close(second);
    assert_int_equal(join_server(&served), OK);
    assert_int_equal(saved_step(&ended), 3);
    assert_false(ended); /* the steps are, and the stream goes on */
}

/* A worker that knows that the training's only step is done. */
static int begin_and_end(void)
{
    describe_server(&served, 0, 1, 1);
    int worker = begin();
    pull(worker, 0);
    push(worker, 0, -1);
    pull(worker, -1);
    assert_int_equal(values.over, 1);
    return worker;
}

static void test_workers_have_ten_seconds_to_fetch_the_last_values(void **state)
{
    (void)state;
    int worker = begin_and_end();
    push(worker, 7, -1); /* applied no more */
    assert_int_equal(values.over, 1);
    clock_sleep_ms(60);
    assert_false(atomic_load(&served.ended));
    pass(11);
    assert_int_equal(join_server(&served), OK);
    close(worker);
}

/* It is no training that was interrupted. */
static void test_a_signal_after_the_end(void **state)
{
    bool ended;
    (void)state;
    int worker = begin_and_end();
    atomic_store(&served.stop, true);
    assert_int_equal(join_server(&served), OK);
    assert_int_equal(saved_step(&ended), 1);
    close(worker);
}

static void test_who_comes_to_a_folder_that_is_trained(void **state)
{
    (void)state;
    test_workers_have_ten_seconds_to_fetch_the_last_values(state);
    atomic_store(&skew_ns, 0);
    start_server(&served);
    assert_int_equal(join_server(&served), OK); /* nobody is there */
}

/* The folder is not that of before: its disk is not mounted. */
static void test_a_checkpoint_that_a_worker_knows_is_not_there(void **state)
{
    (void)state;
    struct hello hello = hello_of(&served, "worker", 3);
    hello.was_saved = true;
    start_server(&served);
    int first = call_as(&served, "worker", 0); /* would describe a training */
    expect(first, WIRE_PROPOSE);
    int other = call_with(&served, &hello);
    assert_int_equal(hear(other).type, 0); /* it may come back */
    assert_ended(&served, ERROR_CONFLICT, " has no checkpoint, but worker 3 (127.0.0.1:");
    close(first);
    close(other);
}

static void test_a_batch_counts_once(void **state)
{
    (void)state;
    int worker = begin();
    struct index_range range = pull(worker, 0);
    assert_range(range, 0, 64);
    push(worker, 5, -1);
    push(worker, 5, -1);
    push(worker, 4, -2);
    struct wire_header skip = push_header(values.generation, 6);
    skip.type = WIRE_SKIP;
    say(worker, skip, NULL, 0);
    expect_values(worker, -2, &values);
    assert_int_equal(values.step, 2); /* a batch without rows is no step */
    push(worker, 6, -2);
    close(worker);
}

static void test_how_many_batches_are_granted(void **state)
{
    (void)state;
    int worker = begin();
    struct wire_header header = pull_header();
    pull(worker, 0);
    header.stock = 32;
    say(worker, header, NULL, 0);
    assert_range(expect_values(worker, 0, &values), 64, 96);
    header.stock = 33; /* is enough */
    say(worker, header, NULL, 0);
    assert_range(expect_values(worker, 0, &values), 0, 0);
    int next = call_next(&served, 1);
    assert_range(pull(next, 0), 96, 160);
    close(worker); /* what it held is granted first */
    do {
        struct index_range range = pull(next, 0);
        if (range.first < 96)
            break;
    } while (true);
    close(next);
}

static void test_towards_the_end_work_is_shared(void **state)
{
    (void)state;
    describe_server(&served, 0, 1, 41);
    int first = begin(), second = call_next(&served, 1);
    assert_range(pull(first, 0), 0, 11);   /* a half of its half, and one */
    assert_range(pull(second, 0), 11, 19); /* the same of what is left */
    close(first);
    close(second);
}

static void test_another_generation_is_stale(void **state)
{
    (void)state;
    int worker = begin();
    pull(worker, 0);
    say(worker, push_header(values.generation + 1, 0), ones, sizeof(ones));
    assert_int_equal(expect(worker, WIRE_STALE).generation, values.generation);
    struct wire_header any = pull_header();
    any.generation = values.generation + 1;
    say(worker, any, NULL, 0);
    expect_values(worker, 0, &values);
    close(worker);
}

static void test_the_stream_ends(void **state)
{
    bool ended = false;
    (void)state;
    int worker = begin();
    pull(worker, 0);
    push(worker, 0, -1);
    struct wire_header none = pull_header();
    none.batch = 2;
    say(worker, none, NULL, 0);
    assert_range(expect_values(worker, -1, &values), 1, 2);
    push(worker, 1, -2);
    pull(worker, -2);
    assert_int_equal(values.over, 1);
    close(worker);
    assert_int_equal(join_server(&served), OK);
    assert_int_equal(saved_step(&ended), 2);
    assert_true(ended);
}

/* As with more epochs: a process that waits for server 0 would else find that it is over. */
static void test_a_training_that_goes_on_after_its_end_says_so(void **state)
{
    bool ended = true;
    test_the_stream_ends(state);
    start_server(&served);
    int worker = call_next(&served, 0);
    assert_range(pull(worker, -2), 2, 66);
    assert_int_equal(saved_step(&ended), 2);
    assert_true(ended); /* nothing was learnt so far */
    push(worker, 2, -3);
    for (int i = 0; i < 1000 && ended; i++) {
        assert_int_equal(saved_step(&ended), 2);
        clock_sleep_ms(5);
    }
    assert_false(ended);
    close(worker);
}

static void test_what_is_given_back_at_the_end_is_shared(void **state)
{
    (void)state;
    describe_server(&served, 0, 1, 2);
    int worker = begin();
    assert_range(pull(worker, 0), 0, 2);
    int other = call_next(&served, 1);
    say(other, pull_header(), NULL, 0); /* waits */
    clock_sleep_ms(60);
    struct wire_header header = pull_header();
    header.batch = 5;
    say(worker, header, NULL, 0);
    assert_range(expect_values(worker, 0, &values), 0, 1);
    assert_range(expect_values(other, 0, &values), 1, 2);
    close(worker);
    close(other);
}

static void test_a_stream_without_batches(void **state)
{
    bool ended = false;
    (void)state;
    int worker = begin();
    struct wire_header none = pull_header();
    none.batch = 0;
    say(worker, none, NULL, 0);
    assert_range(expect_values(worker, 0, &values), 0, 0);
    assert_int_equal(values.over, 1);
    close(worker);
    assert_int_equal(join_server(&served), OK);
    assert_int_equal(saved_step(&ended), 0);
    assert_true(ended);
}

static void say_stream(int worker, int64_t epochs)
{
    say(worker, (struct wire_header){.type = WIRE_STREAM, .batch = epochs}, NULL, 0);
}

/* A worker of a shorter stream would end the training of all. */
static void test_streams_that_end_at_different_times(void **state)
{
    (void)state;
    int first = begin(), second = call_next(&served, 1);
    say_stream(first, 2);
    expect(first, WIRE_WELCOME);
    say_stream(second, INT64_MAX); /* it was raised, or is another one */
    expect(second, WIRE_WELCOME);
    say_stream(first, 2); /* at its end */
    expect_refused(first, ERROR_CONFLICT, "its stream ends earlier than that of the workers");
    say_stream(second, 0);
    expect_refused(second, ERROR_INPUT, "STREAM of 0 epochs");
}

/* ---- workers that are slow, silent or gone ------------------------------- */

static void test_a_silent_workers_batches_are_granted_to_others(void **state)
{
    (void)state;
    describe_server(&served, 0, 1, 1);
    int silent = begin();
    assert_range(pull(silent, 0), 0, 1);
    int other = call_next(&served, 1);
    say(other, pull_header(), NULL, 0);
    await_http("/status", "\"waits\":true");
    pass(4);
    clock_sleep_ms(60);
    assert_int_equal(recv(other, frame_bytes, 1, MSG_DONTWAIT), -1);
    pass(2);
    assert_range(expect_values(other, 0, &values), 0, 1);
    push(silent, 0, -1); /* whoever is first counts */
    push(other, 0, -1);
    close(silent);
    close(other);
}

static bool has_heard(int worker)
{
    return recv(worker, frame_bytes, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
}

/* The time for which a worker itself has waited is none in which it was silent. */
static void test_a_worker_that_waited_keeps_its_batches(void **state)
{
    (void)state;
    describe_server(&served, 0, 1, 1);
    int silent = begin();
    assert_range(pull(silent, 0), 0, 1);
    int others[] = {call_next(&served, 1), call_next(&served, 2)};
    for (size_t i = 0; i < 2; i++)
        say(others[i], pull_header(), NULL, 0);
    clock_sleep_ms(60);
    pass(6);
    for (int i = 0; i < 1000 && !has_heard(others[0]) && !has_heard(others[1]); i++)
        clock_sleep_ms(5);
    clock_sleep_ms(100);
    assert_int_equal(has_heard(others[0]) + has_heard(others[1]), 1);
    close(silent);
    for (size_t i = 0; i < 2; i++)
        close(others[i]);
}

static void test_a_lost_workers_batches_are_granted_to_others(void **state)
{
    (void)state;
    describe_server(&served, 0, 1, 1);
    int lost = begin();
    assert_range(pull(lost, 0), 0, 1);
    int other = call_next(&served, 1);
    say(other, pull_header(), NULL, 0);
    close(lost);
    assert_range(expect_values(other, 0, &values), 0, 1);
    close(other);
}

/* Where one that waits is lost, too. */
static void test_who_waits_may_go(void **state)
{
    (void)state;
    describe_server(&served, 0, 1, 1);
    int first = begin();
    assert_range(pull(first, 0), 0, 1);
    int waits = call_next(&served, 1);
    say(waits, pull_header(), NULL, 0);
    clock_sleep_ms(30);
    close(waits);
    push(first, 0, -1);
    pull(first, -1);
    close(first);
    assert_int_equal(join_server(&served), OK);
}

static void test_another_worker_is_asked_what_is_trained(void **state)
{
    (void)state;
    start_server(&served);
    int silent = call_as(&served, "worker", 0);
    expect(silent, WIRE_PROPOSE);
    struct pollfd others[2] = {{.fd = call_as(&served, "worker", 1), .events = POLLIN},
                               {.fd = call_as(&served, "worker", 2), .events = POLLIN}};
    clock_sleep_ms(300); /* it hears them first: who is silent for so long is cut off */
    int ready = 0;
    for (; ready == 0; ready = poll(others, 2, 1000))
        pass(6);
    assert_true(ready > 0);
    int asked = others[others[0].revents ? 0 : 1].fd, waits = others[others[0].revents ? 1 : 0].fd;
    expect(asked, WIRE_PROPOSE);
    close(asked); /* and goes: the next one is asked at once */
    expect(waits, WIRE_PROPOSE);
    propose(&served, waits);
    expect(waits, WIRE_FACTS);
    propose(&served, silent); /* is told what holds */
    expect(silent, WIRE_FACTS);
    close(waits);
    close(silent);
}

static void test_values_too_old(void **state)
{
    (void)state;
    served.options.staleness = 1;
    int worker = begin();
    pull(worker, 0);
    uint64_t generation = values.generation;
    for (int64_t batch = 0; batch < 2; batch++)
        push(worker, batch, (float)-batch - 1);
    struct wire_header late = push_header(generation, 2);
    say(worker, late, ones, sizeof(ones)); /* of step 0, two behind */
    struct wire_header again = expect(worker, WIRE_AGAIN);
    assert_int_equal(again.step, 2);
    assert_int_equal(again.bytes, sizeof(ones));
    assert_true(((const float *)(const void *)frame_bytes)[0] == -2);
    late.step = 1;
    say(worker, late, ones, sizeof(ones));
    expect_values(worker, -3, &values);
    late.batch = 3;
    late.step = INT64_MIN; /* no number is so far behind that it would be none */
    say(worker, late, ones, sizeof(ones));
    expect(worker, WIRE_AGAIN);
    late.batch = 1; /* applied already: it is told the values of now */
    late.step = 0;
    say(worker, late, ones, sizeof(ones));
    expect_values(worker, -3, &values);
    close(worker);
}

/* ---- synchronous --------------------------------------------------------- */

/* `done`: what the worker has pushed before, and was answered to. */
static void say_gradient(int worker, int64_t batch, float value, int64_t done)
{
    const float gradient[PARAMETERS] = {value, value, value};
    struct wire_header header = push_header(values.generation, batch);
    header.done = done;
    say(worker, header, gradient, sizeof(gradient));
}

static void test_a_step_in_common(void **state)
{
    (void)state;
    describe_server(&served, 0, 1, 2);
    served.options.coordinator.aggregate = 2;
    int first = begin(), second = call_next(&served, 1);
    assert_range(pull(first, 0), 0, 1);
    assert_range(pull(second, 0), 1, 2);
    say_gradient(second, 1, 4, WIRE_NONE);
    say_gradient(first, 0, 2, WIRE_NONE);
    assert_range(expect_values(first, -3, &values), 2, 3);        /* its rank of the step */
    assert_range(expect_values(second, -3, &values), 3, 4);       /* and the other's */
    await_http("/status", "\"pushes\":2,\"repeated_pushes\":0,"); /* who waited did not repeat */
    say_gradient(first, 0, 2, WIRE_NONE);                         /* once more changes nothing */
    expect_values(first, -3, &values);
    say_gradient(first, 2, 1, WIRE_NONE);
    pass(1);
    assert_range(expect_values(first, -3, &values), 3, 4); /* what the second is slow with */
    say_gradient(first, 3, 1, 2);
    expect_values(first, -4, &values);
    say_gradient(second, 3, 77, WIRE_NONE); /* the first to come counted */
    expect_values(second, -4, &values);
    await_http("/status", "\"pushes\":4,\"repeated_pushes\":"); /* which it counts, too */
    for (int i = 0; i < 2; i++) {
        pull(i == 0 ? first : second, -4);
        assert_int_equal(values.over, 1);
    }
    close(first);
    close(second);
    assert_int_equal(join_server(&served), OK);
}

/* The last step of a stream has what is left. */
static void test_a_step_that_the_stream_ends(void **state)
{
    (void)state;
    served.options.coordinator.aggregate = 2;
    int worker = begin();
    assert_range(pull(worker, 0), 0, 1);
    struct wire_header none = pull_header();
    none.batch = 1;
    say(worker, none, NULL, 0);
    assert_range(expect_values(worker, 0, &values), 0, 1);
    say_gradient(worker, 0, 2, WIRE_NONE);
    expect_values(worker, -2, &values);
    pull(worker, -2);
    assert_int_equal(values.over, 1);
    close(worker);
    assert_int_equal(join_server(&served), OK);
}

/* Its gradients are there, and reported as such, before the stream's end is known; the step before
 * it is the one that is saved. */
static void test_a_last_step_is_not_over_before_it_is_made(void **state)
{
    bool ended = false;
    (void)state;
    served.options.coordinator.aggregate = 2;
    int worker = begin();
    assert_range(pull(worker, 0), 0, 1);
    say_gradient(worker, 0, 2, WIRE_NONE);
    assert_range(expect_values(worker, 0, &values), 1, 2);
    await_http("/status", "\"saved_step\":0,");
    struct wire_header none = pull_header();
    none.generation = values.generation;
    none.batch = 1;
    none.done = 0;
    say(worker, none, NULL, 0);
    expect_values(worker, -2, &values);
    assert_int_equal(values.over, 1);
    close(worker);
    assert_int_equal(join_server(&served), OK);
    assert_int_equal(saved_step(&ended), 1);
    assert_true(ended);
}

static void test_a_batch_that_is_not_of_the_next_step(void **state)
{
    (void)state;
    served.options.coordinator.aggregate = 2;
    int worker = begin();
    pull(worker, 0);
    say_gradient(worker, 2, 1, WIRE_NONE);
    expect_refused(worker, ERROR_INPUT, "batch 2 is not of the next step, whose first is 0");
}

/* ---- an evaluator ends it early ------------------------------------------ */

static void test_an_evaluator_ends_it_with_what_is_granted(void **state)
{
    bool ended = false;
    (void)state;
    describe_server(&served, 0, 1, 5);
    start_server(&served);
    int evaluator = call_as(&served, "evaluator", 0);
    expect(evaluator, WIRE_WELCOME);
    say(evaluator, (struct wire_header){.type = WIRE_STOP}, NULL, 0);
    assert_int_equal(hear(evaluator).type, 0); /* not yet */
    close(evaluator);
    int worker = call_first(&served);
    assert_range(pull(worker, 0), 0, 3);
    evaluator = call_as(&served, "evaluator", 0);
    expect(evaluator, WIRE_WELCOME);
    for (int i = 0; i < 2; i++) { /* twice is once */
        say(evaluator, (struct wire_header){.type = WIRE_STOP}, NULL, 0);
        expect(evaluator, WIRE_WELCOME);
    }
    for (int64_t batch = 0; batch < 3; batch++)
        assert_range(push(worker, batch, (float)-batch - 1), 0, 0);
    pull(worker, -3);
    assert_int_equal(values.over, 1);
    say(evaluator, (struct wire_header){.type = WIRE_STOP}, NULL, 0);
    expect(evaluator, WIRE_WELCOME); /* it is over anyway */
    close(evaluator);
    close(worker);
    assert_int_equal(join_server(&served), OK);
    assert_int_equal(saved_step(&ended), 3);
    assert_true(ended);
}

static void test_an_evaluator_ends_it_with_the_step_of_now(void **state)
{
    (void)state;
    served.options.coordinator.aggregate = 2;
    int worker = begin();
    assert_range(pull(worker, 0), 0, 1);
    int evaluator = call_as(&served, "evaluator", 0);
    expect(evaluator, WIRE_WELCOME);
    say(evaluator, (struct wire_header){.type = WIRE_STOP}, NULL, 0);
    expect(evaluator, WIRE_WELCOME);
    say_gradient(worker, 0, 1, WIRE_NONE);
    assert_range(expect_values(worker, 0, &values), 1, 2);
    say_gradient(worker, 1, 1, 0);
    assert_range(expect_values(worker, -1, &values), 0, 0);
    pull(worker, -1);
    assert_int_equal(values.over, 1);
    close(worker);
    close(evaluator);
    assert_int_equal(join_server(&served), OK);
}

/* ---- who is not let in --------------------------------------------------- */

static void test_options_must_be_the_same(void **state)
{
    (void)state;
    start_server(&served);
    for (int what = 0; what < 10; what++) {
        static const char *const texts[] = {
            "its steps are of 2 batches, this server's of 0",
            "its --train-steps is 99, this server's 100000",
            "its --staleness is 4, this server's -1",
            "its --exchange is nccl, this server's servers",
            "its --ps-strategy is round_robin, this server's bytes",
            "its --bad-rows is skip, this server's fail",
            "this is parameter server 0 of 1, and it was taken for 1 of 1",
            "this is parameter server 0 of 1, and it was taken for 0 of 2",
            "there is no parameter server 1 among 1",
            "there is no parameter server 0 among 1"};
        struct hello hello = hello_of(&served, what < 8 ? "worker" : "ps", what == 8);
        hello.aggregate = what == 0 ? 2 : hello.aggregate;
        hello.train_steps = what == 1 ? 99 : hello.train_steps;
        hello.staleness = what == 2 ? 4 : hello.staleness;
        hello.is_grouped = what == 3;
        hello.round_robin = what == 4;
        hello.bad_rows = what == 5 ? BAD_ROWS_SKIP : BAD_ROWS_FAIL;
        hello.server = what == 6;
        hello.servers = what == 7 ? 2 : 1;
        expect_refused(call_with(&served, &hello), ERROR_CONFLICT, texts[what]);
    }
    struct hello endless = hello_of(&served, "worker", 0); /* which knows of no last step */
    endless.train_steps = 0;
    int worker = call_with(&served, &endless);
    expect(worker, WIRE_PROPOSE);
    close(worker);
    struct hello evaluator = hello_of(&served, "evaluator", 0); /* which knows no options */
    evaluator.aggregate = 7;
    evaluator.train_steps = 0;
    int caller = call_with(&served, &evaluator);
    expect(caller, WIRE_WELCOME);
    close(caller);
}

static _Atomic int said; /* lines that hold said_text */
static const char *said_text;

static void count_said(int level, const char *message, void *context)
{
    (void)level, (void)context;
    if (strstr(message, said_text))
        atomic_fetch_add(&said, 1);
}

static void await_said(int lines)
{
    for (int i = 0; i < 1000 && atomic_load(&said) < lines; i++)
        clock_sleep_ms(5);
    assert_int_equal(atomic_load(&said), lines);
}

static void refuse(const char *why)
{
    int worker = call_next(&served, 3);
    say(worker, (struct wire_header){.type = WIRE_REFUSED}, why, strlen(why));
    close(worker);
}

/* Once a minute, with the last reason, until one trains. */
static void test_it_says_why_workers_leave(void **state)
{
    (void)state;
    start_server(&served);
    close(call_first(&served));
    log_set_level(LOG_WARNING);
    said_text = "takes no part: it has another size";
    atomic_store(&said, 0);
    log_set_sink(count_said, NULL);
    refuse("it has another seed");
    refuse("it has another size");
    for (int lines = 1; lines < 4; lines++) { /* at once, and with what is waited for */
        await_said(lines);
        clock_sleep_ms(60);
        pass(lines == 1 ? 4 : 61);
    }
    await_said(4);
    int worker = call_next(&served, 0);
    say(worker, (struct wire_header){.type = WIRE_STREAM, .batch = 1}, NULL, 0);
    expect(worker, WIRE_WELCOME);
    close(worker);
    clock_sleep_ms(60);
    said_text = "waiting for a worker";
    atomic_store(&said, 0);
    pass(4);
    await_said(1);
    log_set_sink(NULL, NULL);
}

static void test_another_model_is_not_proposed(void **state)
{
    (void)state;
    start_server(&served);
    struct served other = served;
    int worker = call_as(&served, "worker", 0);
    expect(worker, WIRE_PROPOSE);
    assert_ok(optimizer_init(&other.model.optimizer, "adam", 1));
    propose(&other, worker);
    expect_refused(worker, ERROR_CONFLICT, "optimizer");
    worker = call_as(&served, "worker", 0); /* may say it better */
    expect(worker, WIRE_PROPOSE);
    assert_ok(optimizer_init(&other.model.optimizer, "sgd", 0.5));
    propose(&other, worker);
    expect_refused(worker, ERROR_CONFLICT, "learning_rate");
    worker = call_as(&served, "worker", 0);
    expect(worker, WIRE_PROPOSE);
    say(worker, (struct wire_header){.type = WIRE_PROPOSAL}, "nonsense", 8);
    expect_refused(worker, ERROR_INPUT, "this worker");
    worker = call_as(&served, "worker", 0);
    expect(worker, WIRE_PROPOSE);
    say(worker, (struct wire_header){.type = WIRE_PROPOSAL}, NULL, 0);
    expect_refused(worker, ERROR_INPUT, "this worker");
    close(call_first(&served));
}

static void test_who_says_nothing_is_let_go(void **state)
{
    (void)state;
    int worker = begin(), mute = call_port(served.port);
    pull(worker, 0);
    clock_sleep_ms(30);
    pass(4);
    clock_sleep_ms(60);
    assert_int_equal(recv(mute, frame_bytes, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    pass(2);
    assert_int_equal(hear(mute).type, 0);
    push(worker, 0, -1);
    close(mute);
    close(worker);
}

/* ---- the first values ------------------------------------------------------ */

static void save_elsewhere(char path[300], size_t features, float value)
{
    struct engine engine;
    struct model *model;
    struct checkpoint_facts facts = small_facts();
    const float parameters[4] = {value, value, value, value};
    facts.model.shape.features = features;
    snprintf(path, 300, "%s/other.safetensors", folder);
    assert_ok(engine_open(&served.options.engine, &engine));
    assert_ok(model_new(&facts.model, engine.kernel, &model));
    assert_ok(model_write(model, parameters, 77));
    assert_ok(write_checkpoint(path, model, &facts));
    model_free(model);
    engine_close(&engine);
}

static void test_it_begins_with_parameters_of_another_training(void **state)
{
    char path[300];
    (void)state;
    save_elsewhere(path, 2, 9);
    served.options.coordinator.init_from = path;
    int worker = begin();
    pull(worker, 9);
    assert_int_equal(values.step, 0);
    push(worker, 0, 8);
    close(worker);
}

static void test_parameters_that_are_not_of_this_model(void **state)
{
    char path[300];
    (void)state;
    save_elsewhere(path, 3, 9);
    served.options.coordinator.init_from = path;
    int worker = begin();
    assert_ended(&served, ERROR_CONFLICT, path);
    close(worker);
}

/* ---- a worker that reads slowly -------------------------------------------- */

/* More than sockets hold: it is sent as there is room, and others are served meanwhile. */
static void test_values_of_a_large_model(void **state)
{
    const size_t parameters = LARGE_FEATURES + 1, bytes = parameters * sizeof(float);
    struct wire_header header, far;
    struct index_range range;
    char *all = malloc(sizeof(header) + sizeof(range) + bytes);
    (void)state;
    assert_non_null(all);
    served.model.shape.features = LARGE_FEATURES;
    int slow = begin(), little = 65536;
    assert_int_equal(setsockopt(slow, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
    say(slow, pull_header(), NULL, 0);
    int other = call_next(&served, 1);
    far = pull_header();
    far.type = WIRE_STOP; /* which is refused */
    say(other, far, NULL, 0);
    expect_refused(other, ERROR_INPUT, "STOP is nothing to say here");
    clock_sleep_ms(30);
    size_t wanted = sizeof(header) + sizeof(range) + bytes;
    assert_int_equal(recv(slow, all, wanted, MSG_WAITALL), wanted);
    memcpy(&header, all, sizeof(header));
    assert_ok(wire_header_check(&header, wanted));
    assert_int_equal(header.type, WIRE_VALUES);
    assert_int_equal(header.bytes, sizeof(range) + bytes);
    say(slow, pull_header(), NULL, 0); /* and goes before it has read them */
    clock_sleep_ms(30);
    close(slow);
    atomic_store(&served.stop, true);
    assert_int_equal(join_server(&served), ERROR_CANCELLED);
    free(all);
}

/* What it asks is not even read, so that its answers do not fill this server's memory. */
static void test_a_worker_that_reads_no_answers_is_not_heard(void **state)
{
    static struct wire_header asked[20000];
    const size_t features = 2000;
    struct pollfd room = {.events = POLLOUT};
    int little = 65536;
    size_t sent = 0;
    (void)state;
    served.model.shape.features = features;
    int worker = begin();
    assert_int_equal(setsockopt(worker, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
    assert_int_equal(setsockopt(worker, SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)), 0);
    for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
        asked[i] = pull_header();
        asked[i].stock = 40; /* it needs no batch */
        wire_header_seal(&asked[i]);
    }
    room.fd = worker;
    while (sent < sizeof(asked) && __real_poll(&room, 1, 500) == 1) {
        ssize_t now = send(worker, (const char *)asked + sent, sizeof(asked) - sent, MSG_DONTWAIT);
        assert_true(now > 0);
        sent += (size_t)now;
    }
    assert_true(sent < sizeof(asked));
    size_t wanted = sizeof(struct wire_header) + (features + 1) * sizeof(float);
    char *answer = malloc(wanted);
    assert_non_null(answer);
    for (size_t i = 0; i < sent / sizeof(*asked); i++) /* each is answered after all */
        assert_int_equal(recv(worker, answer, wanted, MSG_WAITALL), wanted);
    free(answer);
    close(worker);
}

/* ---- frames that cannot be ----------------------------------------------- */

static void test_nonsense_is_refused(void **state)
{
    static const struct run far = {2, 2}, none = {0, 0}, one = {1, 1};
    static const float floats[8];
    static const struct {
        struct wire_header header;
        const void *payload;
        size_t bytes;
        const char *text;
    } words[] = {
        {{.type = WIRE_PUSH}, floats, 8, "a gradient of 8 bytes for a shard of 12"},
        {{.type = WIRE_PUSH}, NULL, 0, "a gradient of 0 bytes for a shard of 12"},
        {{.type = WIRE_PUSH, .batch = -1}, floats, 12, "PUSH of batch -1"},
        {{.type = WIRE_SKIP, .batch = -5}, NULL, 0, "SKIP of batch -5"},
        {{.type = WIRE_PUSH, .batch = INT64_MAX}, floats, 12, "PUSH of batch 9223372036854775807"},
        {{.type = WIRE_PUSH, .shared = 1}, NULL, 0, "by memory that is not shared"},
        {{.type = WIRE_PUSH, .detail = 1}, &one, sizeof(one), "runs of 1 floats in 8 bytes"},
        {{.type = WIRE_PUSH, .detail = 1}, &far, sizeof(far), "run"},
        {{.type = WIRE_PUSH, .detail = 1}, &none, sizeof(none), "run"},
        {{.type = WIRE_PUSH, .detail = 2}, &one, sizeof(one), "run"},
        {{.type = WIRE_OFFER}, floats, 16, "OFFER of 16 bytes, or a second one"},
        {{.type = WIRE_STOP}, NULL, 0, "STOP is nothing to say here"},
        {{.type = WIRE_JOIN}, NULL, 0, "JOIN is nothing to say here"},
        {{.type = WIRE_RESTORED}, NULL, 0, "RESTORED is nothing to say here"},
    };
    (void)state;
    int worker = begin();
    pull(worker, 0);
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        int other = call_next(&served, 1);
        struct wire_header header = words[i].header;
        header.generation = values.generation;
        say(other, header, words[i].payload, words[i].bytes);
        expect_refused(other, ERROR_INPUT, words[i].text);
    }
    push(worker, 0, -1); /* nothing of it was applied */
    assert_int_equal(values.step, 1);
    close(worker);
}

/* The connection is closed; nothing of it is kept. */
static void assert_hung_up(int caller)
{
    assert_int_equal(hear(caller).type, 0);
    close(caller);
}

static void test_payloads_have_limits(void **state)
{
    static const struct {
        bool greets;
        enum wire_type type;
        size_t most;
    } frames[] = {{false, WIRE_PUSH, 0},
                  {false, WIRE_HELLO, WIRE_TEXT_LIMIT},
                  {true, WIRE_PUSH, sizeof(ones) + RUNS_LIMIT * sizeof(struct run)},
                  {true, WIRE_OFFER, sizeof(struct shared_memory_offer)},
                  {true, WIRE_PROPOSAL, WIRE_FACTS_LIMIT},
                  {true, WIRE_ID, 0},
                  {true, WIRE_STATE, 0},
                  {true, WIRE_PULL, 0}};
    (void)state;
    int worker = begin();
    pull(worker, 0);
    for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++) {
        int caller = frames[i].greets ? call_next(&served, 1) : call_port(served.port);
        struct wire_header header = {.type = (uint16_t)frames[i].type, .bytes = frames[i].most + 1};
        wire_header_seal(&header);
        assert_int_equal(send(caller, &header, sizeof(header), MSG_NOSIGNAL), sizeof(header));
        assert_hung_up(caller);
    }
    push(worker, 0, -1);
    close(worker);
}

static void test_greetings_that_are_none(void **state)
{
    static const char garbage[2 * sizeof(struct wire_header)] = "TOMBOLA1 and nothing else";
    (void)state;
    start_server(&served);
    int caller = call_port(served.port);
    assert_int_equal(send(caller, garbage, sizeof(garbage), MSG_NOSIGNAL), sizeof(garbage));
    assert_int_not_equal(recv(caller, frame_bytes, 1, 0), 1); /* an end, or a reset */
    close(caller);
    caller = call_port(served.port);
    say(caller, (struct wire_header){.type = WIRE_HELLO}, "{}", 2);
    expect_refused(caller, ERROR_INPUT, "HELLO");
    caller = call_port(served.port);
    say(caller, (struct wire_header){.type = WIRE_HELLO}, NULL, 0);
    expect_refused(caller, ERROR_INPUT, "HELLO");
    caller = call_port(served.port);
    say(caller, pull_header(), NULL, 0);
    expect_refused(caller, ERROR_INPUT, "PULL is nothing to say here");
    caller = call_port(served.port); /* half a frame, and the end */
    assert_int_equal(send(caller, WIRE_MAGIC, 8, MSG_NOSIGNAL), 8);
    close(caller);
    int worker = call_first(&served);
    assert_range(pull(worker, 0), 0, 64);
    close(worker);
}

/* ---- gradients in parts, and in memory that is shared -------------------- */

static void test_a_gradient_without_its_zeros(void **state)
{
    struct {
        struct run runs[2];
        float floats[2];
    } pushed = {{{0, 1}, {2, 1}}, {1, 5}};
    struct wire_header header;
    (void)state;
    for (size_t aggregate = 0; aggregate < 2; aggregate++) {
        describe_server(&served, 0, 1, MANY);
        served.options.coordinator.aggregate = aggregate;
        int worker = begin();
        pull(worker, 0);
        header = push_header(values.generation, 0);
        header.detail = 2;
        say(worker, header, &pushed, sizeof(pushed));
        header = expect(worker, WIRE_VALUES);
        const float *now = (const float *)(const void *)(frame_bytes + header.bytes) - PARAMETERS;
        assert_true(now[0] == -1 && now[1] == 0 && now[2] == -5);
        close(worker);
        end_server(&served);
        remove_folder(state);
        make_folder(state);
    }
}

static enum wire_type offer(int worker, const struct shared_memory_offer *offered, bool *ret_shared)
{
    say(worker, (struct wire_header){.type = WIRE_OFFER}, offered, sizeof(*offered));
    struct wire_header header = hear(worker);
    *ret_shared = header.shared;
    return (enum wire_type)header.type;
}

static void test_memory_that_is_shared(void **state)
{
    struct shared_memory memory = {.gradient = NULL};
    struct shared_memory_offer offered, wrong;
    bool shared = true;
    (void)state;
    int worker = begin();
    assert_ok(shared_memory_make(&memory, PARAMETERS, &offered));
    wrong = offered;
    wrong.key[0]++;
    int other = call_next(&served, 1);
    pull(worker, 0);
    assert_int_equal(offer(other, &wrong, &shared), WIRE_TAKEN);
    assert_false(shared); /* goes on by TCP */
    assert_int_equal(offer(worker, &offered, &shared), WIRE_TAKEN);
    assert_true(shared);
    shared_memory_was_taken(&memory);
    await_http("/status", "\"shared_memory\":true}");
    for (size_t i = 0; i < PARAMETERS; i++)
        memory.gradient[i] = (float)i;
    struct wire_header header = push_header(values.generation, 0);
    header.shared = 1;
    say(worker, header, NULL, 0);
    expect_values(worker, 0, &values);
    assert_int_equal(values.shared, 1);
    for (size_t i = 0; i < PARAMETERS; i++)
        assert_true(memory.values[i] == -(float)i);
    const struct run run = {1, 1};
    header.batch = 1;
    header.detail = 1;
    say(worker, header, &run, sizeof(run));
    expect_values(worker, 0, &values);
    assert_true(memory.values[1] == -2 && memory.values[2] == -2);
    say(worker, (struct wire_header){.type = WIRE_OFFER}, &offered, sizeof(offered));
    expect_refused(worker, ERROR_INPUT, "or a second one");
    shared_memory_release(&memory);
    close(other);
}

/* ---- what it says over HTTP ------------------------------------------------- */

static void test_it_tells_how_things_stand(void **state)
{
    (void)state;
    describe_server(&served, 0, 1, 100);
    start_server(&served);
    assert_http("/healthz", "200 OK");
    assert_http("/readyz", "503 Service Unavailable");
    await_http("/status", "\"phase\":\"waiting\"");
    await_http("/status", "\"waits_for\":\"a worker\"");
    assert_false(strstr(ask_http("/status"), "cut_pause_seconds"));
    assert_false(strstr(ask_http("/metrics"), "cut_pause_seconds"));
    assert_false(strstr(ask_http("/status"), "\"saved_step\""));
    int worker = call_first(&served);
    pull(worker, 0);
    push(worker, 0, -1);
    push(worker, 0, -1);
    await_http("/status", "\"phase\":\"running\"");
    await_http("/readyz", "200 OK");
    await_http("/status", "\"global_step\":1,");
    assert_false(strstr(ask_http("/status"), "waits_for"));
    assert_http("/status", "\"pushes\":1,\"repeated_pushes\":1,\"late_pushes\":0,"
                           "\"worker_count\":1,\"workers\":[{\"name\":\"worker 0 (127.0.0.1:");
    assert_http("/status", "\"parameters\":3,");
    assert_http("/status", "\"train_steps\":100,");
    await_http("/status", "\"held\":88,"); /* 51, 25 and 13 of what was left; one is done */
    assert_http("/metrics", "\ntombola_ps_global_step 1\n");
    assert_http("/metrics", "\ntombola_ps_workers 1\n");
    assert_http("/elsewhere", "404 Not Found");
    close(worker);
}

static void test_it_names_the_servers_that_are_missing(void **state)
{
    (void)state;
    describe_server(&served, 0, 4, MANY);
    start_server(&served);
    await_http("/status", "\"waits_for\":\"parameter server 1 and 2 others\"");
    int first = call_as(&served, "ps", 1);
    await_http("/status", "\"waits_for\":\"parameter server 2 and 1 other\"");
    int last = call_as(&served, "ps", 3);
    await_http("/status", "\"waits_for\":\"parameter server 2\"");
    close(first);
    close(last);
}

/* ---- its end, and what is in the way of it -------------------------------- */

static void test_a_signal_ends_it_with_a_checkpoint(void **state)
{
    bool ended = true;
    (void)state;
    int worker = begin();
    pull(worker, 0);
    push(worker, 0, -1);
    push(worker, 3, -2);
    atomic_store(&served.stop, true);
    assert_ended(&served, ERROR_CANCELLED,
                 "parameter server 0 was stopped by SIGTERM at step 2; training can go on from "
                 "step 2, which is saved");
    close(worker);
    assert_int_equal(saved_step(&ended), 2);
    assert_false(ended);
    atomic_store(&served.stop, false);
    start_server(&served);
    worker = call_next(&served, 0); /* it is known what is trained */
    assert_range(pull(worker, -2), 1, 3);
    assert_int_equal(values.step, 2);
    push(worker, 3, -2); /* was learnt from before */
    push(worker, 1, -3);
    close(worker);
}

static void test_a_signal_before_there_is_anything(void **state)
{
    (void)state;
    start_server(&served);
    atomic_store(&served.stop, true);
    assert_ended(&served, ERROR_CANCELLED, "parameter server 0 was stopped by SIGTERM");
    assert_null(strstr(served.message, "saved"));
}

/* Cuts by time. */
static void test_it_saves_from_time_to_time(void **state)
{
    bool ended;
    (void)state;
    served.options.coordinator.save_ms = 60000;
    int worker = begin();
    pull(worker, 0);
    push(worker, 0, -1);
    clock_sleep_ms(60);
    assert_true(saved_step(&ended) <= 0);
    pass(61);
    await_http("/status", "\"saved_step\":1,");
    push(worker, 1, -2); /* workers are told */
    assert_int_equal(values.detail, WIRE_IS_SAVED);
    struct hello knows = hello_of(&served, "worker", 1);
    knows.was_saved = true;
    int other = call_with(&served, &knows);
    expect(other, WIRE_FACTS);
    close(other);
    await_http("/status", "\"cut_pause_seconds\":");
    assert_http("/metrics", "\ntombola_ps_cut_pause_seconds ");
    assert_int_equal(saved_step(&ended), 1);
    close(worker);
}

static void test_a_state_that_is_not_finite_ends_it(void **state)
{
    const float bad[PARAMETERS] = {1, __builtin_inff(), 1};
    (void)state;
    describe_server(&served, 0, 1, 1);
    int worker = begin();
    pull(worker, 0);
    say(worker, push_header(values.generation, 0), bad, sizeof(bad));
    expect(worker, WIRE_VALUES);
    assert_ended(&served, ERROR_INPUT, "step 1 was not saved, training can go on from step 0 (");
    close(worker);
}

static void test_what_keeps_it_from_starting(void **state)
{
    char path[sizeof(folder) + 10];
    (void)state;
    snprintf(path, sizeof(path), "%s/file", folder);
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(file >= 0);
    served.options.coordinator.model = &served.model;
    served.options.descriptor = file; /* no socket: it cannot be watched */
    assert_fails(server_run(&served.options), ERROR_MEMORY, "cannot watch connections");
    served.options.coordinator.logdir = path;
    served.options.descriptor = open(path, O_RDONLY);
    assert_int_not_equal(server_run(&served.options), OK);
    assert_non_null(strstr(error_message(), path));
    served.options.coordinator.logdir = folder;
    served.options.guard.token_file = "/nonexistent/tokens";
    served.options.descriptor = open(path, O_RDONLY);
    assert_int_not_equal(server_run(&served.options), OK);
    assert_non_null(strstr(error_message(), "/nonexistent/tokens"));
}

/* The system watches no more: who comes is let go, and who is there cannot be lost so. */
static void test_connections_that_cannot_be_watched(void **state)
{
    (void)state;
    int worker = begin();
    unwatched = 1;
    assert_hung_up(call_port(served.port));
    pull(worker, 0);
    close(call_next(&served, 1)); /* once there is room again */
    push(worker, 0, -1);
    close(worker);
}

/* Of one that is there: it would wait for ever. */
static void test_a_worker_that_cannot_be_watched_any_more(void **state)
{
    (void)state;
    describe_server(&served, 0, 1, 1);
    int first = begin(), other = call_next(&served, 1);
    pull(first, 0);
    unwatched = 1;
    say(other, pull_header(), NULL, 0);
    assert_ended(&served, ERROR_MEMORY, "cannot watch worker 1 (127.0.0.1:");
    close(first);
    close(other);
}

/* A program may have been started without standard input. */
static void test_a_port_of_descriptor_0_is_closed(void **state)
{
    const struct guard_options guard = {.token_file = "/nonexistent/tokens"};
    struct status_port *port;
    int before = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    uint16_t number;
    int listener = listen_anywhere(&number);
    (void)state;
    assert_int_equal(dup2(listener, STDIN_FILENO), STDIN_FILENO);
    assert_int_not_equal(status_port_open(STDIN_FILENO, &guard, NULL, NULL, &port), OK);
    assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
    close(listener);
    if (before >= 0) {
        assert_int_equal(dup2(before, STDIN_FILENO), STDIN_FILENO);
        close(before);
    }
}

/* As many connections as files may be open, but for some; the next one waits until there is room. */
static void test_connections_have_a_limit(void **state)
{
    int callers[127];
    (void)state;
    files_limit = 256;
    int worker = begin();
    for (size_t i = 0; i < 127; i++) {
        callers[i] = call_as(&served, "evaluator", 0);
        expect(callers[i], WIRE_WELCOME);
    }
    int late = call_as(&served, "evaluator", 1);
    clock_sleep_ms(60);
    assert_int_equal(recv(late, frame_bytes, 1, MSG_DONTWAIT), -1);
    pull(worker, 0); /* those who are there notice nothing */
    close(callers[0]);
    expect(late, WIRE_WELCOME);
    for (size_t i = 1; i < 127; i++)
        close(callers[i]);
    close(late);
    close(worker);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, prepare, clear)

static const struct CMUnitTest tests[] = {
    TEST(test_from_the_first_word_to_the_last),
    TEST(test_workers_have_ten_seconds_to_fetch_the_last_values),
    TEST(test_a_signal_after_the_end),
    TEST(test_who_comes_to_a_folder_that_is_trained),
    TEST(test_a_checkpoint_that_a_worker_knows_is_not_there),
    TEST(test_a_batch_counts_once),
    TEST(test_how_many_batches_are_granted),
    TEST(test_towards_the_end_work_is_shared),
    TEST(test_another_generation_is_stale),
    TEST(test_the_stream_ends),
    TEST(test_a_training_that_goes_on_after_its_end_says_so),
    TEST(test_a_stream_without_batches),
    TEST(test_what_is_given_back_at_the_end_is_shared),
    TEST(test_streams_that_end_at_different_times),
    TEST(test_a_silent_workers_batches_are_granted_to_others),
    TEST(test_a_worker_that_waited_keeps_its_batches),
    TEST(test_a_lost_workers_batches_are_granted_to_others),
    TEST(test_who_waits_may_go),
    TEST(test_another_worker_is_asked_what_is_trained),
    TEST(test_values_too_old),
    TEST(test_a_step_in_common),
    TEST(test_a_step_that_the_stream_ends),
    TEST(test_a_last_step_is_not_over_before_it_is_made),
    TEST(test_a_batch_that_is_not_of_the_next_step),
    TEST(test_an_evaluator_ends_it_with_what_is_granted),
    TEST(test_an_evaluator_ends_it_with_the_step_of_now),
    TEST(test_options_must_be_the_same),
    TEST(test_it_says_why_workers_leave),
    TEST(test_another_model_is_not_proposed),
    TEST(test_who_says_nothing_is_let_go),
    TEST(test_it_begins_with_parameters_of_another_training),
    TEST(test_parameters_that_are_not_of_this_model),
    TEST(test_values_of_a_large_model),
    TEST(test_a_worker_that_reads_no_answers_is_not_heard),
    TEST(test_nonsense_is_refused),
    TEST(test_payloads_have_limits),
    TEST(test_greetings_that_are_none),
    TEST(test_a_gradient_without_its_zeros),
    TEST(test_memory_that_is_shared),
    TEST(test_it_tells_how_things_stand),
    TEST(test_it_names_the_servers_that_are_missing),
    TEST(test_a_signal_ends_it_with_a_checkpoint),
    TEST(test_a_signal_before_there_is_anything),
    TEST(test_it_saves_from_time_to_time),
    TEST(test_a_state_that_is_not_finite_ends_it),
    TEST(test_what_keeps_it_from_starting),
    TEST(test_connections_that_cannot_be_watched),
    TEST(test_a_worker_that_cannot_be_watched_any_more),
    TEST(test_a_port_of_descriptor_0_is_closed),
    TEST(test_connections_have_a_limit),
};

UNIT_MAIN(tests)

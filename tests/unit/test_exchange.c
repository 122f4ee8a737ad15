/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/exchange/exchange: a worker's side of a training with two parameter servers, both
 * of which the test plays; so of exchange_connection and stop_request, too. What the worker does
 * runs in a thread of its own, one call after the other. Three parameters, of which server 0 holds
 * the first.
 */
#include "tests/unit/folder_unit.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "common/log.h"
#include "common/stop.h"
#include "tests/unit/checkpoint_unit.h"
#include "tests/unit/wire_unit.h"
#include "trainer/exchange/exchange_private.h"
#include "trainer/exchange/stop_request.h"
#include "trainer/wire/hello.h"

#define SERVERS_MOST 3
#define GENERATION 7
#define GRANTS 16
#define FEATURES_MOST 200
#define NEVER INT64_MAX

static struct cluster_task tasks[SERVERS_MOST];
static struct cluster cluster;
static struct exchange_options options;
static int listeners[SERVERS_MOST], servers[SERVERS_MOST]; /* the worker's connections to them */
static struct engine engine;
static struct model *model;
static struct exchange *exchange;
static struct checkpoint *checkpoint;
static struct index_range grants[GRANTS]; /* that the feed was given */
static size_t grant_count;
static bool was_saved; /* what the worker has heard */

/* ---- the worker's thread ------------------------------------------------- */

static struct {
    enum error (*run)(void);
    int64_t batch, epochs;
    size_t rows;
    pthread_t thread;
    _Atomic bool stop, ended;
    bool runs, again;
    enum error error;
    char message[ERROR_MESSAGE_BYTES];
} job;

enum error __wrap_feed_grant(struct feed *feed, int64_t first, int64_t count);

enum error __wrap_feed_grant(struct feed *feed, int64_t first, int64_t count)
{
    (void)feed;
    if (grant_count < GRANTS)
        grants[grant_count++] = (struct index_range){first, first + count};
    return OK;
}

static void *run_job(void *context)
{
    (void)context;
    stop_follow(&job.stop);
    job.error = job.run();
    snprintf(job.message, sizeof(job.message), "%s", error_message());
    atomic_store(&job.ended, true);
    return NULL;
}

static void start_job(enum error (*run)(void))
{
    job.run = run;
    job.message[0] = '\0';
    atomic_store(&job.ended, false);
    assert_int_equal(pthread_create(&job.thread, NULL, run_job, NULL), 0);
    job.runs = true;
}

static enum error end_job(void)
{
    pthread_join(job.thread, NULL);
    job.runs = false;
    return job.error;
}

static void assert_done(void)
{
    if (end_job())
        fail_msg("%d, %s", job.error, job.message);
}

static void assert_failed(enum error error, const char *text)
{
    assert_int_equal(end_job(), error);
    if (!strstr(job.message, text))
        fail_msg("message \"%s\" does not hold \"%s\"", job.message, text);
}

static enum error open_job(void)
{
    return exchange_open(&options, &exchange, &checkpoint);
}

static enum error propose_job(void)
{
    struct checkpoint_facts facts = small_facts();
    return exchange_propose(exchange, &facts, &checkpoint);
}

static enum error begin_job(void)
{
    return exchange_begin(exchange, &engine, model, job.epochs, NEVER);
}

static enum error refill_job(void)
{
    return exchange_refill(exchange, NULL);
}

static enum error look_job(void)
{
    return exchange_look(exchange);
}

static enum error push_job(void)
{
    return exchange_push(exchange, job.batch, job.rows, &job.again);
}

static enum error end_stream_job(void)
{
    return exchange_end_stream(exchange, job.epochs, job.batch);
}

static enum error stop_job(void)
{
    return stop_request_send(&cluster);
}

static void start_push(int64_t batch, size_t rows)
{
    job.batch = batch;
    job.rows = rows;
    job.again = true;
    start_job(push_job);
}

/* ---- the servers --------------------------------------------------------- */

static void use_servers(size_t count)
{
    cluster.task_count = cluster.begin[CLUSTER_EVALUATOR] = cluster.begin[CLUSTER_ROLES] = count;
}

static int prepare(void **state)
{
    const struct engine_options computes = {.device = "cpu", .blas = "plain", .threads = 1};
    struct checkpoint_facts facts = small_facts();
    log_set_level((enum log_level)(LOG_ERROR + 1));
    make_folder(state);
    cluster_init(&cluster);
    cluster.is_alone = cluster.is_chief = false;
    for (size_t i = 0; i < SERVERS_MOST; i++) {
        tasks[i] =
            (struct cluster_task){.role = CLUSTER_PS, .index = (int64_t)i, .host = "127.0.0.1"};
        listeners[i] = listen_anywhere(&tasks[i].port);
        servers[i] = -1;
    }
    cluster.tasks = tasks;
    use_servers(2);
    options = (struct exchange_options){.cluster = &cluster,
                                        .tcp_only = true,
                                        .staleness = -1,
                                        .logdir = folder,
                                        .train_steps = 100,
                                        .patience_ms = -1};
    assert_ok(engine_open(&computes, &engine));
    assert_ok(model_new(&facts.model, engine.kernel, &model));
    grant_count = 0;
    job.stop = was_saved = false;
    job.epochs = 3;
    exchange = NULL;
    checkpoint = NULL;
    return 0;
}

static int clear(void **state)
{
    if (job.runs) {
        atomic_store(&job.stop, true);
        (void)end_job();
    }
    exchange_close(exchange);
    checkpoint_close(checkpoint);
    for (size_t i = 0; i < SERVERS_MOST; i++) {
        close(listeners[i]);
        if (servers[i] >= 0)
            close(servers[i]);
    }
    model_free(model);
    engine.device->kind = DEVICE_CPU;
    engine_close(&engine);
    return remove_folder(state);
}

/* Its connection to server `index`, and its HELLO. */
static void accept_worker(size_t index)
{
    struct hello hello;
    struct pollfd wanted = {.fd = listeners[index], .events = POLLIN};
    assert_int_equal(__real_poll(&wanted, 1, WIRE_PATIENCE_S * 1000), 1);
    servers[index] = accept(listeners[index], NULL, NULL);
    assert_true(servers[index] >= 0);
    set_patience(servers[index]);
    struct wire_header header = expect(servers[index], WIRE_HELLO);
    assert_ok(hello_parse(frame_bytes, header.bytes, &hello));
    assert_string_equal(hello.role, "worker");
    assert_int_equal(hello.server, index);
    assert_int_equal(hello.servers, cluster.task_count);
    assert_int_equal(hello.train_steps, 100);
    assert_int_equal(hello.staleness, options.staleness);
    assert_int_equal(hello.aggregate, options.aggregate);
    assert_int_equal(hello.was_saved, was_saved);
}

static void hang_up(size_t index)
{
    close(servers[index]);
    servers[index] = -1;
}

static void say_type(size_t index, enum wire_type type)
{
    struct wire_header header = {.type = (uint16_t)type, .generation = GENERATION};
    say(servers[index], header, NULL, 0);
}

/* Of batches of `rows` rows. */
static void say_facts_of(int64_t rows, uint64_t generation)
{
    struct checkpoint_facts facts = small_facts();
    facts.position.batch_rows = rows;
    struct buffer text = BUFFER_INIT(WIRE_FACTS_LIMIT);
    assert_ok(checkpoint_print_facts(&facts, 0, &text));
    struct wire_header header = {.type = WIRE_FACTS, .generation = generation};
    say(servers[0], header, text.data, text.length);
    buffer_release(&text);
}

static void say_facts(void)
{
    say_facts_of(1, 0);
}

static size_t floats_of(size_t index)
{
    size_t parameters = model_parameters(model), count = cluster.task_count;
    return parameters * (index + 1) / count - parameters * index / count;
}

struct reply {
    struct index_range granted; /* empty: nothing is */
    float value;
    int64_t step;
    uint64_t generation; /* 0: GENERATION */
    bool over, again, is_saved;
};

static void say_values(size_t index, struct reply reply)
{
    bool some = reply.granted.first < reply.granted.end;
    float values[FEATURES_MOST + 1];
    for (size_t i = 0; i < floats_of(index); i++)
        values[i] = reply.value;
    struct iovec parts[] = {{&reply.granted, some ? sizeof(reply.granted) : 0},
                            {values, floats_of(index) * sizeof(*values)}};
    struct wire_header header = {.type = reply.again ? WIRE_AGAIN : WIRE_VALUES,
                                 .generation = reply.generation ? reply.generation : GENERATION,
                                 .step = reply.step,
                                 .stock = some,
                                 .over = reply.over,
                                 .detail = reply.is_saved ? WIRE_IS_SAVED : 0};
    say_parts(servers[index], header, parts, 2);
}

/* The worker says when its stream ends, on each connection. */
static void take_stream(void)
{
    assert_int_equal(expect(servers[0], WIRE_STREAM).batch, job.epochs > 0 ? job.epochs : NEVER);
    say_type(0, WIRE_WELCOME);
}

/* Server 0 knows what is trained. */
static void open_exchange(void)
{
    start_job(open_job);
    accept_worker(0);
    say_facts();
    assert_done();
    assert_non_null(checkpoint);
}

/* A worker that has its first batches. */
static void begin_with(struct reply first)
{
    open_exchange();
    start_job(begin_job);
    take_stream();
    expect(servers[0], WIRE_PULL);
    say_values(0, first);
    for (size_t i = 1; i < cluster.task_count; i++) {
        accept_worker(i);
        say_type(i, WIRE_WELCOME);
    }
    for (size_t i = 1; i < cluster.task_count; i++) {
        expect(servers[i], WIRE_PULL);
        say_values(i, (struct reply){.value = first.value, .step = first.step});
    }
    assert_done();
}

static void begin(void)
{
    begin_with((struct reply){.granted = {4, 7}, .value = 1, .step = 3});
}

static void assert_model(float first, float others, int64_t step)
{
    const float *values = model_values(model);
    assert_true(values[0] == first && values[1] == others && values[2] == others);
    assert_int_equal(model_get_step(model), step);
}

static void set_gradient(float first, float second, float third)
{
    float *gradient = model_gradient_values(model);
    gradient[0] = first;
    gradient[1] = second;
    gradient[2] = third;
}

static void refill(void)
{
    start_job(refill_job);
    assert_done();
}

static void assert_grant(size_t number, int64_t first, int64_t end)
{
    assert_true(number < grant_count);
    assert_int_equal(grants[number].first, first);
    assert_int_equal(grants[number].end, end);
}

/* ---- the beginning ------------------------------------------------------- */

static void test_a_training_that_is_known(void **state)
{
    (void)state;
    begin();
    assert_model(1, 1, 3);
    assert_string_equal(checkpoint_get_facts(checkpoint)->position.stream.name, "default");
    checkpoint_close(checkpoint);
    start_job(propose_job); /* nobody asks for it */
    assert_done();
    assert_null(checkpoint);
    refill();
    assert_grant(0, 4, 7);
    assert_int_equal(grant_count, 1);
    refill(); /* it has work: nothing is asked for */
    assert_int_equal(grant_count, 1);
}

static void test_a_training_that_this_worker_describes(void **state)
{
    (void)state;
    start_job(open_job);
    accept_worker(0);
    say_type(0, WIRE_PROPOSE);
    assert_done();
    assert_null(checkpoint);
    start_job(propose_job);
    assert_true(expect(servers[0], WIRE_PROPOSAL).bytes > 100);
    hang_up(0); /* which may have heard it, or not */
    accept_worker(0);
    say_type(0, WIRE_PROPOSE);
    expect(servers[0], WIRE_PROPOSAL);
    say_facts();
    assert_done();
    assert_non_null(checkpoint);
}

/* Another worker's words hold by the time it has connected again. */
static void test_a_training_that_another_worker_described(void **state)
{
    (void)state;
    start_job(open_job);
    accept_worker(0);
    say_type(0, WIRE_PROPOSE);
    assert_done();
    start_job(propose_job);
    expect(servers[0], WIRE_PROPOSAL);
    hang_up(0);
    accept_worker(0);
    say_facts();
    assert_done();
    assert_non_null(checkpoint);
}

static void test_a_description_that_is_asked_for_again(void **state)
{
    (void)state;
    start_job(open_job);
    accept_worker(0);
    say_type(0, WIRE_PROPOSE);
    assert_done();
    start_job(propose_job);
    expect(servers[0], WIRE_PROPOSAL);
    say_type(0, WIRE_PROPOSE);
    assert_failed(ERROR_INPUT, "answers PROPOSE to PROPOSAL");
}

static void check_bad_step(int64_t step)
{
    use_servers(1);
    begin();
    start_job(look_job);
    expect(servers[0], WIRE_PULL);
    say_values(0, (struct reply){.value = 1, .step = step});
    assert_failed(ERROR_INPUT, "answers with values of step");
}

static void test_a_step_below_zero(void **state)
{
    (void)state;
    check_bad_step(-1);
}

static void test_a_step_that_has_none_after_it(void **state)
{
    (void)state;
    check_bad_step(INT64_MAX);
}

/* Without --staleness no gradient is too old: the worker would compute it again for ever. */
static void test_a_gradient_that_is_wanted_again_without_reason(void **state)
{
    (void)state;
    use_servers(1);
    begin();
    start_push(4, 1);
    expect(servers[0], WIRE_PUSH);
    say_values(0, (struct reply){.value = 2, .step = 4, .again = true});
    assert_failed(ERROR_INPUT, "answers AGAIN to a request");
}

/* Asynchronous servers keep no gradient for later, nor does server 0. */
static void test_a_gradient_that_is_kept_without_reason(void **state)
{
    (void)state;
    use_servers(1);
    begin();
    start_push(4, 1);
    expect(servers[0], WIRE_PUSH);
    say_type(0, WIRE_STORED);
    assert_failed(ERROR_INPUT, "answers STORED to a request");
}

static void test_a_description_that_is_refused(void **state)
{
    struct wire_header refused = {.type = WIRE_REFUSED, .detail = (uint16_t)-ERROR_CONFLICT};
    (void)state;
    start_job(open_job);
    accept_worker(0);
    say_type(0, WIRE_PROPOSE);
    assert_done();
    start_job(propose_job);
    expect(servers[0], WIRE_PROPOSAL);
    say(servers[0], refused, "another model", 13);
    assert_failed(ERROR_CONFLICT, "parameter server 0 (127.0.0.1:");
    assert_non_null(strstr(job.message, "another model"));
}

/* The server was started again, for another training. */
static void test_a_training_that_is_another_one_now(void **state)
{
    (void)state;
    use_servers(1);
    begin();
    hang_up(0);
    start_push(4, 1);
    accept_worker(0);
    say_facts_of(2, 0);
    assert_failed(ERROR_CONFLICT, "trains something else now than when this worker came");
}

static void test_facts_that_are_none(void **state)
{
    (void)state;
    start_job(open_job);
    accept_worker(0);
    say(servers[0], (struct wire_header){.type = WIRE_FACTS}, "nonsense", 8);
    assert_failed(ERROR_INPUT, "parameter server 0 (127.0.0.1:");
}

/* What only server 0 has to say, by another one, would be heard as if it were server 0's. */
static void test_a_greeting_that_is_none(void **state)
{
    (void)state;
    start_job(open_job);
    accept_worker(0);
    say_type(0, WIRE_STALE);
    assert_failed(ERROR_INPUT, "answers STALE to HELLO");
    hang_up(0);
    open_exchange();
    start_job(begin_job);
    take_stream();
    expect(servers[0], WIRE_PULL);
    say_values(0, (struct reply){.value = 1});
    accept_worker(1);
    say_type(1, WIRE_PROPOSE);
    assert_failed(ERROR_INPUT, "parameter server 1 (");
    assert_non_null(strstr(job.message, "answers PROPOSE to HELLO"));
}

/* A server 0 that was restarted before its first save does not know what is trained. */
static void test_a_server_that_forgot_is_told_again(void **state)
{
    (void)state;
    begin();
    start_push(4, 1);
    expect(servers[0], WIRE_PUSH);
    expect(servers[1], WIRE_PUSH);
    say_values(1, (struct reply){.value = 2, .step = 4});
    hang_up(0);
    accept_worker(0);
    say_type(0, WIRE_PROPOSE);
    expect(servers[0], WIRE_PROPOSAL);
    say_facts();
    take_stream();
    assert_int_equal(expect(servers[0], WIRE_PUSH).batch, 4);
    say_values(0, (struct reply){.value = 3, .step = 4});
    assert_done();
    assert_model(3, 2, 4);
}

/* One whose logdir is away must not begin anew. */
static void test_a_server_that_forgot_hears_what_it_saved(void **state)
{
    (void)state;
    use_servers(1);
    begin_with((struct reply){.granted = {4, 7}, .value = 1, .step = 3, .is_saved = true});
    start_push(4, 1);
    expect(servers[0], WIRE_PUSH);
    was_saved = true;
    for (int i = 0; i < 2; i++) {
        hang_up(0);
        accept_worker(0);
    }
    say_facts();
    take_stream();
    assert_int_equal(expect(servers[0], WIRE_PUSH).batch, 4);
    say_values(0, (struct reply){.value = 3, .step = 4});
    assert_done();
    assert_model(3, 3, 4);
}

static void test_a_stream_that_ends_before_that_of_others(void **state)
{
    struct wire_header refused = {.type = WIRE_REFUSED, .detail = (uint16_t)-ERROR_CONFLICT};
    (void)state;
    open_exchange();
    start_job(begin_job);
    expect(servers[0], WIRE_STREAM);
    say(servers[0], refused, "it ends earlier", 15);
    assert_failed(ERROR_CONFLICT, "it ends earlier");
    hang_up(0);
    exchange_close(exchange);
    checkpoint_close(checkpoint);
    open_exchange();
    job.epochs = 0; /* it has no end */
    start_job(begin_job);
    expect(servers[0], WIRE_STREAM);
    hang_up(0); /* which may have heard it, or not */
    accept_worker(0);
    say_facts();
    assert_int_equal(expect(servers[0], WIRE_STREAM).batch, NEVER);
    say_type(0, WIRE_PROPOSE);
    assert_failed(ERROR_INPUT, "answers PROPOSE to STREAM");
}

/* ---- work ---------------------------------------------------------------- */

static void test_a_gradient_goes_to_all_servers(void **state)
{
    (void)state;
    begin();
    set_gradient(5, 6, 7);
    start_push(4, 1);
    struct wire_header header = expect(servers[0], WIRE_PUSH);
    assert_int_equal(header.batch, 4);
    assert_int_equal(header.generation, GENERATION);
    assert_int_equal(header.step, 3);
    assert_int_equal(header.stock, 2);
    assert_int_equal(header.done, WIRE_NONE);
    assert_int_equal(header.bytes, sizeof(float));
    assert_true(((const float *)(const void *)frame_bytes)[0] == 5);
    header = expect(servers[1], WIRE_PUSH);
    assert_int_equal(header.bytes, 2 * sizeof(float));
    assert_true(((const float *)(const void *)frame_bytes)[1] == 7);
    say_values(0, (struct reply){.granted = {9, 11}, .value = 2, .step = 4});
    say_values(1, (struct reply){.value = 3, .step = 4});
    assert_done();
    assert_false(job.again);
    assert_model(2, 3, 4);
    assert_true(exchange_take(exchange, 5));
    assert_false(exchange_take(exchange, 4)); /* it is done */
    assert_false(exchange_take(exchange, 8)); /* nobody granted it */
    assert_true(exchange_take(exchange, 10));
    refill();
    assert_grant(0, 4, 7); /* all that came so far */
    assert_grant(1, 9, 11);
    start_push(5, 1); /* and says that all have batch 4 */
    header = expect(servers[0], WIRE_PUSH);
    assert_int_equal(header.done, 4);
    assert_int_equal(header.stock, 3);
    assert_int_equal(expect(servers[1], WIRE_PUSH).done, WIRE_NONE);
    say_values(0, (struct reply){.value = 2, .step = 5});
    say_values(1, (struct reply){.value = 3, .step = 5});
    assert_done();
}

static void test_a_batch_without_rows_is_skipped(void **state)
{
    (void)state;
    begin();
    start_push(4, 0);
    struct wire_header header = expect(servers[0], WIRE_SKIP);
    assert_int_equal(header.bytes, 0);
    assert_int_equal(header.batch, 4);
    expect(servers[1], WIRE_SKIP);
    say_values(0, (struct reply){.value = 1, .step = 3});
    say_values(1, (struct reply){.value = 1, .step = 3});
    assert_done();
}

static void test_work_is_asked_for_until_there_is_some(void **state)
{
    (void)state;
    use_servers(1);
    begin_with((struct reply){.value = 1});
    start_job(refill_job);
    for (int i = 0; i < 2; i++) {
        struct wire_header header = expect(servers[0], WIRE_PULL);
        assert_int_equal(header.stock, 0);
        assert_int_equal(header.batch, WIRE_NONE);
        say_values(0, (struct reply){.value = 2});
    }
    expect(servers[0], WIRE_PULL);
    say_values(0, (struct reply){.granted = {20, 21}, .value = 2});
    assert_done();
    assert_grant(0, 20, 21);
    assert_int_equal(grant_count, 1);
}

static void test_the_training_is_over(void **state)
{
    (void)state;
    begin();
    start_push(4, 1); /* with the answer of server 0 it is: the last values are fetched */
    expect(servers[0], WIRE_PUSH);
    expect(servers[1], WIRE_PUSH);
    say_values(0, (struct reply){.value = 2, .step = 99, .over = true});
    say_values(1, (struct reply){.value = 2, .step = 98});
    for (size_t i = 0; i < 2; i++) {
        expect(servers[i], WIRE_PULL);
        say_values(i, (struct reply){.value = 5, .step = 100, .over = true});
    }
    assert_done();
    assert_model(5, 5, 100);
    start_job(refill_job);
    assert_failed(ERROR_END, "the training is over");
}

static void test_others_may_have_ended_it(void **state)
{
    (void)state;
    use_servers(1);
    begin();
    start_job(look_job);
    expect(servers[0], WIRE_PULL);
    say_values(0, (struct reply){.value = 5, .step = 100, .over = true});
    assert_done();
    start_job(refill_job);
    assert_failed(ERROR_END, "the training is over");
}

static void test_the_stream_ends(void **state)
{
    (void)state;
    begin();
    job.batch = 5;
    start_job(end_stream_job);
    take_stream();
    struct wire_header header = expect(servers[0], WIRE_PULL);
    assert_int_equal(header.batch, 5);
    assert_int_equal(header.stock, 0); /* what it held is given back */
    say_values(0, (struct reply){.granted = {3, 4}, .value = 1, .step = 3});
    header = expect(servers[1], WIRE_PULL);
    assert_int_equal(header.batch, 5);
    say_values(1, (struct reply){.value = 1, .step = 3});
    assert_done();
    assert_false(exchange_take(exchange, 4));
    assert_true(exchange_take(exchange, 3));
    refill();
    assert_grant(0, 3, 4); /* and nothing of before */
    assert_int_equal(grant_count, 1);
}

/* Another worker may know of more epochs since. At its end it is told what holds by then. */
static void test_a_server_that_knows_the_stream_is_not_told_again(void **state)
{
    (void)state;
    use_servers(1);
    begin();
    hang_up(0);
    start_push(4, 1);
    accept_worker(0);
    say_facts_of(1, GENERATION);
    expect(servers[0], WIRE_PUSH);
    say_values(0, (struct reply){.value = 2, .step = 4});
    assert_done();
    job.batch = 5;
    for (int i = 0; i < 2; i++) { /* again where its word may not have arrived */
        if (i == 0)
            start_job(end_stream_job);
        else
            accept_worker(0);
        if (i == 1)
            say_facts_of(1, GENERATION);
        assert_int_equal(expect(servers[0], WIRE_STREAM).batch, job.epochs);
        if (i == 0)
            hang_up(0);
    }
    say_type(0, WIRE_WELCOME);
    assert_int_equal(expect(servers[0], WIRE_PULL).batch, 5);
    say_values(0, (struct reply){.value = 2, .step = 4, .over = true});
    assert_done();
}

static void test_values_too_old(void **state)
{
    (void)state;
    options.staleness = 2;
    begin();
    start_push(4, 1);
    expect(servers[0], WIRE_PUSH);
    expect(servers[1], WIRE_PUSH);
    say_values(0, (struct reply){.value = 8, .step = 9, .again = true});
    say_values(1, (struct reply){.value = 7, .step = 5});
    assert_done();
    assert_true(job.again);
    assert_true(exchange_take(exchange, 4)); /* it still has the batch */
    assert_model(8, 7, 9);
    start_push(4, 1); /* once more: each server hears the step of its own values */
    struct wire_header header = expect(servers[0], WIRE_PUSH);
    assert_int_equal(header.step, 9);
    assert_int_equal(header.done, WIRE_NONE); /* not all have it */
    assert_int_equal(expect(servers[1], WIRE_PUSH).step, 5);
    say_values(0, (struct reply){.value = 8, .step = 10});
    say_values(1, (struct reply){.value = 7, .step = 10});
    assert_done();
    assert_false(job.again);
}

/* ---- another generation -------------------------------------------------- */

static void test_a_generation_that_is_over(void **state)
{
    (void)state;
    begin();
    start_push(4, 1);
    expect(servers[0], WIRE_PUSH);
    expect(servers[1], WIRE_PUSH);
    say_type(0, WIRE_STALE);
    say_values(1, (struct reply){.value = 3, .step = 4});
    struct wire_header header = expect(servers[0], WIRE_PULL);
    assert_int_equal(header.stock, 0);
    say_values(0, (struct reply){.granted = {0, 2}, .value = 1, .step = 1, .generation = 8});
    header = expect(servers[1], WIRE_PULL);
    assert_int_equal(header.generation, 8);
    say_type(1, WIRE_STALE); /* has not begun it yet: all is asked again */
    expect(servers[0], WIRE_PULL);
    say_values(0, (struct reply){.value = 1, .step = 1, .generation = 8});
    expect(servers[1], WIRE_PULL);
    say_values(1, (struct reply){.value = 2, .step = 1, .generation = 8});
    assert_done();
    assert_model(1, 2, 1);
    assert_false(exchange_take(exchange, 5)); /* of the one before */
    assert_true(exchange_take(exchange, 0));
    refill();
    assert_grant(0, 0, 2);
    assert_int_equal(grant_count, 1);
}

/* Server 0 says so by its values alone. */
static void test_values_of_another_generation_take_all_back(void **state)
{
    (void)state;
    use_servers(1);
    begin();
    start_job(look_job);
    expect(servers[0], WIRE_PULL);
    say_values(0, (struct reply){.granted = {1, 2}, .value = 1, .generation = 8});
    assert_done();
    assert_false(exchange_take(exchange, 4));
    assert_true(exchange_take(exchange, 1));
}

static void test_it_stops_while_servers_begin_again(void **state)
{
    (void)state;
    begin();
    start_job(look_job);
    expect(servers[0], WIRE_PULL);
    say_values(0, (struct reply){.value = 1, .generation = 8});
    expect(servers[1], WIRE_PULL);
    atomic_store(&job.stop, true);
    say_type(1, WIRE_STALE);
    assert_int_equal(end_job(), ERROR_CANCELLED);
    assert_non_null(strstr(job.message, "stopped while"));
}

/* ---- servers that are away ----------------------------------------------- */

/* Who has answered is not asked again. */
static void test_a_lost_server_is_asked_again(void **state)
{
    (void)state;
    begin();
    for (size_t lost = 0; lost < 2; lost++) {
        int64_t batch = 4 + (int64_t)lost;
        start_push(batch, 1);
        expect(servers[0], WIRE_PUSH);
        expect(servers[1], WIRE_PUSH);
        hang_up(lost);
        say_values(1 - lost, (struct reply){.value = 2, .step = 4 + (int64_t)lost});
        accept_worker(lost);
        say_type(lost, WIRE_WELCOME);
        if (lost == 0)
            take_stream();
        assert_int_equal(expect(servers[lost], WIRE_PUSH).batch, batch);
        say_values(lost, (struct reply){.granted = {9, 9}, .value = 3, .step = 4 + (int64_t)lost});
        assert_done();
        assert_model(lost ? 2 : 3, lost ? 3 : 2, 4 + (int64_t)lost);
        /* What server 0 had granted by the lost connection is free again. */
        assert_false(exchange_take(exchange, 6));
        if (lost == 0) {
            start_job(refill_job);
            expect(servers[0], WIRE_PULL);
            say_values(0, (struct reply){.granted = {5, 6}, .value = 3, .step = 4});
            expect(servers[1], WIRE_PULL);
            say_values(1, (struct reply){.value = 2, .step = 4});
            assert_done();
        }
    }
}

/* It was started again, and would refuse what is larger than its shard: it is asked until it has
 * begun. */
static void test_a_server_without_a_shard_gets_no_gradient(void **state)
{
    (void)state;
    begin();
    start_push(4, 1);
    expect(servers[0], WIRE_PUSH);
    expect(servers[1], WIRE_PUSH);
    hang_up(1);
    say_values(0, (struct reply){.value = 2, .step = 4});
    accept_worker(1);
    say(servers[1], (struct wire_header){.type = WIRE_WELCOME}, NULL, 0);
    for (int i = 0; i < 2; i++) {
        expect(servers[0], WIRE_PULL);
        say_values(0, (struct reply){.value = 1, .step = 3, .generation = 8});
        expect(servers[1], WIRE_PULL);
        if (i == 0)
            say_type(1, WIRE_STALE);
    }
    say_values(1, (struct reply){.value = 3, .step = 3, .generation = 8});
    assert_done();
    assert_model(1, 3, 3);
    start_push(4, 1);
    expect(servers[0], WIRE_PUSH);
    expect(servers[1], WIRE_PUSH);
    say_values(0, (struct reply){.value = 5, .step = 4, .generation = 8});
    say_values(1, (struct reply){.value = 6, .step = 4, .generation = 8});
    assert_done();
    assert_model(5, 6, 4);
}

/* The first `bytes` of an answer with a grant. */
static void say_begin(size_t bytes)
{
    char frame[sizeof(struct wire_header) + sizeof(struct index_range) + 3 * sizeof(float)];
    const struct index_range grant = {7, 9};
    struct wire_header header = {.type = WIRE_VALUES,
                                 .generation = GENERATION,
                                 .step = 77,
                                 .stock = 1,
                                 .bytes = sizeof(frame) - sizeof(header)};
    wire_header_seal(&header);
    memset(frame, 0x7f, sizeof(frame));
    memcpy(frame, &header, sizeof(header));
    memcpy(frame + sizeof(header), &grant, sizeof(grant));
    assert_true(bytes < sizeof(frame));
    assert_int_equal(send(servers[0], frame, bytes, MSG_NOSIGNAL), bytes);
}

/* Wherever in its answer the server is lost: it is asked again, what it had granted before is no
 * longer held, and nothing stays of what came. */
static void test_a_server_that_is_lost_within_its_answer(void **state)
{
    size_t whole = sizeof(struct wire_header) + sizeof(struct index_range) + 3 * sizeof(float);
    (void)state;
    use_servers(1);
    begin();
    for (size_t bytes = 0; bytes < whole; bytes++) {
        int64_t batch = 20 + (int64_t)bytes;
        float value = (float)bytes;
        start_job(look_job);
        expect(servers[0], WIRE_PULL);
        say_begin(bytes);
        hang_up(0);
        accept_worker(0);
        say_type(0, WIRE_WELCOME);
        take_stream();
        expect(servers[0], WIRE_PULL);
        say_values(
            0, (struct reply){.granted = {batch, batch + 1}, .value = value, .step = 4 + batch});
        assert_done();
        assert_model(value, value, 4 + batch);
        assert_true(exchange_take(exchange, batch));
        assert_false(exchange_take(exchange, batch - 1));
        assert_false(exchange_take(exchange, 7));
    }
}

/* The gradient that is sent again is still of the values before. */
static void test_a_server_that_is_lost_while_it_says_values_are_too_old(void **state)
{
    struct wire_header again = {
        .type = WIRE_AGAIN, .generation = GENERATION, .step = 9, .bytes = 3 * sizeof(float)};
    (void)state;
    use_servers(1);
    options.staleness = 2;
    begin();
    start_push(4, 1);
    assert_int_equal(expect(servers[0], WIRE_PUSH).step, 3);
    wire_header_seal(&again);
    assert_int_equal(send(servers[0], &again, sizeof(again), MSG_NOSIGNAL), sizeof(again));
    hang_up(0);
    accept_worker(0);
    say_type(0, WIRE_WELCOME);
    take_stream();
    assert_int_equal(expect(servers[0], WIRE_PUSH).step, 3);
    say_values(0, (struct reply){.value = 8, .step = 9, .again = true});
    assert_done();
    assert_true(job.again);
}

static void test_a_server_that_cannot_be_reached_is_given_up(void **state)
{
    (void)state;
    use_servers(1);
    options.patience_ms = 60000;
    close(listeners[0]);
    start_job(open_job);
    clock_sleep_ms(50);
    pass(59);
    clock_sleep_ms(50);
    pass(2);
    assert_failed(ERROR_NETWORK, "no answer for 6");
    assert_non_null(strstr(job.message, " s: parameter server 0 (127.0.0.1:"));
    listeners[0] = listen_anywhere(&tasks[0].port);
}

static void accept_and_hang_up(size_t index)
{
    accept_worker(index);
    hang_up(index);
}

/* Where it comes back in time. */
static void test_patience_begins_anew(void **state)
{
    (void)state;
    use_servers(1);
    options.patience_ms = 60000;
    begin();
    for (int i = 0; i < 2; i++) {
        start_job(look_job);
        expect(servers[0], WIRE_PULL);
        hang_up(0);
        accept_and_hang_up(0);
        pass(40);
        accept_and_hang_up(0);
        accept_worker(0);
        say_type(0, WIRE_WELCOME);
        take_stream();
        expect(servers[0], WIRE_PULL);
        say_values(0, (struct reply){.value = 1});
        assert_done();
    }
}

/* false: it has given up. */
static bool connects_again(void)
{
    struct pollfd wanted = {.fd = listeners[0], .events = POLLIN};
    while (__real_poll(&wanted, 1, 10) == 0) {
        if (atomic_load(&job.ended))
            return false;
    }
    return true;
}

/* Or something between greets for it. */
static void test_a_server_that_only_greets_is_given_up(void **state)
{
    (void)state;
    use_servers(1);
    options.patience_ms = 60000;
    begin();
    start_job(look_job);
    expect(servers[0], WIRE_PULL);
    hang_up(0);
    for (int i = 0; i < 100 && connects_again(); i++) {
        accept_worker(0);
        say_type(0, WIRE_WELCOME);
        take_stream();
        expect(servers[0], WIRE_PULL);
        hang_up(0);
        clock_sleep_ms(50); /* it sees that within a second of its clock, or else tries again */
        pass(61);
    }
    atomic_store(&job.stop, true);
    assert_failed(ERROR_NETWORK, "closed the connection at a request");
}

static void count_return(int level, const char *message, void *context)
{
    (void)level;
    *(int *)context += strstr(message, "answers again") != NULL;
}

/* It greets twice, and answers a request then: which the log says at once. */
static void test_a_server_that_greets_and_then_answers(void **state)
{
    static int returns;
    (void)state;
    use_servers(1);
    begin();
    log_set_level(LOG_INFO);
    log_set_sink(count_return, &returns);
    start_job(look_job);
    expect(servers[0], WIRE_PULL);
    for (int i = 0; i < 2; i++) {
        hang_up(0);
        accept_worker(0);
        say_type(0, WIRE_WELCOME);
        take_stream();
        expect(servers[0], WIRE_PULL);
    }
    say_values(0, (struct reply){.value = 1});
    assert_done();
    log_set_sink(NULL, NULL);
    assert_int_equal(returns, 2); /* the first time it was taken at its greeting */
}

static void test_a_signal_ends_the_wait(void **state)
{
    (void)state;
    close(listeners[0]);
    start_job(open_job);
    clock_sleep_ms(50);
    atomic_store(&job.stop, true);
    assert_int_equal(end_job(), ERROR_CANCELLED);
    assert_non_null(strstr(job.message, "stopped while waiting for parameter server 0"));
    listeners[0] = listen_anywhere(&tasks[0].port);
}

/* All servers get a gradient, or none. */
static void push_half_and_stop(void)
{
    begin();
    start_push(4, 1);
    expect(servers[0], WIRE_PUSH);
    say_values(0, (struct reply){.value = 2, .step = 4});
    atomic_store(&job.stop, true);
    clock_sleep_ms(60);
    expect(servers[1], WIRE_PUSH);
}

static void test_a_signal_does_not_split_a_gradient(void **state)
{
    (void)state;
    push_half_and_stop();
    say_values(1, (struct reply){.value = 3, .step = 4});
    assert_done();
    assert_model(2, 3, 4);
}

static void test_a_signal_ends_a_gradient_that_is_not_answered(void **state)
{
    (void)state;
    push_half_and_stop();
    pass(2);
    clock_sleep_ms(60);
    assert_int_equal(pthread_tryjoin_np(job.thread, NULL), EBUSY);
    pass(2);
    assert_failed(ERROR_CANCELLED, "stopped while waiting for parameter server 1");
}

/* One that is connected and does not answer waits for somebody else itself. */
static void test_a_server_that_does_not_answer_is_waited_for(void **state)
{
    (void)state;
    use_servers(1);
    options.patience_ms = 1000;
    begin();
    start_job(look_job);
    expect(servers[0], WIRE_PULL);
    for (int i = 0; i < 5; i++) {
        clock_sleep_ms(20);
        pass(20);
    }
    say_values(0, (struct reply){.value = 5, .step = 6});
    assert_done();
    assert_model(5, 5, 6);
}

/* The logdir says that the training ended without this worker. */
static void test_the_training_ended_while_server_0_was_away(void **state)
{
    struct checkpoint_facts facts = small_facts();
    struct logdir *logdir;
    (void)state;
    use_servers(1);
    begin();
    assert_ok(logdir_open(folder, 0, &logdir));
    model_set_step(model, 100);
    assert_ok(save_checkpoint(logdir, model, &facts));
    logdir_close(logdir);
    start_job(look_job);
    expect(servers[0], WIRE_PULL);
    close(listeners[0]);
    hang_up(0);
    assert_failed(ERROR_END, "the training is over: ");
    listeners[0] = listen_anywhere(&tasks[0].port);
}

/* ---- answers that cannot be ---------------------------------------------- */

static void test_nonsense_is_refused(void **state)
{
    static const float floats[8];
    static const struct index_range bad = {5, 3};
    const struct {
        struct wire_header header;
        const void *payload;
        size_t bytes;
        const char *text;
    } answers[] = {
        {{.type = WIRE_TAKEN}, NULL, 0, "answers TAKEN to a request"},
        {{.type = WIRE_VALUES}, floats, 8, "answers with 8 bytes of values, not 12"},
        {{.type = WIRE_VALUES, .stock = 1}, floats, 12, "answers with 12 bytes of values, not 12"},
        {{.type = WIRE_VALUES, .stock = 2}, floats, 12 + 32, "bytes of values"},
        {{.type = WIRE_VALUES, .shared = 1}, NULL, 0, "through memory that is not shared"},
        {{.type = WIRE_VALUES, .stock = 1}, &bad, 0, "range"},
    };
    char frame[sizeof(bad) + 12] = "";
    memcpy(frame, &bad, sizeof(bad));
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
        use_servers(1);
        begin();
        start_job(look_job);
        expect(servers[0], WIRE_PULL);
        if (answers[i].payload == &bad)
            say(servers[0], answers[i].header, frame, sizeof(frame));
        else if (answers[i].bytes > sizeof(floats))
            say(servers[0], answers[i].header, (char[44]){0}, 44);
        else
            say(servers[0], answers[i].header, answers[i].payload, answers[i].bytes);
        assert_failed(ERROR_INPUT, answers[i].text);
        clear(state);
        prepare(state);
    }
}

/* Only server 0 grants batches. */
static void test_another_server_grants_nothing(void **state)
{
    (void)state;
    begin();
    start_job(look_job);
    expect(servers[0], WIRE_PULL);
    say_values(0, (struct reply){.value = 1});
    expect(servers[1], WIRE_PULL);
    say_values(1, (struct reply){.granted = {9, 10}, .value = 1});
    assert_failed(ERROR_INPUT, "answers with 24 bytes of values, not 8");
}

/* ---- shared memory ------------------------------------------------------- */

static void test_memory_is_offered_before_the_first_gradient(void **state)
{
    struct shared_memory_offer offer;
    struct shared_memory memory;
    (void)state;
    use_servers(1);
    options.tcp_only = false;
    begin();
    set_gradient(5, 6, 7);
    start_push(4, 1);
    assert_int_equal(expect(servers[0], WIRE_OFFER).bytes, sizeof(offer));
    say(servers[0], (struct wire_header){.type = WIRE_TAKEN}, NULL,
        0); /* generation 0: not yet, ask again */
    assert_int_equal(expect(servers[0], WIRE_PUSH).bytes, 3 * sizeof(float));
    say_values(0, (struct reply){.value = 2, .step = 4});
    assert_done();
    start_push(5, 1);
    expect(servers[0], WIRE_OFFER);
    memcpy(&offer, frame_bytes, sizeof(offer));
    assert_ok(shared_memory_take(&memory, 3, &offer));
    struct wire_header taken = {.type = WIRE_TAKEN, .shared = 1, .generation = GENERATION};
    say(servers[0], taken, NULL, 0);
    struct wire_header header = expect(servers[0], WIRE_PUSH);
    assert_int_equal(header.bytes, 0);
    assert_int_equal(header.shared, 1);
    assert_true(memory.gradient[0] == 5 && memory.gradient[2] == 7);
    for (size_t i = 0; i < 3; i++)
        memory.values[i] = 9;
    header =
        (struct wire_header){.type = WIRE_VALUES, .generation = GENERATION, .step = 5, .shared = 1};
    say(servers[0], header, NULL, 0);
    assert_done();
    assert_model(9, 9, 5);
    memory.values[1] = 8; /* it computes there: nothing is copied */
    assert_true(model_values(model)[1] == 8);
    model_gradient_values(model)[1] = 4;
    assert_true(memory.gradient[1] == 4);
    start_push(6, 1); /* not a second time */
    expect(servers[0], WIRE_PUSH);
    hang_up(0);
    accept_worker(0);
    say_type(0, WIRE_WELCOME);
    take_stream();
    expect(servers[0], WIRE_OFFER); /* but on another connection */
    taken.shared = 0;
    say(servers[0], taken, NULL, 0);
    assert_int_equal(expect(servers[0], WIRE_PUSH).bytes, 3 * sizeof(float));
    float gradient[3];
    memcpy(gradient, frame_bytes, sizeof(gradient));
    assert_true(gradient[0] == 5 && gradient[1] == 4 && gradient[2] == 7);
    memory.values[0] = 1; /* of no concern any more */
    say_values(0, (struct reply){.value = 2, .step = 6});
    assert_done();
    assert_model(2, 2, 6);
    shared_memory_release(&memory);
}

/* All goes by TCP. */
static void test_a_machine_without_room_for_shared_memory(void **state)
{
    struct rlimit limit, none;
    (void)state;
    use_servers(1);
    options.tcp_only = false;
    begin();
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    start_push(4, 1);
    struct wire_header header = expect(servers[0], WIRE_PUSH);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(header.bytes, 3 * sizeof(float));
    say_values(0, (struct reply){.value = 2, .step = 4});
    assert_done();
    start_push(5, 1); /* nor is it tried again */
    expect(servers[0], WIRE_PUSH);
    say_values(0, (struct reply){.value = 3, .step = 5});
    assert_done();
    assert_model(3, 3, 5);
}

static void test_an_answer_to_the_offer_that_is_none(void **state)
{
    (void)state;
    use_servers(1);
    options.tcp_only = false;
    begin();
    start_push(4, 1);
    expect(servers[0], WIRE_OFFER);
    say_type(0, WIRE_STALE);
    assert_failed(ERROR_INPUT, "answers STALE to OFFER");
}

/* A gradient whose zeros are left out, by TCP and by shared memory. */
static void test_a_gradient_that_is_mostly_zeros(void **state)
{
    struct checkpoint_facts facts = small_facts();
    struct shared_memory_offer offer;
    struct shared_memory memory;
    struct wire_header header;
    (void)state;
    use_servers(1);
    options.tcp_only = false;
    facts.model.shape.features = FEATURES_MOST;
    model_free(model);
    assert_ok(model_new(&facts.model, engine.kernel, &model));
    begin();
    float *gradient = model_gradient_values(model);
    memset(gradient, 0, (FEATURES_MOST + 1) * sizeof(*gradient));
    gradient[3] = 33;
    gradient[150] = 44;
    for (int shared = 0; shared < 2; shared++) {
        start_push(4 + shared, 1);
        expect(servers[0], WIRE_OFFER);
        memcpy(&offer, frame_bytes, sizeof(offer));
        if (shared)
            assert_ok(shared_memory_take(&memory, FEATURES_MOST + 1, &offer));
        header = (struct wire_header){
            .type = WIRE_TAKEN, .shared = (uint16_t)shared, .generation = (uint64_t)shared};
        say(servers[0], header, NULL, 0);
        header = expect(servers[0], WIRE_PUSH);
        size_t runs = header.detail;
        assert_true(runs > 1 && runs < 4);
        assert_int_equal(header.shared, shared);
        const struct run *list = (const struct run *)(const void *)frame_bytes;
        const float *floats = (const float *)(const void *)(list + runs);
        size_t floats_bytes = header.bytes - runs * sizeof(*list), count = 0;
        for (size_t i = 0; i < runs; i++)
            count += list[i].count;
        assert_int_equal(floats_bytes, shared ? 0 : count * sizeof(float));
        assert_true(count < FEATURES_MOST / 2);
        assert_true(list[0].first <= 3 && 3 < list[0].first + list[0].count);
        if (shared)
            assert_true(memory.gradient[3] == 33 && memory.gradient[150] == 44);
        else
            assert_true(floats[3 - list[0].first] == 33);
        say_values(0, (struct reply){.value = 2, .step = 4});
        assert_done();
    }
    shared_memory_release(&memory);
}

/* The values of a GPU are copied there, and its gradient from there. */
static void test_a_model_on_a_gpu(void **state)
{
    (void)state;
    engine.device->kind = DEVICE_CUDA;
    begin();
    assert_ptr_not_equal(exchange->values, model_values(model));
    assert_model(1, 1, 3);
    set_gradient(5, 6, 7);
    start_push(4, 1);
    expect(servers[0], WIRE_PUSH);
    assert_true(((const float *)(const void *)frame_bytes)[0] == 5);
    expect(servers[1], WIRE_PUSH);
    assert_true(((const float *)(const void *)frame_bytes)[1] == 7);
    say_values(0, (struct reply){.value = 2, .step = 4});
    say_values(1, (struct reply){.value = 3, .step = 4});
    assert_done();
    assert_model(2, 3, 4);
}

/* ---- synchronous --------------------------------------------------------- */

static void begin_in_step(void)
{
    options.aggregate = 2;
    begin_with((struct reply){.granted = {4, 5}, .value = 1, .step = 3});
}

static void test_the_feed_is_asked_ahead(void **state)
{
    (void)state;
    begin_in_step();
    refill();
    assert_int_equal(grant_count, 4);
    for (size_t i = 0; i < 4; i++) /* its batch of this step, and those of three more */
        assert_grant(i, 4 + 2 * (int64_t)i, 5 + 2 * (int64_t)i);
    assert_true(exchange_take(exchange, 4));
    assert_false(exchange_take(exchange, 6)); /* on suspicion: not granted yet */
    assert_ok(index_set_add(&exchange->granted, (struct index_range){6, 7}));
    refill(); /* 8 and 10 are on their way; 6 was put back and has to come again */
    assert_int_equal(grant_count, 6);
    assert_grant(4, 6, 7);
    assert_grant(5, 12, 13);
}

/* Server 0 is the last to get a gradient; then the others' values are of the step that it made. */
static void test_a_step_in_common(void **state)
{
    struct pollfd zero = {.events = POLLIN};
    (void)state;
    begin_in_step();
    start_push(4, 1);
    struct wire_header header = expect(servers[1], WIRE_PUSH);
    assert_int_equal(header.step, 3);
    zero.fd = servers[0];
    assert_int_equal(__real_poll(&zero, 1, 50), 0); /* not before server 1 has it */
    header = (struct wire_header){.type = WIRE_STORED, .generation = GENERATION, .batch = 4};
    say(servers[1], header, NULL, 0);
    expect(servers[0], WIRE_PUSH);
    say_values(0, (struct reply){.granted = {6, 7}, .value = 2, .step = 4});
    header = expect(servers[1], WIRE_PULL);
    assert_int_equal(header.step, 4);
    assert_int_equal(header.batch, WIRE_NONE);
    say_values(1, (struct reply){.value = 5, .step = 4});
    assert_done();
    assert_model(2, 5, 4);
    assert_true(exchange_take(exchange, 6));
    start_push(6, 0); /* server 0 has not made that step: values of now are there already */
    header = (struct wire_header){.type = WIRE_STORED, .generation = GENERATION, .batch = 6};
    expect(servers[1], WIRE_SKIP);
    say(servers[1], header, NULL, 0);
    header = expect(servers[0], WIRE_SKIP);
    assert_int_equal(header.done, 4);
    say_values(0, (struct reply){.granted = {7, 8}, .value = 2, .step = 4});
    assert_done();
    assert_model(2, 5, 4);
}

/* Another worker may have made a step that server 1 knew of when this one asked, and server 2 did
 * not. */
static void test_a_step_that_only_some_servers_had_made(void **state)
{
    struct wire_header stored = {.type = WIRE_STORED, .generation = GENERATION};
    (void)state;
    use_servers(3);
    begin_in_step();
    for (int64_t batch = 4; batch < 6; batch++) {
        start_push(batch, 0);
        for (size_t i = 1; i < 3; i++) {
            expect(servers[i], WIRE_SKIP);
            say(servers[i], stored, NULL, 0);
        }
        expect(servers[0], WIRE_SKIP);
        int64_t step = batch; /* 3 was the first */
        say_values(0, (struct reply){.granted = {batch + 1, batch + 2}, .value = 2, .step = step});
        for (size_t i = 1; i < 3; i++) {
            assert_int_equal(expect(servers[i], WIRE_PULL).step, step);
            bool is_ahead = i == 1 && batch == 4;
            say_values(i, (struct reply){.value = (float)step, .step = step + is_ahead});
        }
        assert_done();
    }
    assert_model(2, 5, 5);
}

static void test_a_step_with_one_server(void **state)
{
    (void)state;
    use_servers(1);
    begin_in_step();
    start_push(4, 1);
    expect(servers[0], WIRE_PUSH);
    say_values(0, (struct reply){.value = 2, .step = 4});
    assert_done();
    assert_model(2, 2, 4);
}

static void test_a_step_of_a_generation_that_is_over(void **state)
{
    (void)state;
    begin_in_step();
    start_push(4, 1);
    expect(servers[1], WIRE_PUSH);
    say_type(1, WIRE_STALE); /* server 0 is not even asked */
    expect(servers[0], WIRE_PULL);
    say_values(0, (struct reply){.granted = {0, 1}, .value = 1, .generation = 8});
    expect(servers[1], WIRE_PULL);
    say_values(1, (struct reply){.value = 1, .generation = 8});
    assert_done();
    assert_false(exchange_take(exchange, 4));
    assert_true(exchange_take(exchange, 0));
}

/* ---- an evaluator's request ---------------------------------------------- */

static int accept_evaluator(void)
{
    struct pollfd wanted = {.fd = listeners[0], .events = POLLIN};
    struct hello hello;
    assert_int_equal(__real_poll(&wanted, 1, WIRE_PATIENCE_S * 1000), 1);
    servers[0] = accept(listeners[0], NULL, NULL);
    set_patience(servers[0]);
    struct wire_header header = expect(servers[0], WIRE_HELLO);
    assert_ok(hello_parse(frame_bytes, header.bytes, &hello));
    assert_string_equal(hello.role, "evaluator");
    assert_int_equal(hello.servers, 2);
    return servers[0];
}

static void test_an_evaluator_asks_for_the_end(void **state)
{
    (void)state;
    start_job(stop_job);
    accept_evaluator();
    say_type(0, WIRE_WELCOME);
    assert_int_equal(expect(servers[0], WIRE_STOP).bytes, 0);
    say_type(0, WIRE_WELCOME);
    assert_done();
    assert_int_equal(hear(servers[0]).type, 0); /* it has closed the connection */
}

static void test_an_evaluator_that_is_not_heard(void **state)
{
    (void)state;
    start_job(stop_job);
    accept_evaluator();
    say_type(0, WIRE_WELCOME);
    expect(servers[0], WIRE_STOP);
    hang_up(0);
    assert_failed(ERROR_NETWORK, "parameter server 0 closed the connection");
    start_job(stop_job);
    accept_evaluator();
    say_type(0, WIRE_PROPOSE);
    assert_failed(ERROR_INPUT, "parameter server 0 answers PROPOSE to HELLO");
    hang_up(0);
    start_job(stop_job);
    accept_evaluator();
    say_type(0, WIRE_WELCOME);
    expect(servers[0], WIRE_STOP);
    say_type(0, WIRE_STALE);
    assert_failed(ERROR_INPUT, "parameter server 0 answers STALE to STOP");
    hang_up(0);
    start_job(stop_job); /* it is connected, and does not answer */
    accept_evaluator();
    pass(6);
    assert_failed(ERROR_TIMEOUT, "parameter server 0 does not answer");
    hang_up(0);
    close(listeners[0]);
    start_job(stop_job);
    assert_int_equal(end_job(), ERROR_NETWORK);
    listeners[0] = listen_anywhere(&tasks[0].port);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, prepare, clear)

static const struct CMUnitTest tests[] = {
    TEST(test_a_training_that_is_known),
    TEST(test_a_training_that_this_worker_describes),
    TEST(test_a_training_that_another_worker_described),
    TEST(test_a_description_that_is_asked_for_again),
    TEST(test_a_step_below_zero),
    TEST(test_a_step_that_has_none_after_it),
    TEST(test_a_gradient_that_is_wanted_again_without_reason),
    TEST(test_a_gradient_that_is_kept_without_reason),
    TEST(test_a_description_that_is_refused),
    TEST(test_a_training_that_is_another_one_now),
    TEST(test_facts_that_are_none),
    TEST(test_a_greeting_that_is_none),
    TEST(test_a_server_that_forgot_is_told_again),
    TEST(test_a_server_that_forgot_hears_what_it_saved),
    TEST(test_a_stream_that_ends_before_that_of_others),
    TEST(test_a_gradient_goes_to_all_servers),
    TEST(test_a_batch_without_rows_is_skipped),
    TEST(test_work_is_asked_for_until_there_is_some),
    TEST(test_the_training_is_over),
    TEST(test_others_may_have_ended_it),
    TEST(test_the_stream_ends),
    TEST(test_a_server_that_knows_the_stream_is_not_told_again),
    TEST(test_values_too_old),
    TEST(test_a_generation_that_is_over),
    TEST(test_values_of_another_generation_take_all_back),
    TEST(test_it_stops_while_servers_begin_again),
    TEST(test_a_lost_server_is_asked_again),
    TEST(test_a_server_without_a_shard_gets_no_gradient),
    TEST(test_a_server_that_is_lost_within_its_answer),
    TEST(test_a_server_that_is_lost_while_it_says_values_are_too_old),
    TEST(test_a_server_that_cannot_be_reached_is_given_up),
    TEST(test_patience_begins_anew),
    TEST(test_a_server_that_only_greets_is_given_up),
    TEST(test_a_server_that_greets_and_then_answers),
    TEST(test_a_signal_ends_the_wait),
    TEST(test_a_signal_does_not_split_a_gradient),
    TEST(test_a_signal_ends_a_gradient_that_is_not_answered),
    TEST(test_a_server_that_does_not_answer_is_waited_for),
    TEST(test_the_training_ended_while_server_0_was_away),
    TEST(test_nonsense_is_refused),
    TEST(test_another_server_grants_nothing),
    TEST(test_memory_is_offered_before_the_first_gradient),
    TEST(test_a_machine_without_room_for_shared_memory),
    TEST(test_an_answer_to_the_offer_that_is_none),
    TEST(test_a_gradient_that_is_mostly_zeros),
    TEST(test_a_model_on_a_gpu),
    TEST(test_the_feed_is_asked_ahead),
    TEST(test_a_step_in_common),
    TEST(test_a_step_that_only_some_servers_had_made),
    TEST(test_a_step_with_one_server),
    TEST(test_a_step_of_a_generation_that_is_over),
    TEST(test_an_evaluator_asks_for_the_end),
    TEST(test_an_evaluator_that_is_not_heard),
};

UNIT_MAIN(tests)

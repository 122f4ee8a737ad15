/* SPDX-License-Identifier: MIT */
/*
 * Covers trainer/server/server: every allocation of a training with two parameter servers and a
 * worker (trainer/exchange), each in a thread of one program, fails once. Whoever it was ends with
 * ERROR_MEMORY, the others with an end of the training or with nobody to talk to; what was
 * allocated is given back, and a checkpoint that is there is whole.
 */
#include "tests/unit/server_unit.h"

#include <sys/epoll.h>

#include "tests/unit/failing_allocator.h"
#include "trainer/exchange/exchange.h"

#define STEPS 4
#define TICK_MS 20 /* as server.c has it */
#define IDLE_TICKS 40

static struct served zero, other;
static struct engine engine;
static _Atomic int idle_ticks;
static size_t aggregate;
static bool round_robin;
static _Atomic bool worker_stops;
static int64_t granted; /* batches below it the worker may train on */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

enum error __real_engine_open(const struct engine_options *options, struct engine *opened);
enum error __wrap_engine_open(const struct engine_options *options, struct engine *opened);
enum error __wrap_feed_grant(struct feed *feed, int64_t first, int64_t count);
bool __wrap_stop_wait(long long deadline_ns);
int __real_epoll_wait(int epoll, struct epoll_event *events, int most, int milliseconds);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int milliseconds);

/* blas.h asks for it. */
enum error __wrap_engine_open(const struct engine_options *options, struct engine *opened)
{
    pthread_mutex_lock(&one_at_a_time);
    enum error error = __real_engine_open(options, opened);
    pthread_mutex_unlock(&one_at_a_time);
    return error;
}

enum error __wrap_feed_grant(struct feed *feed, int64_t first, int64_t count)
{
    (void)feed;
    if (first + count > granted)
        granted = first + count;
    return OK;
}

/* Pauses are short: it is tried again soon, there is a tick each millisecond, and where nothing
 * happens time passes faster: a save that failed is tried again after half a minute. */
bool __wrap_stop_wait(long long deadline_ns)
{
    (void)deadline_ns;
    clock_sleep_ms(1);
    return false;
}

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int milliseconds)
{
    if (milliseconds != TICK_MS) /* not a parameter server's */
        return __real_epoll_wait(epoll, events, most, milliseconds);
    int count = __real_epoll_wait(epoll, events, most, 1);
    if (count > 0)
        atomic_store(&idle_ticks, 0);
    else if (atomic_fetch_add(&idle_ticks, 1) == IDLE_TICKS) {
        atomic_store(&idle_ticks, 0);
        pass(40);
    }
    return count;
}

/* ---- a training ---------------------------------------------------------- */

static enum error train(struct exchange *exchange)
{
    enum error error;
    bool again;
    granted = 0;
    while (!(error = exchange_refill(exchange, NULL))) {
        for (int64_t batch = 0; batch < granted && !error; batch++) {
            if (exchange_take(exchange, batch))
                error = exchange_push(exchange, batch, 1, &again);
        }
        if (error)
            break;
    }
    return error == ERROR_END ? OK : error;
}

/* A worker, from its first word to the end. */
static enum error work_as_worker(const struct cluster *cluster)
{
    const struct exchange_options options = {.cluster = cluster,
                                             .round_robin = round_robin,
                                             .tcp_only = true,
                                             .aggregate = aggregate,
                                             .staleness = -1,
                                             .logdir = folder,
                                             .train_steps = STEPS,
                                             .patience_ms = -1};
    struct checkpoint_facts facts = small_facts();
    struct exchange *exchange = NULL;
    struct checkpoint *checkpoint = NULL;
    struct model *model = NULL;
    facts.model = zero.model;
    enum error error = model_new(&facts.model, engine.kernel, &model);
    if (!error)
        error = exchange_open(&options, &exchange, &checkpoint);
    if (!error && !checkpoint)
        error = exchange_propose(exchange, &facts, &checkpoint);
    if (!error)
        error = exchange_begin(exchange, &engine, model, 0, INT64_MAX);
    if (!error)
        error = train(exchange);
    exchange_close(exchange);
    checkpoint_close(checkpoint);
    model_free(model);
    return error;
}

/* Who is left waits for it for ever: it would be started again. */
static void stop_all(void)
{
    atomic_store(&worker_stops, true);
    atomic_store(&zero.stop, true);
    atomic_store(&other.stop, true);
}

static enum error train_once(void)
{
    struct cluster_task tasks[2] = {{.role = CLUSTER_PS, .host = "127.0.0.1"},
                                    {.role = CLUSTER_PS, .index = 1, .host = "127.0.0.1"}};
    struct cluster cluster = {
        .role = CLUSTER_WORKER, .tasks = tasks, .task_count = 2, .begin = {0, 0, 0, 2, 2}};
    unit_folder_make(folder);
    struct served *const servers[] = {&zero, &other};
    for (size_t i = 0; i < 2; i++) {
        describe_server(servers[i], i, 2, STEPS);
        servers[i]->options.coordinator.aggregate = aggregate;
        servers[i]->options.coordinator.round_robin = round_robin;
        servers[i]->on_error = stop_all;
    }
    worker_stops = false;
    for (size_t i = 0; i < 2; i++) {
        servers[i]->options.zero_port = zero.port;
        start_server(servers[i]);
        tasks[i].port = servers[i]->port;
    }
    enum error error = work_as_worker(&cluster);
    if (error) /* else they end by themselves */
        stop_all();
    for (size_t i = 0; i < 2; i++)
        (void)join_server(servers[i]);
    return error ? error : zero.error ? zero.error : other.error;
}

static void check_logdir(void)
{
    struct logdir *logdir;
    struct checkpoint *newest;
    if (logdir_open_read(folder, &logdir)) /* it was not even made */
        return;
    assert_ok(logdir_newest(logdir, &newest));
    checkpoint_close(newest);
    logdir_close(logdir);
}

static enum error run_once(void)
{
    enum error error = train_once();
    long left = allocations_left;
    allocations_left = -1;
    check_logdir();
    unit_folder_remove(folder);
    allocations_left = left;
    return error;
}

/* Nobody else has an error of its own. */
static void check(long nth, enum error error)
{
    bool is_memory = error == ERROR_MEMORY || zero.error == ERROR_MEMORY ||
                     other.error == ERROR_MEMORY || !error;
    bool is_sequel =
        error == OK || error == ERROR_MEMORY || error == ERROR_NETWORK || error == ERROR_CANCELLED;
    if (!is_memory || !is_sequel)
        fail_msg("allocation %ld failed: the worker or the first server ended with %d, %s; the "
                 "servers with %d, %s and %d, %s",
                 nth, error, error_message(), zero.error, zero.message, other.error, other.message);
}

static int begin(void **state)
{
    const struct engine_options options = {.device = "cpu", .blas = "plain", .threads = 1};
    (void)state;
    log_set_level((enum log_level)(LOG_ERROR + 1));
    assert_ok(engine_open(&options, &engine));
    stop_follow(&worker_stops);
    return 0;
}

static int end(void **state)
{
    (void)state;
    stop_follow(NULL);
    engine_close(&engine);
    return 0;
}

static void test_asynchronous(void **state)
{
    (void)state;
    aggregate = 0;
    round_robin = false;
    fail_each(run_once, check);
}

static void test_in_step(void **state)
{
    (void)state;
    aggregate = 2;
    round_robin = true;
    fail_each(run_once, check);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

static const struct CMUnitTest tests[] = {
    TEST(test_asynchronous),
    TEST(test_in_step),
};

UNIT_MAIN(tests)

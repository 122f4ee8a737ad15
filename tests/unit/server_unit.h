/* SPDX-License-Identifier: MIT */
/*
 * A parameter server in a thread of the test's, on a port of this machine, and callers whose frames
 * the test writes (wire_unit.h). A training of a regression by two features, three parameters that begin as
 * zeros; a gradient of ones takes one from each.
 */
#ifndef TESTS_UNIT_SERVER_UNIT_H
#define TESTS_UNIT_SERVER_UNIT_H

#include "tests/unit/folder_unit.h"

#include <pthread.h>

#include "common/log.h"
#include "common/stop.h"
#include "tests/unit/checkpoint_unit.h"
#include "tests/unit/wire_unit.h"
#include "trainer/server/server.h"
#include "trainer/wire/hello.h"

#define PARAMETERS 3

struct served {
    struct server_options options;
    struct model_options model;
    uint16_t port;
    pthread_t thread;
    bool runs;
    _Atomic bool stop, ended;
    void (*on_error)(void); /* it ended with one; in its thread; NULL: nothing */
    enum error error;
    char message[ERROR_MESSAGE_BYTES];
};

static const float ones[PARAMETERS] = {1, 1, 1};

/* ---- the server ---------------------------------------------------------- */

/* Server `index` of so many, asynchronous, of a training of `last` steps. */
static inline void describe_server(struct served *served, size_t index, size_t servers,
                                   int64_t last)
{
    memset(served, 0, sizeof(*served));
    served->model = small_facts().model;
    assert_ok(optimizer_init(&served->model.optimizer, "sgd", 1));
    served->options = (struct server_options){
        .index = index,
        .zero_host = "127.0.0.1",
        .staleness = -1,
        .engine = {.device = "cpu", .blas = "plain", .threads = 1},
        .coordinator = {.servers = servers, .logdir = folder, .train_steps = last}};
}

static inline void *run_server(void *context)
{
    struct served *served = context;
    stop_follow(&served->stop);
    served->error = server_run(&served->options);
    snprintf(served->message, sizeof(served->message), "%s", error_message());
    atomic_store(&served->ended, true);
    if (served->error && served->on_error)
        served->on_error();
    return NULL;
}

static inline void start_server(struct served *served)
{
    served->options.descriptor = listen_anywhere(&served->port);
    served->options.coordinator.model = &served->model;
    assert_int_equal(pthread_create(&served->thread, NULL, run_server, served), 0);
    served->runs = true;
}

static inline enum error join_server(struct served *served)
{
    pthread_join(served->thread, NULL);
    served->runs = false;
    return served->error;
}

static inline void assert_ended(struct served *served, enum error error, const char *text)
{
    assert_int_equal(join_server(served), error);
    if (!strstr(served->message, text))
        fail_msg("message \"%s\" does not hold \"%s\"", served->message, text);
}

/* Whatever it still waits for. */
static inline void end_server(struct served *served)
{
    atomic_store(&served->stop, true);
    while (served->runs && !atomic_load(&served->ended)) {
        pass(1);
        clock_sleep_ms(5);
    }
    if (served->runs)
        (void)join_server(served);
}

/* ---- callers ------------------------------------------------------------- */

static inline int call_port(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(caller >= 0);
    assert_int_equal(connect(caller, (struct sockaddr *)&address, sizeof(address)), 0);
    set_patience(caller);
    return caller;
}

static inline void expect_refused(int caller, enum error code, const char *text)
{
    struct wire_header header = expect(caller, WIRE_REFUSED);
    assert_int_equal(header.detail, (uint16_t)-code);
    if (!strstr(frame_bytes, text))
        fail_msg("message \"%s\" does not hold \"%s\"", frame_bytes, text);
    assert_int_equal(hear(caller).type, 0);
    close(caller);
}

/* What a process of the training says first; `role`, index and what differs are the caller's. */
static inline struct hello hello_of(const struct served *served, const char *role, int64_t index)
{
    const struct server_options *options = &served->options;
    struct hello hello = {.index = index,
                          .server = (int64_t)options->index,
                          .servers = (int64_t)options->coordinator.servers,
                          .aggregate = (int64_t)options->coordinator.aggregate,
                          .staleness = options->staleness,
                          .train_steps = options->coordinator.train_steps,
                          .is_grouped = options->coordinator.is_grouped,
                          .round_robin = options->coordinator.round_robin,
                          .bad_rows = options->bad_rows};
    snprintf(hello.role, sizeof(hello.role), "%s", role);
    return hello;
}

static inline int call_with(const struct served *served, const struct hello *hello)
{
    struct buffer text = BUFFER_INIT(WIRE_TEXT_LIMIT);
    int caller = call_port(served->port);
    assert_ok(hello_print(hello, &text));
    say(caller, (struct wire_header){.type = WIRE_HELLO}, text.data, text.length);
    buffer_release(&text);
    return caller;
}

static inline int call_as(const struct served *served, const char *role, int64_t index)
{
    struct hello hello = hello_of(served, role, index);
    return call_with(served, &hello);
}

static inline void propose(const struct served *served, int worker)
{
    struct checkpoint_facts facts = small_facts();
    struct buffer text = BUFFER_INIT(WIRE_FACTS_LIMIT);
    facts.model = served->model;
    assert_ok(checkpoint_print_facts(&facts, 0, &text));
    say(worker, (struct wire_header){.type = WIRE_PROPOSAL}, text.data, text.length);
    buffer_release(&text);
}

/* The first worker of a training: it has said what is trained. */
static inline int call_first(const struct served *served)
{
    int worker = call_as(served, "worker", 0);
    expect(worker, WIRE_PROPOSE);
    propose(served, worker);
    expect(worker, WIRE_FACTS);
    return worker;
}

/* A worker of a training that is known. */
static inline int call_next(const struct served *served, int64_t index)
{
    int worker = call_as(served, "worker", index);
    expect(worker, WIRE_FACTS);
    return worker;
}

static inline struct wire_header pull_header(void)
{
    return (struct wire_header){.type = WIRE_PULL, .batch = WIRE_NONE, .done = WIRE_NONE};
}

static inline struct wire_header push_header(uint64_t generation, int64_t batch)
{
    return (struct wire_header){
        .type = WIRE_PUSH, .generation = generation, .batch = batch, .done = WIRE_NONE};
}

/* VALUES of all parameters, each of which is `value`; the range that was granted with them, which
 * may be empty. */
static inline struct index_range expect_values_of(int worker, size_t parameters, float value,
                                                  struct wire_header *ret_header)
{
    struct index_range range = {0, 0};
    struct wire_header header = expect(worker, WIRE_VALUES);
    const char *at = frame_bytes;
    if (header.stock > 0)
        memcpy(&range, at, sizeof(range));
    at += header.stock * sizeof(range);
    assert_int_equal(header.bytes, header.stock * sizeof(range) +
                                       (header.shared ? 0 : parameters * sizeof(float)));
    for (size_t i = 0; i < parameters && !header.shared; i++) {
        float got;
        memcpy(&got, at + i * sizeof(got), sizeof(got));
        if (got != value)
            fail_msg("parameter %zu is %f, not %f", i, (double)got, (double)value);
    }
    *ret_header = header;
    return range;
}

static inline struct index_range expect_values(int worker, float value,
                                               struct wire_header *ret_header)
{
    return expect_values_of(worker, PARAMETERS, value, ret_header);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A rank, a worker of a group of GPUs, on the CPU: server 0 is a thread of the test's, NCCL's calls
 * are answered here, and the minute for which GPUs may connect passes when the test says so. Linked
 * with --wrap of what has __wrap_ here.
 */
#ifndef TESTS_UNIT_RANK_UNIT_H
#define TESTS_UNIT_RANK_UNIT_H

#include "tests/unit/checkpoint_unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/stop.h"
#include "trainer/exchange/rank_private.h"
#include "trainer/wire/group.h"

#define GENERATION 7
#define TRIES 8
#define POLLS_LIMIT 5000 /* it waits for ever */
#define NEVER INT32_MAX

/* What the answer to a JOIN is; the first group is 1. */
struct answer {
    enum wire_type type; /* 0: the connection is lost */
    bool makes_id;       /* this worker is rank 0, and makes it */
    bool id_is_late;     /* the group is over when the id comes */
    bool has_state;      /* the server's state comes with it, for this worker to send on */
    _Atomic bool ends;   /* before all have connected, or later */
    bool is_over;        /* the training is */
    bool is_elsewhere;   /* the group of now is another one when the id comes */
    bool is_silent;      /* no answer: it waits for others itself */
};

/* How GPUs connect: the first `ready_at` looks say "not yet", and from look `late_at` on so much
 * more time has passed. */
struct attempt {
    int ready_at, late_at;
    int64_t late_ms;
    enum error result;
    bool breaks;               /* the group is over while values are sent */
    const _Atomic bool *stops; /* what is followed from `late_at` on: the program is to stop */
};

static struct answer answers[TRIES];
static struct attempt attempts[TRIES];
static _Atomic int joins, begins, polls, aborts, connections;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the two that follow */
static struct wire_header first_join, latest_join, latest_beat, latest_state;
static float state_values[3];                   /* of that state */
static _Atomic bool wants_state, training_over; /* what the next news say */
static _Atomic bool loses_state;                /* the connection is lost at a STATE */
static _Atomic int state_pause_ms;              /* until a STATE is answered */
static _Atomic int news_type, news_bytes;       /* what they are; usually NEWS of 0 */
static _Atomic int states, beats;               /* that came */
static _Thread_local int64_t skew_ns;
static bool is_late;                  /* what server 0 says comes after the first look */
static bool keeps_waiting;            /* where there is a pause, the program is to stop */
static bool uses_descriptor_0;        /* a worker without standard input */
static _Atomic enum error poll_error; /* what NCCL says once all have connected */

static struct engine engine;
static struct model *model;
static struct remote remote;
static struct exchange exchange;
static struct rank *rank; /* the test's */
static pthread_t servers[TRIES];

/* ---- server 0 ------------------------------------------------------------ */

static bool receive(int descriptor, void *out, size_t bytes)
{
    return bytes == 0 || recv(descriptor, out, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

static void answer_with(int descriptor, struct wire_header header, const struct iovec *parts,
                        size_t count)
{
    struct iovec all[4];
    wire_frame(&header, parts, count, all);
    (void)!writev(descriptor, all, (int)count + 1);
}

static void give_place(int descriptor, const struct answer *answer, int group)
{
    static const struct index_range applied = {0, 6};
    static const float state[3] = {1, 2, 3};
    const struct group_place place = {.rank = !answer->makes_id,
                                      .ranks = 2,
                                      .source = answer->has_state ? !answer->makes_id : 0,
                                      .has_id = !answer->makes_id,
                                      .last = 50};
    const struct iovec parts[] = {
        {(void *)&place, sizeof(place)}, {(void *)&applied, sizeof(applied)}, {(void *)state, 12}};
    const struct wire_header header = {.type = (uint16_t)answer->type,
                                       .generation = GENERATION,
                                       .batch = group,
                                       .step = 3,
                                       .stock = 1,
                                       .over = answer->is_over,
                                       .shared = answer->has_state};
    if (answer->type == WIRE_GROUP)
        answer_with(descriptor, header, parts, answer->has_state ? 3 : 2);
    else
        answer_with(descriptor, header, NULL, 0);
}

static void note(const struct wire_header *header, const char *payload)
{
    pthread_mutex_lock(&mutex);
    if (header->type == WIRE_BEAT) {
        latest_beat = *header;
        beats++;
    }
    if (header->type == WIRE_STATE && header->bytes == sizeof(state_values)) {
        latest_state = *header;
        memcpy(state_values, payload, sizeof(state_values));
        wants_state = false;
        states++;
    }
    pthread_mutex_unlock(&mutex);
}

/* False: it hangs up. */
static bool answer_frame(int descriptor, const struct wire_header *header, const char *payload)
{
    if (header->type == WIRE_JOIN) {
        pthread_mutex_lock(&mutex);
        int number = joins++;
        latest_join = *header;
        if (number == 0)
            first_join = *header;
        pthread_mutex_unlock(&mutex);
        if (answers[number].type != 0 && !answers[number].is_silent)
            give_place(descriptor, &answers[number], number + 1);
        return answers[number].type != 0;
    }
    const struct answer *answer = &answers[joins - 1];
    bool is_id = header->type == WIRE_ID;
    bool is_over = is_id ? answer->id_is_late : answer->ends;
    note(header, payload);
    struct wire_header news = {.type = is_id ? WIRE_NEWS : (uint16_t)news_type,
                               .generation = GENERATION,
                               .batch = is_over ? 0 : header->batch,
                               .over = training_over,
                               .detail = wants_state};
    news.batch += is_id && answer->is_elsewhere;
    struct iovec part = {(char[1]){0}, is_id ? 0 : (size_t)news_bytes};
    if (header->type == WIRE_STATE && loses_state)
        return false;
    if (header->type == WIRE_STATE)
        clock_sleep_ms(state_pause_ms);
    answer_with(descriptor, news, &part, 1);
    return true;
}

static void *serve(void *context)
{
    int descriptor = *(int *)context;
    struct wire_header header;
    char payload[4096];
    while (receive(descriptor, &header, sizeof(header)) && header.bytes <= sizeof(payload) &&
           receive(descriptor, payload, header.bytes)) {
        if (!answer_frame(descriptor, &header, payload))
            break;
    }
    close(descriptor);
    return NULL;
}

enum error __wrap_exchange_connect(struct exchange *of, struct remote *to);

enum error __wrap_exchange_connect(struct exchange *of, struct remote *to)
{
    static int far_ends[TRIES];
    int ends[2], *far_end = &far_ends[connections];
    (void)of;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    to->link.descriptor = ends[0];
    if (uses_descriptor_0) {
        assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
        close(ends[0]);
        to->link.descriptor = STDIN_FILENO;
    }
    *far_end = ends[1];
    assert_int_equal(pthread_create(&servers[connections++], NULL, serve, far_end), 0);
    return OK;
}

/* ---- time and NCCL -------------------------------------------------------- */

enum error __real_link_await(struct link *link, int64_t deadline_ns);
enum error __wrap_link_await(struct link *link, int64_t deadline_ns);
int64_t __real_clock_now_ns(void);
int64_t __wrap_clock_now_ns(void);
bool __wrap_stop_wait(int64_t deadline_ns);
enum error __wrap_nccl_make_id(struct nccl *nccl, char ret_id[NCCL_ID_BYTES]);
enum error __wrap_nccl_begin(struct nccl *nccl, const char id[NCCL_ID_BYTES], size_t ranks,
                             size_t place);
enum error __wrap_nccl_poll(struct nccl *nccl);
enum error __wrap_nccl_broadcast(struct nccl *nccl, float *values, size_t count, size_t root,
                                 void *stream);
void __wrap_nccl_abort(struct nccl *nccl);

enum error __wrap_link_await(struct link *link, int64_t deadline_ns)
{
    bool was_late = is_late;
    is_late = false;
    return was_late ? error_set(ERROR_TIMEOUT, "not yet") : __real_link_await(link, deadline_ns);
}

int64_t __wrap_clock_now_ns(void)
{
    return __real_clock_now_ns() + skew_ns;
}

bool __wrap_stop_wait(int64_t deadline_ns)
{
    (void)deadline_ns;
    return keeps_waiting;
}

enum error __wrap_nccl_make_id(struct nccl *nccl, char ret_id[NCCL_ID_BYTES])
{
    (void)nccl;
    memset(ret_id, 'i', NCCL_ID_BYTES);
    return OK;
}

enum error __wrap_nccl_begin(struct nccl *nccl, const char id[NCCL_ID_BYTES], size_t ranks,
                             size_t place)
{
    (void)nccl;
    assert_int_equal(id[0], answers[joins - 1].makes_id ? 'i' : 0);
    assert_int_equal(ranks, 2);
    assert_int_equal(place, !answers[joins - 1].makes_id);
    begins++;
    polls = 0;
    skew_ns = 0;
    return OK;
}

enum error __wrap_nccl_poll(struct nccl *nccl)
{
    const struct attempt *attempt = &attempts[begins - 1];
    (void)nccl;
    int look = polls++;
    if (look > POLLS_LIMIT)
        fail_msg("it waits for ever for GPUs to connect");
    if (look == attempt->late_at)
        skew_ns = attempt->late_ms * 1000000;
    if (look == attempt->late_at && attempt->stops)
        stop_follow(attempt->stops);
    if (look < attempt->ready_at)
        return error_set(ERROR_TIMEOUT, "not yet");
    if (poll_error)
        return error_set(poll_error, "a rank is lost");
    return attempt->result ? error_set(attempt->result, "it did not go well") : OK;
}

enum error __wrap_nccl_broadcast(struct nccl *nccl, float *values, size_t count, size_t root,
                                 void *stream)
{
    (void)nccl;
    (void)values;
    (void)root;
    (void)stream;
    assert_int_equal(count, 3);
    if (attempts[begins - 1].breaks)
        rank_watch_break_off(&rank->watch, "a test");
    return OK;
}

void __wrap_nccl_abort(struct nccl *nccl)
{
    (void)nccl;
    aborts++;
}

/* ---- a worker ------------------------------------------------------------ */

static void open_worker(void)
{
    const struct engine_options options = {.device = "cpu", .blas = "plain", .threads = 1};
    struct checkpoint_facts facts = small_facts();
    log_set_level((enum log_level)(LOG_ERROR + 1));
    for (int i = 0; i < TRIES; i++) {
        answers[i] = (struct answer){.type = WIRE_GROUP};
        attempts[i] = (struct attempt){.ready_at = 2, .late_at = NEVER};
    }
    joins = begins = polls = aborts = connections = states = beats = 0;
    wants_state = training_over = loses_state = is_late = keeps_waiting = uses_descriptor_0 = false;
    news_type = WIRE_NEWS;
    news_bytes = state_pause_ms = 0;
    poll_error = OK;
    skew_ns = 0;
    assert_ok(optimizer_init(&facts.model.optimizer, "sgd", 1));
    assert_ok(engine_open(&options, &engine));
    assert_ok(model_new(&facts.model, engine.kernel, &model));
    assert_int_equal(model_state_count(model), 3);
    snprintf(remote.name, sizeof(remote.name), "server 0");
    link_init(&remote.link, remote.name, "localhost", 1);
    exchange =
        (struct exchange){.engine = &engine, .model = model, .servers = 1, .remotes = &remote};
}

/* Server 0 has heard the end of each. */
static void close_connections(void)
{
    link_close(&remote.link);
    for (int i = 0; i < connections; i++)
        pthread_join(servers[i], NULL);
    connections = 0;
}

static void close_worker(void)
{
    close_connections();
    model_free(model);
    engine_close(&engine);
}

#endif

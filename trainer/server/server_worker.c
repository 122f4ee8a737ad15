/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "trainer/server/server_private.h"
#include "trainer/wire/hello.h"
#include "trainer/wire/runs.h"

/* ---- frames ------------------------------------------------------------- */

static enum error send_welcome(const struct server *server, struct peer *peer)
{
    struct wire_header header = {.type = WIRE_WELCOME, .generation = server->held.generation};
    return peer_send(peer, &header, NULL, 0);
}

static enum error send_stale(const struct server *server, struct peer *peer)
{
    struct wire_header header = {.type = WIRE_STALE, .generation = server->held.generation};
    return peer_send(peer, &header, NULL, 0);
}

static bool shares_memory(const struct server *server, const struct peer *worker)
{
    return worker->shared.values && worker->shared.parameters == server->held.shard.parameters;
}

static enum error send_state(const struct server *server, struct peer *worker, enum wire_type type,
                             struct index_range granted)
{
    bool some = granted.first < granted.end;
    struct wire_header header = {.type = (uint16_t)type,
                                 .over = server_is_over(server),
                                 .generation = server->held.generation,
                                 .batch = worker->header.batch,
                                 .step = server->held.parameters.step,
                                 .stock = some};
    if (server->coordinator)
        header.detail = coordinator_saved_bit(server->coordinator);
    const float *values = server->held.parameters.state;
    struct iovec parts[2] = {{.iov_base = &granted, .iov_len = some ? sizeof(granted) : 0},
                             {.iov_base = (void *)values, .iov_len = server_shard_bytes(server)}};
    if (shares_memory(server, worker)) {
        memcpy(worker->shared.values, values, server_shard_bytes(server));
        parts[1].iov_len = 0;
        header.shared = 1;
    }
    return peer_send(worker, &header, parts, 2);
}

static enum error send_values(const struct server *server, struct peer *worker,
                              struct index_range granted)
{
    return send_state(server, worker, WIRE_VALUES, granted);
}

/* ---- workers ------------------------------------------------------------ */

/* The gradient in a request. */
struct pushed {
    const float *whole; /* NULL: there are parts, or the batch has no rows */
    struct gradient_part parts[RUNS_LIMIT];
    size_t count;
};

static enum error take_runs(const struct server *server, const struct peer *worker,
                            struct pushed *ret_pushed)
{
    const struct wire_header *header = &worker->header;
    struct runs runs;
    enum error error = runs_read(worker->payload, worker->payload_bytes, header->detail,
                                 server->held.shard.parameters, &runs);
    if (error)
        return error;
    size_t before = runs.count * sizeof(struct run);
    size_t floats = header->shared ? 0 : runs.floats * sizeof(float);
    if (worker->payload_bytes != before + floats)
        return error_set(ERROR_INPUT, "runs of %zu floats in %zu bytes", runs.floats,
                         worker->payload_bytes);
    const float *next = (const float *)(const void *)(worker->payload + before);
    for (size_t i = 0; i < runs.count; i++) {
        size_t first = runs.list[i].first, count = runs.list[i].count;
        const float *values = header->shared ? worker->shared.gradient + first : next;
        ret_pushed->parts[i] = (struct gradient_part){first, count, values};
        next += header->shared ? 0 : count;
    }
    ret_pushed->count = runs.count;
    return OK;
}

static enum error gradient_of(const struct server *server, const struct peer *worker,
                              struct pushed *ret_pushed)
{
    const struct wire_header *header = &worker->header;
    size_t bytes = header->shared ? 0 : server_shard_bytes(server);
    bool is_number = header->batch >= 0 && header->batch < INT64_MAX; /* a range ends after it */
    if (!is_number || (header->shared && !shares_memory(server, worker)))
        return error_set(ERROR_INPUT, "%s of batch %" PRId64 "%s", wire_type_name(header->type),
                         header->batch, header->shared ? ", by memory that is not shared" : "");
    ret_pushed->whole = NULL;
    ret_pushed->count = 0;
    if (header->type == WIRE_SKIP)
        return OK;
    if (header->detail > 0)
        return take_runs(server, worker, ret_pushed);
    if (worker->payload_bytes != bytes)
        return error_set(ERROR_INPUT, "a gradient of %zu bytes for a shard of %zu",
                         worker->payload_bytes, server_shard_bytes(server));
    ret_pushed->whole =
        header->shared ? worker->shared.gradient : (const float *)(const void *)worker->payload;
    return OK;
}

static void count_push(struct server *server, struct peer *worker)
{
    int64_t batch = worker->header.batch;
    bool again =
        index_set_has(&server->held.applied, batch) || held_shard_has(&server->held, batch);
    if (worker->counted)
        return;
    worker->counted = true;
    server->repeated += again;
    server->pushes += !again;
    worker->pushes += !again;
}

/* Applies the request's gradient to the shard. */
static enum error apply(struct server *server, struct peer *worker)
{
    struct held_shard *held = &server->held;
    int64_t batch = worker->header.batch;
    struct pushed pushed = {.count = 0};
    if (worker->header.type == WIRE_PULL)
        return OK;
    enum error error = gradient_of(server, worker, &pushed);
    if (error)
        return error;
    count_push(server, worker);
    return pushed.count > 0 ? held_shard_apply_parts(held, batch, pushed.parts, pushed.count)
                            : held_shard_apply(held, batch, pushed.whole);
}

/* Server 0's answer includes new batches; a worker without any waits for some. */
static enum error answer_as_coordinator(struct server *server, struct peer *worker)
{
    const struct wire_header *header = &worker->header;
    struct index_range granted = {0, 0};
    enum error error = coordinator_heed(server->coordinator, worker, header);
    if (!error && !server_is_over(server))
        error = coordinator_grant(server->coordinator, worker, header, server->peers, server->count,
                                  &granted);
    if (error)
        return error;
    bool unfinished = header->type == WIRE_PULL
                          ? header->stock == 0
                          : !index_set_has(&server->held.applied, header->batch);
    worker->waits = unfinished && !server_is_over(server) && granted.first == granted.end;
    return worker->waits ? OK : send_values(server, worker, granted);
}

/* ---- synchronous -------------------------------------------------------- */

/* Makes the steps that server 0 has made: every server has all of their gradients. */
static enum error catch_up(struct server *server, const struct wire_header *header)
{
    struct held_shard *held = &server->held;
    enum error error = OK;
    bool made = true;
    while (!error && made &&
           (held->parameters.step < header->step ||
            (header->type != WIRE_PULL && !index_set_has(&held->applied, header->batch) &&
             !held_shard_is_next(held, header->batch)))) {
        error = held_shard_follow_step(held, &made);
    }
    return error;
}

static enum error store(struct server *server, struct peer *worker)
{
    struct held_shard *held = &server->held;
    struct pushed pushed = {.count = 0};
    enum error error = gradient_of(server, worker, &pushed);
    if (!error && pushed.count > 0)
        pushed.whole = held_shard_expand(held, pushed.parts, pushed.count);
    if (!error && pushed.count > 0 && !pushed.whole)
        error = ERROR_MEMORY;
    if (error)
        return error;
    count_push(server, worker);
    return held_shard_store(held, worker->header.batch, pushed.whole);
}

/* Server 0 receives each gradient last, and makes a step when its last gradient arrives. */
static enum error step_as_coordinator(struct server *server, struct peer *worker)
{
    enum error error = worker->header.type == WIRE_PULL ? OK : store(server, worker);
    bool made = false;
    if (!error)
        error = held_shard_make_step(&server->held, &made);
    server->changed |= made;
    return error ? error : answer_as_coordinator(server, worker);
}

/* The other servers make a step after server 0 has: until then they keep the values from which a
 * lost worker's batch would be computed again. */
static enum error step_as_follower(struct server *server, struct peer *worker)
{
    const struct wire_header *header = &worker->header;
    struct wire_header stored = {
        .type = WIRE_STORED, .generation = server->held.generation, .batch = header->batch};
    enum error error = catch_up(server, header);
    if (!error && header->type != WIRE_PULL)
        error = store(server, worker);
    if (error)
        return error;
    if (header->type != WIRE_PULL)
        return peer_send(worker, &stored, NULL, 0);
    worker->waits = server->held.parameters.step < header->step;
    return worker->waits ? OK : send_values(server, worker, (struct index_range){0, 0});
}

/* Is the gradient older than --staleness allows? Then the worker computes the batch again. */
static bool is_late(const struct server *server, const struct peer *worker)
{
    const struct wire_header *header = &worker->header;
    int64_t most = server->options->staleness;
    return header->type == WIRE_PUSH && most >= 0 && !server_is_over(server) &&
           header->step < server->held.parameters.step - most &&
           !index_set_has(&server->held.applied, header->batch);
}

static enum error refuse_late(struct server *server, struct peer *worker)
{
    enum error error = OK;
    server->late++;
    if (server->coordinator)
        error = coordinator_heed(server->coordinator, worker, &worker->header);
    return error ? error : send_state(server, worker, WIRE_AGAIN, (struct index_range){0, 0});
}

enum error server_serve(struct server *server, struct peer *worker)
{
    const struct wire_header *header = &worker->header;
    struct held_shard *held = &server->held;
    if (server_is_over(server) && held->generation == 0)
        return error_set(ERROR_END, "the training is over: the logdir has its last step");
    bool running =
        !server->coordinator || coordinator_get_phase(server->coordinator) >= COORDINATOR_RUNNING;
    if (!running || held->generation == 0) {
        worker->waits = server->coordinator != NULL;
        return worker->waits ? OK : send_stale(server, worker);
    }
    bool any = server->coordinator && header->type == WIRE_PULL;
    if (header->generation != held->generation && !any)
        return send_stale(server, worker);
    if (held->aggregate > 0 && !server_is_over(server))
        return server->coordinator ? step_as_coordinator(server, worker)
                                   : step_as_follower(server, worker);
    if (header->type != WIRE_PULL && !server_is_over(server) &&
        !held_shard_takes(held, header->batch)) {
        worker->waits = true;
        return OK;
    }
    if (is_late(server, worker))
        return refuse_late(server, worker);
    enum error error = server_is_over(server) ? OK : apply(server, worker);
    if (error)
        return error;
    if (server->coordinator)
        return answer_as_coordinator(server, worker);
    return send_values(server, worker, (struct index_range){0, 0});
}

enum error server_take_stream(const struct server *server, struct peer *worker)
{
    enum error error = coordinator_stream(server->coordinator, worker);
    return error ? error : send_welcome(server, worker);
}

enum error server_heed_refusal(const struct server *server, struct peer *worker)
{
    char why[REFUSAL_BYTES];
    snprintf(why, sizeof(why), "%.*s", (int)worker->payload_bytes, worker->payload);
    log_warning("%s takes no part: %s", worker->name, why);
    coordinator_note_refusal(server->coordinator, worker, why);
    return OK;
}

enum error server_take_offer(const struct server *server, struct peer *worker)
{
    struct shared_memory_offer offer;
    struct wire_header header = {.type = WIRE_TAKEN, .generation = server->held.generation};
    size_t parameters = server->held.shard.parameters;
    if (worker->payload_bytes != sizeof(offer) || worker->shared.values)
        return error_set(ERROR_INPUT, "OFFER of %zu bytes, or a second one", worker->payload_bytes);
    if (header.generation == 0) /* this server has just started */
        return peer_send(worker, &header, NULL, 0);
    memcpy(&offer, worker->payload, sizeof(offer));
    header.shared = shared_memory_take(&worker->shared, parameters, &offer) == OK;
    log_debug("%s: %s", worker->name, header.shared ? "memory is shared" : error_message());
    return peer_send(worker, &header, NULL, 0);
}

/* ---- HELLO ---------------------------------------------------------------- */

static const char *exchange_name(bool is_grouped)
{
    return is_grouped ? "nccl" : "servers";
}

static const char *bad_rows_name(enum bad_rows bad_rows)
{
    if (bad_rows == BAD_ROWS_SKIP)
        return "skip";
    return bad_rows == BAD_ROWS_REPLACE ? "replace" : "fail";
}

static const char *strategy_name(bool round_robin)
{
    return round_robin ? "round_robin" : "bytes";
}

/* Compares the options that decide what gradients are, how they are applied, and until when;
 * hyperparameters are part of FACTS. */
static enum error check_options(const struct server *server, const struct hello *hello)
{
    static const char same[] = "all processes of a training must have the same";
    const struct coordinator_options *ours = &server->options->coordinator;
    int64_t staleness = server->options->staleness;
    if (hello->aggregate != (int64_t)server->held.aggregate)
        return error_set(ERROR_CONFLICT,
                         "its steps are of %" PRId64 " batches, this server's of %zu (0: "
                         "asynchronous): all processes must have the same --sync and "
                         "--replicas-to-aggregate",
                         hello->aggregate, server->held.aggregate);
    if (hello->train_steps > 0 && hello->train_steps != ours->train_steps)
        return error_set(ERROR_CONFLICT,
                         "its --train-steps is %" PRId64 ", this server's %" PRId64 ": %s",
                         hello->train_steps, ours->train_steps, same);
    if (hello->staleness != staleness)
        return error_set(ERROR_CONFLICT,
                         "its --staleness is %" PRId64 ", this server's %" PRId64
                         " (-1: none is given): %s",
                         hello->staleness, staleness, same);
    if (hello->is_grouped != ours->is_grouped)
        return error_set(ERROR_CONFLICT, "its --exchange is %s, this server's %s: %s",
                         exchange_name(hello->is_grouped), exchange_name(ours->is_grouped), same);
    if (hello->round_robin != ours->round_robin)
        return error_set(ERROR_CONFLICT, "its --ps-strategy is %s, this server's %s: %s",
                         strategy_name(hello->round_robin), strategy_name(ours->round_robin), same);
    if (hello->bad_rows != server->options->bad_rows)
        return error_set(ERROR_CONFLICT, "its --bad-rows is %s, this server's %s: %s",
                         bad_rows_name(hello->bad_rows), bad_rows_name(server->options->bad_rows),
                         same);
    return OK;
}

static enum error check_place(const struct server *server, const struct hello *hello)
{
    size_t index = server->options->index, servers = server->options->coordinator.servers;
    bool trains = strcmp(hello->role, "evaluator") != 0;
    enum error error = trains ? check_options(server, hello) : OK;
    if (error)
        return error;
    if (hello->server == (int64_t)index && hello->servers == (int64_t)servers)
        return OK;
    return error_set(ERROR_CONFLICT,
                     "this is parameter server %zu of %zu, and it was taken for %" PRId64
                     " of %" PRId64 ": all processes must have the same --ps-hosts",
                     index, servers, hello->server, hello->servers);
}

static enum peer_kind kind_of(const char *role)
{
    if (strcmp(role, "ps") == 0)
        return PEER_SERVER;
    return strcmp(role, "evaluator") == 0 ? PEER_EVALUATOR : PEER_WORKER;
}

static enum error greet_new(struct server *server, struct peer *peer)
{
    struct hello hello;
    char name[PEER_NAME_BYTES];
    enum error error = hello_parse(peer->payload, peer->payload_bytes, &hello);
    if (!error)
        error = check_place(server, &hello);
    if (error)
        return error;
    enum peer_kind kind = kind_of(hello.role);
    if (kind != PEER_WORKER && !server->coordinator)
        return error_set(ERROR_CONFLICT, "a %s connects to server 0 only", hello.role);
    snprintf(name, sizeof(name), "%.10s %" PRId64 " (%.60s)", hello.role, hello.index, peer->name);
    memcpy(peer->name, name, sizeof(name));
    peer->index = hello.index;
    peer->kind = kind;
    log_debug("%s is there", peer->name);
    if (kind != PEER_SERVER)
        return hello.was_saved && server->coordinator
                   ? coordinator_find_saved(server->coordinator, peer)
                   : OK;
    error = coordinator_join(server->coordinator, peer, hello.generation);
    if (error)
        peer->kind = PEER_NEW;
    return error;
}

enum error server_greet(struct server *server, struct peer *peer)
{
    enum error error = peer->kind == PEER_NEW ? greet_new(server, peer) : OK;
    if (error || peer->kind == PEER_SERVER)
        return error;
    if (server->coordinator && peer->kind == PEER_WORKER) /* again after a wait, too */
        return coordinator_hello(server->coordinator, peer);
    return send_welcome(server, peer);
}

enum error server_stop(const struct server *server, struct peer *evaluator)
{
    enum error error = coordinator_stop(server->coordinator, evaluator);
    return error ? error : send_welcome(server, evaluator);
}

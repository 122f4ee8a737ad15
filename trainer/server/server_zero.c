/* SPDX-License-Identifier: MIT */

#include "common/clock.h"
#include "common/log.h"
#include "trainer/server/server_private.h"
#include "trainer/wire/hello.h"
#include "trainer/wire/link.h"

#define UPLINK_MS 500       /* for one attempt to connect to server 0 */
#define UPLINK_AGAIN_MS 500 /* between two attempts */
#define KEPT_MS 1000        /* a connection that lasts so long is one to a server */
#define BEGIN_MS 3000       /* without a shard, until the log says so */
#define START_MS 5000       /* processes that are started together may be this far apart */

/* ---- frames from server 0 ------------------------------------------------- */

static enum error take_facts(struct server *server, const struct peer *zero)
{
    struct checkpoint *checkpoint = NULL;
    struct model_layout layout;
    struct shard shard;
    enum error error =
        checkpoint_open_facts(zero->name, zero->payload, zero->payload_bytes, &checkpoint);
    if (error)
        return error;
    const struct model_options *model = &checkpoint_get_facts(checkpoint)->model;
    error = model_layout_init(&layout, &model->shape, &model->optimizer);
    if (!error) {
        shard_init(&shard, &layout, server->options->coordinator.servers, server->options->index,
                   server->options->coordinator.round_robin);
        error = held_shard_shape(&server->held, &layout, &shard, &model->optimizer);
    }
    checkpoint_close(checkpoint);
    return error;
}

static enum error say_to_zero(const struct server *server, enum wire_type type, int64_t cut,
                              const struct index_set *set, const struct iovec *rest)
{
    struct wire_header header = {.type = (uint16_t)type,
                                 .generation = server->held.generation,
                                 .batch = cut,
                                 .step = server->held.parameters.step};
    return server->zero ? peer_send_set(server->zero, &header, set, rest) : OK;
}

static enum error take_restore(struct server *server, const struct peer *zero)
{
    struct held_shard *held = &server->held;
    struct index_set applied = {.count = 0};
    size_t bytes = held_shard_state_count(held) * sizeof(float);
    enum error error = peer_read_set(zero, &applied);
    size_t before = zero->header.stock * sizeof(struct index_range);
    if (!error && held->layout.parameters == 0)
        error = error_set(ERROR_INPUT, "RESTORE before FACTS");
    if (!error && zero->payload_bytes - before != bytes)
        error = error_set(ERROR_INPUT, "RESTORE with %zu bytes of state; this shard has %zu",
                          zero->payload_bytes - before, bytes);
    if (!error)
        error = held_shard_begin(held, zero->header.generation,
                                 (const float *)(const void *)(zero->payload + before),
                                 zero->header.step, &applied);
    index_set_release(&applied);
    server->changed = true;
    return error ? error : say_to_zero(server, WIRE_RESTORED, WIRE_NONE, NULL, NULL);
}

static enum error take_freeze(struct server *server, const struct peer *zero)
{
    server->cut = zero->header.batch;
    held_shard_freeze(&server->held);
    return say_to_zero(server, WIRE_FROZEN, server->cut, &server->held.applied, NULL);
}

static enum error take_union(struct server *server, const struct peer *zero)
{
    struct index_set needed = {.count = 0};
    enum error error = peer_read_set(zero, &needed);
    if (!error && zero->header.batch == server->cut && server->held.frozen) {
        error = held_shard_unite(&server->held, &needed);
        server->changed = true;
    }
    index_set_release(&needed);
    return error;
}

/* Sends this shard's state at the cut. What the socket does not accept at once is copied, so that
 * training goes on. */
static enum error copy_cut(struct server *server)
{
    const float *state = held_shard_state(&server->held);
    struct iovec part = {.iov_base = (void *)state,
                         .iov_len = held_shard_state_count(&server->held) * sizeof(*state)};
    enum error error = say_to_zero(server, WIRE_COPIED, server->cut, NULL, NULL);
    if (!error)
        error = say_to_zero(server, WIRE_COPY, server->cut, NULL, &part);
    held_shard_thaw(&server->held);
    server->changed = true;
    return error;
}

/* ERROR_TIMEOUT: server 0 still has a connection of this server, and needs time to find out whether
 * it is dead. */
static enum error take_refused(struct server *server, const struct peer *zero)
{
    bool again = zero->header.detail == (uint16_t)-ERROR_TIMEOUT;
    if (again && !server->doubted)
        log_warning("waiting for %s: %.*s", zero->name, (int)zero->payload_bytes, zero->payload);
    server->doubted = again;
    return error_set(again ? ERROR_NETWORK : ERROR_CONFLICT, "%s: %.*s", zero->name,
                     (int)zero->payload_bytes, zero->payload);
}

static void note_answer(struct server *server)
{
    if (server->zero_away_ns != 0) {
        log_info("parameter server 0 answers again");
        server->say_ns = 0;
    }
    server->zero_away_ns = 0;
    server->zero_silent = false;
}

enum error server_heed_zero(struct server *server, const struct peer *zero)
{
    note_answer(server);
    server->doubted &= zero->header.type == WIRE_REFUSED;
    switch ((enum wire_type)zero->header.type) {
    case WIRE_FACTS:
        return take_facts(server, zero);
    case WIRE_RESTORE:
        return take_restore(server, zero);
    case WIRE_FREEZE:
        return take_freeze(server, zero);
    case WIRE_UNION:
        return take_union(server, zero);
    case WIRE_THAW:
        held_shard_thaw(&server->held);
        server->changed = true;
        return OK;
    case WIRE_STORED:
        server->has_cut = true;
        return OK;
    case WIRE_END:
        server->over = server->changed = true;
        return OK;
    case WIRE_REFUSED:
        return take_refused(server, zero);
    default:
        return error_set(ERROR_INPUT, "%s is not a frame that server 0 sends",
                         wire_type_name(zero->header.type));
    }
}

/* ---- the connection ----------------------------------------------------- */

static enum error say_hello(struct server *server, struct peer *zero)
{
    struct hello hello = {.role = "ps",
                          .index = (int64_t)server->options->index,
                          .servers = (int64_t)server->options->coordinator.servers,
                          .aggregate = (int64_t)server->held.aggregate,
                          .staleness = server->options->staleness,
                          .train_steps = server->options->coordinator.train_steps,
                          .is_grouped = server->options->coordinator.is_grouped,
                          .round_robin = server->options->coordinator.round_robin,
                          .bad_rows = server->options->bad_rows,
                          .generation = server->held.generation};
    struct buffer text = BUFFER_INIT(WIRE_TEXT_LIMIT);
    struct wire_header header = {.type = WIRE_HELLO};
    enum error error = hello_print(&hello, &text);
    struct iovec part = {.iov_base = text.data, .iov_len = text.length};
    if (!error)
        error = peer_send(zero, &header, &part, 1);
    buffer_release(&text);
    return error;
}

/* Has server 0 left because the training is over? Judged from the logdir, as a worker does. */
static bool zero_has_left(struct server *server)
{
    const struct coordinator_options *options = &server->options->coordinator;
    bool may_start = server->held.generation == 0 &&
                     clock_now_ns() - server->zero_away_ns < START_MS * INT64_C(1000000);
    return logdir_is_trained(options->logdir, options->train_steps,
                             logdir_end_for(!may_start, options->may_stop), &server->seen);
}

static void miss_zero(struct server *server, const char *why)
{
    const struct server_options *options = server->options;
    int64_t now_ns = clock_now_ns();
    if (server->zero_away_ns == 0 || now_ns > server->say_ns) {
        log_warning("waiting for parameter server 0 (%s, port %u): %s", options->zero_host,
                    (unsigned)options->zero_port, why);
        server->say_ns = clock_deadline_ns(SAY_AGAIN_MS);
    }
    if (server->zero_away_ns == 0)
        server->zero_away_ns = now_ns;
    if (zero_has_left(server))
        server->over = server->changed = true;
}

/* What stands before server 0 may take connections for it while it is away. */
static void judge_connection(struct server *server)
{
    if (!server->zero_silent || server->over)
        return;
    if (!server->zero) {
        server->zero_silent = false;
        miss_zero(server, "it closed the connection without an answer");
    } else if (clock_now_ns() - server->zero->asked_ns > KEPT_MS * INT64_C(1000000)) {
        note_answer(server);
    }
}

/* It waits for workers, for other servers, or hangs: only it knows. */
static void say_not_begun(struct server *server)
{
    const struct server_options *options = server->options;
    bool waits = server->zero && !server->over && server->held.generation == 0;
    if (!waits || clock_now_ns() < server->say_ns ||
        clock_now_ns() - server->zero->asked_ns < BEGIN_MS * INT64_C(1000000))
        return;
    log_info("waiting for parameter server 0 (%s, port %u) to begin the training",
             options->zero_host, (unsigned)options->zero_port);
    server->say_ns = clock_deadline_ns(SAY_AGAIN_MS);
}

/* May block for UPLINK_MS, which costs nothing: without server 0 no worker makes progress. */
enum error server_reach_zero(struct server *server)
{
    struct link *link = &server->uplink;
    judge_connection(server);
    say_not_begun(server);
    if (server->coordinator || server->zero || server->over ||
        clock_now_ns() < server->next_uplink_ns)
        return OK;
    enum error error = link_open(link, clock_deadline_ns(UPLINK_MS));
    if (!error)
        error = server_add_peer(server, link->descriptor, "parameter server 0", &server->zero);
    link->descriptor = -1; /* the peer's */
    if (!error) {
        server->zero_silent = true;
        server->zero->kind = PEER_SERVER;
        error = say_hello(server, server->zero);
    }
    server->next_uplink_ns = clock_deadline_ns(UPLINK_AGAIN_MS);
    if (error)
        miss_zero(server, link_reason(link));
    return error == ERROR_MEMORY ? error : OK;
}

/* ---- ends --------------------------------------------------------------- */

enum error server_tick_cut(struct server *server)
{
    struct held_shard *held = &server->held;
    bool made = !server->coordinator && held->united;
    enum error error = OK;
    while (made && !error)
        error = held_shard_follow_step(held, &made);
    return error || server->coordinator || !held_shard_is_cut(held) ? error : copy_cut(server);
}

void server_ask_for_cut(struct server *server)
{
    if (server->held.generation != 0 && say_to_zero(server, WIRE_FREEZE, WIRE_NONE, NULL, NULL))
        log_debug("%s", error_message());
}

bool server_was_cut(const struct server *server)
{
    return !server->zero || server->held.generation == 0 || server->has_cut;
}

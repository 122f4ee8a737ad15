/* SPDX-License-Identifier: MIT */
#include "trainer/server/server.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/machine.h"
#include "common/stop.h"
#include "trainer/server/server_private.h"
#include "trainer/wire/link.h"
#include "trainer/wire/runs.h"

#define EVENTS 64
#define TICK_MS 20
#define HELLO_MS 5000   /* for a new connection to send HELLO */
#define LEAVE_MS 10000  /* at the end, for workers to fetch the last values */
#define SAVE_MS 8000    /* after SIGTERM, for a last cut once an earlier save has finished */
#define OTHERS_MS 20000 /* the same for other servers, because server 0 may be saving */
#define PEERS_LIMIT 65536
#define ACCEPT_AGAIN_MS 100
#define FILES_RESERVED 128 /* open files kept free for checkpoints and for a chief's own work */

/* ---- connections --------------------------------------------------------- */

/* -1: none is pending, or there is no room; then tick() tries again after ACCEPT_AGAIN_MS. */
static int accept_one(struct server *server, struct sockaddr_storage *address, socklen_t *length)
{
    int descriptor = -1;
    errno = EMFILE;
    if (server->count < server->most)
        descriptor = accept4(server->options->descriptor, (struct sockaddr *)address, length,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0)
        return descriptor;
    bool waits = errno != EAGAIN;
    if (waits && server->accept_ns == 0)
        log_warning("connections have to wait: %s", strerror(errno));
    server->accept_ns = waits ? clock_deadline_ns(ACCEPT_AGAIN_MS) : 0;
    return -1;
}

static void accept_peers(struct server *server)
{
    for (;;) {
        struct sockaddr_storage address;
        socklen_t length = sizeof(address);
        char host[NI_MAXHOST], port[NI_MAXSERV], name[NI_MAXHOST + NI_MAXSERV + 8];
        struct peer *peer;
        int descriptor = accept_one(server, &address, &length);
        if (descriptor < 0)
            return;
        if (getnameinfo((struct sockaddr *)&address, length, host, sizeof(host), port, sizeof(port),
                        NI_NUMERICHOST | NI_NUMERICSERV) != 0)
            snprintf(name, sizeof(name), "a peer");
        else
            snprintf(name, sizeof(name), "%s:%s", host, port);
        if (server_add_peer(server, descriptor, name, &peer))
            log_warning("%s", error_message());
    }
}

/* ---- frames -------------------------------------------------------------- */

/* The largest payload that this peer may send. */
static uint64_t limit(void *context, const struct peer *peer, enum wire_type type)
{
    const struct server *server = context;
    if (peer == server->zero) {
        if (type == WIRE_FACTS)
            return WIRE_FACTS_LIMIT;
        if (type == WIRE_RESTORE)
            return held_shard_state_count(&server->held) * sizeof(float) +
                   INDEX_SET_LIMIT * sizeof(struct index_range);
        return type == WIRE_UNION ? INDEX_SET_LIMIT * sizeof(struct index_range) : WIRE_TEXT_LIMIT;
    }
    if (peer->kind == PEER_NEW)
        return type == WIRE_HELLO ? WIRE_TEXT_LIMIT : 0;
    if (peer->kind == PEER_WORKER && type == WIRE_REFUSED)
        return server->coordinator ? WIRE_TEXT_LIMIT : 0;
    if (peer->kind == PEER_SERVER)
        return coordinator_limit(server->coordinator, peer, type);
    if (type == WIRE_PUSH)
        return server_shard_bytes(server) + RUNS_LIMIT * sizeof(struct run);
    if (type == WIRE_OFFER)
        return sizeof(struct shared_memory_offer);
    if (type == WIRE_ID || type == WIRE_STATE)
        return server->coordinator ? coordinator_group_limit(server->coordinator, type) : 0;
    return type == WIRE_PROPOSAL && server->coordinator ? WIRE_FACTS_LIMIT : 0;
}

/* Is it a request of a worker whose GPU exchanges gradients with others? */
static bool is_of_group(const struct server *server, enum wire_type type)
{
    return server->options->coordinator.is_grouped && server->coordinator &&
           (type == WIRE_JOIN || type == WIRE_ID || type == WIRE_BEAT || type == WIRE_STATE);
}

/* Answers a complete frame, or lets it wait. After an error the peer is refused. */
static enum error handle(struct server *server, struct peer *peer)
{
    enum wire_type type = peer->header.type;
    if (peer == server->zero)
        return server_heed_zero(server, peer);
    if (type == WIRE_HELLO)
        return server_greet(server, peer);
    if (peer->kind == PEER_SERVER)
        return coordinator_answer(server->coordinator, peer);
    if (peer->kind == PEER_WORKER && type == WIRE_PROPOSAL && server->coordinator)
        return coordinator_propose(server->coordinator, peer);
    if (peer->kind == PEER_WORKER && type == WIRE_STREAM && server->coordinator)
        return server_take_stream(server, peer);
    if (peer->kind == PEER_WORKER && type == WIRE_REFUSED && server->coordinator)
        return server_heed_refusal(server, peer);
    if (peer->kind == PEER_WORKER && is_of_group(server, type))
        return coordinator_group(server->coordinator, peer);
    if (peer->kind == PEER_WORKER && !server->options->coordinator.is_grouped &&
        (type == WIRE_PULL || type == WIRE_PUSH || type == WIRE_SKIP))
        return server_serve(server, peer);
    if (peer->kind == PEER_WORKER && type == WIRE_OFFER)
        return server_take_offer(server, peer);
    if (peer->kind == PEER_EVALUATOR && type == WIRE_STOP)
        return server_stop(server, peer);
    return error_set(ERROR_INPUT, "%s is nothing to say here", wire_type_name(type));
}

static void say_refused(const struct server *server, const struct peer *peer)
{
    log_warning("%s: %s", peer->name, error_message());
    if (server->coordinator)
        coordinator_note_refusal(server->coordinator, peer, error_message());
}

/* Handles a peer's complete frame. ERROR_MEMORY ends this server, and so does any error but
 * ERROR_NETWORK with a frame from server 0, REFUSED among them; other errors concern the peer
 * alone. */
static enum error handle_whole(struct server *server, struct peer *peer)
{
    peer->waits = false;
    enum error error = handle(server, peer);
    if (error == ERROR_MEMORY || (error && peer == server->zero && error != ERROR_NETWORK))
        return error;
    if (error == ERROR_NETWORK) {
        log_debug("%s", error_message());
        return server_drop_peer(server, peer);
    }
    if (error && error != ERROR_END && error != ERROR_TIMEOUT) /* the latter is retried */
        say_refused(server, peer);
    if (error)
        peer_refuse(peer, error);
    if (!peer->waits)
        peer_next(peer);
    error = server_watch(server, peer);
    bool done = peer->gone ? !peer->waits : peer->ending && !peer_has_unsent(peer);
    return !error && done ? server_drop_peer(server, peer) : error;
}

static enum error serve(struct server *server, struct peer *peer, uint32_t events)
{
    enum error error = events & EPOLLOUT ? peer_flush(peer) : OK;
    if (!error && events & EPOLLOUT)
        error = server_watch(server, peer);
    if (!error && peer->ending && !peer_has_unsent(peer))
        return server_drop_peer(server, peer);
    if (peer->kind != PEER_NEW && events & (EPOLLIN | EPOLLOUT)) /* a large frame takes its time */
        peer->asked_ns = clock_now_ns();
    bool gone = false;
    if (!error && peer->kind == PEER_NEW)
        error = server_pass_on(server, peer, &gone);
    if (gone)
        return error;
    if (!error && peer_may_ask(peer))
        error = peer_read(peer, limit, server);
    else if (!error && events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
        return server_heed_hang_up(server, peer);
    if (error) {
        log_debug("%s", error_message());
        return server_drop_peer(server, peer);
    }
    return peer->whole && !peer->waits ? handle_whole(server, peer) : OK;
}

/* Handles waiting requests again if something has changed. */
static enum error serve_waiting(struct server *server)
{
    enum error error = OK;
    bool changed = server->changed;
    if (server->coordinator)
        changed |= coordinator_changed(server->coordinator);
    server->changed = false;
    for (size_t i = server->count; changed && i-- > 0 && !error;) {
        if (i < server->count && server->peers[i]->waits)
            error = handle_whole(server, server->peers[i]);
    }
    return error;
}

/* ---- ends --------------------------------------------------------------- */

static bool has_workers(const struct server *server)
{
    for (size_t i = 0; i < server->count; i++) {
        if (server->peers[i]->kind == PEER_WORKER)
            return true;
    }
    return false;
}

static bool has_unsent(const struct server *server)
{
    for (size_t i = 0; i < server->count; i++) {
        if (peer_has_unsent(server->peers[i]))
            return true;
    }
    return false;
}

/* After the end of the training the server leaves once every worker has fetched the last values, or
 * has had LEAVE_MS to do so. After a signal it does not wait for them: the training is
 * over all the same. */
static bool may_leave(struct server *server)
{
    if (!server_is_over(server))
        return false;
    if (server->leave_ns == 0)
        server->leave_ns = clock_deadline_ns(LEAVE_MS);
    bool waits = has_unsent(server) || (has_workers(server) && !stop_requested());
    return !waits || clock_now_ns() > server->leave_ns;
}

/* After a signal server 0 takes a cut; the others ask it for one. */
static void begin_stop(struct server *server, bool is_saving)
{
    server->leave_ns = clock_deadline_ns(server->coordinator ? SAVE_MS : OTHERS_MS);
    server->saved_before = !is_saving;
    if (server->coordinator)
        coordinator_save_last(server->coordinator);
    else
        server_ask_for_cut(server);
}

/* A disk that does not respond ends the process (trainer/checkpoint/logdir.c). */
static void say_saving(struct server *server)
{
    if (!server->waits_for_save)
        log_info("waiting for the checkpoint that is being saved");
    server->waits_for_save = true;
}

/* The last cut gets its full time, however long the save in progress at the signal took: otherwise
 * the steps made during that save would be lost. */
static bool may_stop(struct server *server)
{
    bool is_saving = server->coordinator && coordinator_is_saving(server->coordinator);
    if (server->leave_ns == 0) {
        begin_stop(server, is_saving);
    } else if (!server->saved_before && !is_saving) {
        server->saved_before = true;
        server->leave_ns = clock_deadline_ns(SAVE_MS);
    }
    bool saved =
        server->coordinator ? coordinator_is_saved(server->coordinator) : server_was_cut(server);
    if (saved && !has_unsent(server))
        return true;
    if (clock_now_ns() <= server->leave_ns)
        return false;
    if (is_saving)
        say_saving(server);
    return !is_saving;
}

/* Drops connections that have not sent HELLO in time. */
static enum error drop_mute(struct server *server)
{
    int64_t before_ns = clock_now_ns() - HELLO_MS * INT64_C(1000000);
    enum error error = OK;
    for (size_t i = server->count; i-- > 0 && !error;) {
        struct peer *peer = server->peers[i];
        if (peer->kind == PEER_NEW && peer->asked_ns < before_ns)
            error = server_drop_peer(server, peer);
    }
    return error;
}

/* A message that answers no request (a shard or its copy) may not have fit into the peer's socket:
 * the rest is sent when there is room. */
static enum error watch_unsent(const struct server *server)
{
    enum error error = OK;
    for (size_t i = 0; i < server->count && !error; i++) {
        if (peer_has_unsent(server->peers[i]))
            error = server_watch(server, server->peers[i]);
    }
    return error;
}

static enum error tick(struct server *server)
{
    if (server->accept_ns != 0 && clock_now_ns() > server->accept_ns)
        accept_peers(server);
    enum error error = server_reach_zero(server);
    if (!error)
        error = drop_mute(server);
    if (!error && server->coordinator)
        error = coordinator_tick(server->coordinator, server->peers, server->count);
    if (!error)
        error = server_tick_cut(server);
    server_publish(server);
    if (error == ERROR_NETWORK) /* server 0 is lost, which reading from it will notice */
        error = OK;
    if (!error)
        error = serve_waiting(server);
    return error ? error : watch_unsent(server);
}

static enum error say_stopped(const struct server *server)
{
    size_t index = server->options->index;
    int64_t saved = server->coordinator ? coordinator_saved_step(server->coordinator) : -1;
    if (saved < 0)
        return error_set(ERROR_CANCELLED, "parameter server %zu was stopped by %s", index,
                         stop_signal_name());
    return error_set(ERROR_CANCELLED,
                     "parameter server %zu was stopped by %s at step %" PRId64
                     "; training can go on from step %" PRId64 ", which is saved",
                     index, stop_signal_name(), server->held.parameters.step, saved);
}

static enum error loop(struct server *server)
{
    struct epoll_event events[EVENTS];
    enum error error = OK;
    while (!error) {
        int count = epoll_wait(server->epoll, events, EVENTS, TICK_MS);
        for (int i = 0; i < count && !error; i++) {
            struct peer *peer = events[i].data.ptr;
            if (!peer)
                accept_peers(server);
            else
                error = serve(server, peer, events[i].events);
        }
        if (!error)
            error = tick(server);
        if (!error && may_leave(server))
            return OK;
        if (!error && stop_requested() && may_stop(server))
            return say_stopped(server);
    }
    return error;
}

static enum error open_all(struct server *server)
{
    const struct server_options *options = server->options;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    enum error error =
        held_shard_open(&server->held, &options->engine, options->coordinator.aggregate);
    if (!error && options->index == 0)
        error = coordinator_open(&options->coordinator, &server->held, &server->coordinator);
    if (error)
        return error;
    error = status_http_open(&server->options->guard, &server->http);
    if (error)
        return error;
    uint64_t files = machine_raise_files();
    server->most = files > 2 * FILES_RESERVED ? files - FILES_RESERVED : FILES_RESERVED;
    if (server->most > PEERS_LIMIT)
        server->most = PEERS_LIMIT;
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (server->epoll < 0 ||
        epoll_ctl(server->epoll, EPOLL_CTL_ADD, options->descriptor, &event) != 0)
        return error_set_errno(ERROR_MEMORY, errno, "cannot watch connections");
    return OK;
}

enum error server_run(const struct server_options *options)
{
    struct server server = {.options = options, .epoll = -1};
    link_init(&server.uplink, "parameter server 0", options->zero_host, options->zero_port);
    enum error error = open_all(&server);
    if (!error)
        error = loop(&server);
    while (server.count > 0)
        peer_free(server.peers[--server.count]);
    free(server.peers);
    if (server.epoll >= 0)
        close(server.epoll);
    link_close(&server.uplink);
    close(options->descriptor);
    status_http_close(server.http);
    coordinator_close(server.coordinator);
    held_shard_close(&server.held);
    return error;
}

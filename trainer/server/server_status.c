/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "trainer/server/server_private.h"

#define PUBLISH_MS 200

/* Frames begin with TOMBOLA1; no TLS handshake and no request does. */
enum error server_pass_on(struct server *server, struct peer *peer, bool *ret_gone)
{
    char begin[] = WIRE_MAGIC; /* of which the bytes that have arrived are overwritten */
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof(address);
    int descriptor = peer->descriptor;
    if (peer->header_bytes == 0)
        (void)recv(descriptor, begin, sizeof(begin) - 1, MSG_PEEK | MSG_DONTWAIT);
    *ret_gone = strcmp(begin, WIRE_MAGIC) != 0;
    if (!*ret_gone)
        return OK;
    (void)getpeername(descriptor, (struct sockaddr *)&address, &length);
    (void)epoll_ctl(server->epoll, EPOLL_CTL_DEL, descriptor, NULL);
    peer->descriptor = -1;
    enum error error = server_drop_peer(server, peer);
    status_http_add(server->http, descriptor, &address, length);
    return error;
}

static const char *phase_of(const struct server *server)
{
    if (server_is_over(server))
        return "over";
    bool running = server->coordinator
                       ? coordinator_get_phase(server->coordinator) == COORDINATOR_RUNNING
                       : server->held.generation != 0;
    return running ? "running" : "waiting";
}

static const char *waits_for(const struct server *server)
{
    if (server->coordinator)
        return coordinator_waits_for(server->coordinator);
    bool has_begun = server->zero && server->held.generation != 0;
    return has_begun || server_is_over(server) ? "" : "parameter server 0";
}

static void describe_worker(const struct server *server, const struct peer *peer,
                            struct worker_status *ret_status)
{
    ret_status->held = server->coordinator ? index_set_size(&peer->holder.held) : 0;
    ret_status->pushes = peer->pushes;
    ret_status->silent_ms = (clock_now_ns() - peer->asked_ns) / 1000000;
    ret_status->waits = peer->waits;
    ret_status->shared = peer->shared.values != NULL;
    snprintf(ret_status->name, sizeof(ret_status->name), "%s", peer->name);
}

static void describe_workers(const struct server *server, struct server_status *status)
{
    status->worker_count = 0;
    for (size_t i = 0; i < server->count; i++) {
        if (server->peers[i]->kind != PEER_WORKER)
            continue;
        if (status->worker_count < SERVER_STATUS_WORKERS)
            describe_worker(server, server->peers[i], &status->workers[status->worker_count]);
        status->worker_count++;
    }
}

void server_publish(struct server *server)
{
    int64_t now_ns = clock_now_ns();
    const char *phase = phase_of(server);
    if (now_ns < server->publish_ns && phase == server->published_phase)
        return;
    const struct coordinator_options *options = &server->options->coordinator;
    struct server_status *status = status_http_begin(server->http);
    status->index = (int64_t)server->options->index;
    status->servers = (int64_t)options->servers;
    status->phase = phase;
    snprintf(status->waits_for, sizeof(status->waits_for), "%s", waits_for(server));
    status->generation = server->held.generation;
    status->step = server->coordinator ? coordinator_made_step(server->coordinator)
                                       : server->held.parameters.step;
    status->train_steps = server->coordinator ? options->train_steps : -1;
    status->pause_ns = server->coordinator ? coordinator_pause_ns(server->coordinator) : -1;
    status->saved_step = server->coordinator ? coordinator_saved_step(server->coordinator) : -1;
    status->parameters = (int64_t)server->held.shard.parameters;
    status->pushes = server->pushes;
    status->repeated = server->repeated;
    status->late = server->late;
    describe_workers(server, status);
    status_http_publish(server->http);
    server->published_phase = phase;
    server->publish_ns = now_ns + PUBLISH_MS * INT64_C(1000000);
}

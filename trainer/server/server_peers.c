/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/epoll.h>

#include "common/array.h"
#include "common/log.h"
#include "trainer/server/server_private.h"
#include "trainer/wire/link.h"

enum error server_watch(const struct server *server, struct peer *peer)
{
    struct epoll_event event = {.events = EPOLLRDHUP, .data.ptr = peer};
    if (peer_may_ask(peer))
        event.events |= EPOLLIN;
    if (peer_has_unsent(peer))
        event.events |= EPOLLOUT;
    if (event.events == peer->watched || peer->gone)
        return OK;
    int operation = peer->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(server->epoll, operation, peer->descriptor, &event) != 0)
        return error_set_errno(ERROR_MEMORY, errno, "cannot watch %s", peer->name);
    peer->watched = event.events;
    return OK;
}

enum error server_heed_hang_up(struct server *server, struct peer *peer)
{
    struct held_shard *held = &server->held;
    bool pushes = peer->waits && peer->kind == PEER_WORKER && peer->header.type != WIRE_PULL &&
                  peer->header.generation == held->generation && held->aggregate == 0;
    if (!pushes || held_shard_takes(held, peer->header.batch)) {
        log_debug("%s closed the connection", peer->name);
        return server_drop_peer(server, peer);
    }
    if (epoll_ctl(server->epoll, EPOLL_CTL_DEL, peer->descriptor, NULL) != 0)
        return error_set_errno(ERROR_MEMORY, errno, "cannot stop watching %s", peer->name);
    peer->gone = true;
    return OK;
}

enum error server_add_peer(struct server *server, int descriptor, const char *name,
                           struct peer **ret_peer)
{
    struct peer *peer = NULL;
    void *peers = server->peers;
    enum error error = peer_new(descriptor, name, &peer);
    if (!error)
        error = array_grow(&peers, &server->capacity, server->count + 1, sizeof(struct peer *),
                           "connections");
    server->peers = peers;
    if (!error)
        error = server_watch(server, peer);
    if (error) {
        peer_free(peer);
        return error;
    }
    link_set_options(descriptor);
    server->peers[server->count++] = peer;
    *ret_peer = peer;
    return OK;
}

enum error server_drop_peer(struct server *server, struct peer *peer)
{
    enum error error = OK;
    for (size_t i = 0; i < server->count; i++) {
        if (server->peers[i] != peer)
            continue;
        server->peers[i] = server->peers[--server->count];
        break;
    }
    if (server->zero == peer) {
        server->zero = NULL;
        held_shard_thaw(&server->held); /* its cut is abandoned, or no longer needs this shard */
        server->changed = true;
    }
    if (server->coordinator)
        error = coordinator_lost(server->coordinator, peer);
    peer_free(peer);
    return error;
}

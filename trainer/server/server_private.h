/* SPDX-License-Identifier: MIT */
/* What the files of the server share: one server. Private to them. */
#ifndef TRAINER_SERVER_SERVER_PRIVATE_H
#define TRAINER_SERVER_SERVER_PRIVATE_H

#include <stdbool.h>

#include "trainer/server/server.h"
#include "trainer/server/status_http.h"

struct server {
    const struct server_options *options;
    struct held_shard held;
    struct coordinator *coordinator; /* NULL: not server 0 */
    int epoll;
    int64_t accept_ns;   /* when to accept again, for want of room; 0: as connections come */
    struct peer **peers; /* [count] */
    size_t count, capacity, most;
    struct peer *zero; /* the connection to server 0, among `peers`; NULL: none */
    int64_t next_uplink_ns;
    int64_t zero_away_ns; /* since when server 0 cannot be reached; 0: it can */
    bool doubted;         /* server 0 does not take this one yet; the log has said so */
    uint64_t seen;        /* of the logdir */
    int64_t cut;          /* of the union that is being applied */
    bool has_cut;         /* server 0 has all of a cut that this one asked for before its end */
    struct status_http *http;
    int64_t publish_ns; /* when to say again how things stand */
    const char *published_phase;
    int64_t pushes, repeated; /* gradients that were taken, and that came once more */
    int64_t late;             /* that were of too old values */
    bool over;                /* the training is */
    int64_t leave_ns;
    bool saved_before;   /* the save is over that a signal met */
    bool waits_for_save; /* beyond leave_ns; the log has said so */
    bool changed;        /* requests that wait may be looked at again */
};

static inline size_t server_shard_bytes(const struct server *server)
{
    return server->held.shard.parameters * sizeof(float);
}

/* Is the training over? */
static inline bool server_is_over(const struct server *server)
{
    return server->coordinator ? coordinator_get_phase(server->coordinator) == COORDINATOR_OVER
                               : server->over;
}

/* ---- server_peers.c: the connections there are -------------------------- */

/* Takes the descriptor. */
enum error server_add_peer(struct server *server, int descriptor, const char *name,
                           struct peer **ret_peer) MUST_CHECK;
/* Closes the connection; what the peer held is free again. */
enum error server_drop_peer(struct server *server, struct peer *peer) MUST_CHECK;
/* A peer whose whole frame waits has hung up. What it pushed while this shard was frozen stays:
 * other servers may have applied it, and no cut would be had without it. */
enum error server_heed_hang_up(struct server *server, struct peer *peer) MUST_CHECK;
/* Watches the peer for what it waits for now. */
enum error server_watch(const struct server *server, struct peer *peer) MUST_CHECK;

/* ---- server_status.c: what is said over HTTP ----------------------------- */

/* A connection that begins no frame becomes HTTP's: *ret_gone, and `peer` is no more. */
enum error server_pass_on(struct server *server, struct peer *peer, bool *ret_gone) MUST_CHECK;
/* Publishes how things stand, from time to time. */
void server_publish(struct server *server);

/* ---- server_worker.c: what workers ask for ------------------------------ */

/* HELLO, of another server too. */
enum error server_greet(struct server *server, struct peer *peer) MUST_CHECK;
/* PULL, PUSH and SKIP: answered, or the worker waits. */
enum error server_serve(struct server *server, struct peer *worker) MUST_CHECK;
/* STOP of an evaluator, to server 0. */
enum error server_stop(const struct server *server, struct peer *evaluator) MUST_CHECK;
/* OFFER: the worker's memory is shared from now on, if it can be. */
enum error server_take_offer(const struct server *server, struct peer *worker) MUST_CHECK;

/* ---- server_zero.c: a server that is not server 0 ----------------------- */

/* Connects to server 0 when it is time to. */
enum error server_reach_zero(struct server *server) MUST_CHECK;
/* A frame of server 0. */
enum error server_heed_zero(struct server *server, const struct peer *zero) MUST_CHECK;
/* Copies the state of a cut, once it is that. */
enum error server_tick_cut(struct server *server) MUST_CHECK;
/* Asks for a cut, before this server ends; server_was_cut() when server 0 has it. */
void server_ask_for_cut(struct server *server);
bool server_was_cut(const struct server *server);

#endif

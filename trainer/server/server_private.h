/* SPDX-License-Identifier: MIT */
/* Shared by the server's files: one server. Private to them. */
#ifndef TRAINER_SERVER_SERVER_PRIVATE_H
#define TRAINER_SERVER_SERVER_PRIVATE_H

#include <stdbool.h>

#include "trainer/server/server.h"
#include "trainer/server/status_http.h"
#include "trainer/wire/link.h"

struct server {
    const struct server_options *options;
    struct held_shard held;
    struct coordinator *coordinator; /* NULL: not server 0 */
    int epoll;
    int64_t accept_ns;   /* when to accept again, after lack of room; 0: accepts at any time */
    struct peer **peers; /* [count] */
    size_t count, capacity, most;
    struct peer *zero;  /* the connection to server 0, among `peers`; NULL: none */
    struct link uplink; /* to server 0, while it is being opened */
    int64_t next_uplink_ns;
    int64_t zero_away_ns; /* since when server 0 is unreachable; 0: reachable */
    int64_t say_ns;       /* when to log, perhaps again, what this one waits for */
    bool zero_silent;     /* it has said nothing yet, nor kept the connection for KEPT_MS */
    bool doubted;         /* server 0 does not accept this one yet; already logged */
    uint64_t seen;        /* state of logdir_is_trained() */
    int64_t cut;          /* whose union is being applied */
    bool has_cut;         /* server 0 has all of a cut that this one requested before its end */
    struct status_http *http;
    int64_t publish_ns; /* when to publish the status again */
    const char *published_phase;
    int64_t pushes, repeated; /* gradients accepted, and duplicates */
    int64_t late;             /* gradients computed from values that were too old */
    bool over;                /* the training is */
    int64_t leave_ns;
    bool saved_before;   /* the save in progress at a signal has finished */
    bool waits_for_save; /* beyond leave_ns; already logged */
    bool changed;        /* waiting requests may be examined again */
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

/* ---- server_peers.c: the open connections -------------------------- */

/* Takes the descriptor. */
enum error server_add_peer(struct server *server, int descriptor, const char *name,
                           struct peer **ret_peer) MUST_CHECK;
/* Closes the connection; the peer's batches become free. */
enum error server_drop_peer(struct server *server, struct peer *peer) MUST_CHECK;
/* A peer that may not ask now has hung up. A push received while this shard was frozen is kept:
 * other servers may have applied it, and without it no cut would complete. */
enum error server_heed_hang_up(struct server *server, struct peer *peer) MUST_CHECK;
/* Registers the events that the peer currently waits for. */
enum error server_watch(const struct server *server, struct peer *peer) MUST_CHECK;

/* ---- server_status.c: status over HTTP ----------------------------- */

/* Hands a connection that does not begin with a frame over to HTTP: *ret_gone, and `peer` no longer
 * exists. */
enum error server_pass_on(struct server *server, struct peer *peer, bool *ret_gone) MUST_CHECK;
/* Publishes the status periodically. */
void server_publish(struct server *server);

/* ---- server_worker.c: requests of workers ------------------------------ */

/* HELLO, also from another server. */
enum error server_greet(struct server *server, struct peer *peer) MUST_CHECK;
/* PULL, PUSH and SKIP: answers, or lets the worker wait. */
enum error server_serve(struct server *server, struct peer *worker) MUST_CHECK;
/* REFUSED: the worker ends, and says why. */
enum error server_heed_refusal(const struct server *server, struct peer *worker) MUST_CHECK;
/* STOP from an evaluator, to server 0. */
enum error server_stop(const struct server *server, struct peer *evaluator) MUST_CHECK;
/* OFFER: shares the worker's memory from now on, if possible. */
enum error server_take_offer(const struct server *server, struct peer *worker) MUST_CHECK;
enum error server_take_stream(const struct server *server, struct peer *worker) MUST_CHECK;

/* ---- server_zero.c: a server that is not server 0 ----------------------- */

/* Connects to server 0 when it is due. */
enum error server_reach_zero(struct server *server) MUST_CHECK;
/* Handles a frame from server 0. */
enum error server_heed_zero(struct server *server, const struct peer *zero) MUST_CHECK;
/* Copies the state of a cut, once it is reached. */
enum error server_tick_cut(struct server *server) MUST_CHECK;
/* Requests a cut before this server ends. server_was_cut(): server 0 has it, or there
 * is nothing to wait for. */
void server_ask_for_cut(struct server *server);
bool server_was_cut(const struct server *server);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * An HTTP server's life: a listening socket, a thread with a libmicrohttpd daemon for each
 * processor, and what looks after them. It knows no path: the application brings them, and what
 * they answer with (server_state.h).
 *
 * Connections beyond the limit are answered with 503, far beyond it they wait to be accepted, or,
 * where an address has so many, are closed; slow
 * ones are closed (connection.h), resting ones after SERVER_IDLE_SECONDS.
 */
#ifndef COMMON_HTTP_SERVER_H
#define COMMON_HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/error.h"
#include "common/http/guard.h"
#include "common/http/server_state.h"

#define SERVER_CONNECTIONS_DEFAULT 16384 /* 10,000 workers, and those that come again */
#define SERVER_CONNECTIONS_MOST 100000
#define SERVER_PATIENCE_DEFAULT_SECONDS 30
#define SERVER_IDLE_SECONDS 120

struct server_options {
    const struct application *application; /* borrowed */
    unsigned threads;                      /* 0: as many as processors */
    int64_t connections;                   /* the limit; the descriptors there are may lower it */
    int64_t address_connections;           /* the same of each address; 0: no limit */
    int64_t patience_seconds; /* for a request's header, its body, its response to be read */
    int64_t response_bytes;   /* of large responses together (memory_budget.h) */
    int64_t body_bytes;       /* of requests' bodies together (memory_budget.h) */
    struct guard *guard;      /* borrowed */
};

/* Listens on `descriptor` (a listening socket; taken also on failure; -1: none, connections come by
 * server_add_connection() alone) and answers from now on. */
enum error server_open(int descriptor, const struct server_options *options,
                       struct server **ret_server) MUST_CHECK;
/* Takes a connection that somebody else accepted, non-blocking. One thread at a time. */
void server_add_connection(struct server *server, int descriptor,
                           const struct sockaddr_storage *address, socklen_t address_bytes);
/* The service (borrowed until server_close()) is there: SERVER_READY. */
void server_set_service(struct server *server, struct service *service);
/* Keeps answering for `grace_ms` with `Connection: close`, so that clients go elsewhere; then is
 * SERVER_CLOSED, and waits until every request that was read is answered (at most until the
 * deadline; false: some were not). */
bool server_drain(struct server *server, int64_t grace_ms, int64_t deadline_ns);
/* Ends all threads. Nobody may resume a request any more. NULL is legal. */
void server_close(struct server *server);

#endif

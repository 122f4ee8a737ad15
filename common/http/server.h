/* SPDX-License-Identifier: MIT */
/*
 * An HTTP server: a listening socket, a thread with a libmicrohttpd daemon per processor, and
 * maintenance. It knows no path: the application brings paths and handlers (server_state.h).
 *
 * Connections beyond the limit are answered with 503; far beyond it they wait to be accepted or, if
 * an address has that many, are closed. Slow ones are closed (connection.h), idle ones after
 * SERVER_IDLE_SECONDS.
 */
#ifndef COMMON_HTTP_SERVER_H
#define COMMON_HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/error.h"
#include "common/http/guard.h"
#include "common/http/server_state.h"

#define SERVER_CONNECTIONS_DEFAULT 16384 /* 10,000 workers, plus reconnections */
#define SERVER_CONNECTIONS_MOST 100000
#define SERVER_PATIENCE_DEFAULT_SECONDS 30
#define SERVER_PATIENCE_MOST_SECONDS 3600
#define SERVER_IDLE_SECONDS 120

struct server_options {
    const struct application *application; /* borrowed */
    unsigned threads;                      /* 0: one per processor */
    int64_t connections;                   /* the limit; fewer if there are not enough
                                            * descriptors, but at least 16 if it listens */
    int64_t address_connections;           /* the same per address; 0: no limit */
    int64_t patience_seconds; /* time to receive a header, a body, and to send a response */
    int64_t response_bytes;   /* all large responses together (memory_budget.h) */
    int64_t body_bytes;       /* all request bodies together (memory_budget.h) */
    struct guard *guard;      /* borrowed */
};

/* Listens on `descriptor` (a listening socket; taken, also on failure; -1: none, connections come
 * only from server_add_connection()) and answers from now on. ERROR_UNAVAILABLE: the limit of open
 * files is too low to listen. */
enum error server_open(int descriptor, const struct server_options *options,
                       struct server **ret_server) MUST_CHECK;
/* Takes a non-blocking connection that was accepted elsewhere. One thread at a time. */
void server_add_connection(struct server *server, int descriptor,
                           const struct sockaddr_storage *address, socklen_t address_bytes);
/* Sets the service (borrowed until server_close()): SERVER_READY. */
void server_set_service(struct server *server, struct service *service);
/* Enters SERVER_CLOSED and waits until every request read is answered (at most until the deadline;
 * false: some were not). */
bool server_drain(struct server *server, int64_t deadline_ns);
/* Ends all threads. No request may be resumed any more. NULL is legal. */
void server_close(struct server *server);

#endif

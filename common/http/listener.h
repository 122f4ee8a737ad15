/* SPDX-License-Identifier: MIT */
/*
 * The server's listening socket, and the thread that accepts connections and distributes them over
 * the HTTP threads in turn. If each HTTP thread accepted for itself, all of 16 connections could
 * end up on one.
 *
 * At the limit nothing is accepted: connections wait in the socket's queue.
 */
#ifndef COMMON_HTTP_LISTENER_H
#define COMMON_HTTP_LISTENER_H

#include <stdint.h>

#include "common/error.h"
#include "common/http/connection.h"
#include "common/http/http_thread.h"

#define LISTENER_URL_BYTES 300

/* Binds HOST:PORT (port 0: a free one) and listens. The caller closes *ret_descriptor; `ret_url` is
 * "http://HOST:PORT" with the actual port. ERROR_NETWORK: the port is in use; ERROR_USAGE: the host
 * is not an address of this machine. Messages begin with the option, whose name is given without
 * dashes. */
enum error listener_bind(const char *option, const char *host, uint16_t port, int *ret_descriptor,
                         char ret_url[LISTENER_URL_BYTES]) MUST_CHECK;
/* ERROR_USAGE if the host does not resolve; binds nothing. */
enum error listener_check_host(const char *host, uint16_t port) MUST_CHECK;

struct listener;

/* Starts to accept on `descriptor` (taken, also on failure). The threads, whose daemons report each
 * connection's begin and end to `connections`, outlive the listener. */
enum error listener_start(int descriptor, struct http_threads *threads,
                          struct connections *connections,
                          struct listener **ret_listener) MUST_CHECK;
/* Stops accepting and closes the socket. NULL is legal. */
void listener_stop(struct listener *listener);

#endif

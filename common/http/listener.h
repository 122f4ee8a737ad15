/* SPDX-License-Identifier: MIT */
/*
 * The socket that the server listens on, and the thread that accepts its connections and deals them
 * out to the HTTP threads in turn. Left to themselves each would accept as many as it can,
 * and all of 16 connections may end with one.
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

/* Binds HOST:PORT (port 0: a free one) and listens. *ret_descriptor is the caller's to close;
 * `ret_url` is "http://HOST:PORT" with the real port. ERROR_NETWORK when the port is in use,
 * ERROR_USAGE when the host is not an address of this machine; messages begin with the option,
 * whose name is given without dashes. */
enum error listener_bind(const char *option, const char *host, uint16_t port, int *ret_descriptor,
                         char ret_url[LISTENER_URL_BYTES]) MUST_CHECK;
/* ERROR_USAGE when the host does not resolve; binds nothing. */
enum error listener_check_host(const char *host, uint16_t port) MUST_CHECK;

struct listener;

/* Starts to accept on `descriptor` (taken, also on failure). The threads, whose daemons tell
 * `connections` of each that begins and ends, outlive the listener. */
enum error listener_start(int descriptor, struct http_threads *threads,
                          struct connections *connections,
                          struct listener **ret_listener) MUST_CHECK;
/* Stops to accept and closes the socket. NULL is legal. */
void listener_stop(struct listener *listener);

#endif

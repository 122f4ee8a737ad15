/* SPDX-License-Identifier: MIT */
/* A TCP socket that listens. Messages begin with HOST:PORT. */
#ifndef COMMON_LISTEN_SOCKET_H
#define COMMON_LISTEN_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* Binds HOST:PORT (port 0: a free one) and listens; does not block. *ret_descriptor is the caller's
 * to close. ERROR_NETWORK when the port is in use, which `advice` follows in the message;
 * ERROR_USAGE when the host is not an address of this machine. */
enum error listen_socket_open(const char *host, uint16_t port, const char *advice,
                              int *ret_descriptor) MUST_CHECK;
/* At every address of this machine, IPv4 and IPv6. */
enum error listen_socket_open_any(uint16_t port, const char *advice,
                                  int *ret_descriptor) MUST_CHECK;
/* ERROR_USAGE when the host does not resolve; binds nothing. */
enum error listen_socket_check(const char *host, uint16_t port) MUST_CHECK;
/* An address of this machine alone? Names are, when they are "localhost". */
bool listen_socket_is_loopback(const char *host);

#endif

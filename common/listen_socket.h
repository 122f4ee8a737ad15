/* SPDX-License-Identifier: MIT */
/* A listening TCP socket. Messages begin with HOST:PORT. */
#ifndef COMMON_LISTEN_SOCKET_H
#define COMMON_LISTEN_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* Binds HOST:PORT (port 0: a free one) and listens; does not block. "localhost" is a loopback
 * address, even if it resolves to another one or to none. The caller closes
 * *ret_descriptor. ERROR_NETWORK: the port is in use (`advice` is appended to the message).
 * ERROR_USAGE: the host is not an address of this machine. */
enum error listen_socket_open(const char *host, uint16_t port, const char *advice,
                              int *ret_descriptor) MUST_CHECK;
/* Listens on all addresses of this machine, IPv4 and IPv6. */
enum error listen_socket_open_any(uint16_t port, const char *advice,
                                  int *ret_descriptor) MUST_CHECK;
/* ERROR_USAGE if the host does not resolve; binds nothing. */
enum error listen_socket_check(const char *host, uint16_t port) MUST_CHECK;
/* Is it a loopback address? Among names, only "localhost" is. */
bool listen_socket_is_loopback(const char *host);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The addresses of a host name. The system asks name servers without an end that its caller could
 * set, so a thread of its own does, which is left alone when the wait for it is over.
 */
#ifndef COMMON_NAME_LOOKUP_H
#define COMMON_NAME_LOOKUP_H

#include <netdb.h>
#include <stdint.h>

#include "common/error.h"

/* The addresses of HOST:PORT for TCP; freeaddrinfo() them. ERROR_NETWORK when the name has none,
 * ERROR_TIMEOUT when no name server answers by the deadline (clock.h), ERROR_CANCELLED within a
 * tenth of a second after stop_requested(). */
enum error name_lookup(const char *host, uint16_t port, int64_t deadline_ns,
                       struct addrinfo **ret_list) MUST_CHECK;

#endif

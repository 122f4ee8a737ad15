/* SPDX-License-Identifier: MIT */
/*
 * Looks up a host's addresses. The system's lookup has no deadline, so it runs on its own thread,
 * which is left behind when the wait is over.
 */
#ifndef COMMON_NAME_LOOKUP_H
#define COMMON_NAME_LOOKUP_H

#include <netdb.h>
#include <stdint.h>

#include "common/error.h"

/* The TCP addresses of HOST:PORT; freeaddrinfo() them. ERROR_NETWORK: the name has none;
 * ERROR_TIMEOUT: no name server answered by the deadline (clock.h); ERROR_CANCELLED: within a tenth
 * of a second after stop_requested(). */
enum error name_lookup(const char *host, uint16_t port, int64_t deadline_ns,
                       struct addrinfo **ret_list) MUST_CHECK;

/* A lookup that goes on between waits for it. None when zeroed. */
struct name_lookup {
    struct errand *errand; /* NULL: none */
    struct lookup *lookup; /* the errand's */
};

/* The same, for who tries again: after ERROR_TIMEOUT the lookup goes on, and the next call takes
 * its answer. Otherwise a name server that takes longer than one attempt would never be heard. */
enum error name_lookup_wait(struct name_lookup *pending, const char *host, uint16_t port,
                            int64_t deadline_ns, struct addrinfo **ret_list) MUST_CHECK;
void name_lookup_leave(struct name_lookup *pending);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The server's connections, and detection of slow ones. A connection that exceeds the time limit
 * for its request's header, for its body, or for reading its response is shut down, even if it
 * sends or reads a byte now and then; so is one that reads nothing of its response for the limit's
 * duration. The time a request takes in between (disk, thread pool) is not limited here.
 *
 * A connection beyond the total limit, or beyond its address's, has its first request refused. One
 * beyond the total takes the place of the one that has been idle longest, if any has for a sweep.
 *
 * The server does not wait for a client that has closed its side within a request.
 *
 * A connection goes WAITING -> HEADER -> BODY -> WORKING -> SENDING -> WAITING. Its HTTP thread
 * notes the phase (relaxed stores, no clock); the sweep, once a second, notes when it first saw
 * each phase, so limits are accurate to a second.
 *
 * Threads: connection_*() from the connection's HTTP thread; connections_*() from any thread.
 */
#ifndef COMMON_HTTP_CONNECTION_H
#define COMMON_HTTP_CONNECTION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/http/addresses.h"

/* Bodies and responses get additional time at this rate, that of a modem. */
#define CONNECTION_BYTES_PER_SECOND 16384

enum connection_phase {
    CONNECTION_WAITING, /* no request yet, or not its whole first line */
    CONNECTION_HEADER,
    CONNECTION_BODY,
    CONNECTION_WORKING,
    CONNECTION_SENDING
};

struct request;

struct connection {
    struct connection *next, *previous;
    int descriptor;
    struct request *request; /* being read or answered, owned by the HTTP thread; NULL: none */
    const char *surplus;     /* the limit that it exceeds, for the response; NULL: none */
    struct address *address; /* in the set's; NULL: not counted */
    bool crowds;             /* exceeds the limit of its address */
    bool shakes;             /* noted as a handshake of its thread's loop */
    _Atomic uint32_t phase;  /* enum connection_phase, plus 8 times the number of requests */
    _Atomic uint64_t bytes;  /* of the body or the response */

    /* Under the set's mutex. */
    uint32_t seen_phase;
    int64_t seen_ns;
    int64_t waits_ns;       /* WAITING: since when */
    bool idles;             /* WAITING: nothing was received since */
    uint64_t seen_received; /* bytes that the kernel had received, while WAITING */
    uint64_t seen_acked;    /* bytes that the client had acknowledged, while SENDING */
    int64_t moved_ns;       /* when that last grew */
};

struct connections {
    pthread_mutex_t mutex;
    struct connection *first;
    int64_t count;
    int64_t expected; /* accepted, and not added yet */
    int64_t limit;
    int64_t address_limit; /* per address; 0: addresses are not counted */
    struct addresses addresses;
    int64_t crowding; /* connections exceeding it */
    int64_t patience_ns;
    bool tls;
};

void connections_init(struct connections *set, int64_t limit, int64_t address_limit,
                      int64_t patience_ms, bool tls);
void connections_release(struct connections *set);

/* Connections accepted beyond either limit, to be answered with 503. Further ones of addresses that
 * exceed theirs are shut down. */
#define CONNECTIONS_SURPLUS 64
/* May one more be accepted? If not, an idle one is shut down. */
bool connections_have_room(struct connections *set);
/* One was accepted and will be added; or will not be after all. */
void connections_expect(struct connections *set);
void connections_expect_less(struct connections *set);
/* NULL: no memory; the connection then has no limits. */
struct connection *connections_add(struct connections *set, int descriptor,
                                   const struct sockaddr *peer);
/* Call before the descriptor is closed. libmicrohttpd silently closes a connection whose request
 * line has no space; we send 400 first (not over TLS). NULL is legal. */
void connections_remove(struct connections *set, struct connection *connection);
int64_t connections_count(struct connections *set);

/* Shuts down slow connections; returns how many. */
int64_t connections_sweep(struct connections *set, int64_t now_ns);

/* NULL is legal in all of them. */
void connection_enter(struct connection *connection, enum connection_phase phase, uint64_t bytes);
/* The request is over. */
void connection_rest(struct connection *connection);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The server's connections, and which of them are too slow: one that takes longer than the limit
 * for its request's header, for its body, or to read its response, is shut down, however often it
 * sends or reads a byte; so is one that reads nothing of its response for as long as the limit.
 * What a request may take in between (disk, thread pool) is not limited here.
 *
 * One beyond the limit of all, or of its address, is refused with its first request.
 *
 * Nor does it wait for a client that has closed its side within a request.
 *
 * A connection goes WAITING -> HEADER -> BODY -> WORKING -> SENDING -> WAITING. Its HTTP thread
 * notes the phase (relaxed stores, no clock); the sweep, once a second, notes when it first saw
 * each phase, so that limits are kept to a second.
 *
 * Threads: connection_*() from the connection's HTTP thread; connections_*() from every thread.
 */
#ifndef COMMON_HTTP_CONNECTION_H
#define COMMON_HTTP_CONNECTION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/http/addresses.h"

/* Bodies and responses get this much time beyond the limit: a rate that modems had. */
#define CONNECTION_BYTES_PER_SECOND 16384

enum connection_phase {
    CONNECTION_WAITING, /* nothing of a request was read, or not its first line yet */
    CONNECTION_HEADER,
    CONNECTION_BODY,
    CONNECTION_WORKING,
    CONNECTION_SENDING
};

struct request;

struct connection {
    struct connection *next, *previous;
    int descriptor;
    struct request *request; /* that is read or answered, the HTTP thread's own; NULL: none */
    const char *surplus;     /* beyond which limit, for who hears it; NULL: within */
    struct address *address; /* in the set's; NULL: it is not counted */
    bool crowds;             /* beyond the limit of its address */
    _Atomic uint32_t phase;  /* enum connection_phase, and 8 times how many requests there were */
    _Atomic uint64_t bytes;  /* of the body or the response */

    /* The sweep's own. */
    uint32_t seen_phase;
    int64_t seen_ns;
    uint64_t seen_received; /* bytes that the kernel had received, while WAITING */
    uint64_t seen_acked;    /* bytes that the client had acknowledged, while SENDING */
    int64_t moved_ns;       /* when that was last more */
};

struct connections {
    pthread_mutex_t mutex;
    struct connection *first;
    int64_t count;
    int64_t expected; /* accepted, and not added yet */
    int64_t limit;
    int64_t address_limit; /* of an address; 0: none, addresses are not counted */
    struct addresses addresses;
    int64_t crowding; /* connections beyond it */
    int64_t patience_ns;
    bool tls;
};

void connections_init(struct connections *set, int64_t limit, int64_t address_limit,
                      int64_t patience_ms, bool tls);
void connections_release(struct connections *set);

/* Connections accepted beyond either limit, so that they can be answered with 503. More of
 * addresses that have enough are shut down. */
#define CONNECTIONS_SURPLUS 64
/* May one more be accepted? */
bool connections_have_room(struct connections *set);
/* One was accepted and will be added; or will not, after all. */
void connections_expect(struct connections *set);
void connections_expect_less(struct connections *set);
/* NULL: no memory; the connection then has no limits. */
struct connection *connections_add(struct connections *set, int descriptor,
                                   const struct sockaddr *peer);
/* Before the descriptor is closed. libmicrohttpd silently closes a connection whose request line
 * has no space; we send 400 first (not over TLS). NULL is legal. */
void connections_remove(struct connections *set, struct connection *connection);
int64_t connections_count(struct connections *set);

/* Shuts down those that are too slow; returns how many. */
int64_t connections_sweep(struct connections *set, int64_t now_ns);

/* NULL is legal in all of them. */
void connection_enter(struct connection *connection, enum connection_phase phase, uint64_t bytes);
/* The request is over. */
void connection_rest(struct connection *connection);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A thread that polls one libmicrohttpd daemon, which has neither a thread nor a listening socket
 * of its own (external polling): it runs the daemon, hands new connections over to it, and sleeps
 * while there is nothing to do.
 *
 * A thread under load polls a few times more before it sleeps, and yields its processor in between:
 * waking it costs it and its client several microseconds, more in a virtual machine. Where requests
 * come one by one it sleeps after a single look.
 *
 * libmicrohttpd 0.9.75 says that it has more to do for as long as a TLS handshake waits for its
 * client. Where runs do nothing and no response is being sent, the thread sleeps nevertheless, a
 * millisecond at most.
 *
 * Threads: event_loop_add() and event_loop_wake() from every thread; the rest from the loop's own,
 * in the daemon's callbacks.
 */
#ifndef COMMON_HTTP_EVENT_LOOP_H
#define COMMON_HTTP_EVENT_LOOP_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/error.h"

/* A connection that was accepted, on its way to the daemon. */
struct arrival;

struct event_loop {
    struct MHD_Daemon *daemon; /* owned */
    void (*lost)(void *context);
    void *context;
    pthread_t thread;
    bool started;
    int epoll; /* the daemon's own epoll set, and `bell` */
    int bell;  /* an eventfd, rung when the thread sleeps */
    _Atomic(struct arrival *) arrivals;
    _Atomic int state; /* enum of event_loop.c */
    _Atomic bool ending;
    uint64_t requests; /* noted so far, as the next one */
    uint64_t pieces;
    int64_t responses; /* that are being sent */
};

/* Flags of a daemon that an event loop can poll. */
#define EVENT_LOOP_DAEMON_FLAGS \
    (MHD_USE_EPOLL | MHD_USE_TURBO | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME)

/* Starts to poll `daemon` (taken, also on failure). `lost(context)` is called for each connection
 * that was added and that the daemon never got, or refused. */
enum error event_loop_start(struct event_loop *loop, struct MHD_Daemon *daemon,
                            void (*lost)(void *context), void *context) MUST_CHECK;
/* Ends the thread and the daemon; no connection may be suspended, but for those that were resumed.
 * Legal on zeroes. */
void event_loop_stop(struct event_loop *loop);

/* Takes the socket of a connection; no memory: it is closed, and lost. */
void event_loop_add(struct event_loop *loop, int descriptor, const struct sockaddr_storage *address,
                    socklen_t address_bytes);
/* Something was resumed, or is to be looked at. */
void event_loop_wake(struct event_loop *loop);
/* A request has come. */
static inline void event_loop_note(struct event_loop *loop)
{
    loop->requests++;
}
/* A piece of a request's body has. */
static inline void event_loop_note_piece(struct event_loop *loop)
{
    loop->pieces++;
}
/* A response was handed over; it was sent, or never will be. */
static inline void event_loop_note_response(struct event_loop *loop)
{
    loop->responses++;
}
static inline void event_loop_note_end(struct event_loop *loop)
{
    loop->responses--;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A thread that polls one libmicrohttpd daemon, which has neither a thread nor a listening socket
 * (external polling): it runs the daemon, passes new connections to it, and sleeps while idle.
 *
 * Under load the thread polls a few more times before it sleeps, yielding its processor in between:
 * a wake-up costs it and its client several microseconds, more in a virtual machine. If requests
 * come one by one, it sleeps after a single look.
 *
 * libmicrohttpd (0.9.75 to 1.0) claims to have more to do for as long as a TLS handshake that has
 * begun waits for its client, and each run asks the kernel about all of them. If runs do nothing,
 * the thread sleeps nevertheless, until an event and for some milliseconds at most.
 *
 * Threads: event_loop_add() and event_loop_wake() from any thread; the rest from the loop's own, in
 * the daemon's callbacks.
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

/* An accepted connection on its way to the daemon. */
struct arrival;

struct event_loop {
    struct MHD_Daemon *daemon; /* owned */
    void (*lost)(void *context);
    void *context;
    pthread_t thread;
    bool started;
    int epoll; /* the daemon's own epoll set, and `bell` */
    int bell;  /* an eventfd, written to when the thread sleeps */
    _Atomic(struct arrival *) arrivals;
    _Atomic int state; /* an enum of event_loop.c */
    _Atomic bool ending;
    uint64_t requests; /* noted so far, as is the next one */
    uint64_t pieces;
    int64_t responses;  /* being sent */
    int64_t handshakes; /* connections that have sent no request, and may be in their handshake */
};

/* Flags of a daemon that an event loop can poll. */
#define EVENT_LOOP_DAEMON_FLAGS \
    (MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME)
/* And of one without TLS: its first look at a connection need not wait for an event. With TLS, each
 * run would look at those on which nothing comes, and no event would end a sleep. */
#define EVENT_LOOP_PLAIN_FLAGS MHD_USE_TURBO

/* Starts to poll `daemon` (taken, also on failure). Calls `lost(context)` for each added connection
 * that the daemon never received, or refused. */
enum error event_loop_start(struct event_loop *loop, struct MHD_Daemon *daemon,
                            void (*lost)(void *context), void *context) MUST_CHECK;
/* Ends the thread and the daemon. No connection may be suspended unless it was resumed. Legal on a
 * zeroed struct. */
void event_loop_stop(struct event_loop *loop);

/* Takes a connection's socket; without memory it is closed, and lost. */
void event_loop_add(struct event_loop *loop, int descriptor, const struct sockaddr_storage *address,
                    socklen_t address_bytes);
/* A connection was resumed, or needs a look. */
void event_loop_wake(struct event_loop *loop);
/* Notes a new request. */
static inline void event_loop_note(struct event_loop *loop)
{
    loop->requests++;
}
/* Notes a piece of a request's body. */
static inline void event_loop_note_piece(struct event_loop *loop)
{
    loop->pieces++;
}
/* Notes a response handed over; and that it was sent, or never will be. */
static inline void event_loop_note_response(struct event_loop *loop)
{
    loop->responses++;
}
static inline void event_loop_note_end(struct event_loop *loop)
{
    loop->responses--;
}
/* Notes a connection's TLS handshake; and that it is over. */
static inline void event_loop_note_handshake(struct event_loop *loop)
{
    loop->handshakes++;
}
static inline void event_loop_note_handshake_end(struct event_loop *loop)
{
    loop->handshakes--;
}

#endif

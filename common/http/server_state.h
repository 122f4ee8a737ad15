/* SPDX-License-Identifier: MIT */
/*
 * What a request may ask of its server: the application, phase, guard, threads, thread pools,
 * limits. server.h starts and ends it.
 *
 *   SERVER_STARTING   only routes that are `always` there answer; everything else is 503
 *   SERVER_READY      all routes answer
 *   SERVER_DRAINING   for a moment: all routes answer, with Connection: close
 *   SERVER_CLOSED     as STARTING; the connections are closed
 *
 * Phases only go forward, through one function.
 *
 * Threads: the functions from every thread. server.c sets the struct's members before the first
 * request comes; every thread may read them.
 */
#ifndef COMMON_HTTP_SERVER_STATE_H
#define COMMON_HTTP_SERVER_STATE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/http/connection.h"
#include "common/http/guard.h"
#include "common/http/http_thread.h"
#include "common/http/memory_budget.h"
#include "common/http/metrics.h"
#include "common/http/route.h"
#include "common/thread_pool.h"

enum server_phase { SERVER_STARTING, SERVER_READY, SERVER_DRAINING, SERVER_CLOSED };

/* A connection's memory: request line, header and response's header. MHD clears it for each
 * request, so that more of it costs time. */
#define SERVER_CONNECTION_BYTES (12 << 10)

/* What an application brings. Its service is known by struct service, what it keeps for a thread
 * and for a request by struct api_thread and struct api_request; this folder only points to
 * them. */
struct application {
    struct route_table routes;
    size_t thread_bytes; /* of a struct api_thread; zeros at the start */
    void (*thread_release)(struct api_thread *thread); /* NULL: nothing, as the next two */
    size_t request_bytes;                              /* of a struct api_request */
    size_t request_cleared_bytes; /* so many of them are zeros when a request begins */
    void (*request_release)(struct request *request); /* at each request's end */
    void (*tick)(int64_t now_ms); /* once a second, and at the end with INT64_MAX */
    const char *starting_detail;  /* of a 503 while there is no service */
    const char *paths_detail;     /* of a 404: how to find out which paths there are */
};

struct server {
    const struct application *application; /* borrowed */
    struct guard *guard;                   /* borrowed */
    struct http_threads threads;
    struct connections connections;
    struct listener *listener;
    struct housekeeper *housekeeper;
    struct thread_pool *slow_pool;
    struct thread_pool *search_pool; /* for what may take many seconds: nothing else waits for it */
    _Atomic(struct service *) service; /* borrowed */
    _Atomic int phase;
    int64_t started_seconds; /* since 1970 */
};

enum server_phase server_phase(const struct server *server);
/* A phase that is behind the server's changes nothing. */
void server_enter(struct server *server, enum server_phase phase);
/* NULL: it is not there yet. */
struct service *server_service(const struct server *server);

#endif

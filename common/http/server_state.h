/* SPDX-License-Identifier: MIT */
/*
 * The part of a server that requests use: application, phase, guard, threads, thread pools, limits.
 * server.h starts and ends it.
 *
 *   SERVER_STARTING   only `always` routes answer; everything else is 503
 *   SERVER_READY      all routes answer
 *   SERVER_DRAINING   for a moment, so that clients go elsewhere: as READY, with Connection: close
 *   SERVER_CLOSED     as STARTING; the connections are closed
 *
 * Phases only go forward, through one function.
 *
 * Threads: the functions from any thread. server.c sets the struct's members before the first
 * request; any thread may read them.
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

/* A connection's memory: request line, header and the response's header. libmicrohttpd clears it
 * for each request, so a larger one costs time. */
#define SERVER_CONNECTION_BYTES (12 << 10)

/* What an application brings: struct service is its service, struct api_thread and struct
 * api_request its data per thread and per request. This folder only points to them. */
struct application {
    struct route_table routes;
    size_t thread_bytes; /* of a struct api_thread; zeroed at the start */
    void (*thread_release)(struct api_thread *thread); /* NULL: nothing to do, as for the next
                                                        * two */
    size_t request_bytes;                              /* of a struct api_request */
    size_t request_cleared_bytes; /* this many of them are zeroed when a request begins */
    void (*request_release)(struct request *request); /* at each request's end */
    void (*tick)(int64_t now_ms); /* once a second, and at the end with INT64_MAX */
    const char *starting_detail;  /* of a 503 before there is a service */
    const char *paths_detail;     /* of a 404: how to find the paths that exist */
};

struct server {
    const struct application *application; /* borrowed */
    struct guard *guard;                   /* borrowed */
    struct http_threads threads;
    struct connections connections;
    struct listener *listener;
    struct housekeeper *housekeeper;
    struct thread_pool *slow_pool;
    struct thread_pool *search_pool; /* for jobs that may take many seconds: nothing else waits for
                                      * it */
    _Atomic(struct service *) service; /* borrowed */
    _Atomic int phase;
    int64_t started_seconds; /* since 1970 */
};

enum server_phase server_phase(const struct server *server);
/* Ignores a phase that the server has already passed. */
void server_enter(struct server *server, enum server_phase phase);
/* NULL: there is none yet. */
struct service *server_service(const struct server *server);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A parameter server's status over HTTP, on the port of its data path: /healthz, /readyz, /status
 * and /metrics, by common/http on a separate thread. Connections whose first byte does not begin a
 * frame are handed to it. The server's loop publishes a status, which requests read.
 *
 * Threads: the server's only.
 */
#ifndef TRAINER_SERVER_STATUS_HTTP_H
#define TRAINER_SERVER_STATUS_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/error.h"
#include "common/http/guard.h"

#define SERVER_STATUS_WORKERS 1024 /* reported individually */
#define SERVER_STATUS_NAME_BYTES 96
#define SERVER_STATUS_WAITS_BYTES (SERVER_STATUS_NAME_BYTES + 40)

struct worker_status {
    char name[SERVER_STATUS_NAME_BYTES]; /* "worker 3 (10.0.0.7:4711)" */
    int64_t pushes;                      /* gradients accepted from it */
    int64_t held;                        /* batches granted to it; server 0 only */
    int64_t silent_ms;                   /* since anything came from it or went to it */
    bool waits;                          /* for work, or for others */
    bool shared;                         /* by shared memory */
};

struct server_status {
    int64_t index, servers;
    const char *phase;                         /* "waiting", "running" or "over"; static */
    char waits_for[SERVER_STATUS_WAITS_BYTES]; /* what a stalled training waits for; "": nothing */
    uint64_t generation;                       /* 0: none yet */
    int64_t step;
    int64_t train_steps, saved_step; /* server 0 only; else -1 */
    int64_t pause_ns;                /* of the latest cut; server 0 only; -1: none so far */
    int64_t parameters;              /* of the shard */
    int64_t pushes, repeated;        /* gradients applied, and duplicates */
    int64_t late;                    /* gradients computed from values that were too old */
    int64_t worker_count;
    struct worker_status workers[SERVER_STATUS_WORKERS]; /* the first ones */
};

struct status_http;

/* `guard`: tokens and certificate, without its grammar. */
enum error status_http_open(const struct guard_options *guard,
                            struct status_http **ret_http) MUST_CHECK;
/* NULL is legal. */
void status_http_close(struct status_http *http);

/* Takes a connection. */
void status_http_add(struct status_http *http, int descriptor,
                     const struct sockaddr_storage *address, socklen_t length);
/* The status to fill in for the next publication; no request reads it before
 * status_http_publish(). */
struct server_status *status_http_begin(struct status_http *http);
void status_http_publish(struct status_http *http);

#endif

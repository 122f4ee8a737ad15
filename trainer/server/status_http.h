/* SPDX-License-Identifier: MIT */
/*
 * What a parameter server says over HTTP, on the port of its data path: /healthz, /readyz, /status
 * and /metrics, by common/http on a thread of its own. Connections whose first byte begins no frame
 * are handed to it. The server's loop publishes how things stand; requests read that.
 *
 * Threads: every call from the server's.
 */
#ifndef TRAINER_SERVER_STATUS_HTTP_H
#define TRAINER_SERVER_STATUS_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/error.h"
#include "common/http/guard.h"

#define SERVER_STATUS_WORKERS 1024 /* of which more is said than their number */
#define SERVER_STATUS_NAME_BYTES 96
#define SERVER_STATUS_WAITS_BYTES (SERVER_STATUS_NAME_BYTES + 40)

struct worker_status {
    char name[SERVER_STATUS_NAME_BYTES]; /* "worker 3 (10.0.0.7:4711)" */
    int64_t pushes;                      /* gradients of it that were taken */
    int64_t held;                        /* batches that it was granted; server 0 alone knows */
    int64_t silent_ms;                   /* since its latest request */
    bool waits;                          /* for work, or for others */
    bool shared;                         /* by shared memory */
};

struct server_status {
    int64_t index, servers;
    const char *phase;                         /* "waiting", "running" or "over"; static */
    char waits_for[SERVER_STATUS_WAITS_BYTES]; /* whom the training stands still for; "": nobody */
    uint64_t generation;                       /* 0: none yet */
    int64_t step;
    int64_t train_steps, saved_step; /* server 0 alone; else -1 */
    int64_t pause_ns;                /* of the latest cut; server 0 alone; -1: there was none */
    int64_t parameters;              /* of the shard */
    int64_t pushes, repeated;        /* gradients that were applied, and that came once more */
    int64_t late;                    /* that were of too old values */
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
/* Where what is said next belongs; from here to status_http_publish() no request reads it. */
struct server_status *status_http_begin(struct status_http *http);
void status_http_publish(struct status_http *http);

#endif

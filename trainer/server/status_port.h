/* SPDX-License-Identifier: MIT */
/*
 * The HTTP server of a training's process, for monitoring: one thread, tokens of scope `read`,
 * limits that are small compared with the training's memory. Every process has the same paths; its
 * application answers three of them.
 *
 * Threads: one at a time.
 */
#ifndef TRAINER_SERVER_STATUS_PORT_H
#define TRAINER_SERVER_STATUS_PORT_H

#include <sys/socket.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/http/guard.h"
#include "common/http/request.h"
#include "common/http/server_state.h"

#define STATUS_PORT_BODY_BYTES ((int64_t)4 << 20) /* per response */

enum status_port_path {
    STATUS_PORT_HEALTHZ,
    STATUS_PORT_READYZ,
    STATUS_PORT_STATUS,
    STATUS_PORT_METRICS
};

/* The application's table of routes, and the text of a 404. */
#define STATUS_PORT_ROUTES(readyz, status, metrics_)                                           \
    {.path = "/healthz",                                                                       \
     .metrics = STATUS_PORT_HEALTHZ,                                                           \
     .open = true,                                                                             \
     .get = status_port_healthz},                                                              \
        {.path = "/readyz", .metrics = STATUS_PORT_READYZ, .open = true, .get = (readyz)},     \
        {.path = "/status", .metrics = STATUS_PORT_STATUS, .no_store = true, .get = (status)}, \
        {.path = "/metrics", .metrics = STATUS_PORT_METRICS, .get = (metrics_)},
#define STATUS_PORT_PATHS "there are /healthz, /readyz, /status and /metrics"

struct status_port;

/* Serves on `descriptor` (a listening socket; taken, also on failure; -1: only connections passed
 * to status_port_add()) from now on. `application` and `service` are borrowed until
 * status_port_close(); `guard` has no grammar, and its texts are borrowed as long. */
enum error status_port_open(int descriptor, const struct guard_options *guard,
                            const struct application *application, struct service *service,
                            struct status_port **ret_port) MUST_CHECK;
/* Stops its threads. NULL is legal. */
void status_port_close(struct status_port *port);

/* Takes a connection accepted elsewhere, non-blocking. */
void status_port_add(struct status_port *port, int descriptor,
                     const struct sockaddr_storage *address, socklen_t length);

/* ---- answers; on the port's thread --------------------------------------- */

/* 200, "ok". */
enum MHD_Result status_port_ok(struct request *request);
enum MHD_Result status_port_healthz(struct request *request, struct service *service);
/* /metrics: `body` (taken), the application's own families, followed by the port's counters, whose
 * names begin with `program`. */
enum MHD_Result status_port_metrics(struct request *request, const char *program,
                                    struct buffer *body);

#endif

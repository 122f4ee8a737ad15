/* SPDX-License-Identifier: MIT */
/*
 * The HTTP server of a training's process, for whoever watches: one thread, tokens of scope `read`,
 * limits that are small beside the training's memory. The application brings the paths.
 *
 * Threads: every call from one at a time.
 */
#ifndef TRAINER_SERVER_STATUS_PORT_H
#define TRAINER_SERVER_STATUS_PORT_H

#include <sys/socket.h>

#include "common/error.h"
#include "common/http/guard.h"
#include "common/http/server_state.h"

#define STATUS_PORT_BODY_BYTES ((int64_t)4 << 20) /* of one response */

struct status_port;

/* Answers on `descriptor` (a listening socket; taken, also on failure; -1: connections come by
 * status_port_add() alone) from now on. `application` and `service` are borrowed until
 * status_port_close(); `guard` has no grammar, its texts are borrowed as long. */
enum error status_port_open(int descriptor, const struct guard_options *guard,
                            const struct application *application, struct service *service,
                            struct status_port **ret_port) MUST_CHECK;
/* Ends its threads. NULL is legal. */
void status_port_close(struct status_port *port);

/* Takes a connection that somebody else accepted, non-blocking. */
void status_port_add(struct status_port *port, int descriptor,
                     const struct sockaddr_storage *address, socklen_t length);

#endif

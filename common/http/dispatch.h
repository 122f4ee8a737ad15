/* SPDX-License-Identifier: MIT */
/*
 * Routes a request: checks limits, token, path, method, scope and the server's phase, then calls
 * the route's handler. A request with a body passes all checks but the phase before any of its body
 * is kept, and all again once it is complete: its token may have been revoked in between.
 *
 * Threads: the request's HTTP thread.
 */
#ifndef COMMON_HTTP_DISPATCH_H
#define COMMON_HTTP_DISPATCH_H

#include <microhttpd.h>
#include <stdbool.h>

#include "common/http/request.h"

/* The header of a request with a body is complete. A refusal is sent once its body has been
 * discarded, which keeps the connection; at once if the client `expects` 100 first. */
enum MHD_Result dispatch_header(struct request *request, bool expects);
/* Answers, or suspends the connection; called again on resumption. */
enum MHD_Result dispatch(struct request *request);
/* For the handler of an open route that sometimes requires a token; false: *ret_refusal was
 * sent. */
bool dispatch_lets_in(struct request *request, int scopes, enum MHD_Result *ret_refusal);

#endif
